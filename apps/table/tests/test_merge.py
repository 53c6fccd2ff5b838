"""Merges write every row once and in order, use bounded memory, and rewrite each row few times."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.table.tests.helpers import LONG, TWO, memory_store, new_file, table_of
from apps.table.tests.test_data_files import made_of
from stratalog import Invalid
from stratalog_table import Assignment, Output, ReplaceFileReferences
from stratalog_table.limits import FILES_PER_JOB_MAX
from stratalog_table.maintenance import compact, maintain_table
from stratalog_table.merge import OutOfOrder, merged
from stratalog_table.merge_plan import plan, size_tier
from stratalog_table.rows import ingest, scan

SORTED = [("id", "ascending"), ("name", "ascending")]


def sliced(table: pa.Table, rows: int) -> Iterator[pa.Table]:
    return (table.slice(start, rows) for start in range(0, len(table), rows))


@given(st.lists(st.lists(st.tuples(st.integers(0, 9), st.text("ab", max_size=2))), max_size=5), st.integers(1, 4))
def test_a_merge_returns_all_rows_in_key_order(inputs: list[list[tuple[int, str]]], rows: int) -> None:
    tables = []
    for number, keys in enumerate(inputs):
        columns = {"id": [id for id, _ in keys], "name": [name for _, name in keys], "input": [number] * len(keys)}
        schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("input", pa.int64())])
        tables.append(pa.table(columns, schema=schema).sort_by(SORTED))
    parts = list(merged(TWO, [sliced(table, rows) for table in tables]))
    out = [] if not parts else pa.concat_tables(parts).to_pylist()
    assert [(row["id"], row["name"]) for row in out] == sorted(key for keys in inputs for key in keys)
    assert sorted((row["id"], row["name"], row["input"]) for row in out) == sorted(
        (*key, number) for number, keys in enumerate(inputs) for key in keys
    )


@pytest.mark.parametrize("ids", [[1, 9, 9, 9, 2], [5, 9, 9, 1]])
def test_an_input_with_unsorted_rows_is_refused_with_its_position(ids: list[int]) -> None:
    tables = [pa.table({"id": each, "name": ["a"] * len(each)}) for each in ([0, 20], ids)]
    with pytest.raises(OutOfOrder) as caught:
        list(merged(TWO, [iter([table]) for table in tables]))
    assert caught.value.position == 1


@pytest.mark.parametrize(
    "inputs",
    [
        [[[0, 5]], [[1, 9, 2, 10]], [[6, 7, 8, 20]]],
        [[[0, 4, 20]], [[1, 5], [3, 10]]],
        [[[0, 30]], [[1, 2], [7, 8], [3, 4]], [[5, 6], [9, 40]]],
    ],
)
def test_an_input_that_would_disorder_the_merged_rows_is_refused_with_its_position(
    inputs: list[list[list[int]]],
) -> None:
    parts = [[pa.table({"id": ids, "name": ["a"] * len(ids)}) for ids in each] for each in inputs]
    with pytest.raises(OutOfOrder) as caught:
        list(merged(TWO, [iter(each) for each in parts]))
    assert caught.value.position == 1


@pytest.mark.usefixtures("untraced")
def test_a_merge_has_only_a_part_of_each_input_in_memory(tmp_path: Path) -> None:
    table, data_files = made_of(tmp_path, LONG)
    rows, files = 150_000, 6
    for number in range(files):
        ids = pa.array(range(number, rows * files, files))
        ingest(table, data_files, pa.table({"id": ids, "text": [f"{number}-{'x' * 100}"] * rows}))
    pool = pa.default_memory_pool()
    seen: list[int] = []
    write_parts = data_files.write_parts

    def watched(filename: str, schema: pa.Schema, parts: Iterator[pa.Table]) -> int:
        def each() -> Iterator[pa.Table]:
            for part in parts:
                seen.append(pool.bytes_allocated() - before)
                yield part

        return write_parts(filename, schema, each())

    before = pool.bytes_allocated()
    data_files.write_parts = watched  # type: ignore[method-assign]
    # Without this line, the worker would use a copy of the data files whose `write_parts` is not watched.
    data_files.with_columns = lambda columns: _with(data_files, columns)  # type: ignore[method-assign]
    assert compact(table, data_files, files_min=files) == 1
    assert len(seen) > 5
    # The rows of all files take 105 MB. Memory contains only the current part, the rows for the next part, and a part
    # of each input.
    assert max(seen) < 45_000_000
    assert sum(part.num_rows for part in scan(table.at(), data_files)) == rows * files


def _with(data_files: Any, columns: Any) -> Any:
    from stratalog_table.arrow_types import arrow_schema

    data_files.rows_schema = arrow_schema(data_files.schema, columns)
    return data_files


def rewritten(files: int, every: int, files_min: int) -> float:
    """Return how often merges rewrite a row on average, for ``files`` files and a plan after every ``every`` files."""
    table = table_of(memory_store())
    written = 0
    for number in range(files):
        table.add_files([new_file(f"{number}.parquet", rows=100)])
        if (number + 1) % every:
            continue
        while plan(table, files_min):
            for job, partition, _ in list(table.at().jobs()):
                inputs = [
                    reference for reference in table.at().on_partition(partition).references if reference.job == job
                ]
                rows = sum(reference.rows for reference in inputs)
                output = Output(f"{job}.parquet", rows)
                names = tuple(reference.filename for reference in inputs)
                table.replace_file_references([ReplaceFileReferences(job, partition, names, output)])
                written += rows
    assert len(table.at().on_partition("root").references) < 8 * files_min
    return written / (files * 100)


@pytest.mark.parametrize(("files", "every"), [(200, 1), (1000, 1), (1000, 10), (1000, 1000)])
def test_merges_rewrite_a_row_three_times_or_less_on_average(files: int, every: int) -> None:
    assert rewritten(files, every, files_min=8) <= 3


def test_files_of_similar_size_are_merged_without_a_much_larger_file() -> None:
    table = table_of(memory_store())
    table.add_files([new_file("large.parquet", rows=10**6), *(new_file(f"{n}.parquet", rows=100) for n in range(8))])
    assert plan(table, 8) == 1
    assert {
        reference.filename for reference in table.at().on_partition("root").references if reference.job is None
    } == {"large.parquet"}
    assert [size_tier(rows) for rows in (0, 7, 8, 63, 64, 511, 512)] == [0, 0, 1, 1, 2, 2, 3]


def test_a_minimum_of_files_outside_its_range_is_refused(tmp_path: Path) -> None:
    """A minimum of 0 would plan empty jobs for ever. A minimum of 1 would plan jobs that only copy one file."""
    table, files = made_of(tmp_path, LONG)
    table.add_files([new_file(f"{number}.parquet") for number in range(FILES_PER_JOB_MAX + 50)])
    version = table.version
    for files_min in (FILES_PER_JOB_MAX + 1, 1, 0, -1):
        for act in (
            lambda limit=files_min: plan(table, limit),
            lambda limit=files_min: compact(table, files, files_min=limit),
            lambda limit=files_min: maintain_table(table, files, rows_max=1, files_min=limit, age_ms=0),
        ):
            with pytest.raises(Invalid, match="minimum of files"):
                act()
    assert table.version == version
    assert plan(table, FILES_PER_JOB_MAX) == 1


def test_assigned_files_and_set_aside_files_are_not_planned_for_a_merge() -> None:
    from stratalog_table.damaged_files import FileDamage

    table = table_of(memory_store())
    table.add_files([new_file(f"{n}.parquet") for n in range(9)])
    table.assign_job_ids([Assignment("mine", "root", ("0.parquet",))])
    assert table.set_aside_files([FileDamage("1.parquet", "x")])
    assert plan(table, 8) == 0
    assert table.release_files(["1.parquet"])
    assert plan(table, 8) == 1

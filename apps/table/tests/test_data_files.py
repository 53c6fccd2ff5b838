"""Real files: a table returns exactly the ingested rows, after maintenance by many processes and after kills."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from apps.table.tests.helpers import LONG, TWO, collect_now, leaves, reopened, system_store
from apps.table.tests.soak import Site, _check_running, site, soak
from stratalog import Invalid, Mutation, NotFound
from stratalog_table import Column, Schema, Table, TransactionRefused, create_table
from stratalog_table.arrow_types import sorted_by_key, with_typed_keys
from stratalog_table.data_files import DataFiles
from stratalog_table.data_folder import DataFolder
from stratalog_table.job_worker import JobWorker
from stratalog_table.maintenance import collect, compact, maintain_table, push_down, split_large
from stratalog_table.merge_plan import plan
from stratalog_table.rows import BatchOutOfOrder, RowSource, data_files_of, ingest, new_filename, scan
from stratalog_table.sources import SourceRows
from tests.deep_folders import below_missing_folders

ROWS = 600


@pytest.fixture
def made(tmp_path: Path) -> tuple[Table, DataFiles]:
    """Return a table with an integer key, and the table's data files."""
    return made_of(tmp_path, LONG)


def made_of(folder: Path, schema: Schema) -> tuple[Table, DataFiles]:
    table = create_table(system_store(), "acme", "events", schema, data=(folder / "a lake").as_uri())
    return table, data_files_of(table)


def numbered(start: int, count: int = ROWS, step: int = 37) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table({"id": [number * step % 1009 for number in numbers], "row": [*numbers]})


def rows_in(table: Table, data_files: DataFiles, *bounds: Any, columns: Sequence[str] = ("row",)) -> list[Any]:
    region = data_files.schema.region(bounds) if bounds else None
    batches: Iterator[pa.Table] = scan(table.at(), data_files, region)
    return sorted(
        row for part in batches for row in zip(*(part.column(name).to_pylist() for name in columns), strict=True)
    )


def all_of(count: int) -> list[tuple[int]]:
    return [(number,) for number in range(count)]


def test_ingested_rows_are_counted_on_their_leaves(made: tuple[Table, DataFiles]) -> None:
    table, data_files = made
    table.initialise([300, 700])
    came = ingest(table, data_files, numbered(0))
    assert came is not None
    assert (came.rows, came.partitions) == (ROWS, 3)
    counts = [holding.tally.rows for holding in table.at().holdings()]
    for leaf, count, low, high in zip(leaves(table), counts, (0, 300, 700), (300, 700, 1009), strict=True):
        assert count == len(rows_in(table, data_files, (low, high))), leaf
    assert sum(counts) == ROWS


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("int", [5, -7, 2**31 - 1]),
        ("long", [5, -(2**63), 2**63 - 1]),
        ("string", ["b", "", "é", "a\0"]),
        ("bytes", [b"b", b"", b"\xff"]),
    ],
)
def test_keys_of_each_type_are_read_before_and_after_a_split(tmp_path: Path, kind: Any, keys: list[Any]) -> None:
    table, data_files = made_of(tmp_path, Schema((Column("key", kind),)))
    ingest(table, data_files, pa.table({"key": keys, "row": [*range(len(keys))]}))
    assert [key for (key,) in rows_in(table, data_files, columns=["key"])] == sorted(keys)
    assert [key for (key,) in rows_in(table, data_files, (sorted(keys)[1], None), columns=["key"])] == sorted(keys)[1:]
    split_large(table, data_files, 1)
    push_down(table, data_files)
    assert len(leaves(table)) == 2
    assert [key for (key,) in rows_in(table, data_files, columns=["key"])] == sorted(keys)


def test_a_scan_of_a_range_on_two_key_columns_returns_only_its_rows(tmp_path: Path) -> None:
    table, data_files = made_of(tmp_path, TWO)
    rows = [(number % 5, f"n{number % 7}", number) for number in range(70)]
    made = pa.table({name: [row[position] for row in rows] for position, name in enumerate(("id", "name", "row"))})
    ingest(table, data_files, made)
    for _ in range(6):
        maintain_table(table, data_files, rows_max=5, files_min=2, age_ms=0)
    assert table.at().meta.crossed
    in_range = rows_in(table, data_files, (1, 3), ("n2", "n5"), columns=["id", "name", "row"])
    assert in_range == sorted(row for row in rows if 1 <= row[0] < 3 and "n2" <= row[1] < "n5")
    assert rows_in(table, data_files) == all_of(70)
    assert max(holding.tally.rows for holding in table.at().holdings()) <= 5


def test_maintenance_changes_files_and_no_row(made: tuple[Table, DataFiles]) -> None:
    table, data_files = made
    for batch in range(8):
        ingest(table, data_files, numbered(batch * ROWS))
        maintain_table(table, data_files, rows_max=700, files_min=2, age_ms=0)
        assert rows_in(table, data_files) == all_of((batch + 1) * ROWS)
        assert sum(each.tally.rows for each in table.at().holdings()) == (batch + 1) * ROWS
    assert len(leaves(table)) > 5
    collect_now(table, data_files)
    assert {each.filename for each in data_files.list()} == {each.filename for each in table.at().files(0).files}


def test_a_repeated_batch_of_a_source_is_ingested_once(made: tuple[Table, DataFiles]) -> None:
    table, data_files = made
    assert ingest(table, data_files, numbered(0), source=RowSource("s", 1)) is not None
    assert ingest(reopened(table), data_files, numbered(0), source=RowSource("s", 1)) is None
    assert ingest(table, data_files, numbered(ROWS), source=RowSource("s", 2)) is not None
    assert rows_in(table, data_files) == all_of(2 * ROWS)
    assert ingest(table, data_files, numbered(0, 0)) is None


@pytest.mark.parametrize(("batches", "number", "expected"), [(0, 2, 1), (1, 3, 2)])
def test_a_batch_after_a_gap_is_an_error(
    made: tuple[Table, DataFiles], batches: int, number: int, expected: int
) -> None:
    table, data_files = made
    for batch in range(batches):
        ingest(table, data_files, numbered(batch * ROWS), source=RowSource("s", batch + 1))
    with pytest.raises(BatchOutOfOrder) as raised:
        ingest(table, data_files, numbered(batches * ROWS), source=RowSource("s", number))
    assert raised.value.details == {"client": "s", "number": number, "expected": expected}
    assert len([*data_files.list()]) == batches
    assert ingest(table, data_files, numbered(batches * ROWS), source=RowSource("s", expected)) is not None


def test_a_batch_with_the_number_zero_is_invalid(made: tuple[Table, DataFiles]) -> None:
    table, data_files = made
    with pytest.raises(Invalid):
        ingest(table, data_files, numbered(0), source=RowSource("s", 0))


def test_a_source_with_the_name_of_a_client_of_another_group_is_refused(made: tuple[Table, DataFiles]) -> None:
    table, data_files = made
    mutation = Mutation(client="s", id=1, name="set_retention", args={"retention_days": 1})
    table.document.apply([mutation], group="g", owner="u")
    with pytest.raises(BatchOutOfOrder, match="wrong-group"):
        ingest(table, data_files, numbered(0), source=RowSource("s", 2))
    assert not [*data_files.list()]


def test_a_batch_that_was_refused_is_refused_again(
    made: tuple[Table, DataFiles], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, data_files = made
    table.initialise([300])
    write = data_files.write

    def write_and_reinitialise(filename: str, rows: pa.Table) -> None:
        write(filename, rows)
        table.reinitialise()

    with monkeypatch.context() as patched:
        patched.setattr(data_files, "write", write_and_reinitialise)
        with pytest.raises(TransactionRefused, match="Partition not found"):
            ingest(table, data_files, numbered(0), source=RowSource("s", 1))
    with pytest.raises(TransactionRefused, match="Partition not found"):
        ingest(table, data_files, numbered(0), source=RowSource("s", 1))
    assert ingest(table, data_files, numbered(0), source=RowSource("s", 2)) is not None
    assert ingest(table, data_files, numbered(0), source=RowSource("s", 1)) is None


def test_a_batch_ingested_by_two_processes_is_added_once(
    made: tuple[Table, DataFiles], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, data_files = made
    write = data_files.write

    def write_after_the_other(filename: str, rows: pa.Table) -> None:
        write(filename, rows)
        monkeypatch.setattr(data_files, "write", write)
        assert ingest(reopened(table), data_files, numbered(0), source=RowSource("s", 1)) is not None

    monkeypatch.setattr(data_files, "write", write_after_the_other)
    assert ingest(table, data_files, numbered(0), source=RowSource("s", 1)) is None
    assert len([*data_files.list()]) == 1


def test_a_numbered_batch_records_the_number_of_rows_of_the_source_s_file(made: tuple[Table, DataFiles]) -> None:
    table, data_files = made
    rows = SourceRows("feed", "a", "0" * 64, 0, ROWS)
    ingest(table, data_files, numbered(0), source=RowSource("s", 1), brought=rows)
    known = table.at().source_file("feed", "a")
    assert known is not None
    assert known.rows == ROWS


def test_rows_that_do_not_fit_the_key_are_refused(made: tuple[Table, DataFiles]) -> None:
    table, data_files = made
    for rows, message in [
        (pa.table({"other": [1]}), "lack a key column"),
        (pa.table({"id": ["x"]}), "another type"),
        (pa.table({"id": pa.array([1, None], pa.int64())}), "a key is empty"),
    ]:
        with pytest.raises(Invalid, match=message):
            ingest(table, data_files, rows)
    typed = with_typed_keys(LONG, pa.table({"id": pa.array([2, 1], pa.int16())}))
    assert sorted_by_key(LONG, typed).column("id").equals(pa.chunked_array([[1, 2]]))


def test_a_job_executed_by_two_processes_is_committed_once(made: tuple[Table, DataFiles]) -> None:
    table, data_files = made
    for batch in range(3):
        ingest(table, data_files, numbered(batch * ROWS))
    other = reopened(table)
    assert plan(table, 2) == 1
    ((job, partition, _),) = table.at().jobs()
    inputs = other.at().on_partition(partition).references
    assert len(inputs) == 3
    assert JobWorker(table, data_files, 0).work(job, partition)
    assert not JobWorker(other, data_files, 0).work(job, partition)
    assert rows_in(table, data_files) == all_of(3 * ROWS)


def test_a_job_of_a_dead_process_is_executed_by_another_process_after_the_lease(made: tuple[Table, DataFiles]) -> None:
    table, data_files = made
    for batch in range(2):
        ingest(table, data_files, numbered(batch * ROWS))
    plan(table, 2)
    ((job, partition, _),) = table.at().jobs()
    table.claim_job(job, partition, "gone")
    assert compact(reopened(table), data_files, files_min=2, lease_ms=10**6) == 0
    assert compact(reopened(table), data_files, files_min=2, lease_ms=0) == 1
    assert [*table.at().jobs()] == []
    assert rows_in(table, data_files) == all_of(2 * ROWS)


def test_an_unregistered_data_file_is_collected_and_its_late_addition_is_refused(
    made: tuple[Table, DataFiles], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, data_files = made
    ingest(table, data_files, numbered(0))
    write = DataFiles.write

    def slow(self: DataFiles, filename: str, rows: pa.Table) -> None:
        """Collect garbage after a file is written and before it is added, as if its writer slept for hours."""
        write(self, filename, rows)
        assert collect_now(reopened(table), data_files) == 1

    monkeypatch.setattr(DataFiles, "write", slow)
    with pytest.raises(TransactionRefused, match="File was collected before it was added"):
        ingest(table, data_files, numbered(ROWS))
    assert rows_in(table, data_files) == all_of(ROWS)


def test_young_files_are_not_collected(made: tuple[Table, DataFiles]) -> None:
    table, data_files = made
    for batch in range(2):
        ingest(table, data_files, numbered(batch * ROWS))
    view = table.at()
    compact(table, data_files, files_min=2)
    data_files.write(new_filename(table), numbered(0))
    assert collect(table, data_files, 60_000) == 0
    assert sum(part.num_rows for part in scan(view, data_files)) == 2 * ROWS
    assert collect_now(table, data_files) == 3
    with pytest.raises(NotFound, match="was collected"):
        [*scan(view, data_files)]


def test_a_partly_written_file_is_not_added_and_is_collected(
    made: tuple[Table, DataFiles], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, data_files = made

    class Unpowered:
        def delete_file(self, path: str) -> None:
            raise OSError("no power")

    def fail(source: str, target: str) -> None:
        monkeypatch.setattr(data_files.folder, "files", Unpowered())
        raise OSError("no power")

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(OSError, match="no power"):
        ingest(table, data_files, numbered(0))
    monkeypatch.undo()
    assert table.at().has_no_files()
    assert collect_now(table, data_files) == 1
    assert [*data_files.list()] == []


def test_data_files_are_readable_as_plain_parquet(made: tuple[Table, DataFiles], tmp_path: Path) -> None:
    table, data_files = made
    came = ingest(table, data_files, numbered(0))
    assert came is not None
    plain = pq.read_table(tmp_path / "a lake" / came.filename)
    assert plain.column("id").to_pylist() == sorted(numbered(0).column("id").to_pylist())


def test_a_data_file_below_many_missing_folders_is_written(tmp_path: Path) -> None:
    with below_missing_folders(tmp_path) as deep:
        folder = DataFolder(deep.as_uri())
        folder.replace_bytes("a", b"1", "token")
        assert folder.read_bytes("a") == b"1"


def test_a_data_file_whose_sync_fails_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    folder = DataFolder(tmp_path.as_uri())
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match=os.strerror(errno.EDQUOT)):
        folder.replace_bytes("a", b"1", "token")
    assert list(tmp_path.iterdir()) == []


class CreatedMeanwhile:
    """A file system with a folder that another process creates while pyarrow looks for it."""

    def __init__(self, files: Any) -> None:
        self._files = files
        self._is_new = True

    def get_file_info(self, selector: Any) -> Any:
        if self._is_new:
            self._is_new = False
            raise FileNotFoundError(f"Cannot list directory '{selector.base_dir}'")
        return self._files.get_file_info(selector)


def test_a_folder_that_is_created_while_it_is_listed_can_be_listed(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("rows")
    folder = DataFolder(tmp_path.as_uri())
    for listed in (lambda: [file.filename for file in folder.list()] == ["a"], lambda: not folder.is_empty()):
        files, folder.files = folder.files, CreatedMeanwhile(folder.files)
        assert listed()
        folder.files = files


@pytest.mark.slow
def test_rows_survive_processes_that_are_killed(tmp_path: Path) -> None:
    with site("folder", tmp_path) as at:
        done = soak(rows=120_000, processes=3, seed=11, pause=0.8, at=at)
    assert done["rows"] == 120_000
    assert done["kills"] >= 1


def test_a_process_that_ends_by_itself_fails_the_soak(tmp_path: Path) -> None:
    (tmp_path / "errors-0").touch()
    with subprocess.Popen([sys.executable, "-c", "import os; os.abort()"]) as process:
        process.wait()
    with pytest.raises(AssertionError, match="SIGABRT"):
        _check_running([process], Site("", "", tmp_path))

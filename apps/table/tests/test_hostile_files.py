"""Hostile input files: an ingest takes the rows that pyarrow reads, or raises an error that names the file.

In both cases, the table has the rows of the good files before and after the hostile file.
"""

from __future__ import annotations

import io
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from apps.table.tests.helpers import LONG
from apps.table.tests.hostile_files import hostile_files, parquet, plain
from apps.table.tests.test_data_files import made_of
from stratalog import Conflict, Invalid, LimitExceeded
from stratalog_table.file_ingest import ingest_files, input_file
from stratalog_table.json_rows import json_rows
from stratalog_table.maintenance import compact
from stratalog_table.rows import scan

FILES = dict(hostile_files())
TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def read(path: Path) -> pa.Table | None:
    """Return the rows of a file as pyarrow reads them, or None if pyarrow cannot read the file."""
    try:
        with path.open("rb") as stream:
            return pq.read_table(stream, page_checksum_verification=True)
    except (pa.ArrowException, OSError):
        return None


def values_of(rows: pa.Table, name: str) -> list[str]:
    column = rows.column(name)
    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks])
    if pa.types.is_timestamp(column.type):
        # Python's dates have no nanoseconds and end with the year 9999. The files have times up to the year 36812.
        ticks = column.cast(pa.int64()).to_pylist()
        return sorted(repr(None if tick is None else Fraction(tick, TICKS[column.type.unit])) for tick in ticks)
    return sorted(map(repr, column.to_pylist()))


@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_is_ingested_exactly_or_refused_with_its_path(name: str, tmp_path: Path) -> None:
    table, data_files = made_of(tmp_path, LONG)
    before, hostile, after = (tmp_path / f"{part}.parquet" for part in ("before", "hostile", "after"))
    for good in (before, after):
        good.write_bytes(parquet(plain(3).select(["id"])))
    hostile.write_bytes(FILES[name])
    refusal: Any = None
    taken = 0
    for path in (before, hostile, after):
        try:
            taken += ingest_files(table, data_files, [input_file(path)], 10, source="s", add_columns=True).rows
        except (Invalid, LimitExceeded, Conflict) as exc:
            assert path == hostile
            refusal = exc
        if path == before:
            # The table refuses the same content of one source under a second name, so the last file gets other rows.
            after.write_bytes(parquet(plain(4).select(["id"])))
    assert table.at().source_file("s", after.as_posix()) is not None
    rows = pa.concat_tables(scan(table.at(), data_files))
    wanted = read(hostile)
    if refusal:
        assert refusal.details["path"] == hostile
        assert table.at().source_file("s", hostile.as_posix()) is None
    else:
        assert wanted is not None
        assert taken == 7 + wanted.num_rows
        keys = [*range(3), *range(4), *(wanted.column("id").to_pylist() if wanted.num_rows else [])]
        assert sorted(rows.column("id").to_pylist()) == sorted(keys)
        for column in wanted.column_names if wanted.num_rows else ():
            padding = [repr(None)] * 7 if column != "id" else [repr(number) for number in (*range(3), *range(4))]
            assert values_of(rows, column) == sorted([*values_of(wanted, column), *padding]), column
    assert len([*json_rows(rows)]) == taken
    compact(table, data_files, files_min=2)
    assert pa.concat_tables(scan(table.at(), data_files)).num_rows == taken


def test_the_suite_has_a_hundred_hostile_files() -> None:
    assert len(FILES) >= 100


def test_pyarrow_uses_the_arrow_schema_of_a_hostile_file() -> None:
    bodies = [body for name, body in FILES.items() if name.startswith("arrow_schema_")]
    assert len(bodies) == 5
    assert all(b"ARROW:schema" in body for body in bodies)
    file = pq.ParquetFile(io.BytesIO(FILES["arrow_schema_of_other_types"]))
    assert file.schema_arrow.field("text").type == pa.large_string()

"""The data files of a table as Parquet, in a folder or in S3, and the rows in them.

A file is whole or not there, and never changes. Its name is random and begins with the table's incarnation, so nobody
else's. Rows are in the order of the key.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from stratalog import Invalid
from stratalog_table.data_folder import DataFile, DataFolder
from stratalog_table.folder_register import REGISTER
from stratalog_table.model import Region, Schema
from stratalog_table.row_order import decode_key

__all__ = ["DataFiles", "counts", "intersection", "sorted_rows"]

ARROW_TYPES = {"int": pa.int32(), "long": pa.int64(), "string": pa.string(), "bytes": pa.binary()}
ROW_GROUP_ROWS = 64 * 1024
SUFFIX = ".parquet"


class DataFiles:
    """The data files of a table. Writing and deleting ask first whether the folder says that the table may."""

    def __init__(self, folder: DataFolder, schema: Schema, require_owner: Callable[[], object]) -> None:
        self.schema = schema
        self.folder = folder
        self._require_owner = require_owner
        self._is_owner = False

    def write(self, filename: str, rows: pa.Table) -> None:
        """Write a file, durably and whole; rows in order. Raises DataFolderTaken, Invalid."""
        if not self._is_owner:
            self._require_owner()
            self._is_owner = True

        def write(path: str) -> None:
            pq.write_table(rows, path, filesystem=self.folder.files, row_group_size=ROW_GROUP_ROWS, compression="zstd")

        self.folder.write_with(filename, write)

    def read(self, filename: str, region: Region, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of a file in a region, in order. Raises FileNotFoundError where the file was collected, Invalid."""
        chosen = None if columns is None else list(columns)
        return pq.read_table(
            self.folder.path(filename),
            columns=chosen,
            filters=self.condition(region),
            filesystem=self.folder.files,
            partitioning=None,
        )

    def keys(self, filename: str, region: Region) -> pa.Table:
        """The key columns of the rows of a file in a region."""
        return self.read(filename, region, [column.name for column in self.schema.keys])

    def delete(self, filename: str) -> None:
        """Delete a file; one that is gone already is fine. `collection` says which ones a table may."""
        self.folder.delete(filename)

    def list(self) -> Iterator[DataFile]:
        """All files in the folder but those that say whose it is, also files that no table knows."""
        return (file for file in self.folder.list() if not file.filename.startswith(f"{REGISTER}/"))

    def condition(self, region: Region) -> pc.Expression | None:
        """What pyarrow is to keep: rows whose keys lie in a region. None for all."""
        full_region = self.schema.full_region()
        parts = []
        for position, (bounds, (minimum, _)) in enumerate(zip(region, full_region, strict=True)):
            field, (low, high) = pc.field(self.schema.keys[position].name), bounds
            if low != minimum:
                parts.append(field >= self.scalar(position, low))
            if high is not None:
                parts.append(field < self.scalar(position, high))
        return reduce(lambda left, right: left & right, parts) if parts else None

    def scalar(self, position: int, text: str) -> pa.Scalar:
        """A stored key as pyarrow has it."""
        kind = self.schema.keys[position].type
        return pa.scalar(decode_key(kind, text), ARROW_TYPES[kind])


def sorted_rows(schema: Schema, rows: pa.Table) -> pa.Table:
    """Rows as a table takes them: key columns of their types, none of them empty, in order. Raises Invalid."""
    for column in schema.keys:
        index = rows.schema.get_field_index(column.name)
        if index < 0:
            raise Invalid("the rows lack a key column", column=column.name)
        try:
            cast = rows.column(index).cast(ARROW_TYPES[column.type])
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
            raise Invalid("a key column is of another type", column=column.name, type=column.type) from exc
        if cast.null_count:
            raise Invalid("a key is empty", column=column.name, rows=cast.null_count)
        rows = rows.set_column(index, column.name, cast)
    return rows.sort_by([(column.name, "ascending") for column in schema.keys])


def counts(data_files: DataFiles, rows: pa.Table, regions: Sequence[Region]) -> list[int]:
    """How many of ``rows``, which are in order, lie in each region."""
    first = rows.column(data_files.schema.keys[0].name).combine_chunks()
    return [_count(data_files, rows, first, region) for region in regions]


def intersection(left: Region, right: Region) -> Region:
    """The keys that lie in both regions."""
    return tuple(
        (max(a, c), d if b is None else b if d is None else min(b, d))
        for (a, b), (c, d) in zip(left, right, strict=True)
    )


def _count(data_files: DataFiles, rows: pa.Table, first: Any, region: Region) -> int:
    """Rows are found by the first column, which is in order; the others are looked at where they bound anything."""
    low, high = region[0]
    start = _row_position(data_files, first, low)
    stop = len(first) if high is None else _row_position(data_files, first, high)
    if region[1:] == data_files.schema.full_region()[1:]:
        return stop - start
    others = ((data_files.schema.full_region()[0][0], None), *region[1:])
    condition = data_files.condition(others)
    return int(rows.slice(start, stop - start).filter(condition).num_rows)


def _row_position(data_files: DataFiles, column: Any, text: str) -> int:
    edge = data_files.scalar(0, text).as_py()
    return bisect_left(range(len(column)), edge, key=lambda position: column[position].as_py())

"""The data files of a table as Parquet, in a folder or in S3, and the rows in them.

A file is written atomically and never changes. Its name is random and begins with the table's incarnation, so no other
table writes the same name. The rows in a file are in the order of the key.
"""

from __future__ import annotations

import copy
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.dataset as ds  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from stratalog import Corrupt, Invalid
from stratalog_table.arrow_types import arrow_schema, comparable, fitted, key_scalar
from stratalog_table.columns import ValueColumn
from stratalog_table.data_folder import DataFile, DataFolder
from stratalog_table.folder_register import REGISTER
from stratalog_table.model import Region, Schema

__all__ = ["DataFileDamaged", "DataFiles", "counts", "intersection"]

ROW_GROUP_ROWS = 64 * 1024
SUFFIX = ".parquet"
READ_BYTES = 1024 * 1024

STREAMED_ROWS = 8 * 1024
STREAMED_BYTES = 64 * 1024
"""`STREAMED_ROWS` rows of a streamed file, and `STREAMED_BYTES` bytes of each of its columns, are in memory at once."""

PARQUET = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)


class DataFileDamaged(Corrupt):
    """The bytes of a data file can be read but are not the table's rows, or the file is missing."""

    code = "data-file-damaged"


class DataFiles:
    """The data files of a table. Before the first write, ``require_owner`` checks that the table may write files."""

    def __init__(
        self,
        folder: DataFolder,
        schema: Schema,
        require_owner: Callable[[], object],
        columns: Sequence[ValueColumn] | None = None,
    ) -> None:
        self.schema = schema
        self.folder = folder
        self.rows_schema = None if columns is None else arrow_schema(schema, columns)
        """The columns of the table's rows. None if the table declares no columns and each file has its own."""

        self._require_owner = require_owner
        self._is_owner = False

    def with_columns(self, columns: Sequence[ValueColumn] | None) -> DataFiles:
        """Return a handle that reads rows of the same files with ``columns``, the table's columns at some version."""
        other = copy.copy(self)
        other.rows_schema = None if columns is None else arrow_schema(self.schema, columns)
        return other

    def write(self, filename: str, rows: pa.Table) -> None:
        """Write a file atomically and durably. ``rows`` must be sorted by key. Raises DataFolderTaken, Invalid."""
        self.write_parts(filename, rows.schema, iter([rows]))

    def write_parts(self, filename: str, schema: pa.Schema, parts: Iterator[pa.Table]) -> int:
        """Write a file part by part, atomically and durably, and return its number of rows.

        If ``parts`` raises an error, this method leaves no file and raises the error.
        """
        if not self._is_owner:
            self._require_owner()
            self._is_owner = True
        count = 0

        def write(path: str) -> None:
            nonlocal count
            options = {"filesystem": self.folder.files, "compression": "zstd", "write_page_checksum": True}
            with pq.ParquetWriter(path, schema, **options) as writer:
                for part in parts:
                    writer.write_table(part, row_group_size=ROW_GROUP_ROWS)
                    count += part.num_rows

        self.folder.write_with(filename, write)
        return count

    def read(self, filename: str, region: Region, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of a file in a region, in order.

        Raises FileNotFoundError if the file does not exist, Invalid if the name leads out of the folder, and
        DataFileDamaged.
        """
        wanted = self.rows_schema
        if wanted is not None and columns is not None:
            wanted = pa.schema([wanted.field(name) for name in columns])
        with self._reading(filename):
            dataset = self._dataset(filename)
            names = columns if wanted is None else [name for name in wanted.names if name in dataset.schema.names]
            rows = dataset.to_table(columns=names, filter=self.condition(region))
            return rows if wanted is None else fitted(rows, wanted)

    def stream(self, filename: str, region: Region, wanted: pa.Schema) -> Iterator[pa.Table]:
        """Yield the rows of a file in a region, in order and a few at a time. Raises the errors of `read`."""
        with self._reading(filename):
            condition = self.condition(region)
            (fragment,) = self._dataset(filename).get_fragments()
            groups = [group.id for group in fragment.subset(condition).row_groups] if condition is not None else None
            # Read with ParquetFile: the dataset decodes whole row groups at once, so its memory is not bounded.
            file = pq.ParquetFile(
                self.folder.path(filename),
                filesystem=self.folder.files,
                buffer_size=STREAMED_BYTES,
                pre_buffer=False,
                page_checksum_verification=True,
            )
        with file:
            batches = file.iter_batches(STREAMED_ROWS, row_groups=groups, use_threads=False)
            while (part := self._next_part(filename, batches, condition, wanted)) is not None:
                if part.num_rows:
                    yield part

    def file_schema(self, filename: str) -> pa.Schema:
        """Return the columns that a file itself has. Raises the errors of `read`."""
        with self._reading(filename):
            return self._dataset(filename).schema.remove_metadata()

    def check(self, filename: str) -> None:
        """Read a whole file to check it. Raises the errors of `read`."""
        for _ in self.stream(filename, self.schema.full_region(), self.rows_schema or self.file_schema(filename)):
            pass

    def _next_part(
        self, filename: str, batches: Iterator[Any], condition: pc.Expression | None, wanted: pa.Schema
    ) -> pa.Table | None:
        with self._reading(filename):
            batch = next(batches, None)
            if batch is None:
                return None
            part = pa.Table.from_batches([batch])
            return fitted(part if condition is None else part.filter(condition), wanted)

    def _dataset(self, filename: str) -> Any:
        return ds.dataset(
            self.folder.path(filename), format=PARQUET, filesystem=self.folder.files, exclude_invalid_files=False
        )

    @contextmanager
    def _reading(self, filename: str) -> Iterator[None]:
        """Turn the error of a damaged file into DataFileDamaged, and leave errors of unavailable storage as they are.

        pyarrow raises the same errors for damaged files and for unavailable storage.
        """
        self.folder.path(filename)
        try:
            yield
        except FileNotFoundError:
            raise
        except Invalid as exc:
            raise DataFileDamaged("a data file does not fit the table", filename=filename, reason=str(exc)) from exc
        except (pa.ArrowException, OSError) as exc:
            if not _may_be_damage(exc):
                raise
            # A failure of the storage is an OSError. It may have passed by now.
            if self._is_intact(filename) and isinstance(exc, OSError):
                raise
            raise DataFileDamaged("a data file cannot be read", filename=filename, reason=str(exc)) from exc

    def _is_intact(self, filename: str) -> bool:
        """Read the bytes of a whole file, and return whether they are Parquet. Raises OSError, FileNotFoundError.

        An object store may fail one request and answer the next, so the content is decoded from a copy of the bytes.
        """
        path = self.folder.path(filename)
        with self.folder.files.open_input_stream(path) as stream, tempfile.TemporaryFile() as copied:
            while part := stream.read(READ_BYTES):
                copied.write(part)
            try:
                for _ in pq.ParquetFile(copied, page_checksum_verification=True).iter_batches(STREAMED_ROWS):
                    pass
            except (pa.ArrowException, OSError) as exc:
                if not _may_be_damage(exc):
                    raise
                return False
            return True

    def keys(self, filename: str, region: Region) -> pa.Table:
        """Return the key columns of the rows of a file in a region. Raises the errors of `read`."""
        return self.read(filename, region, [column.name for column in self.schema.keys])

    def delete(self, filename: str) -> None:
        """Delete a file. A missing file is no error. The caller must check that the table may delete the file."""
        self.folder.delete(filename)

    def list(self) -> Iterator[DataFile]:
        """Yield all files in the folder except the register's files, whether or not a table tracks them."""
        return (file for file in self.folder.list() if not file.filename.startswith(f"{REGISTER}/"))

    def condition(self, region: Region) -> pc.Expression | None:
        """Return the pyarrow filter for the rows whose keys lie in a region, or None for the full region."""
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
        """Return a stored key as a pyarrow scalar."""
        return key_scalar(self.schema.keys[position].type, text)


def counts(data_files: DataFiles, rows: pa.Table, regions: Sequence[Region]) -> list[int]:
    """Return how many of ``rows`` lie in each region. The rows are in the order of the key."""
    key = data_files.schema.keys[0]
    first = comparable(key.type, rows.column(key.name).combine_chunks())
    return [_count(data_files, rows, first, region) for region in regions]


def intersection(left: Region, right: Region) -> Region:
    """Return the region of the keys that lie in both regions."""
    return tuple(
        (max(a, c), d if b is None else b if d is None else min(b, d))
        for (a, b), (c, d) in zip(left, right, strict=True)
    )


def _may_be_damage(exc: Exception) -> bool:
    """Return whether the bytes of a file may be the cause of an error. Errors of the system have an ``errno``."""
    return not isinstance(exc, MemoryError) and getattr(exc, "errno", None) is None


def _count(data_files: DataFiles, rows: pa.Table, first: Any, region: Region) -> int:
    """Count the rows in a region: bisect the sorted first key column, then filter on the other bounded columns."""
    low, high = region[0]
    # The minimum text of a type may not be decodable as a key, so the full region's lower bound is not decoded.
    start = 0 if low == data_files.schema.full_region()[0][0] else _row_position(data_files, first, low)
    stop = len(first) if high is None else _row_position(data_files, first, high)
    if region[1:] == data_files.schema.full_region()[1:]:
        return stop - start
    others = ((data_files.schema.full_region()[0][0], None), *region[1:])
    condition = data_files.condition(others)
    return int(rows.slice(start, stop - start).filter(condition).num_rows)


def _row_position(data_files: DataFiles, column: Any, text: str) -> int:
    kind = data_files.schema.keys[0].type
    edge = comparable(kind, data_files.scalar(0, text)).as_py()
    return bisect_left(range(len(column)), edge, key=lambda position: column[position].as_py())

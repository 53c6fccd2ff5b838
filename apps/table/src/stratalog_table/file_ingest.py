"""Ingest of Parquet files: the table gets each file of a source once, even if the file is ingested again."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from stratalog import Conflict, Invalid, LimitExceeded
from stratalog_table.data_files import DataFiles
from stratalog_table.messages import TransactionRefused
from stratalog_table.rows import ingest
from stratalog_table.sources import SourceConflict, SourceRows, check_source
from stratalog_table.table import Table

__all__ = ["FileIngestReport", "InputFile", "ingest_files", "input_file"]

HASHED_BYTES = 1024 * 1024
ROWS_PRESENT = "source-rows-present"


class InputFile(msgspec.Struct, frozen=True):
    """A file to ingest: its path, its name at the source, and the hash of its content."""

    path: Path
    name: str
    sha256: str
    stamp: tuple[int, int]
    """The file's size and modification time. The ingest compares both to notice a change."""


class _Options(NamedTuple):
    """Whether an ingest accepts repeated content, and whether it changes columns that do not fit the rows."""

    repeat: bool
    add_columns: bool
    widen: bool


class FileIngestReport(msgspec.Struct, frozen=True):
    """The numbers of rows and data files that an ingest added.

    ``known`` counts the input files of which the table had all rows.
    """

    rows: int
    files: int
    known: int


def input_file(path: Path, name: str = "") -> InputFile:
    """Return a file with the hash of its content. Without ``name``, its name is its normalised path. Raises Invalid."""
    digest = hashlib.sha256()
    stamp = _stamp(path)
    try:
        with path.open("rb") as stream:
            while part := stream.read(HASHED_BYTES):
                digest.update(part)
    except OSError as exc:
        raise Invalid("the file cannot be read", path=path, reason=str(exc)) from exc
    return InputFile(path, name or Path(os.path.normpath(path)).as_posix(), digest.hexdigest(), stamp)


def ingest_files(
    table: Table,
    data_files: DataFiles,
    files: Sequence[InputFile],
    rows_per_file: int,
    *,
    source: str = "",
    repeat: bool = False,
    add_columns: bool = False,
    widen: bool = False,
    step: Callable[[int], object] = lambda count: None,
) -> FileIngestReport:
    """Add the rows of Parquet files, ``rows_per_file`` at a time, and call ``step`` after each part.

    With a ``source``, the call skips a file that is in the table, and resumes a file of which the table has a part.
    Raises SourceConflict, with nothing added, if the source had other content under a file's name before. Unless
    ``repeat`` is True, the call also raises SourceConflict for content that the source had under another name.

    Raises Invalid for a file that is not Parquet, and Conflict for a file that changes during the ingest. Raises
    Invalid or LimitExceeded for rows that do not fit the table. Raises TransactionRefused if another process added
    conflicting content of the source meanwhile. After these errors, the table has the earlier files and the parts of
    this file before the error. ``add_columns`` and ``widen`` change the table's columns: see `rows.ingest`.
    """
    if source:
        check_files(table, files, source, repeat=repeat)
    options = _Options(repeat, add_columns, widen)
    rows = written = known = 0
    for file in files:
        brought = 0
        for count in _ingest(table, data_files, file, rows_per_file, source, options):
            brought += 1
            rows += count
            step(1)
        written += brought
        # A file without rows adds no part, and the table does not record the file.
        known += not brought and _present(table, file, source) > 0
    return FileIngestReport(rows, written, known)


def check_files(table: Table, files: Sequence[InputFile], source: str, *, repeat: bool = False) -> None:
    """Raise SourceConflict if files conflict with earlier files of the source, or with each other.

    Also raises SourceConflict if an older program ingested the source in numbered batches, and Invalid or LimitExceeded
    for a name that the table cannot store.
    """
    if table.document.last_mutation(source):
        text = "an older version ingested this source in numbered batches; choose another name for the source"
        raise SourceConflict(text, source=source)
    view = table.at()
    names = {file.sha256: file.name for file in reversed(files)}
    for file in files:
        check_source(source, file.name)
        known = view.source_file(source, file.name)
        if known is not None and known.sha256 != file.sha256:
            raise SourceConflict(
                "the source already had other content under the name",
                source=source,
                name=file.name,
                sha256=file.sha256,
                known_sha256=known.sha256,
            )
        first = view.content_name(source, file.sha256) or names[file.sha256]
        if known is None and first != file.name and not repeat:
            text = "the source already had the same content under another name"
            raise SourceConflict(text, source=source, name=file.name, known_name=first)


def _ingest(
    table: Table, data_files: DataFiles, file: InputFile, rows_per_file: int, source: str, options: _Options
) -> Iterator[int]:
    """Add those rows of a file that the table lacks, and yield the number of rows of each part."""
    start = _present(table, file, source)
    with _opened(file) as opened:
        reader = _parts(opened, start, rows_per_file)
        while (part := _next_part(file, reader)) is not None:
            if _stamp(file.path) != file.stamp:
                raise Conflict("the file was changed while it was read", path=file.path)
            rows = _source_rows(file, source, start, part.num_rows, repeat=options.repeat)
            try:
                ingest(table, data_files, part, brought=rows, add_columns=options.add_columns, widen=options.widen)
            except (Invalid, LimitExceeded) as exc:
                raise type(exc)(exc.message, path=file.path, **exc.details) from exc
            except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as exc:
                raise Invalid("the table cannot store the rows of the file", path=file.path, reason=str(exc)) from exc
            except TransactionRefused as exc:
                if exc.kind != ROWS_PRESENT:
                    raise
                # Another process ingests the same file: continue after the rows that it added.
                start = _present(table, file, source)
                reader = _parts(opened, start, rows_per_file)
                continue
            start += part.num_rows
            yield part.num_rows


def _source_rows(file: InputFile, source: str, start: int, rows: int, *, repeat: bool) -> SourceRows | None:
    return SourceRows(source, file.name, file.sha256, start, rows, repeat) if source else None


def _present(table: Table, file: InputFile, source: str) -> int:
    known = table.at().source_file(source, file.name) if source else None
    return 0 if known is None else known.rows


@contextmanager
def _opened(file: InputFile) -> Iterator[pq.ParquetFile]:
    with _reading(file):
        # Open the file here: pyarrow cannot open a path whose name is not Unicode.
        stream = file.path.open("rb")
    with stream:
        with _reading(file):
            opened = pq.ParquetFile(stream, page_checksum_verification=True)
        yield opened


def _next_part(file: InputFile, reader: Iterator[pa.Table]) -> pa.Table | None:
    with _reading(file):
        return next(reader, None)


@contextmanager
def _reading(file: InputFile) -> Iterator[None]:
    """Turn the errors of a file that cannot be read, or is not Parquet, into Invalid.

    The block must only read the file: pyarrow raises the same errors if it cannot write a data file.
    """
    try:
        yield
    except (pa.ArrowException, OSError) as exc:
        is_read = not isinstance(exc, OSError) or exc.errno is None
        text = "the file is not Parquet, or it is damaged" if is_read else "the file cannot be read"
        raise Invalid(text, path=file.path, reason=str(exc)) from exc


def _parts(opened: pq.ParquetFile, start: int, rows: int) -> Iterator[pa.Table]:
    """Yield the rows of a file from ``start`` on, ``rows`` at a time."""
    waiting = pa.Table.from_batches([], schema=opened.schema_arrow)
    for batch in opened.iter_batches():
        skipped = min(start, batch.num_rows)
        start -= skipped
        waiting = pa.concat_tables([waiting, pa.Table.from_batches([batch.slice(skipped)])])
        while waiting.num_rows >= rows:
            yield waiting.slice(0, rows)
            waiting = waiting.slice(rows)
    if waiting.num_rows:
        yield waiting


def _stamp(path: Path) -> tuple[int, int]:
    try:
        state = path.stat()
    except OSError as exc:
        raise Invalid("the file cannot be read", path=path, reason=str(exc)) from exc
    if not stat.S_ISREG(state.st_mode):
        # The ingest reads a file twice. The second read of a pipe would wait for ever.
        raise Invalid("not a regular file; write the rows to a file and ingest the file", path=path)
    return state.st_size, state.st_mtime_ns

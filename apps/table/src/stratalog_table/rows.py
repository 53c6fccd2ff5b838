"""Rows of a table: ingest, and scans of ranges of keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]

from stratalog import Conflict, Invalid, Mutation, NotFound, Redacted, VersionForgotten
from stratalog_table.arrow_types import arrow_schema, columns_of, comparable, fitted, sorted_by_key, with_typed_keys
from stratalog_table.columns import joined
from stratalog_table.data_files import SUFFIX, DataFileDamaged, DataFiles, counts, intersection
from stratalog_table.data_folder import DataFolder
from stratalog_table.folder_register import DataFolderTaken
from stratalog_table.locations import open_location
from stratalog_table.messages import TransactionRefused, failure_of
from stratalog_table.model import Held, NewFile, NewReference, Region
from stratalog_table.queries import TableView
from stratalog_table.references import AddFiles
from stratalog_table.row_order import encode_key
from stratalog_table.sources import SourceRows
from stratalog_table.table import Table, plain

__all__ = [
    "BatchOutOfOrder",
    "Ingested",
    "RowSource",
    "bounds_of",
    "data_files_of",
    "ingest",
    "new_filename",
    "require_present",
    "scan",
]


class RowSource(msgspec.Struct, frozen=True):
    """The client that adds rows, and the number of its batch: 1, 2, 3 … A repeated batch is added only once."""

    client: str
    number: int


class BatchOutOfOrder(Conflict):
    """A batch does not have its source's next number. Nothing of it was added.

    ``number`` and ``expected``, the source's next number, are in the details.
    """

    code = "batch-out-of-order"


class Ingested(msgspec.Struct, frozen=True):
    """The result of an ingest: the version that added the file, the file, its rows and its number of partitions."""

    version: int
    filename: str
    rows: int
    partitions: int


def data_files_of(table: Table) -> DataFiles:
    """Return the table's data files, after entering the table in the register of their folder.

    The table is not entered if the folder is empty, cannot be written, or belongs to the table in another store. Raises
    Invalid if this program does not manage the table's data files. The first write raises NotFound if the table's files
    are not in the folder.
    """
    view = table.at()
    meta = view.meta
    folder = DataFolder(open_location(table.store, meta.data))
    register = table.register(folder)
    # Enter the table even if the caller only reads: the entry of a copy protects the files that the copy tracks. If
    # the entry fails, the files can still be read.
    with suppress(OSError, DataFolderTaken):
        if not folder.is_empty():
            register.enter()

    def enter() -> None:
        require_present(table, folder)
        register.enter()

    return DataFiles(folder, meta.schema, enter, view.columns())


def require_present(table: Table, folder: DataFolder) -> None:
    """Raise NotFound if a table has files but its folder is empty, as after a copy of the store alone.

    A write would begin a second folder, and no scan could read both folders.
    """
    if folder.is_empty() and not table.at().has_no_files():
        raise NotFound(
            "the table's data files are not in their folder; restore them, or name their folder by "
            "`stratalog table adopt --data`",
            data=folder.url,
        )


def ingest(
    table: Table,
    data_files: DataFiles,
    rows: pa.Table,
    *,
    source: RowSource | None = None,
    brought: SourceRows | None = None,
    job: str | None = None,
    add_columns: bool = False,
    widen: bool = False,
) -> Ingested | None:
    """Add rows to a table as one file. Return None if there are no rows, or if the table has the source's batch.

    ``source`` numbers the batches of a client. Raises BatchOutOfOrder if the number is not the client's next number.
    ``brought`` names the rows of a source's file. Raises TransactionRefused if these rows are not the next rows of the
    source's file. A refused batch uses its number: ingest its rows again with the next number. Until then, the refused
    number is refused again.

    The function writes the data file before the transaction that adds the file. If the table refuses the transaction,
    the function deletes the file. After any other failure, maintenance collects the file, unless the file was added.

    Raises Invalid or LimitExceeded if keys or columns do not fit the table. ``add_columns`` adds missing columns, and
    ``widen`` widens columns whose type does not hold the values. If the table declares no columns, its first rows
    determine the columns.
    """
    if not rows.num_rows or (source and _is_present(table, source)):
        return None
    rows = with_typed_keys(data_files.schema, rows)
    view = table.at()
    rows = _fitted(table, view, rows, add=add_columns, widen=widen)
    rows = sorted_by_key(data_files.schema, rows)
    leaves = view.leaves_in_range(bounds_of(data_files, rows))
    counted = zip(leaves, counts(data_files, rows, [leaf.region for leaf in leaves]), strict=True)
    chosen = [(leaf.partition, count) for leaf, count in counted if count]
    references = tuple(NewReference(id, count, complete=len(chosen) == 1) for id, count in chosen)
    filename = new_filename(table)
    data_files.write(filename, rows)
    try:
        version = _add(table, NewFile(filename, references), source, brought, job)
    except (TransactionRefused, BatchOutOfOrder):
        data_files.delete(filename)
        raise
    if version is None:
        data_files.delete(filename)
        return None
    return Ingested(version, filename, rows.num_rows, len(references))


def scan(
    view: TableView,
    data_files: DataFiles,
    region: Region | None = None,
    columns: Sequence[str] | None = None,
    *,
    skip: Callable[[DataFileDamaged], object] | None = None,
) -> Iterator[pa.Table]:
    """Yield the rows of a range of keys, reference by reference: each row once, with the columns of the view's version.

    Raises NotFound if a file is missing, for example because it was collected, and DataFileDamaged for a file that
    cannot be read. If ``skip`` is given, the scan instead calls it with a DataFileDamaged in both cases, and continues.
    """
    wanted = data_files.schema.full_region() if region is None else region
    files = data_files.with_columns(view.columns())
    for held in view.in_range(wanted):
        for rows in _rows_of(files, held, wanted, columns, skip):
            if rows.num_rows:
                yield rows


def bounds_of(data_files: DataFiles, rows: pa.Table) -> Region:
    """Return a region that contains all rows, bounded in the first key column only: by the first and the last row."""
    kind = data_files.schema.keys[0].type
    column = comparable(kind, rows.column(data_files.schema.keys[0].name))
    low, high = (encode_key(kind, column[position].as_py()) for position in (0, rows.num_rows - 1))
    # The upper bound is exclusive: no text is between ``high`` and ``high`` with a zero character after it.
    return ((low, high + "\0"), *data_files.schema.full_region()[1:])


def new_filename(table: Table) -> str:
    """Return a new name for a data file: the table's incarnation, one of 1024 folders, a random name."""
    id = table.new_id()
    return f"{table.incarnation}/{id[:2]}/{id}{SUFFIX}"


def _is_present(table: Table, source: RowSource) -> bool:
    """Return True if the table has the source's batch, and False if the batch is the next one.

    Raises TransactionRefused if the table refused the batch, BatchOutOfOrder after a gap, and Invalid for a number
    below 1.
    """
    if source.number < 1:
        raise Invalid("the batches of a source are numbered from 1", value=source.number)
    last = table.document.last_mutation(source.client)
    if source.number > last + 1:
        raise _out_of_order(source, last, "gap")
    if source.number == last:
        _require_added(table, source)
    return source.number <= last


def _require_added(table: Table, source: RowSource) -> None:
    """Raise TransactionRefused if the table refused the newest batch of the source.

    Otherwise a caller that lost the answer and repeats the batch would believe that the table has the rows.
    """
    version: int | None = None
    # If the entry was forgotten or redacted, the refusal cannot be read any more. The batch then counts as added.
    with suppress(VersionForgotten, Redacted):
        version = table.document.applied_in(source.client, source.number)
    for committed in () if version is None else table.document.versions(version - 1, version):
        for mutation in committed.mutations:
            if (mutation.client, mutation.id) == (source.client, source.number) and mutation.reason is not None:
                raise TransactionRefused([failure_of(mutation.reason)], version)


def _out_of_order(source: RowSource, last: int, status: str) -> BatchOutOfOrder:
    text = f"the source's batch is out of order, status {status}"
    return BatchOutOfOrder(text, client=source.client, number=source.number, expected=last + 1)


def _add(
    table: Table, new: NewFile, source: RowSource | None, brought: SourceRows | None, job: str | None
) -> int | None:
    """Return the version that added the file, or None if another process has added the source's batch."""
    if source is None:
        return table.add_files([new], job=job, source=brought)
    mutation = Mutation(
        client=source.client,
        id=source.number,
        name="add_files",
        args=plain(AddFiles((new,), job=job, source=brought)),
    )
    (outcome,) = table.document.apply([mutation])
    if outcome.status == "rejected":
        raise TransactionRefused([failure_of(outcome.reason or "")], outcome.version)
    # The new file's name makes the arguments of a repeated batch differ, so `mismatch` also means a repetition.
    if outcome.status in ("seen", "mismatch"):
        _require_added(table, source)
    elif outcome.status != "applied":
        raise _out_of_order(source, table.document.last_mutation(source.client), outcome.status)
    return outcome.version


def _fitted(table: Table, view: TableView, rows: pa.Table, *, add: bool, widen: bool) -> pa.Table:
    """Return the rows with the table's columns, after adding columns and widening types as far as allowed."""
    schema, known = view.meta.schema, view.columns()
    brought = columns_of(schema, rows.schema)
    if known is None or joined(known, brought, add=add, widen=widen) != known:
        table.set_columns(brought, add=add, widen=widen)
        known = table.at().columns() or ()
    return fitted(rows, arrow_schema(schema, known))


def _rows_of(
    data_files: DataFiles,
    held: Held,
    wanted: Region,
    columns: Sequence[str] | None,
    skip: Callable[[DataFileDamaged], object] | None,
) -> Iterator[pa.Table]:
    region = intersection(held.region, wanted)
    for reference in held.references:
        try:
            yield data_files.read(reference.filename, region, columns)
        except DataFileDamaged as exc:
            if skip is None:
                raise
            skip(exc)
        except FileNotFoundError as exc:
            if skip is None:
                text = "a data file of this version was collected, or is not at the table's location of data files"
                raise NotFound(text, filename=reference.filename) from exc
            skip(DataFileDamaged("a data file is missing", filename=reference.filename))

"""The creation of a table, and the resumption or removal of an unfinished creation.

A creation has three steps: an empty log, the entry in the register of the data folder (if the table has a data folder),
and the first transaction. A process that ends between the steps leaves an unfinished creation. An earlier version of
this program also left an unfinished creation when the transaction was rejected. The next `create_table` of the same
name resumes an unfinished creation, and `delete_unfinished` removes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from stratalog import Conflict, Document, Draft, Invalid, NotFound, Rejected, Store
from stratalog.clock import new_id
from stratalog.codec import canonical
from stratalog.errors import VersionForgotten
from stratalog_table import partitions
from stratalog_table.columns import ValueColumn, check_columns, check_name
from stratalog_table.data_folder import DataFolder
from stratalog_table.folder_register import check_vacant
from stratalog_table.locations import open_location, store_location
from stratalog_table.messages import TransactionRefused, failure_of
from stratalog_table.model import Schema
from stratalog_table.partitions import CreateTable
from stratalog_table.row_order import Key, key_kind
from stratalog_table.table import Table, plain, table_handle
from stratalog_table.transaction_group import Request
from stratalog_table.tree import from_split_points, root_of

__all__ = ["create_table", "delete_unfinished", "is_unfinished"]

CREATION = "create_table"


def create_table(
    store: Store,
    organisation: str,
    name: str,
    schema: Schema,
    points: Sequence[Key] = (),
    *,
    data: str = "",
    columns: Sequence[ValueColumn] | None = None,
    retention_days: int = 0,
) -> Table:
    """Create a table that is split at ``points`` on its first key column, with its data files below the URL ``data``.

    ``columns`` are the table's value columns. If ``columns`` is None, the first rows determine the columns. Data files
    stay for ``retention_days`` after the last version that needs them. The function resumes an unfinished creation.

    Raises Invalid or LimitExceeded for a schema, points, columns or a retention that no table can have. Raises Conflict
    if a log of that name exists that is no unfinished creation, and DataFolderTaken if the folder is not empty or
    belongs to another table. Nothing is created after these errors. Raises TransactionRefused if another process
    created the table meanwhile.
    """
    if not schema.keys:
        raise Invalid("a table needs at least one key column")
    for column in schema.keys:
        check_name(column.name)
        key_kind(column.type)
    check_columns(columns or ())
    clock = store.environment.clock
    tree = from_split_points(schema, points, lambda: new_id(clock, 20)) if points else [root_of(schema)]
    location = store_location(store, data) if data else ""
    wanted = CreateTable(schema, tuple(tree), location, None if columns is None else tuple(columns), retention_days)
    request = Request(CREATION, _checked(wanted), len(tree))
    table = _unfinished(store, organisation, name)
    folder = DataFolder(data) if data else None
    if folder is not None:
        _check_free(folder, table)
    if table is None:
        store.create(organisation, name)
        table = table_handle(store, organisation, name)
    if folder is not None:
        table.register(folder).enter(is_owner=True)
    (answer,) = table.commit([request])
    if answer.reason is not None:
        raise TransactionRefused([failure_of(answer.reason)], answer.version)
    return table


def is_unfinished(document: Document) -> bool:
    """Return whether a log is empty, or contains nothing but rejected creations of a table."""
    try:
        return document.log.record.kind == "document" and all(
            version.mutations
            and all(mutation.name == CREATION and mutation.reason is not None for mutation in version.mutations)
            for version in document.versions(0)
        )
    except VersionForgotten:
        return False


def delete_unfinished(table: Table, urls: Iterable[str] = ()) -> None:
    """Delete the log of an unfinished creation, and the table's entries in the registers of data folders.

    The log names the folder only if a transaction was rejected. ``urls`` are other folders that may have an entry. The
    log is deleted last, so an interrupted deletion can be repeated. Raises Conflict if the log has other content, or if
    the log is empty and no folder has an entry: then nothing shows that a table's creation made the log.
    """
    document = table.document
    if not is_unfinished(document):
        raise Conflict("the name is in use", organisation=document.organisation, log=document.name)
    registers = [table.register(DataFolder(url)) for url in sorted({*urls, *_named_folders(table)})]
    known = {register: register.registration(table.incarnation) for register in registers}
    if not document.version and not any(register.is_entered(table.incarnation) for register in registers):
        raise Conflict(
            "the document is empty, and no data folder shows that a table's creation made it; "
            "`stratalog delete` deletes any document",
            organisation=document.organisation,
            log=document.name,
        )
    for register, registration in known.items():
        if registration is None or register.is_ours(registration):
            register.retire(table.incarnation)
    table.store.delete(document)


def _unfinished(store: Store, organisation: str, name: str) -> Table | None:
    """Return the log of an unfinished creation, or None if no log has the name. Raises Conflict for any other log."""
    try:
        table = table_handle(store, organisation, name)
    except NotFound:
        return None
    if not is_unfinished(table.document):
        raise Conflict("the name is in use", organisation=organisation, log=name)
    return table


def _check_free(folder: DataFolder, table: Table | None) -> None:
    """Raise DataFolderTaken unless the folder is vacant, or its register has an entry of ``table``."""
    if table is not None:
        register = table.register(folder)
        if register.registration(table.incarnation) is not None:
            return
        register.remove_unfinished(table.incarnation)
    check_vacant(folder)


def _checked(wanted: CreateTable) -> object:
    """Return the arguments of a creation. Raises Invalid or LimitExceeded if the transaction would not be committed."""
    try:
        args: object = canonical(plain(wanted), "argument")
        partitions.create_table(Draft(lambda key: None, lambda prefix: iter(())), args)
    except UnicodeEncodeError as exc:
        raise Invalid("the name of a column is not Unicode", value=ascii(exc.object)) from exc
    except Rejected as exc:
        raise Invalid("the table cannot be created", reason=str(exc)) from exc
    return args


def _named_folders(table: Table) -> Iterator[str]:
    """Yield the URLs of the folders that rejected creations name. Skip a folder that cannot be opened."""
    for version in table.document.versions():
        for mutation in version.mutations:
            location = mutation.args.get("data") if isinstance(mutation.args, dict) else None
            if isinstance(location, str):
                with suppress(Invalid):
                    yield DataFolder(open_location(table.store, location)).url

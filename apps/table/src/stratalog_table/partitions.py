"""Transactions on the partition tree and on the table as a whole, as mutators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec

from stratalog import Draft, Rejected
from stratalog_table import messages
from stratalog_table.columns import ValueColumn
from stratalog_table.layout import INNER, TABLE, Meta, partition_from
from stratalog_table.model import Partition, Schema
from stratalog_table.row_order import is_edge, is_key_type
from stratalog_table.table_changes import checked_days, put_columns
from stratalog_table.table_draft import TableDraft, check_id, meta_of, put_meta, read, tracked_files
from stratalog_table.tree import check_split, check_subtrees, check_tree

__all__ = [
    "COLLECTIONS",
    "CreateTable",
    "ExtendPartitionTree",
    "Partitions",
    "Purge",
    "SetData",
    "SplitPartition",
    "clear_files",
    "create_table",
    "extend_partition_tree",
    "initialise_partitions",
    "purge",
    "reinitialise",
    "set_data",
    "split_partition",
]

COLLECTIONS = ("file", "of", "unreferenced", "job", "at", "inner", "source", "content", "claim", "damaged")


class CreateTable(msgspec.Struct, frozen=True, omit_defaults=True):
    """A table's row key, its first partitions, its value columns and the retention of its data files.

    ``data`` is the location of the data files. It is empty if another program manages these files.
    """

    schema: Schema
    partitions: tuple[Partition, ...]
    data: str = ""
    columns: tuple[ValueColumn, ...] | None = None
    retention_days: int = 0


class Partitions(msgspec.Struct, frozen=True):
    """All partitions of a tree."""

    partitions: tuple[Partition, ...]


class SplitPartition(msgspec.Struct, frozen=True):
    """A leaf in its state after the split, and its children."""

    parent: Partition
    children: tuple[Partition, ...]


class ExtendPartitionTree(msgspec.Struct, frozen=True):
    """Leaves in their state after the split, and all new partitions below them."""

    update_partitions: tuple[Partition, ...]
    new_partitions: tuple[Partition, ...]


class Purge(msgspec.Struct, frozen=True):
    """The maximum number of rows to delete."""

    limit: Annotated[int, msgspec.Meta(ge=1)] = 1000


class SetData(msgspec.Struct, frozen=True):
    """The location of the data files."""

    data: str


def create_table(draft: Draft, args: Any) -> None:
    """Create the table in an empty document."""
    wanted: CreateTable = read(args, CreateTable)
    if draft.get(TABLE) is not None:
        raise Rejected("there is a table in this document already")
    if not wanted.schema.keys or len({column.name for column in wanted.schema.keys}) < len(wanted.schema.keys):
        raise Rejected("Malformed transaction: a table needs key columns, each of a name of its own")
    if not all(is_key_type(column.type) for column in wanted.schema.keys):
        raise Rejected("Malformed transaction: a key column is of a type that none can have")
    retention_days = checked_days(wanted.retention_days)
    has_columns = wanted.columns is not None
    meta = Meta(wanted.schema, wanted.data, has_columns=has_columns, retention_days=retention_days)
    _plant(draft, meta, wanted.partitions)
    if wanted.columns is not None:
        put_columns(draft, wanted.schema, wanted.columns)


def initialise_partitions(draft: Draft, args: Any) -> None:
    """Replace the whole tree. Raises Rejected if the table tracks a file."""
    wanted: Partitions = read(args, Partitions)
    meta = meta_of(draft)
    if next(tracked_files(draft, meta), None) is not None:
        raise Rejected(messages.FILES_PRESENT)
    _plant(draft, _moved_on(meta), wanted.partitions)


def reinitialise(draft: Draft, args: Any) -> None:
    """Stop tracking all files and replace the whole tree, in one transaction."""
    wanted: Partitions = read(args, Partitions)
    draft.delete(INNER)
    _plant(draft, _moved_on(meta_of(draft)), wanted.partitions)


def clear_files(draft: Draft, args: Any) -> None:
    """Stop tracking all files, referenced or not. The tree stays."""
    meta = meta_of(draft)
    tree = [partition_from(key.split("/", 1)[1], row) for key, row in draft.scan(meta.layout.partition())]
    put_meta(draft, msgspec.structs.replace(meta, files=meta.files + 1))
    draft.delete(INNER)
    table_draft = TableDraft(draft)
    for partition in tree:
        if partition.is_leaf:
            table_draft.forget_tally(partition)
    table_draft.close()


def split_partition(draft: Draft, args: Any) -> None:
    """Split a leaf. The references on the leaf stay until `split_file_references` moves them."""
    wanted: SplitPartition = read(args, SplitPartition)
    table_draft, parent = TableDraft(draft), wanted.parent
    stored = table_draft.partition(parent.id)
    if stored is None:
        raise Rejected("Parent partition not found")
    if not stored.is_leaf:
        raise Rejected("Parent should be a leaf partition")
    if parent.is_leaf:
        raise Rejected("Parent should not be a leaf partition after split")
    _check_new_split(stored, wanted)
    for child in wanted.children:
        _check_new(table_draft, child)
        if child.parent != parent.id:
            raise Rejected(f"Child partition has another parent: {child.id}")
        if not child.is_leaf:
            raise Rejected(f"Child partition should be a leaf partition: {child.id}")
    _put_all(table_draft, [parent, *wanted.children])


def extend_partition_tree(draft: Draft, args: Any) -> None:
    """Split leaves into whole subtrees, in one transaction."""
    wanted: ExtendPartitionTree = read(args, ExtendPartitionTree)
    table_draft = TableDraft(draft)
    for partition in wanted.update_partitions:
        stored = table_draft.partition(partition.id)
        if stored is None:
            raise Rejected(f"Attempted to update a partition which does not exist: {partition.id}")
        if not stored.is_leaf:
            raise Rejected(f"Attempted to update a partition which has already been split: {partition.id}")
        if partition.is_leaf:
            raise Rejected(f"Attempted to update a partition without splitting it: {partition.id}")
    for partition in wanted.new_partitions:
        _check_new(table_draft, partition)
    _sound("Update results in invalid partition tree", lambda: _check_extension(table_draft, wanted))
    _put_all(table_draft, [*wanted.update_partitions, *wanted.new_partitions])


def purge(draft: Draft, args: Any) -> None:
    """Delete at most ``limit`` of the rows that `clear_files`, `reinitialise` and `initialise_partitions` left behind.

    If no such row remains, record in the metadata that the old collections are purged.
    """
    wanted: Purge = read(args, Purge)
    meta = meta_of(draft)
    left = wanted.limit
    trees, files = range(meta.purged_tree, meta.tree), range(meta.purged_files, meta.files)
    for prefix in [
        *(f"partition{number}/" for number in trees),
        *(f"{name}{number}/" for number in files for name in COLLECTIONS),
    ]:
        for key in [key for key, _ in zip(draft.keys(prefix), range(left), strict=False)]:
            draft.delete(key)
            left -= 1
        if not left:
            return
    put_meta(draft, msgspec.structs.replace(meta, purged_tree=meta.tree, purged_files=meta.files))


def set_data(draft: Draft, args: Any) -> None:
    """Set the location of the data files."""
    wanted: SetData = read(args, SetData)
    put_meta(draft, msgspec.structs.replace(meta_of(draft), data=wanted.data))


def _plant(draft: Draft, meta: Meta, partitions: Sequence[Partition]) -> None:
    """Write a whole tree. The collection numbers in ``meta`` must be unused, so that no old row is read as new."""
    width = len(meta.schema.keys)
    if any(len(partition.region) != width for partition in partitions):
        raise Rejected("Malformed transaction: a region has another number of columns than the table's key")
    _sound("Initialised with invalid partition tree", lambda: _check_complete(meta.schema, partitions))
    put_meta(draft, msgspec.structs.replace(meta, crossed=False))
    _put_all(TableDraft(draft), partitions)


def _moved_on(meta: Meta) -> Meta:
    return msgspec.structs.replace(meta, tree=meta.tree + 1, files=meta.files + 1)


def _put_all(table_draft: TableDraft, partitions: Sequence[Partition]) -> None:
    crossed = table_draft.meta.crossed
    _check_edges(table_draft.meta.schema, partitions)
    for partition in partitions:
        crossed = crossed or partition.dimension > 0
        table_draft.put_partition(partition)
    table_draft.close()
    if crossed != table_draft.meta.crossed:
        put_meta(table_draft.draft, msgspec.structs.replace(table_draft.meta, crossed=crossed))


def _check_new(table_draft: TableDraft, partition: Partition) -> None:
    check_id(partition.id, "partition")
    if table_draft.partition(partition.id) is not None:
        raise Rejected(f"Attempted to add a partition which already exists: {partition.id}")


def _check_complete(schema: Schema, partitions: Sequence[Partition]) -> None:
    """Raise ValueError unless the partitions are one tree that covers the key space, so that each row has a leaf."""
    check_tree(partitions)
    root = next(partition for partition in partitions if partition.parent is None)
    if root.region != schema.full_region():
        raise ValueError(f"Partition {root.id} is the root, and not all of the key space")


def _check_edges(schema: Schema, partitions: Sequence[Partition]) -> None:
    """Raise Rejected if a split point is no key of its column. Readers decode split points as keys."""
    known = {partition.id: partition for partition in partitions}
    for parent in partitions:
        if not parent.is_leaf:
            edge = known[parent.children[0]].region[parent.dimension][1]
            if edge is None or not is_edge(schema.keys[parent.dimension].type, edge):
                raise Rejected(
                    f"Malformed transaction: partition {parent.id} is split where no key can be: {edge!r:.80}"
                )


def _check_new_split(stored: Partition, wanted: SplitPartition) -> None:
    children = {child.id: child for child in wanted.children}

    def check() -> None:
        _check_unmoved(stored, wanted.parent)
        if len(wanted.children) != 2 or set(wanted.parent.children) != children.keys():
            raise ValueError(f"Partition {stored.id} does not have the new partitions as its children")
        check_split(wanted.parent, [children[id] for id in wanted.parent.children])

    _sound("Failed to validate partition split", check)


def _check_extension(table_draft: TableDraft, wanted: ExtendPartitionTree) -> None:
    roots = 1 + sum(partition.parent is None for partition in wanted.new_partitions)
    if roots != 1:
        raise ValueError(f"There should be exactly one root partition, found {roots}")
    for partition in wanted.update_partitions:
        _check_unmoved(table_draft.need_partition(partition.id), partition)
    named = [*wanted.update_partitions, *wanted.new_partitions]
    known = {partition.id: partition for partition in named}
    if len(known) < len(named):
        raise ValueError("A partition is named twice")
    check_subtrees(wanted.update_partitions, known)


def _check_unmoved(stored: Partition, partition: Partition) -> None:
    """Raise ValueError unless only the children and the dimension of a partition changed."""
    if (stored.region, stored.parent) != (partition.region, partition.parent):
        raise ValueError(f"Partition {partition.id} has another region or parent than before")


def _sound(what: str, check: Callable[[], None]) -> None:
    try:
        check()
    except ValueError as exc:
        raise Rejected(f"{what}: {exc}") from exc

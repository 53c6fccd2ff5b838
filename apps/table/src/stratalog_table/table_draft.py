"""A draft of a table's document with operations on partitions, files and references.

A transaction that changes partitions or references creates a `TableDraft` and closes the `TableDraft` last. The tallies
of partitions stay in memory while the transaction runs. `TableDraft.close` writes each tally once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from stratalog import Draft, Rejected
from stratalog.codec import decode
from stratalog.struct_types import resolved
from stratalog_table import messages
from stratalog_table.layout import (
    COLLECTED,
    INNER,
    TABLE,
    Meta,
    TableTally,
    partition_from,
    partition_row,
    position_of,
    reference_from,
    reference_row,
    tally_from,
    tally_row,
)
from stratalog_table.limits import FILENAME_BYTES_MAX, TABLE_ID_BYTES_MAX
from stratalog_table.model import FileReference, NewReference, Partition

__all__ = [
    "TableDraft",
    "check_filename",
    "check_id",
    "check_names",
    "meta_of",
    "put_meta",
    "read",
    "tracked_files",
]
NO_TALLY = TableTally()

DECODED_REMEMBERED = 1024
"""The size of each cache of decoded rows: successive transactions read the same tables and partitions."""


class TableDraft:
    """The state of a table as one transaction reads and changes it. Raises Rejected if the document has no table."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.meta = meta_of(draft)
        self.layout = self.meta.layout
        self._partitions: dict[str, Partition | None] = {}
        self._positions: dict[str, str] = {}
        self._rows: dict[str, str] = {}
        """For each partition, the prefix of the keys of its references."""

        self._tallies: dict[str, TableTally] = {}
        self._before: dict[str, TableTally] = {}

    # Partitions

    def partition(self, id: str) -> Partition | None:
        """Return a partition by its id, or None if it does not exist."""
        if id not in self._partitions:
            stored = self.draft.encoded(self.layout.partition(check_id(id, "partition")))
            self._partitions[id] = None if stored is None else _decode_partition(id, stored)
        return self._partitions[id]

    def need_partition(self, id: str) -> Partition:
        """Return a partition by its id. Raises Rejected if it does not exist."""
        partition = self.partition(id)
        if partition is None:
            raise Rejected(messages.partition_not_found(id))
        return partition

    def put_partition(self, partition: Partition) -> None:
        """Add a partition, or replace a leaf by its state after a split. The references on the leaf stay."""
        id = check_id(partition.id, "partition")
        before = self.partition(id)
        if before is not None:
            # Load the tally before its row under the leaf's key is deleted. `close` writes the tally under the key of
            # an inner partition.
            self._tally(id)
            self.draft.delete(self.layout.leaf(self.position(id)))
        self.draft.put(self.layout.partition(id), partition_row(partition))
        self._partitions[id] = partition
        self._positions[id] = position_of(id, partition.region)
        if before is None:
            self._tallies[id] = NO_TALLY
            self._before[id] = NO_TALLY
        elif self._tallies[id].files:
            # The leaf with references is an inner partition now. `_write_inner` counts only changes after this.
            self._count_inner(1)

    def forget_tally(self, leaf: Partition) -> None:
        """Set the tally of a leaf to zero without reading a row. The tally must not have a row yet."""
        self._partitions[leaf.id] = leaf
        self._tallies[leaf.id] = self._before[leaf.id] = NO_TALLY

    def position(self, id: str) -> str:
        """Return the position of a partition in the order of regions, see `layout.position_of`."""
        position = self._positions.get(id)
        if position is None:
            position = self._positions[id] = position_of(id, self.need_partition(id).region)
        return position

    def ancestors(self, id: str) -> Iterator[str]:
        """Yield the ids of the partitions above a partition, the nearest first."""
        parent = self.need_partition(id).parent
        while parent is not None:
            yield parent
            parent = self.need_partition(parent).parent

    # Files

    def is_tracked(self, filename: str) -> bool:
        """Return whether the table tracks the file."""
        return self.layout.file(filename) in self.draft

    def count(self, filename: str) -> int | None:
        """Return the number of references of a file, or None if the table does not track it."""
        row = self.draft.get(self.layout.file(filename))
        return 1 if isinstance(row, str) else row

    def add_file(self, filename: str, references: Sequence[NewReference]) -> None:
        """Track a new file. Raises Rejected if it is tracked or was collected, or if its partitions do not fit."""
        key = self.layout.file(check_filename(filename))
        if key in self.draft:
            raise Rejected(messages.file_already_exists(filename))
        if COLLECTED + filename in self.draft:
            raise Rejected(messages.file_collected(filename))
        partitions = [reference.partition for reference in references]
        self.check_apart(filename, partitions)
        self._locate(key, filename, partitions)
        for new in references:
            self.put_reference(FileReference(filename, new.partition, new.rows, new.approximate, new.complete))

    def check_apart(self, filename: str, partitions: Sequence[str]) -> None:
        """Raise Rejected if a partition is missing, named twice or inside another partition.

        Two references that share a key would count a row twice.
        """
        if len(partitions) == 1:
            self.need_partition(partitions[0])
            return
        chosen = set(partitions)
        if len(chosen) < len(partitions):
            twice = next(id for position, id in enumerate(partitions) if id in partitions[:position])
            raise Rejected(messages.reference_already_exists(twice, filename))
        for id in partitions:
            self.need_partition(id)
        for id in partitions:
            if not chosen.isdisjoint(self.ancestors(id)):
                raise Rejected(f"Partition {id} lies in another that file {filename} is added to")

    def forget_file(self, filename: str) -> None:
        """Stop tracking a file that has no references."""
        self.draft.delete(self.layout.file(filename))
        self.draft.delete(self.layout.unreferenced(filename))
        self.draft.delete(self.layout.damaged(filename))

    # References

    def reference(self, partition: str, filename: str) -> FileReference | None:
        """Return the reference of a file on a partition, or None."""
        if self.partition(partition) is None:
            return None
        row = self.draft.get(self._row(partition) + filename)
        return None if row is None else reference_from(partition, filename, row)

    def put_reference(self, reference: FileReference) -> None:
        """Add a reference. `add_file` and `drop_reference` write the row of the file itself."""
        self._tallies[reference.partition] = self._tally(reference.partition).changed(reference, 1)
        self._write(reference)

    def assign(self, reference: FileReference, job: str) -> None:
        """Assign a reference to a job."""
        self._write(msgspec.structs.replace(reference, job=job))
        self._count_job(job, reference.partition, 1)

    def unassign(self, reference: FileReference) -> None:
        """Unassign a reference from its job."""
        self._write(msgspec.structs.replace(reference, job=None))
        if reference.job is not None:
            self._count_job(reference.job, reference.partition, -1)

    def references_on(self, partition: str) -> list[FileReference]:
        """Return all references on a partition."""
        prefix = self._row(partition)
        return [reference_from(partition, key[len(prefix) :], row) for key, row in self.draft.scan(prefix)]

    def drop_reference(self, reference: FileReference, moved_to: Sequence[str] = ()) -> None:
        """Remove a reference. ``moved_to`` are the partitions of the references that replace it."""
        self._tallies[reference.partition] = self._tally(reference.partition).changed(reference, -1)
        self.draft.delete(self._row(reference.partition) + reference.filename)
        if reference.job is not None:
            self._count_job(reference.job, reference.partition, -1)
        self._relocate(reference.filename, reference.partition, moved_to)

    def close(self) -> None:
        """Write the tallies of all partitions that the transaction touched."""
        for id, tally in self._tallies.items():
            self._write_tally(id, tally)

    def _write(self, reference: FileReference) -> None:
        self.draft.put(self._row(reference.partition) + reference.filename, reference_row(reference))

    def _row(self, partition: str) -> str:
        prefix = self._rows.get(partition)
        if prefix is None:
            prefix = self._rows[partition] = self.layout.reference(self.position(partition))
        return prefix

    def _locate(self, key: str, filename: str, partitions: Sequence[str]) -> None:
        """Write the partitions of a file: one partition into the file's row, several partitions into a row each."""
        if len(partitions) == 1:
            self.draft.put(key, partitions[0])
            return
        self.draft.put(key, len(partitions))
        for partition in partitions:
            self.draft.put(self.layout.location(filename, partition), None)
        if not partitions:
            self.draft.put(self.layout.unreferenced(filename), None)

    def _relocate(self, filename: str, source: str, targets: Sequence[str]) -> None:
        key = self.layout.file(filename)
        row = self.draft.get(key)
        if isinstance(row, str):
            return self._locate(key, filename, targets)
        self.draft.delete(self.layout.location(filename, source))
        for target in targets:
            self.draft.put(self.layout.location(filename, target), None)
        left = row - 1 + len(targets)
        self.draft.put(key, left)
        if not left:
            self.draft.put(self.layout.unreferenced(filename), None)
        return None

    # Tallies

    def _tally(self, id: str) -> TableTally:
        tally = self._tallies.get(id)
        if tally is None:
            row = self.draft.get(self._tally_key(id))
            tally = NO_TALLY if row is None else tally_from(row)
            self._tallies[id] = self._before[id] = tally
        return tally

    def _tally_key(self, id: str) -> str:
        position = self.position(id)
        return self.layout.leaf(position) if self.need_partition(id).is_leaf else self.layout.inner(position)

    def _write_tally(self, id: str, tally: TableTally) -> None:
        partition = self.need_partition(id)
        if partition.children:
            self._write_inner(partition, tally)
        else:
            self.draft.put(self.layout.leaf(self.position(id)), tally_row(tally, partition.region))

    def _write_inner(self, partition: Partition, tally: TableTally) -> None:
        key, before = self.layout.inner(self.position(partition.id)), self._before[partition.id]
        if tally.files:
            self.draft.put(key, tally_row(tally, partition.region))
        elif before.files:
            self.draft.delete(key)
        self._count_inner((tally.files > 0) - (before.files > 0))

    def _count_inner(self, by: int) -> None:
        if by:
            _put_count(self.draft, INNER, (self.draft.get(INNER) or 0) + by)

    def _count_job(self, job: str, partition: str, by: int) -> None:
        key = self.layout.job(job, partition)
        count = (self.draft.get(key) or 0) + by
        _put_count(self.draft, key, count)
        if count <= 0:
            self.draft.delete(self.layout.claim(job, partition))


def meta_of(draft: Draft) -> Meta:
    """Return the metadata of the table in a draft. Raises Rejected if the document has no table."""
    stored = draft.encoded(TABLE)
    if stored is None:
        raise Rejected("there is no table in this document")
    return _decode_meta(stored)


def put_meta(draft: Draft, meta: Meta) -> None:
    """Write the metadata of the table."""
    draft.put(TABLE, msgspec.to_builtins(meta))


def tracked_files(draft: Draft, meta: Meta) -> Iterator[str]:
    """Yield the keys of the rows of tracked files."""
    return draft.keys(meta.layout.file())


def check_id(text: str, what: str) -> str:
    """Return ``text`` if it is valid as the id of a partition, job or worker. Raises Rejected if not."""
    return _check_name(text, what, TABLE_ID_BYTES_MAX, "/")


def check_filename(text: str) -> str:
    """Return ``text`` if it is valid as the name of a file. Raises Rejected if not."""
    return _check_name(text, "filename", FILENAME_BYTES_MAX, "")


def check_names(names: Iterable[str]) -> None:
    """Raise Rejected if a file is named twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise Rejected(f"Malformed transaction: file named twice: {name}")
        seen.add(name)


def _check_name(text: str, what: str, bytes_max: int, refused: str) -> str:
    if text.isascii() and text.isprintable() and 0 < len(text) <= bytes_max and not (refused and refused in text):
        return text
    size = len(text.encode(errors="surrogatepass"))
    if not 0 < size <= bytes_max or any(ord(character) < 32 for character in text) or (refused and refused in text):
        raise Rejected(f"Malformed transaction: a {what} cannot be: {text[:80]!r}")
    return text


@lru_cache(DECODED_REMEMBERED)
def _decode_meta(stored: bytes) -> Meta:
    return msgspec.convert(decode(stored), resolved(Meta))


@lru_cache(DECODED_REMEMBERED)
def _decode_partition(id: str, stored: bytes) -> Partition:
    return partition_from(id, decode(stored))


def _put_count(draft: Draft, key: str, count: int) -> None:
    if count > 0:
        draft.put(key, count)
    else:
        draft.delete(key)


def read(args: Any, kind: Any) -> Any:
    """Return a mutation's arguments as the struct ``kind``. Raises Rejected if they do not fit the struct."""
    try:
        return msgspec.convert(args, resolved(kind))
    except msgspec.ValidationError as exc:
        raise Rejected(f"Malformed transaction: {exc}") from exc

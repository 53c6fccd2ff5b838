"""The view of a table at one version. A query of a range of keys reads few rows outside the range."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from stratalog import NotFound, View
from stratalog.struct_types import resolved
from stratalog_table import messages
from stratalog_table.columns import ValueColumn
from stratalog_table.damaged_files import FileDamage
from stratalog_table.job_claims import JobClaim
from stratalog_table.layout import (
    COLUMN,
    EDGE_CHARACTERS,
    INNER,
    TABLE,
    TIMES,
    UNBOUNDED,
    Layout,
    Meta,
    TableTally,
    partition_from,
    position_of,
    reference_from,
    region_from,
    tally_from,
)
from stratalog_table.messages import TransactionRefused, failure_of
from stratalog_table.model import File, FileReference, Held, Partition, Region, overlaps
from stratalog_table.references import Assignment
from stratalog_table.sources import SourceFile, content_key, source_key
from stratalog_table.version_times import VersionTime, times_from

__all__ = ["Files", "Holding", "TableView"]

INNER_SCANNED_MAX = 256
"""A query scans up to this many inner partitions with references.

If the table has more such partitions, the query reads the ancestors of the leaves instead.
"""

UNWANTED_MAX = 128
"""After this many unwanted rows (two chunks), a seek past the other unwanted rows is faster than reading them."""

LAST = "\U0010ffff"


class Files(msgspec.Struct, frozen=True):
    """Tracked files in order. ``more`` is True if unreferenced files were left out."""

    files: tuple[File, ...]
    more: bool


class Holding(msgspec.Struct, frozen=True):
    """A partition with the tally of its references and rows."""

    partition: str
    region: Region
    leaf: bool
    tally: TableTally


class TableView:
    """A table at `version`. Files are ordered by name, references by name and partition, and partitions by id.

    `holdings` and `in_range` do not order partitions by id: their docstrings state the order.
    """

    def __init__(self, view: View, name: str = "") -> None:
        """Read the metadata. ``name`` is the document's name for the error. Raises NotFound for another document."""
        row = view.get(TABLE)
        if row is None:
            raise NotFound("the document is not a table", document=name, version=view.version)
        self.meta = msgspec.convert(row, resolved(Meta))
        """The row key, `meta.schema`, and the settings of the table."""

        self.version = view.version
        self._view = view
        self._layout: Layout = self.meta.layout

    def __repr__(self) -> str:
        return f"<TableView version={self.version}>"

    # Partitions

    def partition(self, id: str) -> Partition:
        """Return a partition by its id. Raises TransactionRefused if it does not exist."""
        partition = self._partition(id)
        if partition is None:
            raise TransactionRefused([failure_of(messages.partition_not_found(id))])
        return partition

    def partitions(self) -> Iterator[Partition]:
        """Yield all partitions, in order of id."""
        for key, row in self._view.scan(self._layout.partition()):
            yield partition_from(_after_slash(key), row)

    def leaf_partitions(self) -> Iterator[Partition]:
        """Yield the leaves, in order of id."""
        return (partition for partition in self.partitions() if partition.is_leaf)

    # Files and references

    def file(self, filename: str) -> File | None:
        """Return a tracked file, or None."""
        row = self._view.get(self._layout.file(filename))
        return None if row is None else File(filename, self._locations(filename, row))

    def reference(self, partition: str, filename: str) -> FileReference | None:
        """Return the reference of a file on a partition, or None."""
        known = self._partition(partition)
        if known is None:
            return None
        row = self._view.get(self._layout.reference(position_of(partition, known.region), filename))
        return None if row is None else reference_from(partition, filename, row)

    def file_references(self) -> list[FileReference]:
        """Return all references. The list grows with the table. `in_range` returns those of a range of keys."""
        return sorted(self._references(), key=lambda reference: (reference.filename, reference.partition))

    def file_references_without_job(self) -> list[FileReference]:
        """Return all references that are not assigned to a job."""
        return [reference for reference in self.file_references() if reference.job is None]

    def files_by_partition(self) -> dict[str, list[str]]:
        """Return the files of each partition that has references."""
        filenames: dict[str, list[str]] = {}
        for reference in self._references():
            filenames.setdefault(reference.partition, []).append(reference.filename)
        return {id: sorted(filenames[id]) for id in sorted(filenames)}

    def files(self, unreferenced_max: int) -> Files:
        """Return every referenced file, and at most ``unreferenced_max`` files without references."""
        files: list[File] = []
        without = 0
        for key, row in self._view.scan(self._layout.file()):
            filename = _after_slash(key)
            without += row == 0
            if row != 0 or without <= unreferenced_max:
                files.append(File(filename, self._locations(filename, row)))
        return Files(tuple(files), more=without > unreferenced_max)

    def has_no_files(self) -> bool:
        """Return whether the table tracks no file, referenced or not."""
        return next(self._view.list(self._layout.file()), None) is None

    def unreferenced(self, upto: int) -> Iterator[str]:
        """Yield the files without references since version ``upto`` or earlier.

        The caller may delete files during the iteration.
        """
        for row in self._view.list(self._layout.unreferenced()):
            if row.version <= upto:
                yield _after_slash(row.key)

    def source_file(self, source: str, name: str) -> SourceFile | None:
        """Return a file of a source by its name, or None if the table has no rows of the file."""
        row = self._view.get(source_key(self.meta, source, name))
        return None if row is None else msgspec.convert(row, resolved(SourceFile))

    def content_name(self, source: str, content: str) -> str | None:
        """Return the name of the source's first file with the content of this hash, or None."""
        name: str | None = self._view.get(content_key(self.meta, source, content))
        return name

    def cleared_files(self) -> Iterator[str]:
        """Yield the files that were tracked before a clear and whose rows `purge` has not deleted yet."""
        for number in range(self.meta.purged_files, self.meta.files):
            for row in self._view.list(Layout(0, number).file()):
                yield _after_slash(row.key)

    def cleared_in(self) -> int:
        """Return the version that last wrote the metadata, or 0 if no row from before a clear is left."""
        if self.meta.purged_files == self.meta.files:
            return 0
        return next(row.version for row in self._view.list(TABLE) if row.key == TABLE)

    def times(self) -> list[VersionTime]:
        """Return the recorded times of versions, the oldest first."""
        return times_from(self._view.get(TIMES))

    def has_garbage_since(self, version: int) -> bool:
        """Return whether a file lost its last reference, or a clear dropped files, after ``version``."""
        rows = self._view.list(self._layout.unreferenced())
        return self.cleared_in() > version or any(row.version > version for row in rows)

    def is_assigned(self, requests: Iterable[Assignment]) -> bool:
        """Return whether all the references are assigned to the given jobs.

        The first reference that is not assigned to its given job decides. If it has no job, the result is False. If it
        does not exist or has another job, the method raises TransactionRefused.
        """
        for request in requests:
            for filename in request.filenames:
                reference = self.reference(request.partition, filename)
                if reference is None:
                    raise TransactionRefused([failure_of(messages.reference_not_found(request.partition, filename))])
                if reference.job is None:
                    return False
                if reference.job != request.job:
                    text = messages.reference_already_assigned(reference.job, request.partition, filename)
                    raise TransactionRefused([failure_of(text)])
        return True

    def jobs(self) -> Iterator[tuple[str, str, int]]:
        """Yield the jobs under way: the job, its partition, and the number of references that wait for the job."""
        for key, count in self._view.scan(self._layout.jobs()):
            job, partition = _after_slash(key).split("\t")
            yield job, partition, count

    def job_since(self, job: str, partition: str) -> int | None:
        """Return the version that last changed a job's number of references on a partition.

        Return None if the job has no references on the partition.
        """
        rows = self._view.list(self._layout.job(job, partition))
        return next((row.version for row in rows if row.key == self._layout.job(job, partition)), None)

    def claim(self, job: str, partition: str) -> tuple[JobClaim, int] | None:
        """Return the claim of a job and the version that wrote the claim, or None if no worker has claimed the job."""
        key = self._layout.claim(job, partition)
        version = next((row.version for row in self._view.list(key) if row.key == key), None)
        return None if version is None else (msgspec.convert(self._view.get(key), resolved(JobClaim)), version)

    # Columns and damage

    def columns(self) -> tuple[ValueColumn, ...] | None:
        """Return the declared value columns, or None if the table declares none."""
        if not self.meta.has_columns:
            return None
        return tuple(msgspec.convert(row, resolved(ValueColumn)) for _, row in self._view.scan(COLUMN))

    def damaged(self) -> Iterator[FileDamage]:
        """Yield the files that were set aside, by name."""
        for key, reason in self._view.scan(self._layout.damaged()):
            yield FileDamage(_after_slash(key), reason)

    # Ranges of keys

    def holdings(self) -> Iterator[Holding]:
        """Yield each partition with its tally: all leaves, then the inner partitions with references.

        Both are in order of the upper bound of their range in the first key column.
        """
        for leaf, _ in self._leaf_rows("", with_references=False):
            yield leaf
        for key, row in self._view.scan(self._layout.inner()):
            yield _holding(key, row, leaf=False)

    def on_partition(self, id: str) -> Held:
        """Return a partition with its references. Raises TransactionRefused if it does not exist."""
        partition = self.partition(id)
        return self._held(id, partition.region)

    def in_range(self, region: Region) -> list[Held]:
        """Return the leaves that overlap a region, then the partitions with references above these leaves.

        If the tree is split on the first key column only, the leaves are stored in order of their key ranges, and the
        references of each leaf follow the leaf. So the query reads few other rows, and returns them in this order.
        In another tree, the query descends from the root, and the leaves have no order.
        """
        leaves = self.leaves_in_range(region)
        return leaves + self._above(leaves, region)

    def leaves_in_range(self, region: Region) -> list[Held]:
        """Return only the leaves that overlap a region, in the order of `in_range`."""
        return list(self._leaves_by_descent(region) if self.meta.crossed else self._leaves_in_order(region))

    def _leaves_in_order(self, region: Region) -> Iterator[Held]:
        low, high = region[0]
        end = UNBOUNDED if high is None else high[:EDGE_CHARACTERS]
        beyond = None
        for leaf, references in self._leaf_rows(low[:EDGE_CHARACTERS], with_references=True):
            edge = (leaf.region[0][1] or UNBOUNDED)[:EDGE_CHARACTERS]
            if beyond is not None and edge > beyond:
                return
            if overlaps(leaf.region, region):
                yield Held(leaf.partition, leaf.region, tuple(references))
            if edge > end and beyond is None:
                # A position contains only the first characters of a leaf's edge. Leaves whose edges begin with the same
                # characters are not in order of the full edges. So the leaf that contains the end of the range may come
                # later: read on while these characters are the same.
                beyond = edge

    def _leaf_rows(self, edge: str, *, with_references: bool) -> Iterator[tuple[Holding, Sequence[FileReference]]]:
        """Yield the leaves that end at or after ``edge``, in order. A seek skips a long run of unwanted rows."""
        prefix = self._layout.leaf()
        rows = self._view.scan(prefix, after=prefix + edge)
        # Several leaves may have one edge in their keys. Then the row of the leaf "p-1" comes between the row of the
        # leaf "p" and the references on "p", since "-" sorts before "/". So these leaves are complete only after the
        # last possible reference on the first of them.
        leaves: dict[str, tuple[Holding, list[FileReference]]] = {}
        last_reference = ""
        unwanted = 0
        while (pair := next(rows, None)) is not None:
            key, row = pair
            parts = key.split("/", 3)
            if key > last_reference:
                yield from leaves.values()
                leaves, last_reference = {}, f"{key}/{LAST}"
            if len(parts) == 3:
                leaves[parts[2]], unwanted = (_holding(key, row, leaf=True), []), 0
            elif with_references and parts[2] in leaves:
                leaves[parts[2]][1].append(reference_from(parts[2], parts[3], row))
            else:
                unwanted += 1
                if unwanted >= UNWANTED_MAX:
                    rows, unwanted = self._view.scan(prefix, after="/".join(parts[:3]) + "/" + LAST), 0
        yield from leaves.values()

    def _leaves_by_descent(self, region: Region) -> Iterator[Held]:
        """Yield the overlapping leaves of a tree that is split on several columns. Such leaves have no single order."""
        waiting = [self._root()]
        while waiting:
            partition = waiting.pop()
            if not overlaps(partition.region, region):
                continue
            if partition.is_leaf:
                yield self._held(partition.id, partition.region)
            waiting += [self.partition(id) for id in reversed(partition.children)]

    def _root(self) -> Partition:
        """Return the root: the topmost ancestor of any partition."""
        key = next(self._view.list(self._layout.partition())).key
        partition = self.partition(_after_slash(key))
        while partition.parent is not None:
            partition = self.partition(partition.parent)
        return partition

    def _above(self, leaves: Sequence[Held], region: Region) -> list[Held]:
        count = self._view.get(INNER, 0)
        if not count:
            return []
        inner_partitions = self._inner_in_order(region) if count <= INNER_SCANNED_MAX else self._inner_by_ascent(leaves)
        return [self._held(id, inner) for id, inner in inner_partitions]

    def _inner_in_order(self, region: Region) -> Iterator[tuple[str, Region]]:
        prefix = self._layout.inner()
        for key, row in self._view.scan(prefix, after=prefix + region[0][0][:EDGE_CHARACTERS]):
            inner = region_from(row[3])
            if overlaps(inner, region):
                yield key.split("/")[2], inner

    def _inner_by_ascent(self, leaves: Sequence[Held]) -> Iterator[tuple[str, Region]]:
        seen: set[str] = set()
        for leaf in leaves:
            parent = self.partition(leaf.partition).parent
            while parent is not None and parent not in seen:
                seen.add(parent)
                above = self.partition(parent)
                if self._view.get(self._layout.inner(position_of(parent, above.region))) is not None:
                    yield parent, above.region
                parent = above.parent

    # Rows

    def _held(self, id: str, region: Region) -> Held:
        prefix = self._layout.reference(position_of(id, region))
        rows = self._view.scan(prefix)
        return Held(id, region, tuple(reference_from(id, key[len(prefix) :], row) for key, row in rows))

    def _partition(self, id: str) -> Partition | None:
        row = self._view.get(self._layout.partition(id))
        return None if row is None else partition_from(id, row)

    def _references(self) -> Iterator[FileReference]:
        for key, row in self._view.scan(self._layout.leaf()):
            parts = key.split("/", 3)
            if len(parts) == 4:
                yield reference_from(parts[2], parts[3], row)

    def _locations(self, filename: str, row: str | int) -> tuple[str, ...]:
        if isinstance(row, str):
            return (row,)
        prefix = self._layout.location(filename)
        return tuple(info.key[len(prefix) :] for info in self._view.list(prefix)) if row else ()


def _holding(key: str, row: list[Any], *, leaf: bool) -> Holding:
    return Holding(key.split("/")[2], region_from(row[3]), leaf, tally_from(row))


def _after_slash(key: str) -> str:
    return key.split("/", 1)[1]

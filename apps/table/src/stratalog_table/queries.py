"""Looking at a table at one version. Nothing is loaded but what is looked at; all answers are of the same version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from stratalog import NotFound, View
from stratalog_table import messages
from stratalog_table.columns import ValueColumn
from stratalog_table.damaged_files import FileDamage
from stratalog_table.job_claims import JobClaim
from stratalog_table.layout import (
    COLUMN,
    EDGE_CHARACTERS,
    INNER,
    TABLE,
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

__all__ = ["Files", "Holding", "TableView"]

INNER_SCANNED_MAX = 256
"""So many partitions that are no leaves and hold references are all looked at; of more, those above the leaves."""

UNWANTED_MAX = 128
"""So many rows that are not wanted are read before it is quicker to look for where they end: two chunks."""

LAST = "\U0010ffff"


class Files(msgspec.Struct, frozen=True):
    """Tracked files in order; ``more`` where unreferenced ones were left out."""

    files: tuple[File, ...]
    more: bool


class Holding(msgspec.Struct, frozen=True):
    """A partition with what it holds: references, rows, and those rows that are counted exactly and wholly in it."""

    partition: str
    region: Region
    leaf: bool
    tally: TableTally


class TableView:
    """A table at `version`. Answers are in order: files by name, references by partition too, partitions by id."""

    def __init__(self, view: View) -> None:
        row = view.get(TABLE)
        if row is None:
            raise NotFound("there is no table in the document", version=view.version)
        self.meta = msgspec.convert(row, Meta)
        self.version = view.version
        self._view = view
        self._layout: Layout = self.meta.layout

    # Partitions

    def partition(self, id: str) -> Partition:
        """A partition by its id. Raises Refused."""
        partition = self._partition(id)
        if partition is None:
            raise TransactionRefused([failure_of(messages.partition_not_found(id))])
        return partition

    def partitions(self) -> Iterator[Partition]:
        """All of them, in order of id."""
        for key, row in self._view.scan(self._layout.partition()):
            yield partition_from(_after_slash(key), row)

    def leaf_partitions(self) -> Iterator[Partition]:
        """Those that were not split, in order of id."""
        return (partition for partition in self.partitions() if partition.is_leaf)

    # Files and references

    def file(self, filename: str) -> File | None:
        """A tracked file."""
        row = self._view.get(self._layout.file(filename))
        return None if row is None else File(filename, self._locations(filename, row))

    def reference(self, partition: str, filename: str) -> FileReference | None:
        """The reference of a file on a partition."""
        known = self._partition(partition)
        if known is None:
            return None
        row = self._view.get(self._layout.reference(position_of(partition, known.region), filename))
        return None if row is None else reference_from(partition, filename, row)

    def file_references(self) -> list[FileReference]:
        """All references. As large as the table; `in_range` and `on_partition` read a part."""
        return sorted(self._references(), key=lambda reference: (reference.filename, reference.partition))

    def file_references_without_job(self) -> list[FileReference]:
        """All references that no job has."""
        return [reference for reference in self.file_references() if reference.job is None]

    def files_by_partition(self) -> dict[str, list[str]]:
        """The files on each partition that has any."""
        filenames: dict[str, list[str]] = {}
        for reference in self._references():
            filenames.setdefault(reference.partition, []).append(reference.filename)
        return {id: sorted(filenames[id]) for id in sorted(filenames)}

    def files(self, unreferenced_max: int) -> Files:
        """Every referenced file, and at most so many of those without references."""
        files: list[File] = []
        without = 0
        for key, row in self._view.scan(self._layout.file()):
            filename = _after_slash(key)
            without += row == 0
            if row != 0 or without <= unreferenced_max:
                files.append(File(filename, self._locations(filename, row)))
        return Files(tuple(files), more=without > unreferenced_max)

    def has_no_files(self) -> bool:
        """Whether no file is tracked, referenced or not."""
        return next(self._view.list(self._layout.file()), None) is None

    def unreferenced(self, upto: int) -> Iterator[str]:
        """Files that have been without references since version ``upto`` or longer. Deleting meanwhile is safe."""
        for row in self._view.list(self._layout.unreferenced()):
            if row.version <= upto:
                yield _after_slash(row.key)

    def source_file(self, source: str, name: str) -> SourceFile | None:
        """A file that a source brought."""
        row = self._view.get(source_key(self.meta, source, name))
        return None if row is None else msgspec.convert(row, SourceFile)

    def content_name(self, source: str, content: str) -> str | None:
        """Under which name a source first brought a content, by its hash."""
        name: str | None = self._view.get(content_key(self.meta, source, content))
        return name

    def cleared_files(self) -> Iterator[str]:
        """The files that clears have left behind and `purge` has not deleted yet."""
        for number in range(self.meta.purged_files, self.meta.files):
            for row in self._view.list(Layout(0, number).file()):
                yield _after_slash(row.key)

    def cleared_in(self) -> int:
        """The version that last wrote what table it is, where a clear left something behind; else 0."""
        if self.meta.purged_files == self.meta.files:
            return 0
        return next(row.version for row in self._view.list(TABLE) if row.key == TABLE)

    def is_assigned(self, requests: Iterable[Assignment]) -> bool:
        """Whether all the references have the given jobs; False where one has none.

        Raises Refused for one that is not there or that another job has.
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
        """Jobs under way: the job, its partition, and how many references wait for it."""
        for key, count in self._view.scan(self._layout.jobs()):
            job, partition = _after_slash(key).split("\t")
            yield job, partition, count

    def job_since(self, job: str, partition: str) -> int | None:
        """The version that last gave a job references on a partition, or took some; None where it has none."""
        rows = self._view.list(self._layout.job(job, partition))
        return next((row.version for row in rows if row.key == self._layout.job(job, partition)), None)

    def claim(self, job: str, partition: str) -> tuple[JobClaim, int] | None:
        """Who does a job, and the version that says so; None where nobody does."""
        key = self._layout.claim(job, partition)
        version = next((row.version for row in self._view.list(key) if row.key == key), None)
        return None if version is None else (msgspec.convert(self._view.get(key), JobClaim), version)

    # Columns and damage

    def columns(self) -> tuple[ValueColumn, ...] | None:
        """The value columns of the rows; None where nothing has said which they are."""
        if not self.meta.has_columns:
            return None
        return tuple(msgspec.convert(row, ValueColumn) for _, row in self._view.scan(COLUMN))

    def damaged(self) -> Iterator[FileDamage]:
        """The files that were set aside, by name."""
        for key, reason in self._view.scan(self._layout.damaged()):
            yield FileDamage(_after_slash(key), reason)

    # Ranges of keys

    def holdings(self) -> Iterator[Holding]:
        """What each partition holds: all leaves in order of region, then those above them with references."""
        for leaf, _ in self._leaf_rows("", with_references=False):
            yield leaf
        for key, row in self._view.scan(self._layout.inner()):
            yield _holding(key, row, leaf=False)

    def on_partition(self, id: str) -> Held:
        """A partition with its references. Raises Refused."""
        partition = self.partition(id)
        return self._held(id, partition.region)

    def in_range(self, region: Region) -> list[Held]:
        """The leaves that overlap a region, in its order, then the partitions above them that hold references.

        Reads what it answers and little besides: the leaves stand in order, their references beside them.
        """
        leaves = list(self._leaves_by_descent(region) if self.meta.crossed else self._leaves_in_order(region))
        return leaves + self._above(leaves, region)

    def _leaves_in_order(self, region: Region) -> Iterator[Held]:
        low, high = region[0]
        end = UNBOUNDED if high is None else high[:EDGE_CHARACTERS]
        beyond = None
        for leaf, references in self._leaf_rows(low[:EDGE_CHARACTERS], with_references=True):
            edge = (leaf.region[0][1] or UNBOUNDED)[:EDGE_CHARACTERS]
            if beyond is not None and edge > beyond:
                return
            if overlaps(leaf.region, region):
                yield Held(leaf.partition, leaf.region, references)
            if edge > end and beyond is None:
                # Of leaves whose edges begin alike, the one that holds the end of the range may come later.
                beyond = edge

    def _leaf_rows(self, edge: str, *, with_references: bool) -> Iterator[tuple[Holding, tuple[FileReference, ...]]]:
        """Leaves from those that end at ``edge`` on, in order. A long run of unwanted rows is jumped over."""
        prefix = self._layout.leaf()
        rows = self._view.scan(prefix, after=prefix + edge)
        leaf: Holding | None = None
        references: list[FileReference] = []
        unwanted = 0
        while (pair := next(rows, None)) is not None:
            key, row = pair
            parts = key.split("/", 3)
            if len(parts) == 3:
                if leaf is not None:
                    yield leaf, tuple(references)
                leaf, references, unwanted = _holding(key, row, leaf=True), [], 0
            elif with_references and leaf is not None and leaf.partition == parts[2]:
                references.append(reference_from(parts[2], parts[3], row))
            else:
                unwanted += 1
                if unwanted >= UNWANTED_MAX:
                    rows, unwanted = self._view.scan(prefix, after="/".join(parts[:3]) + "/" + LAST), 0
        if leaf is not None:
            yield leaf, tuple(references)

    def _leaves_by_descent(self, region: Region) -> Iterator[Held]:
        """For a tree split on several columns, whose leaves have no one order."""
        waiting = [self._root()]
        while waiting:
            partition = waiting.pop()
            if not overlaps(partition.region, region):
                continue
            if partition.is_leaf:
                yield self._held(partition.id, partition.region)
            waiting += [self.partition(id) for id in reversed(partition.children)]

    def _root(self) -> Partition:
        """Any way up leads there."""
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

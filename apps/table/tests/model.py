"""A model of a table in plain dictionaries. The random workload compares the table with the model after each step.

Each transaction returns None, or the reason of its refusal. If the model's reason ends in a colon, the table's reason
must begin with the model's reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from stratalog_table import (
    Assignment,
    FileReference,
    Job,
    NewFile,
    NewReference,
    Partition,
    ReplaceFileReferences,
    Schema,
    Split,
    messages,
)
from stratalog_table.model import contains

ReferencesByPartition = dict[str, FileReference]
REASONS_MAX = 10


class Refusal(Exception):
    """A check of a transaction failed."""


class Model:
    """The files with their references, the tree, the files that were declared garbage, and the state of the jobs."""

    def __init__(self, root: Partition) -> None:
        self.files: dict[str, ReferencesByPartition] = {}
        self.tree: dict[str, Partition] = {root.id: root}
        self.lost: dict[str, int] = {}
        """The files without references, each with the version since which it has none."""

        self.collected: set[str] = set()
        self.jobs: dict[tuple[str, str], Job] = {}

    # Queries

    def references(self) -> list[FileReference]:
        """Return all references, in order of file and partition."""
        return [self.files[name][id] for name in sorted(self.files) for id in sorted(self.files[name])]

    def on(self, partition: str) -> list[FileReference]:
        """Return the references on a partition, in order of file."""
        return [reference for reference in self.references() if reference.partition == partition]

    def leaves(self) -> list[Partition]:
        """Return the leaves, in order of id."""
        return [self.tree[id] for id in sorted(self.tree) if self.tree[id].is_leaf]

    def waiting(self) -> dict[tuple[str, str], int]:
        """Return the number of references that wait for each job."""
        counts: dict[tuple[str, str], int] = {}
        for reference in self.references():
            if reference.job is not None:
                counts[reference.job, reference.partition] = counts.get((reference.job, reference.partition), 0) + 1
        return counts

    def above(self, id: str) -> Iterator[str]:
        parent = self.tree[id].parent
        while parent is not None:
            yield parent
            parent = self.tree[parent].parent

    def leaves_with(self, keys: Sequence[str]) -> list[str]:
        """Return the leaves whose region contains a row with these keys. A correct tree has one such leaf."""
        return [leaf.id for leaf in self.leaves() if contains(leaf.region, keys)]

    # Files

    def add(self, version: int, new: Sequence[NewFile], job: str | None = None) -> str | None:
        reason = self._all(version, lambda: [self._add(file.filename, file.references) for file in new])
        if job is not None:
            names, rows = (
                tuple(file.filename for file in new),
                sum(reference.rows for f in new for reference in f.references),
            )
            self._ingested(version, job, names, rows, reason)
        return reason

    def assign(self, version: int, requests: Sequence[Assignment]) -> str | None:
        reason = self._all(version, lambda: [self._assign(request) for request in requests])
        for request in requests:
            if reason is not None:
                self._failed(version, request.job, request.partition, reason)
            else:
                self._created(version, request.job, request.partition, len(request.filenames))
        return reason

    def replace(self, version: int, done: ReplaceFileReferences) -> str | None:
        reason = self._all(version, lambda: self._replace(done))
        if reason is not None:
            self._failed(version, done.job, done.partition, reason)
        else:
            self._committed(version, done)
        return reason

    def split(self, version: int, requests: Sequence[Split]) -> str | None:
        return self._all(version, lambda: [self._split(request) for request in requests])

    def delete(self, version: int, names: Sequence[str]) -> str | None:
        return self._all(version, lambda: [self._delete(name) for name in names])

    def collect(self, version: int, names: Sequence[str]) -> str | None:
        tracked = next((name for name in names if name in self.files), None)
        if tracked is not None:
            return f"File is tracked: {tracked}"
        self.collected |= set(names)
        return None

    def clear(self, version: int) -> None:
        self.files, self.lost = {}, {}
        for (name, partition), job in self.jobs.items():
            if job.waiting:
                cleared = msgspec.structs.replace(job, status="cleared", waiting=0, finished=version)
                self.jobs[name, partition] = cleared

    # Partitions

    def split_partition(self, parent: Partition, children: Sequence[Partition]) -> str | None:
        stored = self.tree.get(parent.id)
        if stored is None:
            return "Parent partition not found"
        if not stored.is_leaf:
            return "Parent should be a leaf partition"
        if parent.is_leaf:
            return "Parent should not be a leaf partition after split"
        if not _fits(stored, parent, children):
            return "Failed to validate partition split:"
        taken = next((child.id for child in children if child.id in self.tree), None)
        if taken is not None:
            return f"Attempted to add a partition which already exists: {taken}"
        self.tree |= {partition.id: partition for partition in (parent, *children)}
        return None

    def extend(self, update: Sequence[Partition], new: Sequence[Partition]) -> str | None:
        for partition in update:
            if partition.id not in self.tree:
                return f"Attempted to update a partition which does not exist: {partition.id}"
            if not self.tree[partition.id].is_leaf:
                return f"Attempted to update a partition which has already been split: {partition.id}"
            if partition.is_leaf:
                return f"Attempted to update a partition without splitting it: {partition.id}"
        for partition in new:
            if partition.id in self.tree:
                return f"Attempted to add a partition which already exists: {partition.id}"
        known = {partition.id: partition for partition in new}
        inner = [*update, *(partition for partition in new if not partition.is_leaf)]
        if {id for partition in inner for id in partition.children} != known.keys():
            return "Update results in invalid partition tree:"
        self.tree |= {partition.id: partition for partition in (*update, *new)}
        return None

    def initialise(self, version: int, tree: Sequence[Partition], *, again: bool) -> str | None:
        if self.files and not again:
            return "Cannot initialise state store when files are present"
        self.tree = {partition.id: partition for partition in tree}
        if again:
            self.clear(version)
        return None

    # Single requests

    def _all(self, version: int, act: object) -> str | None:
        """Run a transaction. If a check fails, undo the transaction and return the reason."""
        before = {name: dict(references) for name, references in self.files.items()}
        try:
            act()  # type: ignore[operator]
        except Refusal as exc:
            self.files = before
            return str(exc)
        empty = {name for name, references in self.files.items() if not references}
        self.lost = {name: self.lost.get(name, version) for name in empty}
        return None

    def _add(self, filename: str, references: Sequence[NewReference]) -> None:
        _refuse(filename in self.files, messages.file_already_exists(filename))
        _refuse(filename in self.collected, messages.file_collected(filename))
        self._apart(filename, [reference.partition for reference in references])
        self.files[filename] = {reference.partition: _reference(filename, reference) for reference in references}

    def _apart(self, filename: str, ids: Sequence[str]) -> None:
        for position, id in enumerate(ids):
            _refuse(id in ids[:position], messages.reference_already_exists(id, filename))
        for id in ids:
            _refuse(id not in self.tree, messages.partition_not_found(id))
        for id in ids:
            inside = any(above in ids for above in self.above(id))
            _refuse(inside, f"Partition {id} lies in another that file {filename} is added to")

    def _held(self, partition: str, filename: str) -> FileReference:
        reference = self.files.get(filename, {}).get(partition)
        if reference is None:
            raise Refusal(messages.reference_not_found(partition, filename))
        return reference

    def _free(self, reference: FileReference) -> None:
        if reference.job is not None:
            raise Refusal(messages.reference_already_assigned(reference.job, reference.partition, reference.filename))

    def _assign(self, wanted: Assignment) -> None:
        for filename in wanted.filenames:
            held = self._held(wanted.partition, filename)
            self._free(held)
            self.files[filename][wanted.partition] = msgspec.structs.replace(held, job=wanted.job)

    def _replace(self, done: ReplaceFileReferences) -> None:
        _refuse(done.output.filename in done.inputs, messages.same_filename(done.output.filename))
        for position, name in enumerate(done.inputs):
            _refuse(name in done.inputs[:position], f"Malformed transaction: file named twice: {name}")
        for name in done.inputs:
            _refuse(name not in self.files, messages.file_not_found(name))
            mine = self._held(done.partition, name).job == done.job
            _refuse(not mine, messages.reference_not_assigned(done.job, done.partition, name))
        for name in done.inputs:
            del self.files[name][done.partition]
        self._add(done.output.filename, [NewReference(done.partition, done.output.rows)])

    def _split(self, wanted: Split) -> None:
        name, partition = wanted.filename, wanted.partition
        _refuse(name not in self.files, messages.file_not_found(name))
        held = self._held(partition, name)
        self._free(held)
        ids = [piece.partition for piece in wanted.references]
        for id in ids:
            _refuse(id in self.files[name], messages.reference_already_exists(id, name))
        _refuse(not ids, f"Malformed transaction: a reference is split into none, filename {name}")
        self._apart(name, ids)
        for id in ids:
            below = partition in self.above(id)
            _refuse(not below, f"Partition {id} does not lie in partition {partition}, filename {name}")
        self._adds_up(held, wanted.references)
        del self.files[name][partition]
        self.files[name] |= {piece.partition: _reference(name, piece) for piece in wanted.references}

    def _adds_up(self, held: FileReference, pieces: Sequence[NewReference]) -> None:
        rows, guessed = sum(piece.rows for piece in pieces), any(piece.approximate for piece in pieces)
        where = f"partition {held.partition}, filename {held.filename}"
        adds_up = rows == held.rows or (held.approximate and not guessed)
        _refuse(not adds_up, f"Split of {held.rows} rows into {rows}, in {where}")
        if guessed or held.approximate:
            _refuse(
                not self._covered(held.partition, [piece.partition for piece in pieces]),
                f"Split leaves out a part of {where}",
            )

    def _covered(self, id: str, chosen: Sequence[str]) -> bool:
        below = self.tree[id].children
        return id in chosen or (bool(below) and all(self._covered(child, chosen) for child in below))

    def _delete(self, name: str) -> None:
        _refuse(name not in self.files, messages.file_not_found(name))
        count = len(self.files[name])
        _refuse(count > 0, messages.file_has_references(name, count))
        del self.files[name]

    # Jobs

    def _job(self, version: int, job: str, partition: str) -> Job:
        return self.jobs.get((job, partition)) or Job(job, partition, "created", version)

    def _put(self, job: Job) -> None:
        self.jobs[job.job, job.partition] = job

    def _created(self, version: int, job: str, partition: str, count: int) -> None:
        old = self._job(version, job, partition)
        waiting, files = old.waiting + count, old.files + count
        self._put(msgspec.structs.replace(old, status="created", finished=0, waiting=waiting, files=files))

    def _committed(self, version: int, done: ReplaceFileReferences) -> None:
        old = self._job(version, done.job, done.partition)
        left = self.waiting().get((done.job, done.partition), 0)
        status, outputs = "created" if left else "committed", (*old.outputs, done.output.filename)
        changed = msgspec.structs.replace(old, status=status, waiting=left, outputs=outputs)
        rows, finished = old.rows + done.output.rows, 0 if left else version
        self._put(msgspec.structs.replace(changed, rows=rows, finished=finished))

    def _failed(self, version: int, job: str, partition: str, reason: str) -> None:
        old = self._job(version, job, partition)
        reasons = (*old.reasons, (version, reason))[-REASONS_MAX:]
        status = "failed" if old.status == "created" else old.status
        self._put(msgspec.structs.replace(old, status=status, reasons=reasons))

    def _ingested(self, version: int, job: str, names: tuple[str, ...], rows: int, reason: str | None) -> None:
        if reason is not None:
            return self._failed(version, job, "", reason)
        old = self._job(version, job, "")
        outputs, count = (*old.outputs, *names), old.files + len(names)
        changed = msgspec.structs.replace(old, status="ingested", files=count, outputs=outputs)
        return self._put(msgspec.structs.replace(changed, rows=old.rows + rows, finished=version))


def sound(schema: Schema, tree: Iterable[Partition]) -> bool:
    """Return whether partitions are one complete tree, in which two adjacent children fill the region of a parent."""
    known = {partition.id: partition for partition in tree}
    roots = [partition for partition in known.values() if partition.parent is None]
    inner = [partition for partition in known.values() if not partition.is_leaf]
    if len(roots) != 1 or roots[0].region != schema.full_region() or len(known) != 1 + 2 * len(inner):
        return False
    return all(_halved(partition, [known.get(id) for id in partition.children]) for partition in inner)


def _halved(parent: Partition, children: Sequence[Partition | None]) -> bool:
    left, right = children
    if left is None or right is None or {left.parent, right.parent} != {parent.id}:
        return False
    dimension, (low, high) = parent.dimension, parent.region[parent.dimension]
    edge = left.region[dimension][1]
    same = all(a == b == c for n, (a, b, c) in enumerate(_zip(parent, left, right)) if n != dimension)
    return (
        same and (left.region[dimension], right.region[dimension]) == ((low, edge), (edge, high)) and edge is not None
    )


def _zip(*partitions: Partition) -> Iterator[tuple[object, ...]]:
    return zip(*(partition.region for partition in partitions), strict=True)


def _fits(stored: Partition, parent: Partition, children: Sequence[Partition]) -> bool:
    named = {child.id: child for child in children}
    if (stored.region, stored.parent) != (parent.region, parent.parent) or set(parent.children) != named.keys():
        return False
    return _halved(parent, [named[id] for id in parent.children])


def _reference(filename: str, new: NewReference) -> FileReference:
    return FileReference(filename, new.partition, new.rows, new.approximate, new.complete)


def _refuse(wrong: bool, reason: str) -> None:
    if wrong:
        raise Refusal(reason)

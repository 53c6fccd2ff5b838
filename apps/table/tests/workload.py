"""A random workload on a table, compared with a plain model: ``python -m apps.table.tests.workload --seeds 1000``.

Two handles act as two processes. They take turns to change one table, with valid and invalid transactions. After each
step the workload compares the results of all queries, and the rows of the document, with `model.py`. A difference
raises a `Violation` that names its checker. The checkers require that every row is referenced once, that no file is
lost, and that the job tracker agrees with the state. A seed always gives the same run.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from apps.table.tests.helpers import LONG, TWO, memory_store, reopened, table_of
from apps.table.tests.model import Model, sound
from stratalog import verify
from stratalog.errors import VersionForgotten
from stratalog.ports.index import Index
from stratalog.testing.checkers import Violation
from stratalog.testing.clock import ManualClock
from stratalog_table import (
    Assignment,
    FileReference,
    NewFile,
    NewReference,
    Output,
    Partition,
    ReplaceFileReferences,
    Split,
    Table,
    TableView,
    TransactionRefused,
)
from stratalog_table.collection import Verdict, collect_as
from stratalog_table.data_folder import DataFile
from stratalog_table.jobs import JobTracker
from stratalog_table.layout import TableTally, position_of
from stratalog_table.model import overlaps
from stratalog_table.row_order import encode_key
from stratalog_table.transaction_group import Request
from stratalog_table.tree import extended, from_split_points, split

STEPS = 50
FILES = [f"f{n}" for n in range(6)]
JOBS = ["j0", "j1"]
PARTITIONS_MAX = 15
PAST_VERSIONS = 4
SECOND_MS = 1000
FAULT = re.compile(r"\w+Error: ")
"""The start of a rejection's reason if the mutator raised a Python error instead of refusing the transaction."""


class Shelf:
    """A replacement for the data folder and `FileRights`: the names of data files, and the time of each write."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.written: dict[str, int] = {}

    def write(self, filename: str) -> None:
        self.written.setdefault(filename, self._clock.wall_ms())

    def delete(self, filename: str) -> None:
        self.written.pop(filename, None)

    def verdict(self, filename: str) -> Verdict:
        """Return DELETE, because all files here belong to the table. `test_ownership.py` tests shared folders."""
        return Verdict.DELETE

    def own_files(self, view: TableView) -> list[DataFile]:
        return [DataFile(name, written) for name, written in sorted(self.written.items())]


class Workload:
    """The run of one seed."""

    def __init__(self, seed: int, index: Index | None = None) -> None:
        self.random = random.Random(seed)
        self.clock = ManualClock(seed=seed)
        self.schema = self.random.choice((LONG, LONG, TWO))
        self.forgets = self.random.random() < 0.3
        store = memory_store(self.clock, index, snapshot_entries_interval=5, segment_entries_target=10)
        table = table_of(store, f"workload-{seed}", self.schema)
        self.handles = [table, reopened(table)]
        self.model = Model(Partition("root", self.schema.full_region()))
        self.shelf = Shelf(self.clock)
        self.turn = 0
        self.made = 0
        self.rows = 0
        self.past: list[tuple[int, list[FileReference], list[Partition]]] = []

    def run(self) -> None:
        """Run all steps, with a check after each step. Raises Violation."""
        steps, weights = zip(*STEPS_BY_WEIGHT, strict=True)
        for (step,) in (self.random.choices(steps, weights) for _ in range(STEPS)):
            self.clock.sleep(self.random.randrange(3))
            step(self)
            self.check()
        verify(self.handles[0].document)

    # Steps

    def add(self) -> None:
        new = [self._new_file() for _ in range(self.random.randrange(1, 4))]
        if self.random.random() < 0.1:
            new += new[-1:]
        job = self.random.choice([None, None, "ingest"])
        for file in new:
            self.shelf.write(file.filename)
        done = self._does(
            lambda table: table.add_files(new, job=job), lambda version: self.model.add(version, new, job)
        )
        self.rows += sum(reference.rows for file in new for reference in file.references) if done else 0

    def assign(self) -> None:
        requests = [self._assignment() for _ in range(self.random.choice([1, 1, 2]))]
        self._does(lambda table: table.assign_job_ids(requests), lambda version: self.model.assign(version, requests))

    def replace(self) -> None:
        """Commit one or two jobs in one call. Each job succeeds or fails on its own."""
        jobs = [self._done_job() for _ in range(self.random.choice([1, 1, 2]))]
        before = self.model.references()
        table = self._table()
        try:
            table.replace_file_references(jobs)
            reasons: list[str | None] = [None] * len(jobs)
        except TransactionRefused as exc:
            failed = {item.request: item.reason for item in exc.failures}
            reasons = [failed.get(position) for position in range(len(jobs))]
        for job, reason in zip(jobs, reasons, strict=True):
            self.shelf.write(job.output.filename)
            self._same(self.model.replace(table.version, job), reason)
        # An output may have fewer rows than its inputs, so the count comes from the model.
        self.rows += sum(item.rows for item in self.model.references()) - sum(item.rows for item in before)

    def split_references(self) -> None:
        """Split references. No row is lost. Only an approximate count may change."""
        if not self._on_inner() and self.random.random() < 0.9:
            return self.split_partition()
        requests = [self._split() for _ in range(self.random.choice([1, 1, 2]))]
        held = [self.model.files.get(request.filename, {}).get(request.partition) for request in requests]
        done = self._does(
            lambda table: table.split_file_references(requests), lambda version: self.model.split(version, requests)
        )
        for request, before in zip(requests, held, strict=True):
            if done and before is not None and before.approximate:
                self.rows += sum(piece.rows for piece in request.references) - before.rows
        return None

    def split_partition(self) -> None:
        full = [leaf.id for leaf in self.model.leaves() if self.model.on(leaf.id)] or ["root"]
        id = self._any_partition() if self.random.random() < 0.3 else self.random.choice(full)
        if len(self.model.tree) > PARTITIONS_MAX:
            return
        stored = self.model.tree[id]
        dimension = self.random.randrange(len(self.schema.keys))
        edge = self._edge(stored, dimension)
        if edge is None:
            return
        taken = self._any_partition() if self.random.random() < 0.1 else self._new_name("p")
        parent, *children = split(stored, edge, dimension, self._new_name("p"), taken)
        if self.random.random() < 0.15:
            parent, children = self._spoilt(parent, children)
        self._does(
            lambda table: table.split_partition(parent, children),
            lambda version: self.model.split_partition(parent, children),
        )

    def extend(self) -> None:
        stored = self.model.tree[self._any_partition()]
        points = [point for point in sorted(self.random.sample(range(-60, 60), 4)) if self._inside(stored, point)]
        if not points or len(self.model.tree) > PARTITIONS_MAX:
            return
        top, *below = extended(self.schema, stored, points, lambda: self._new_name("p"))
        _same("partitions", len(points) + 1, sum(partition.is_leaf for partition in below))
        if self.random.random() < 0.15:
            below = below[1:]
        self._does(
            lambda table: table.extend_partition_tree([top], below), lambda version: self.model.extend([top], below)
        )

    def initialise(self) -> None:
        points = sorted(self.random.sample(range(-40, 40), self.random.randrange(3)))
        tree = from_split_points(self.schema, points, lambda: self._new_name("p"))
        _same("partitions", len(points) + 1, sum(each.is_leaf for each in tree))
        again = self.random.random() < 0.3
        name = "reinitialise" if again else "initialise_partitions"
        request = Request(name, msgspec.to_builtins({"partitions": tree}))
        if self._does(
            lambda table: table._each([request]), lambda version: self.model.initialise(version, tree, again=again)
        ):
            self.rows = sum(each.rows for each in self.model.references())

    def delete(self) -> None:
        lost = sorted(self.model.lost)
        names = self.random.sample(lost, min(len(lost), self.random.randrange(1, 3)))
        if not names or self.random.random() < 0.3:
            names.append(self.random.choice(self._some_files()))
        self._does(lambda table: table.delete_files(names), lambda version: self.model.delete(version, names))

    def clear(self) -> None:
        table = self._table()
        self.model.clear(table.clear_files())
        self.rows = 0

    def purge(self) -> None:
        limit = self.random.choice([3, 10, 1000])
        self._does(lambda table: table._each([Request("purge", {"limit": limit})]), lambda version: None)

    def declare(self) -> None:
        """Declare a file garbage. The table may or may not track the file."""
        names = [self.random.choice([*self._some_files(), self._new_name("n")])]
        self._does(lambda table: table.collect_files(names), lambda version: self.model.collect(version, names))

    def collect(self) -> None:
        """Collect garbage. The table must delete exactly the files that are old and unreferenced."""
        age_ms = self.random.randrange(10) * SECOND_MS
        before, table = self.clock.wall_ms() - age_ms, self._table()
        listed = {file.filename for file in self.shelf.own_files(table.at()) if file.modified_ms < before}
        unknown = listed - self.model.files.keys() if table.cleared_ms() < before else set()
        old = {name for name, version in self.model.lost.items() if self._time_of(version, before) < before}
        collect_as(table, self.shelf, self.shelf.delete, age_ms)  # type: ignore[arg-type]
        gone = old - {name for name in old if table.at().file(name) is not None} if self.forgets else old
        self._no(self.model.delete(table.version, sorted(gone)))
        self._no(self.model.collect(table.version, sorted(unknown)))

    def forget(self) -> None:
        if self.forgets:
            table = self._table()
            table.forget_below(max(0, table.version - 6))

    def rebuild(self) -> None:
        if not self.forgets:
            self._table().jobs.rebuild()

    def restart(self) -> None:
        self.handles[self.turn % 2] = reopened(self._table())

    # Checks

    def check(self) -> None:
        """Compare the results of all queries with the model."""
        view, references = self._table().at(), self.model.references()
        _same("references", references, view.file_references())
        _same("rows", self.rows, sum(reference.rows for reference in references))
        self._check_files(view)
        self._check_partitions(view)
        self._check_ranges(view)
        self._check_shelf()
        _same("jobs", self.model.waiting(), {(job, id): count for job, id, count in view.jobs()})
        self._check_assigned(view)
        self._check_tracker(view)
        self._check_past(view)
        self._check_leftovers(view)

    def _check_files(self, view: TableView) -> None:
        listed_files = {file.filename: file.partitions for file in view.files(10**6).files}
        _same("files", {name: tuple(sorted(partitions)) for name, partitions in self.model.files.items()}, listed_files)
        for version in (view.version, self.random.randrange(view.version + 1)):
            lost = sorted(name for name, since in self.model.lost.items() if since <= version)
            _same("unreferenced", lost, [*view.unreferenced(version)])
        count = self.random.randrange(3)
        listed = view.files(count)
        _same("unreferenced", len(self.model.lost) > count, listed.more)
        _same("unreferenced", min(count, len(self.model.lost)), sum(not file.partitions for file in listed.files))

    def _check_partitions(self, view: TableView) -> None:
        partitions = [*view.partitions()]
        _same("partitions", [self.model.tree[id] for id in sorted(self.model.tree)], partitions)
        if not sound(self.schema, partitions):
            raise Violation("partitions", "the partitions are not one tree", partitions=partitions)
        keys = [encode_key(column.type, self._key(column.type)) for column in self.schema.keys]
        _same("partitions", 1, len(self.model.leaves_with(keys)), keys=keys)
        holding = {each.id for each in partitions if each.is_leaf or self.model.on(each.id)}
        tallies = {each.partition: (each.region, each.leaf, each.tally) for each in view.holdings()}
        tree = self.model.tree
        expected = {id: (tree[id].region, tree[id].is_leaf, _tally(self.model.on(id))) for id in holding}
        _same("tallies", expected, tallies)

    def _check_ranges(self, view: TableView) -> None:
        low = self.random.randrange(-70, 70)
        region = self.schema.region([(low, low + self.random.choice([1, 20, 100]))])
        wanted = {
            id: self.model.on(id)
            for id, each in self.model.tree.items()
            if overlaps(each.region, region) and (each.is_leaf or self.model.on(id))
        }
        held = view.in_range(region)
        _same("ranges", wanted, {each.partition: [*each.references] for each in held}, low=low)
        _same("ranges", len(wanted), len(held), low=low)

    def _check_shelf(self) -> None:
        """Check that the data of every referenced file exists."""
        missing = {each.filename for each in self.model.references()} - self.shelf.written.keys()
        if missing:
            raise Violation("lost", "the data of a referenced file was collected", missing=sorted(missing))

    def _check_assigned(self, view: TableView) -> None:
        given = [reference for reference in self.model.references() if reference.job is not None]
        for reference in given[:2]:
            _same(
                "jobs",
                True,
                view.is_assigned([Assignment(reference.job or "", reference.partition, (reference.filename,))]),
            )
        free = [
            (reference.filename, reference.partition) for reference in self.model.references() if reference.job is None
        ]
        _same(
            "jobs",
            free,
            [(reference.filename, reference.partition) for reference in view.file_references_without_job()],
        )

    def _check_tracker(self, view: TableView) -> None:
        tracker = JobTracker(self.handles[0].store, self.handles[0].document)
        jobs = {(job.job, job.partition): job for job in tracker.jobs(version_min=view.version)}
        _same("tracker", self.model.jobs, jobs)
        waiting = {(job, id): count for job, id, count in tracker.waiting(version_min=view.version)}
        _same("tracker", self.model.waiting(), waiting)

    def _check_past(self, view: TableView) -> None:
        """Check that an earlier version still has the same references and partitions."""
        self.past = [*self.past, (view.version, self.model.references(), [*view.partitions()])][-PAST_VERSIONS:]
        version, references, partitions = self.random.choice(self.past)
        try:
            old = self._table().at(version)
        except VersionForgotten:
            return
        _same("past", (references, partitions), (old.file_references(), [*old.partitions()]), version=version)

    def _check_leftovers(self, view: TableView) -> None:
        """Compare the rows of the current collections in the document with the expected rows."""
        layout = view.meta.layout
        numbers = {
            "partition": layout.tree,
            **dict.fromkeys(("file", "of", "unreferenced", "job", "at", "inner"), layout.files),
        }
        named = {f"{name}{number}" for name, number in numbers.items()} | {"collected"}
        rows = [key for key, _ in self.handles[0].document.at().scan()]
        _same("leftovers", sorted(self._expected(view)), sorted(row for row in rows if row.split("/")[0] in named))
        inner = sum(
            1 for partition in self.model.tree.values() if not partition.is_leaf and self.model.on(partition.id)
        )
        _same("tallies", inner or None, self.handles[0].document.get("inner"))

    def _expected(self, view: TableView) -> set[str]:
        layout, model = view.meta.layout, self.model
        positions = {id: position_of(id, each.region) for id, each in model.tree.items()}
        keys = {layout.partition(id) for id in model.tree} | {layout.unreferenced(name) for name in model.lost}
        keys |= {layout.leaf(positions[each.id]) for each in model.leaves()}
        keys |= {layout.inner(positions[id]) for id, each in model.tree.items() if not each.is_leaf and model.on(id)}
        keys |= {layout.reference(positions[each.partition], each.filename) for each in model.references()}
        keys |= {layout.file(name) for name in model.files} | {layout.job(*job) for job in model.waiting()}
        keys |= {f"collected/{name}" for name in model.collected}
        rows = {name: self.handles[0].document.get(layout.file(name)) for name in model.files}
        counted = [name for name, row in rows.items() if not isinstance(row, str)]
        return keys | {layout.location(name, id) for name in counted for id in model.files[name]}

    # Random choices

    def _table(self) -> Table:
        self.turn += 1
        return self.handles[self.turn % 2]

    def _does(self, act: Callable[[Table], object], expect: Callable[[int], str | None]) -> bool:
        """Run a transaction, check that its outcome is the model's, and return whether it was committed."""
        table, reason = self._table(), None
        try:
            act(table)
        except TransactionRefused as exc:
            reason = exc.failures[0].reason
        expected = expect(table.version)
        self._same(expected, reason)
        return expected is None

    def _same(self, expected: str | None, actual: str | None) -> None:
        if FAULT.match(actual or ""):
            raise RuntimeError(actual)
        begins = expected is not None and expected.endswith(":") and (actual or "").startswith(expected)
        if not begins:
            _same("verdict", expected, actual)

    def _no(self, reason: str | None) -> None:
        if reason is not None:
            raise Violation("lost", "a collection deleted a file that had to stay", reason=reason)

    def _time_of(self, version: int, otherwise: int) -> int:
        try:
            return self.handles[0].changed_ms(version)
        except VersionForgotten:
            return otherwise - 1

    def _new_name(self, kind: str) -> str:
        self.made += 1
        return f"{kind}{self.made}"

    def _some_files(self) -> list[str]:
        return [*sorted(self.model.files)[-4:], self.random.choice(FILES)]

    def _any_partition(self) -> str:
        return self.random.choice(sorted(self.model.tree))

    def _new_file(self) -> NewFile:
        name = self._new_name("g") if self.random.random() < 0.75 else self.random.choice([*FILES, *self._some_files()])
        leaves, ids = [leaf.id for leaf in self.model.leaves()], sorted(self.model.tree)
        among = leaves if self.random.random() < 0.6 else [*ids, *(["nowhere"] if self.random.random() < 0.2 else [])]
        chosen = self.random.sample(among, min(len(among), self.random.choice([0, 1, 1, 2, 3])))
        if chosen and self.random.random() < 0.03:
            chosen += chosen[:1]
        is_complete = len(chosen) == 1
        sure = self.random.random() < 0.8
        return NewFile(
            name, tuple(NewReference(id, self.random.randrange(102), not sure, is_complete) for id in chosen)
        )

    def _reference(self, *, assigned: bool) -> FileReference:
        """Choose a reference. If ``assigned``, the reference usually has a job; otherwise it usually has no job."""
        all_of_them = self.model.references()
        fitting = [reference for reference in all_of_them if (reference.job is not None) == assigned]
        candidates = fitting if fitting and self.random.random() < 0.85 else all_of_them
        return self.random.choice(candidates or [FileReference(self.random.choice(FILES), "root", 1)])

    def _assignment(self) -> Assignment:
        first = self._reference(assigned=False)
        here = [reference.filename for reference in self.model.on(first.partition) if reference.job is None] or [
            first.filename
        ]
        names = [first.filename, *self.random.sample(here, min(len(here), self.random.randrange(3)))]
        unique = list(dict.fromkeys(names)) if self.random.random() < 0.9 else names
        partition = first.partition if self.random.random() < 0.95 else self._any_partition()
        return Assignment(self.random.choice(JOBS), partition, tuple(unique))

    def _done_job(self) -> ReplaceFileReferences:
        reference = self._reference(assigned=True)
        job = reference.job if reference.job is not None and self.random.random() < 0.9 else self.random.choice(JOBS)
        mine = [other for other in self.model.on(reference.partition) if other.job == reference.job]
        if self.random.random() < 0.5:
            mine = [reference]
        names = [other.filename for other in mine] or [reference.filename]
        if self.random.random() < 0.05:
            names += names[:1]
        new = self.random.random() < 0.85
        output = self._new_name("o") if new else self.random.choice([*names, *self._some_files()])
        rows = sum(other.rows for other in mine)
        return ReplaceFileReferences(job, reference.partition, tuple(names), Output(output, rows))

    def _split(self) -> Split:
        candidates = self._on_inner()
        reference = (
            self.random.choice(candidates)
            if candidates and self.random.random() < 0.9
            else self._reference(assigned=False)
        )
        below = self._below(reference.partition)
        if not below or self.random.random() < 0.1:
            below = self.random.sample(sorted(self.model.tree), min(2, len(self.model.tree)))
        counts = self._parts(reference.rows, len(below))
        guessed = self.random.random() < 0.5
        pairs = [pair for pair in zip(below, counts, strict=True) if guessed or pair[1] or self.random.random() < 0.5]
        if len(pairs) > 1 and self.random.random() < 0.1:
            (first, some), (_, more), *pairs = pairs
            pairs = [(first, some + more), *pairs]
        if self.random.random() < 0.12:
            pairs = pairs[1:]
        if pairs and self.random.random() < 0.12:
            pairs[0] = (pairs[0][0], max(0, pairs[0][1] + self.random.choice([-1, 1])))
        is_complete = reference.complete and len(pairs) == 1
        return Split(
            reference.filename,
            reference.partition,
            tuple(NewReference(id, rows, guessed, is_complete) for id, rows in pairs),
        )

    def _on_inner(self) -> list[FileReference]:
        """Return the references that may be split."""
        return [
            reference
            for reference in self.model.references()
            if not self.model.tree[reference.partition].is_leaf and reference.job is None
        ]

    def _below(self, id: str) -> list[str]:
        """Return partitions that together fill a partition: its children, or partitions below them."""
        parts: list[str] = []
        for child in self.model.tree[id].children if id in self.model.tree else ():
            parts += self._below(child) if self.random.random() < 0.4 and self.model.tree[child].children else [child]
        return parts

    def _parts(self, rows: int, count: int) -> list[int]:
        """Divide ``rows`` at random into ``count`` parts."""
        cuts = sorted(self.random.randrange(rows + 1) for _ in range(count - 1))
        return [high - low for low, high in zip([0, *cuts], [*cuts, rows], strict=True)]

    def _key(self, kind: str) -> Any:
        return self.random.randrange(-70, 70) if kind == "long" else self.random.choice(["", "a", "ab", "b", "c"])

    def _inside(self, partition: Partition, point: Any, dimension: int = 0) -> bool:
        low, high = partition.region[dimension]
        text = encode_key(self.schema.keys[dimension].type, point)
        return low < text and (high is None or text < high)

    def _edge(self, partition: Partition, dimension: int) -> str | None:
        kind = self.schema.keys[dimension].type
        points = [point for point in (self._key(kind) for _ in range(4)) if self._inside(partition, point, dimension)]
        return encode_key(kind, points[0]) if points else None

    def _spoilt(self, parent: Partition, children: Sequence[Partition]) -> tuple[Partition, list[Partition]]:
        """Return an invalid variant of a split."""
        left, right = children
        which = self.random.randrange(4)
        if which == 0:
            return msgspec.structs.replace(parent, children=(right.id, left.id)), [left, right]
        if which == 1:
            return parent, [left, msgspec.structs.replace(right, region=parent.region)]
        if which == 2:
            return msgspec.structs.replace(parent, children=(), dimension=-1), [left, right]
        return msgspec.structs.replace(parent, id="unheard-of"), [left, right]


STEPS_BY_WEIGHT: Sequence[tuple[Callable[[Workload], None], int]] = (
    (Workload.add, 14),
    (Workload.assign, 9),
    (Workload.replace, 7),
    (Workload.split_references, 8),
    (Workload.split_partition, 6),
    (Workload.extend, 2),
    (Workload.initialise, 1),
    (Workload.delete, 3),
    (Workload.clear, 1),
    (Workload.purge, 2),
    (Workload.declare, 1),
    (Workload.collect, 3),
    (Workload.forget, 2),
    (Workload.rebuild, 1),
    (Workload.restart, 2),
)


def _tally(references: Sequence[FileReference]) -> TableTally:
    sure = sum(reference.rows for reference in references if reference.complete and not reference.approximate)
    return TableTally(len(references), sum(reference.rows for reference in references), sure)


def _same(checker: str, expected: object, actual: object, **details: object) -> None:
    if expected != actual:
        raise Violation(checker, "the table differs from the model", expected=expected, actual=actual, **details)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for seed in range(options.seed, options.seed + options.seeds):
        try:
            Workload(seed).run()
        except Exception as exc:
            raise SystemExit(f"seed {seed}: {type(exc).__name__}: {exc}") from exc
    print(f"{options.seeds} seeds from {options.seed}: no violation")


if __name__ == "__main__":
    main()

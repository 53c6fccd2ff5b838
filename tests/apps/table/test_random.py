"""A random workload against a plain model: every row is referenced once, no file is lost, the tracker is the state."""

from __future__ import annotations

import random
from collections.abc import Iterator

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from stratalog import verify
from stratalog.apps.table import NewFile, NewReference, Reference, Refused, Split, Table
from stratalog.apps.table.model import overlaps
from tests.apps.table.helpers import LONG, assignment, memory_store, reopened, replacement, table_of

NAMES = [f"f{n}" for n in range(8)]
JOBS = ["j0", "j1", "j2"]
names = st.sampled_from(NAMES)
chances = st.randoms(use_true_random=True)


class Model:
    """The same table in two dictionaries: file → partition → (rows, job), and partition → children."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, tuple[int, str | None]]] = {}
        self.children: dict[str, tuple[str, str] | None] = {"root": None}

    def below(self, partition: str) -> Iterator[str]:
        yield partition
        for child in self.children.get(partition) or ():
            yield from self.below(child)

    def add(self, filename: str, places: dict[str, int]) -> bool:
        inside = any(b in self.below(a) for a in places for b in places if a != b)
        if filename in self.files or inside or not places.keys() <= self.children.keys():
            return False
        self.files[filename] = {id: (rows, None) for id, rows in places.items()}
        return True

    def assign(self, job: str, partition: str, chosen: list[str]) -> bool:
        free = [self.files.get(name, {}).get(partition) for name in chosen]
        if len(set(chosen)) < len(chosen) or any(one is None or one[1] is not None for one in free):
            return False
        for name in chosen:
            self.files[name][partition] = (self.files[name][partition][0], job)
        return True

    def replace(self, job: str, partition: str, chosen: list[str], output: str) -> bool:
        held = [self.files.get(name, {}).get(partition) for name in chosen]
        if len(set(chosen)) < len(chosen) or any(one is None or one[1] != job for one in held):
            return False
        if output in self.files or partition not in self.children:
            return False
        rows = sum(self.files[name].pop(partition)[0] for name in chosen)
        self.files[output] = {partition: (rows, None)}
        return True

    def split_reference(self, filename: str, partition: str) -> bool:
        held = self.files.get(filename, {}).get(partition)
        children = self.children.get(partition)
        if held is None or held[1] is not None or children is None:
            return False
        del self.files[filename][partition]
        for child, rows in zip(children, (held[0] // 2, held[0] - held[0] // 2), strict=True):
            self.files[filename][child] = (rows, None)
        return True

    def delete(self, filename: str) -> bool:
        if self.files.get(filename, True):
            return False
        del self.files[filename]
        return True

    def references(self) -> set[tuple[str, str, int, str | None]]:
        return {(name, id, *one) for name, places in self.files.items() for id, one in places.items()}


class Workload(RuleBasedStateMachine):
    """Two processes on one table; snapshots every few versions, so that rows come from the tree and from the log."""

    @initialize()
    def begin(self) -> None:
        store = memory_store(snapshot_entries_interval=5, segment_entries_target=10)
        table = table_of(store, schema=LONG)
        self.handles = [table, reopened(table)]
        self.model = Model()
        self.rows_in = 0
        self.turn = 0
        self.added = 0

    @property
    def table(self) -> Table:
        self.turn += 1
        return self.handles[self.turn % 2]

    def places(self) -> list[str]:
        return sorted(self.model.children)

    def held(self, *, assigned: bool | None = None) -> list[tuple[str, str, str | None]]:
        """References as (file, partition, job); without any, one that is not there."""
        found = [(name, id, job) for name, id, _, job in sorted(self.model.references(), key=str)]
        return [one for one in found if assigned is None or (one[2] is not None) == assigned] or [("f0", "root", None)]

    @rule(chance=chances)
    def add(self, chance: random.Random) -> None:
        for _ in range(chance.randrange(1, 5)):
            self.added += 1
            name = f"g{self.added}" if chance.random() < 0.8 else chance.choice(NAMES)
            chosen = chance.sample(self.places(), min(len(self.places()), chance.choice([0, 1, 1, 1, 2])))
            self.add_to(name, {id: chance.randrange(102) for id in chosen})

    @rule(name=names)
    def add_nowhere(self, name: str) -> None:
        self.add_to(name, {"root": 1, "nowhere": 2})

    def add_to(self, name: str, places: dict[str, int]) -> None:
        done = self.model.add(name, places)
        new = NewFile(name, tuple(NewReference(id, rows) for id, rows in places.items()))
        assert done == self.commits(lambda: self.table.add_files([new]))
        self.rows_in += sum(places.values()) if done else 0

    @rule(job=st.sampled_from(JOBS), chance=chances)
    def assign(self, job: str, chance: random.Random) -> None:
        _, partition, _ = chance.choice(self.held(assigned=False))
        free = chance.random() < 0.8
        here = [name for name, id, one in self.held() if id == partition and not (free and one)] or ["f0"]
        chosen = chance.choices(here, k=chance.choice([1, 1, 2]))
        done = self.model.assign(job, partition, chosen)
        request = assignment(job, *chosen, partition=partition)
        assert done == self.commits(lambda: self.table.assign_job_ids([request]))

    @rule(output=names, chance=chances)
    def replace(self, output: str, chance: random.Random) -> None:
        _, partition, job = chance.choice(self.held(assigned=True))
        job = job or "j0"
        mine = [name for name, id, one in self.held() if (one, id) == (job, partition)] or ["f0"]
        chosen = chance.choices(mine, k=chance.choice([1, 1, 2]))
        self.added += 1
        output = f"g{self.added}" if chance.random() < 0.8 else output
        if output in chosen:
            return
        rows = sum(self.model.files.get(name, {}).get(partition, (0, None))[0] for name in chosen)
        done = self.model.replace(job, partition, chosen, output)
        wanted = replacement(job, *chosen, output=output, partition=partition, rows=rows)
        assert done == self.commits(lambda: self.table.replace_file_references([wanted]))

    @rule(chance=chances)
    def split_reference(self, chance: random.Random) -> None:
        inner = [one for one in self.held() if self.model.children.get(one[1])]
        name, partition, _ = chance.choice(inner or self.held())
        held = self.model.files.get(name, {}).get(partition, (1, None))[0]
        children = self.model.children[partition] or ("l", "r")
        done = self.model.split_reference(name, partition)
        pieces = tuple(
            NewReference(child, rows, approximate=True, whole=False)
            for child, rows in zip(children, (held // 2, held - held // 2), strict=True)
        )
        assert done == self.commits(lambda: self.table.split_file_references([Split(name, partition, pieces)]))

    @precondition(lambda self: len(self.model.children) < 9)
    @rule(chance=chances, point=st.integers(-64, 64))
    def split_partition(self, chance: random.Random, point: int) -> None:
        leaf = chance.choice([id for id in self.places() if self.model.children[id] is None])
        if self.commits(lambda: self.table.split_at(leaf, point)):
            left, right = self.table.at().partition(leaf).children
            self.model.children |= {leaf: (left, right), left: None, right: None}

    @rule(chance=chances)
    def delete(self, chance: random.Random) -> None:
        empty = sorted(name for name, places in self.model.files.items() if not places)
        name = chance.choice([*empty, "f0"])
        done = self.model.delete(name)
        assert done == self.commits(lambda: self.table.delete_files([name]))

    @precondition(lambda self: self.turn % 29 == 0)
    @rule()
    def clear(self) -> None:
        self.table.clear_files()
        self.model.files = {}
        self.rows_in = 0

    @rule()
    def forget(self) -> None:
        table = self.table
        table.forget_below(max(0, table.version - 4))

    @rule()
    def restart(self) -> None:
        self.handles[self.turn % 2] = reopened(self.table)

    @rule()
    def purge(self) -> None:
        self.table.purge()

    @invariant()
    def every_row_is_referenced_once_and_no_file_is_lost(self) -> None:
        if not hasattr(self, "handles"):
            return
        view = self.table.at()
        references = view.file_references()
        held = {(one.filename, one.partition, one.rows, one.job) for one in references}
        assert len(held) == len(references)
        assert held == self.model.references()
        assert sum(one.rows for one in references) == self.rows_in
        listed = {one.filename: set(one.partitions) for one in view.files(1000).files}
        assert listed == {name: set(places) for name, places in self.model.files.items()}
        assert {*view.unreferenced(view.version)} == {name for name, places in self.model.files.items() if not places}
        self.check_places(view.version, references)

    def check_places(self, version: int, references: list[Reference]) -> None:
        """Ranges, tallies and jobs say what the references say."""
        view = self.handles[0].at(version)
        tallies = {one.partition: one.tally for one in view.holdings()}
        for id, tally in tallies.items():
            here = [one for one in references if one.partition == id]
            assert (tally.files, tally.rows) == (len(here), sum(one.rows for one in here))
        region = LONG.region([(-3, 20)])
        near = {one.id for one in view.partitions() if overlaps(one.region, region) and one.id in tallies}
        assert {one.partition for one in view.in_range(region)} == near

    def teardown(self) -> None:
        if not hasattr(self, "handles"):
            return
        table = self.handles[0]
        assert table.jobs.waiting() == [*table.at().jobs()]
        counts: dict[tuple[str, str], int] = {}
        for _, partition, _, job in self.model.references():
            if job:
                counts[job, partition] = counts.get((job, partition), 0) + 1
        assert {(job, partition): count for job, partition, count in table.jobs.waiting()} == counts
        verify(table.document)

    def commits(self, act: object) -> bool:
        """Whether a transaction was committed; a refusal leaves everything as it was."""
        try:
            act()  # type: ignore[operator]
        except Refused:
            return False
        return True


TestWorkload = Workload.TestCase
TestWorkload.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)

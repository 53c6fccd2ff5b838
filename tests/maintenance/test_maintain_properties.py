"""Maintenance deletes no data that is still needed, under random policies, and after a kill before or after a commit.

Bugs planted in retention and collection show that these tests can fail. These tests run one process at a time. The
simulation tests concurrent processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from stratalog.backends.memory import MemoryBlobs, MemoryIndex, MemoryQueue
from stratalog.documents import Document
from stratalog.errors import StratalogError
from stratalog.limits import GRACE_SECONDS, OBSERVATION_SECONDS_MAX
from stratalog.log import Environment, Event, Log, LogSettings, retention
from stratalog.log.segments import list_segments
from stratalog.log.tasks import InlineTasks
from stratalog.maintenance import collection
from stratalog.maintenance.marks import Marking
from stratalog.maintenance.policy import MaintenancePolicy, RetentionPolicy
from stratalog.maintenance.store_pass import maintain
from stratalog.ports.index import NO_BLOBS, Item, Write
from stratalog.store import Store
from stratalog.testing.clock import ManualClock
from tests.simulation.mutants import replaced

DAY_SECONDS = 86_400
OLD_SECONDS = OBSERVATION_SECONDS_MAX + GRACE_SECONDS + 1
LONG = Random(0).randbytes(20_000).hex()

counts = st.none() | st.integers(1, 4)
days = st.none() | st.floats(0, 20)
retentions = st.builds(RetentionPolicy, retain_segments=counts, retain_days=days, archive_days=days)
policies = st.builds(
    MaintenancePolicy,
    documents=retentions,
    logs=retentions,
    retain_record_versions=counts,
    collect_hours=st.sampled_from((0.0, 24.0)),
)
pauses = st.sampled_from((0, OLD_SECONDS, DAY_SECONDS))
flags = st.tuples(st.booleans(), st.booleans())
kills = st.none() | st.integers(0, 25)


class Killed(BaseException):
    """Simulates a kill of the process that runs a pass."""


class Killing(MemoryIndex):
    """An index that allows ``commits`` commits, and raises Killed at the next commit, before or after its effect."""

    def __init__(self, backend: MemoryIndex, commits: int, *, after: bool, joint_commits: bool) -> None:
        self.joint_commits = joint_commits
        self.blob_bytes_max = backend.blob_bytes_max
        self.get = backend.get  # type: ignore[method-assign]
        self.turn = backend.turn  # type: ignore[method-assign]
        self._backend = backend
        self._commits_left = commits
        self._after = after

    def query(self, partition: str, **options: Any) -> Iterator[Item]:  # type: ignore[override]
        return self._backend.query(partition, **options)

    def commit(self, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        self._commits_left -= 1
        if self._commits_left < 0 and not self._after:
            raise Killed
        self._backend.commit(writes, blobs)
        if self._commits_left < 0:
            raise Killed


class MaintainMachine(RuleBasedStateMachine):
    """Documents, forks, a log and a record, each with its expected content."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.index = MemoryIndex()
        self.blobs = MemoryBlobs(self.clock)
        self.tuning = LogSettings(segment_entries_target=3, snapshot_entries_interval=4, body_inline_bytes_max=100)
        store = self.store()
        store.create("acme", "budget")
        store.create_log("acme", "events")
        self.states: dict[str, list[dict[str, str]]] = {"budget": [{}]}
        self.events: list[int] = []
        self.bodies: list[bytes] = []
        self.floors: dict[str, int] = {}
        self.number = 0

    def store(self, index: MemoryIndex | None = None) -> Store:
        return Store(
            Environment(index or self.index, self.blobs, self.clock, self.tuning, background=InlineTasks()),
            MemoryQueue(self.clock),
        )

    @rule(data=st.data(), count=st.integers(1, 6))
    def change(self, data: st.DataObject, count: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.states)))
        document = self.store().document("acme", name)
        for _ in range(count):
            self.number += 1
            key, value = f"notes/{self.number % 3}", f"{self.number % 5} {LONG[:3000]}"
            assert document.mutate("put", {"key": key, "value": value}, client=name).status == "applied"
            self.states[name].append({**self.states[name][-1], key: value})

    @rule(count=st.integers(1, 6))
    def append(self, count: int) -> None:
        log = self.store().log("acme", "events")
        for _ in range(count):
            self.events.append(len(self.events))
            log.append(Event("noted", self.events[-1]))

    @rule()
    def put(self) -> None:
        self.bodies.append(f"{len(self.bodies)} {LONG}".encode())
        self.store().records("acme").put("invoice", self.bodies[-1])

    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        document = self.store().document("acme", data.draw(st.sampled_from(sorted(self.states))))
        at = data.draw(st.integers(oldest(document.log), document.version))
        name = f"fork-{len(self.states)}"
        document.fork(name, at=at)
        self.states[name] = self.states[document.name][: at + 1]

    @rule(seconds=st.sampled_from((OLD_SECONDS, DAY_SECONDS, 5 * DAY_SECONDS)))
    def wait(self, seconds: int) -> None:
        self.clock.sleep(seconds)

    def lose_archives(self) -> None:
        """Delete the archives of segments that no pass may free yet.

        The index still has all entries of these segments.
        """
        for name in [*self.states, "events"]:
            log = self.store().log("acme", name)
            for segment in list_segments(self.index, log.record.prefix):
                if segment.archive is not None and not segment.freed and not retention.is_due(self.clock, segment):
                    key = f"{log.record.owner}/archive/{segment.archive.address.hex()}"
                    if (stat := self.blobs.stat(key)) is not None:
                        self.blobs.delete(key, stat.stamp)

    @rule(policy=policies, pauses=st.lists(pauses, min_size=1, max_size=4), kills=kills, flags=flags)
    def maintain(
        self, policy: MaintenancePolicy, pauses: list[int], kills: int | None, flags: tuple[bool, bool]
    ) -> None:
        after, is_losing = flags
        for run, seconds in enumerate(pauses, 1):
            if is_losing:
                self.lose_archives()
            self.clock.sleep(seconds)
            commits = 10**9 if kills is None else kills * run
            index = Killing(self.index, commits, after=after, joint_commits=bool(run % 2))
            try:
                assert maintain(self.store(index), policy).failures == ()
            except Killed:
                continue
        for name, states in self.states.items():
            # Raising the floor appends an entry that does not change the state.
            states += [states[-1]] * (self.store().document("acme", name).version + 1 - len(states))
        self.check()

    @rule(policy=policies)
    def maintain_by_default(self, policy: MaintenancePolicy) -> None:
        """A policy without a retention rule forgets nothing, even if it archives."""
        floors = {name: self.document(name).log.floor() for name in self.states}
        archives = msgspec.structs.replace(policy.documents, retain_segments=None, retain_days=None)
        assert maintain(self.store(), MaintenancePolicy(documents=archives)).failures == ()
        assert {name: self.document(name).log.floor() for name in self.states} == floors
        self.check()

    def check(self) -> None:
        """Check the versions and the record. Only maintenance deletes data, so each pass ends with this check."""
        self.check_versions()
        self.check_record()

    def check_versions(self) -> None:
        for name, states in self.states.items():
            document = self.document(name)
            for version in range(oldest(document.log), document.version + 1):
                assert document.at(version).to_dict() == states[version]
            self.check_floor(name, document.log)
        log = self.store().log("acme", "events")
        floor = log.floor()
        assert [entry.events[0].data for entry in log.read(floor)] == self.events[floor:]
        self.check_floor("events", log)

    def check_record(self) -> None:
        records = self.store().records("acme")
        if self.bodies:
            retained = [version.version for version in records.versions("invoice")]
            assert retained == list(range(retained[0], len(self.bodies) + 1))
            assert [records.get("invoice", version).body for version in retained] == self.bodies[retained[0] - 1 :]

    def document(self, name: str) -> Document:
        return self.store().document("acme", name)

    def check_floor(self, name: str, log: Log) -> None:
        """Check that the floor never falls, and that the newest version is kept."""
        assert self.floors.get(name, 0) <= log.floor() <= log.head().version
        self.floors[name] = log.floor()


def oldest(log: Log) -> int:
    """Return the oldest version that must be readable. A fork's first version is pinned in its parent."""
    return max(log.floor(), log.first)


HUNT_WALKS_MAX = 10_000
"""The number of walks after which the search for a planted bug ends.

The order of walks depends on the loaded modules. About one walk in 500 shows the rarest bug, so this many walks find
each bug.
"""

# Hypothesis does not shrink a failing walk, because the walk is short enough to read and shrinking takes minutes.
WALK = settings(
    max_examples=300, stateful_step_count=15, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate)
)
TestMaintain = MaintainMachine.TestCase
TestMaintain.settings = WALK

Plant = Callable[[], AbstractContextManager[None]]
_forget_below = retention._forget_below
PLANTED: dict[str, Plant] = {
    "the pins of forks ignored": replaced(retention, "lowest_pin", lambda index, prefix: None),
    "history above the floor forgotten": replaced(
        retention, "_forget_below", lambda environment, prefix, floor: _forget_below(environment, prefix, floor + 3)
    ),
    "entries freed before their archive is proved": replaced(retention, "prove_archive", lambda *_: True),
    "archives not marked": replaced(Marking, "_mark_archive", lambda self, archive: None),
    "entries not marked": replaced(Marking, "_mark_entry", lambda self, item: None),
    "snapshots not marked": replaced(Marking, "_mark_snapshot", lambda self, snapshot: None),
    "versions of records not marked": replaced(collection, "referenced", lambda environment, name, dry_run: set()),
}


@pytest.mark.usefixtures("untraced")
@pytest.mark.mutants
@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED)
def test_a_planted_bug_is_seen(planted: Plant) -> None:
    hunt = settings(
        WALK,
        max_examples=HUNT_WALKS_MAX,
        derandomize=True,
        database=None,
        phases=(Phase.generate,),
        report_multiple_bugs=False,
    )
    with planted(), pytest.raises((AssertionError, StratalogError)):
        run_state_machine_as_test(MaintainMachine, settings=hunt)

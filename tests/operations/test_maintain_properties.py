"""Whatever the policy, and wherever a pass is killed: nothing that is deleted was still needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from stratalog.assembly import Store
from stratalog.backends.memory import MemoryBlobs, MemoryIndex, MemoryQueue
from stratalog.documents import Document
from stratalog.limits import GRACE_SECONDS, OBSERVATION_SECONDS_MAX
from stratalog.log import Event, Log, Place, Settings
from stratalog.operations.maintain import maintain
from stratalog.operations.policy import Policy, Retention
from stratalog.ports.index import Item, Write
from stratalog.testing.clock import ManualClock

DAY_SECONDS = 86_400
OLD_SECONDS = OBSERVATION_SECONDS_MAX + GRACE_SECONDS + 1
LONG = "long " * 300

counts = st.none() | st.integers(1, 4)
days = st.none() | st.floats(0, 20)
retentions = st.builds(Retention, keep_segments=counts, keep_days=days, archive_days=days)
policies = st.builds(
    Policy,
    documents=retentions,
    logs=retentions,
    keep_record_versions=counts,
    collect_hours=st.sampled_from((0.0, 24.0)),
)


class Killed(BaseException):
    """The process of a pass ended."""


class Killing(MemoryIndex):
    """An index whose caller is killed at the n-th commit, before or after it took effect."""

    def __init__(self, backend: MemoryIndex, commits: int, *, after: bool, joint_commits: bool) -> None:
        self.joint_commits = joint_commits
        self.get = backend.get  # type: ignore[method-assign]
        self._backend = backend
        self._commits_left = commits
        self._after = after

    def query(self, partition: str, **options: Any) -> Iterator[Item]:  # type: ignore[override]
        return self._backend.query(partition, **options)

    def commit(self, writes: Sequence[Write]) -> None:
        self._commits_left -= 1
        if self._commits_left < 0 and not self._after:
            raise Killed
        self._backend.commit(writes)
        if self._commits_left < 0:
            raise Killed


class MaintainMachine(RuleBasedStateMachine):
    """Documents, a fork, a plain log and a record, beside what they must hold."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.index = MemoryIndex()
        self.blobs = MemoryBlobs(self.clock)
        self.tuning = Settings(segment_entries_target=3, snapshot_entries_interval=4, body_inline_bytes_max=100)
        store = self.store()
        store.create("acme", "budget")
        store.create_log("acme", "events")
        self.states: dict[str, list[dict[str, str]]] = {"budget": [{}]}
        self.events: list[int] = []
        self.bodies: list[bytes] = []
        self.floors: dict[str, int] = {}
        self.number = 0

    def store(self, index: MemoryIndex | None = None) -> Store:
        return Store(Place(index or self.index, self.blobs, self.clock, self.tuning), MemoryQueue(self.clock))

    @rule(data=st.data(), count=st.integers(1, 6))
    def change(self, data: st.DataObject, count: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.states)))
        document = self.store().document("acme", name)
        for _ in range(count):
            self.number += 1
            key, value = f"notes/{self.number % 3}", f"{self.number % 5} {LONG}"
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
        at = data.draw(st.integers(document.log.floor(), document.version))
        name = f"fork-{len(self.states)}"
        document.fork(name, at=at)
        self.states[name] = self.states[document.name][: at + 1]

    @rule(seconds=st.sampled_from((OLD_SECONDS, DAY_SECONDS, 5 * DAY_SECONDS)))
    def wait(self, seconds: int) -> None:
        self.clock.sleep(seconds)

    @rule(policy=policies, commits=st.integers(0, 25), after=st.booleans(), joint=st.booleans(), runs=st.integers(1, 3))
    def maintain(self, policy: Policy, commits: int, after: bool, joint: bool, runs: int) -> None:
        for run in range(runs):
            index = Killing(self.index, commits * (run + 1), after=after, joint_commits=joint)
            try:
                assert maintain(self.store(index), policy).troubles == ()
            except Killed:
                continue
        for name, states in self.states.items():
            # A raised floor is told in an entry of its own, which changes nothing.
            states += [states[-1]] * (self.store().document("acme", name).version + 1 - len(states))

    @rule(policy=policies)
    def maintain_by_default(self, policy: Policy) -> None:
        """What is said of archives alone, or nothing, lets nothing go."""
        floors = {name: self.document(name).log.floor() for name in self.states}
        archives = msgspec.structs.replace(policy.documents, keep_segments=None, keep_days=None)
        assert maintain(self.store(), Policy(documents=archives)).troubles == ()
        assert {name: self.document(name).log.floor() for name in self.states} == floors

    @invariant()
    def every_version_above_the_floor_reads_back(self) -> None:
        for name, states in self.states.items():
            document = self.document(name)
            for version in range(max(document.log.floor(), document.log.first, 1), document.version + 1):
                assert document.at(version).whole() == states[version]
            self.check_floor(name, document.log)
        log = self.store().log("acme", "events")
        floor = log.floor()
        assert [entry.events[0].data for entry in log.read(floor)] == self.events[floor:]
        self.check_floor("events", log)

    @invariant()
    def every_kept_version_of_a_record_reads_back(self) -> None:
        records = self.store().records("acme")
        if self.bodies:
            kept = [found.version for found in records.versions("invoice")]
            assert kept == list(range(kept[0], len(self.bodies) + 1))
            assert [records.get("invoice", version).body for version in kept] == self.bodies[kept[0] - 1 :]

    def document(self, name: str) -> Document:
        return self.store().document("acme", name)

    def check_floor(self, name: str, log: Log) -> None:
        """It never falls, and the newest version is always kept."""
        assert self.floors.get(name, 0) <= log.floor() <= log.head().version
        self.floors[name] = log.floor()


TestMaintain = MaintainMachine.TestCase
TestMaintain.settings = settings(max_examples=150, stateful_step_count=20, deadline=None)

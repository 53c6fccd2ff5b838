"""The world of processes that take turns at a hosted index: calls take time, and processes freeze and crash.

All writers run the log's own code. Busy writers commit without pause. Seldom writers pause between commits. A writer
that waits writes a mark, and busy writers read the mark (a look). A new mark stops a busy writer for a short time.

Turns are a hint, so no entry may get lost even if turns fail. The world also checks the benefit and the price of turns:

- Every writer commits within a bounded number of round trips.
- No writer writes a mark too early. Each mark stops a writer at most once, and for a bounded time.
- A lone writer pays only for its commits and for a few looks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, TypeVar

from stratalog.backends import hosted_turns
from stratalog.backends.hosted_turns import HostedTurns
from stratalog.backends.memory import MemoryBlobs, MemoryIndex
from stratalog.clock import new_id
from stratalog.errors import ConditionFailed, OutcomeUnknown, Unavailable
from stratalog.keys import MARK_SORT, waiting_partition
from stratalog.log import Environment, Event, LogSettings, create_log, open_log
from stratalog.ports.index import NO_BLOBS, Item, Put, Write
from stratalog.testing.checkers import Violation
from stratalog.testing.scheduler import Actor, Crash, Scheduler, SimulatedClock
from tests.simulation.mutants import Mutant, replaced, together

__all__ = ["MUTANTS", "HostedTurnsWorld"]

T = TypeVar("T")

SECONDS = 5
LEGS_MS = ((2, 10), (5, 5), (6, 8))
ROUND_TRIPS_MAX = 300
STOP_MS_MAX = 150
MARK_AFTER_MS = 40
BETWEEN_MARKS_MS = 150
LONE_UNITS_MAX = 1.05
LONE_COMMITS_MIN = 200
READ_UNITS = {True: 0.2, False: 0.1}
RATES = (0.0, 0.002, 0.01)
FREEZE_MS_MAX = 1_000
SEGMENTS = (20, 100_000)


class HostedTurnsWorld:
    """One to three busy writers and up to two seldom writers of one log. Some seeds have marks of crashed waiters."""

    columns: ClassVar[tuple[str, ...]] = (
        "commits",
        "lost races",
        "looks",
        "marks",
        "stops",
        "stops in vain",
        "freezes",
        "crashes",
        "faults of marks",
        "lone writers",
    )

    def __init__(self, scheduler: Scheduler) -> None:
        draw = scheduler.random
        self.scheduler = scheduler
        self.backend = MemoryIndex()
        self.clock = SimulatedClock(scheduler)
        self.settings = LogSettings(segment_entries_target=draw.choice(SEGMENTS))
        self.authors: dict[str, _Process | None] = {}
        self.acknowledged: dict[int, str] = {}
        self.units = 0.0
        self.leg_ms = draw.choice(LEGS_MS)
        self.freeze_rate, self.crash_rate, self.fault_rate = (draw.choice(RATES) for _ in range(3))
        busy, seldom, dead = draw.choice((1, 1, 2, 3)), draw.choice((0, 1, 2)), draw.random() < 0.3
        self.lone = (busy, seldom, dead) == (1, 0, False)
        if self.lone:
            self.freeze_rate = self.crash_rate = self.fault_rate = 0
        environment = Environment(self.backend, MemoryBlobs(self.clock), self.clock, self.settings)
        self.log = create_log(environment, "acme", "plan")
        self.mark_partition = waiting_partition(self.log.record.prefix)
        for number in range(busy):
            self._start(f"busy-{number}", 0)
        for number in range(seldom):
            self._start(f"seldom-{number}", 0.2 + draw.random())
        if dead:
            scheduler.spawn("dead", self._die_again, background=True)

    def check(self) -> None:
        """Check that each acknowledged entry is stored at its version, and that a lone writer paid little for turns."""
        stored = {entry.version: str(entry.events[0].data) for entry in self.log.read()}
        for version, data in self.acknowledged.items():
            if stored.get(version) != data:
                raise Violation(
                    "acknowledged",
                    "an acknowledged entry is missing or was replaced",
                    version=version,
                    stored=stored.get(version),
                )
        if self.lone and self.settings.segment_entries_target > LONE_COMMITS_MIN:
            self.scheduler.counts.bump("lone writers")
            units = self.units / max(1, len(stored))
            if len(stored) < LONE_COMMITS_MIN or units > LONE_UNITS_MAX:
                raise Violation("lone writer", "a lone writer is slow or costly", commits=len(stored), units=units)

    def goes_on(self) -> bool:
        """Return whether writers begin another commit."""
        return self.scheduler.now_ms < SECONDS * 1000

    def meets(self, rate: float) -> bool:
        """Return whether a fault of this rate happens now."""
        return self.scheduler.stormy and self.scheduler.random.random() < rate

    def restart(self, name: str, pause: float) -> None:
        """After a random time, start another process in place of a crashed one."""
        self.scheduler.counts.bump("crashes")
        self.scheduler.later(int(self.scheduler.random.random() * 500), lambda: self._start(name, pause))

    def _start(self, name: str, pause: float) -> None:
        _Process(self, name, pause)

    def _die_again(self) -> None:
        """Write the mark repeatedly, each time as another waiter that then crashes."""
        for number in range(1_000):
            self.scheduler.sleep(500 + int(2_000 * self.scheduler.random.random()))
            self.authors[f"dead-{number}"] = None
            self.backend.commit([Put(Item(self.mark_partition, MARK_SORT, {"i": f"dead-{number}"}))])


class _Process:
    """One process: a writer, and its connection to a distant index."""

    def __init__(self, world: HostedTurnsWorld, name: str, pause: float) -> None:
        self.world = world
        self.name = name
        self.pause = pause
        self.frozen_ms = 0
        self.losses = 0
        self.began_ms = 0
        self.marked_ms = 0
        self._looks = 0
        turns = _Watched(self, _FarIndex(self))
        clock = world.clock
        self._environment = Environment(turns, MemoryBlobs(clock), clock, world.settings)
        self._actors: list[Actor] = [world.scheduler.spawn(name, self._main)]

    def run_look(self, look: Callable[[], None]) -> None:
        """Run a look, a read of the mark, in a new actor."""
        self._looks += 1
        self.world.scheduler.counts.bump("looks")
        self._actors.append(self.world.scheduler.spawn(f"{self.name}/look-{self._looks}", look, background=True))

    def crash(self) -> None:
        """Crash the whole process. Its other actors end at their next step. Raises Crash."""
        for actor in self._actors:
            actor.crashed = True
        self.world.restart(self.name, self.pause)
        raise Crash

    def _main(self) -> None:
        world = self.world
        log = open_log(self._environment, "acme", "plan")
        while world.goes_on():
            if self.pause:
                world.scheduler.sleep(int(1000 * self.pause * (0.5 + world.scheduler.random.random())))
            self.began_ms = self.marked_ms = world.scheduler.now_ms
            self.losses = self.frozen_ms = 0
            data = f"{self.name}@{self.began_ms}"
            entry = log.append(Event("step", data))
            world.scheduler.counts.bump("commits")
            if world.acknowledged.setdefault(entry.version, data) != data:
                raise Violation("acknowledged", "two writers got the same version", version=entry.version)
            waited_ms = world.scheduler.now_ms - self.began_ms - self.frozen_ms
            if waited_ms > ROUND_TRIPS_MAX * sum(world.leg_ms):
                raise Violation("bounded wait", "a writer waited too long", writer=self.name, waited_ms=waited_ms)

    def check_mark(self) -> None:
        """Check that the writer lost two races, and that it began, or wrote its last mark, long enough ago."""
        now_ms = self.world.scheduler.now_ms
        after_ms = MARK_AFTER_MS if self.marked_ms == self.began_ms else BETWEEN_MARKS_MS
        if self.losses < 2 or now_ms - self.marked_ms < after_ms:
            raise Violation("early mark", "a writer wrote the mark too early", writer=self.name, losses=self.losses)
        self.marked_ms = now_ms


class _FarIndex:
    """A distant index. A process may freeze or crash during a call. A read or write of the mark may fail."""

    joint_commits = False
    blob_bytes_max = 0

    def __init__(self, process: _Process) -> None:
        self._process = process
        self._world = process.world
        self._backend = process.world.backend

    def get(self, partition: str, sort: str, *, consistent: bool = True) -> Item | None:
        return self._call(READ_UNITS[consistent], partition, lambda: self._backend.get(partition, sort))

    def query(
        self,
        partition: str,
        *,
        after: str | None = None,
        before: str | None = None,
        reverse: bool = False,
        limit: int | None = None,
        consistent: bool = True,
    ) -> Iterator[Item]:
        def page() -> list[Item]:
            return list(self._backend.query(partition, after=after, before=before, reverse=reverse, limit=limit))

        yield from self._call(READ_UNITS[consistent], partition, page)

    def commit(self, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        first: Any = writes[0]
        partition = first.item.partition
        if partition == self._world.mark_partition:
            self._process.check_mark()
            self._world.scheduler.counts.bump("marks")
            self._world.authors[str(first.item.attributes["i"])] = self._process
        try:
            self._call(len(writes), partition, lambda: self._backend.commit(writes))
        except ConditionFailed:
            if partition != self._world.mark_partition:
                self._process.losses += 1
                self._world.scheduler.counts.bump("lost races")
            raise

    def turn(self, partition: str) -> Any:
        return self._backend.turn(partition)

    def close(self) -> None:
        """Do nothing, because the backend outlives its processes."""

    def _call(self, units: float, partition: str, act: Callable[[], T]) -> T:
        world = self._world
        world.units += units
        world.scheduler.calls += 1
        self._leg()
        if partition == world.mark_partition and world.meets(20 * world.fault_rate):
            world.scheduler.counts.bump("faults of marks")
            if world.scheduler.random.random() < 0.5:
                raise Unavailable("simulated")
            act()
            raise OutcomeUnknown("simulated")
        answer = act()
        self._leg()
        return answer

    def _leg(self) -> None:
        world = self._world
        world.scheduler.sleep(world.scheduler.random.randint(*world.leg_ms))
        if world.meets(world.crash_rate / 10):
            self._process.crash()
        if world.meets(world.freeze_rate / 10):
            world.scheduler.counts.bump("freezes")
            frozen_ms = int(FREEZE_MS_MAX * world.scheduler.random.random())
            self._process.frozen_ms += frozen_ms
            world.scheduler.sleep(frozen_ms)


class _Watched(HostedTurns):
    """A `HostedTurns` that checks each stop of its process: the mark and the duration."""

    def __init__(self, process: _Process, index: _FarIndex) -> None:
        super().__init__(index, process.world.clock, process.run_look)
        self._process = process
        self._stops = Counter[str]()

    def _stop(self, traffic: Any, item: Item) -> None:
        world, process = self._process.world, self._process
        begun_ms, frozen_ms, id = world.scheduler.now_ms, process.frozen_ms, traffic.known[0]
        taken = False
        try:
            super()._stop(traffic, item)
        except ConditionFailed:
            taken = True
            raise
        finally:
            stopped_ms = world.scheduler.now_ms - begun_ms - (process.frozen_ms - frozen_ms)
            if stopped_ms:
                self._check_stop(id, stopped_ms)
                world.scheduler.counts.bump("stops" if taken else "stops in vain")

    def _check_stop(self, id: str, stopped_ms: int) -> None:
        world, name = self._process.world, self._process.name
        self._stops[id] += 1
        if stopped_ms > STOP_MS_MAX:
            raise Violation("bounded stop", "a mark stopped a writer for too long", writer=name, stopped_ms=stopped_ms)
        if self._stops[id] > 1:
            raise Violation("once a mark", "a mark stopped a writer twice", writer=name, id=id)
        if world.authors.get(id) is self._process:
            raise Violation("own mark", "a writer stopped for its own mark", writer=name, id=id)


def _ignore(self: Any, id: str, author: Any = None) -> bool:
    """The mutant of `_Traffic.learn` that ignores all marks, so that no mark stops the process."""
    return False


def _learn_again(self: Any, id: str, author: Any = None) -> bool:
    """The mutant of `_Traffic.learn` that treats the mark of each look as new."""
    self.known = (id,)
    self.stop, self.author = True, author
    return True


def _forget_own(self: Any, id: str, author: Any = None) -> bool:
    """The mutant of `_Traffic.learn` that does not remember the marks of its own process."""
    if author is not None or id in self.known:
        return False
    self.known, self.stop, self.author = (id, *self.known[:3]), True, None
    return True


def _always_absent(self: Any, wait: Any) -> None:
    """The mutant of `HostedTurns._mark` that writes a new id without a read of the present mark."""
    id = new_id(self._clock)
    wait.marked = True
    self._index.commit([Put(Item(wait.traffic.mark_partition, MARK_SORT, {"i": id}))])
    wait.traffic.learn(id, wait)


def _claim(self: Any, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
    """The mutant of `HostedTurns.commit` that treats a turn as a fence, and drops the condition of a waiter's put."""
    wait = hosted_turns._waiting.get()
    if wait is not None and wait.marked and isinstance(writes[0], Put):
        writes = [Put(writes[0].item), *writes[1:]]
    _commit(self, writes, blobs)


_commit = HostedTurns.commit
_planted: Callable[..., Mutant] = partial(Mutant, world=HostedTurnsWorld)
MUTANTS = (
    _planted(
        "hosted turns: mark ignored",
        apply=replaced(hosted_turns._Traffic, "learn", _ignore),
        caught_by=("bounded wait", "early mark"),
    ),
    _planted(
        "hosted turns: stop without an end",
        apply=replaced(hosted_turns, "STOP_MS_MAX", 10**9),
        caught_by=("bounded stop", "bounded wait"),
    ),
    _planted(
        "hosted turns: stop for the same mark again",
        apply=replaced(hosted_turns._Traffic, "learn", _learn_again),
        caught_by=("once a mark", "own mark"),
    ),
    _planted(
        "hosted turns: stop for its own mark",
        apply=replaced(hosted_turns._Traffic, "learn", _forget_own),
        caught_by=("own mark",),
    ),
    _planted(
        "hosted turns: new mark after every loss",
        apply=together(
            replaced(hosted_turns, "LOSSES_MIN", 1),
            replaced(hosted_turns._Wait, "mark_after_ms", lambda self, scale: 0),
            replaced(HostedTurns, "_mark", _always_absent),
        ),
        caught_by=("early mark",),
    ),
    _planted(
        "hosted turns: look before every commit",
        apply=together(replaced(hosted_turns, "LOOK_MS", 0), replaced(hosted_turns, "LOOK_COMMITS", 1)),
        caught_by=("lone writer",),
    ),
    _planted(
        "hosted turns: turn treated as a fence",
        apply=replaced(HostedTurns, "commit", _claim),
        caught_by=("acknowledged",),
    ),
)

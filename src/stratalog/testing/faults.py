"""Ports whose calls may fail, take effect late, or lose their answer. Each call is a step of the scheduler.

A `FaultyLine` is the connection of one process to its backends. A call over this connection may meet these faults:

    =============  =================================  ==========================================
    fault          effect on the backend              result for the caller
    =============  =================================  ==========================================
    unavailable    nothing                            Unavailable
    lost request   nothing                            OutcomeUnknown (a write)
    lost answer    the effect, now                    OutcomeUnknown (a write)
    late           the effect, some time later        OutcomeUnknown (a write)
    crash before   nothing                            the process ends
    crash after    the effect, now                    the process ends
    crash late     the effect, some time later        the process ends (a write)
    freeze before  the effect, after a long time      its answer
    freeze after   the effect, now                    its answer, after a long time
    slow           the effect                         its answer; time passes for all actors
    torn           some of several messages           OutcomeUnknown (`Queue.send`)
    =============  =================================  ==========================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import accumulate, islice
from random import Random
from typing import Any, TypeVar

import msgspec

from stratalog.errors import ConditionFailed, OutcomeUnknown, StratalogError, Unavailable
from stratalog.limits import GRACE_SECONDS
from stratalog.ports.blobs import Blobs, BlobStat, Damaged, ignore
from stratalog.ports.index import NO_BLOBS, Index, Item, Write
from stratalog.ports.queue import DeadMessage, Message, Queue
from stratalog.testing.scheduler import Scheduler

__all__ = [
    "FAULTS",
    "READ_FAULTS",
    "FaultyBlobs",
    "FaultyIndex",
    "FaultyLine",
    "FaultyQueue",
    "Weather",
    "draw_weather",
]

T = TypeVar("T")
EXTREME_RATE = 0.08
EXTREME_LATE_RATE = 0.04
LATE_MS_MIN = 61_000
# A request may be sent at the end of its observation's validity. Its effect must then come within the grace time.
LATE_MS_LIMIT = (GRACE_SECONDS - 10) * 1000
FAR_SKEW_MS_MAX = 6 * 3600 * 1000


class Weather(msgspec.Struct, frozen=True):
    """The fault rates and delays of one seed. Rates are per port call. The lengths of delays are log-uniform.

    Faults end after ``storm_calls`` port calls. ``skew_ms_max`` and ``jump_ms_max`` bound the error and the jumps of a
    process's wall clock. ``page_items_max`` bounds the pages of queries and lists.
    """

    unavailable: float = 0
    lost_request: float = 0
    lost_answer: float = 0
    late: float = 0
    crash_before: float = 0
    crash_after: float = 0
    crash_late: float = 0
    freeze_before: float = 0
    freeze_after: float = 0
    slow: float = 0
    torn: float = 0
    storm_calls: int = 400
    freeze_ms_max: int = 4 * 3600 * 1000
    late_ms_min: int = 10
    late_ms_max: int = 60_000
    slow_ms_max: int = 120_000
    stale_ms_max: int = 2_000
    skew_ms_max: int = 0
    jump_ms_max: int = 0
    far_skew_ms_max: int = 0
    """Replaces both clock bounds for processes whose wall clock does not decide when data are marked or freed."""

    page_items_max: int = 100


def draw_weather(random: Random) -> Weather:
    """Draw the weather of a seed: a tenth of the seeds have no faults, the other seeds have few or many."""
    if random.random() < 0.1:
        return Weather(page_items_max=random.choice((2, 10, 100)))
    force = 0.1 * random.random() ** 2
    rates = {name: force * random.random() ** 2 for name in FAULT_RATES}
    surroundings = Weather(
        storm_calls=random.randrange(100, 600),
        skew_ms_max=random.choice((0, 1_000, 60_000)),
        jump_ms_max=random.choice((0, 0, 1_000, 60_000)),
        page_items_max=random.choice((2, 5, 20, 100)),
    )
    # The extremes have their own random numbers, so that they do not change the runs of all other seeds.
    return _with_extremes(msgspec.structs.replace(surroundings, **rates), Random(force))


def _with_extremes(weather: Weather, random: Random) -> Weather:
    """In some seeds, let effects come as late as the observation rule allows, or let clocks be wrong by hours.

    No seed has both: the grace covers late effects or wrong clocks, but not their sum.
    """
    chance = random.random()
    if chance < EXTREME_RATE:
        return msgspec.structs.replace(
            weather,
            late=EXTREME_LATE_RATE,
            late_ms_min=LATE_MS_MIN,
            late_ms_max=LATE_MS_LIMIT,
            skew_ms_max=0,
            jump_ms_max=0,
        )
    if chance < 2 * EXTREME_RATE:
        return msgspec.structs.replace(weather, far_skew_ms_max=FAR_SKEW_MS_MAX)
    return weather


FAULT_RATES = (
    "unavailable",
    "lost_request",
    "lost_answer",
    "late",
    "crash_before",
    "crash_after",
    "crash_late",
    "freeze_before",
    "freeze_after",
    "slow",
    "torn",
)
FAULTS = tuple(name.replace("_", " ") for name in FAULT_RATES)
READ_FAULTS = ("unavailable", "crash before", "freeze before", "freeze after", "slow")
WRITE_FAULTS = tuple(fault for fault in FAULTS if fault != "torn")


class FaultyLine:
    """The connection of one process to its backends. Every port call is a step, and may meet a fault.

    ``crash`` must end the process: it marks the process's actors as crashed and raises Crash.
    """

    def __init__(self, scheduler: Scheduler, weather: Weather, crash: Callable[[], None]) -> None:
        self.scheduler = scheduler
        self.counts = scheduler.counts
        self.weather = weather
        self._draw = scheduler.random.random
        self._crash = crash
        self._reads = _table(weather, READ_FAULTS)
        self._writes = _table(weather, WRITE_FAULTS)
        self._sends = _table(weather, FAULTS)

    def read(self, label: str, function: Callable[..., T], *arguments: Any) -> T:
        """Make a port call that changes nothing: ``function`` with ``arguments``, counted under ``label``."""
        fault = self._arrive(label, self._reads)
        return function(*arguments) if fault is None else self._befall(fault, label, function, arguments)

    def write(self, label: str, function: Callable[..., T], *arguments: Any) -> T:
        """Make a port call with an atomic effect. After a crash or an OutcomeUnknown the effect may come later."""
        fault = self._arrive(label, self._writes)
        return function(*arguments) if fault is None else self._befall(fault, label, function, arguments)

    def send(
        self, label: str, function: Callable[[str, Sequence[bytes]], None], group: str, bodies: Sequence[bytes]
    ) -> None:
        """Make a port call whose effect may be partial: ``function`` may get only the first of the ``bodies``."""
        fault = self._arrive(label, self._sends)
        if fault is None:
            function(group, bodies)
        elif fault == "torn":
            self._tear(label, function, group, bodies)
        else:
            self._befall(fault, label, function, (group, bodies))

    def page_items(self) -> int:
        """Draw the size of the next page of a query or list."""
        return 1 + int(self._draw() * self.weather.page_items_max)

    def _arrive(self, label: str, table: list[tuple[float, str]]) -> str | None:
        """Take one step, and return the fault of this call, or None."""
        scheduler = self.scheduler
        scheduler.switch()
        scheduler.calls += 1
        self.counts.bump(label)
        fault = self._fault(table) if scheduler.stormy else None
        if scheduler.report is not None:
            name = scheduler.current.name if scheduler.current else "set-up"
            scheduler.report(f"{scheduler.steps:>6} {scheduler.now_ms:>10} ms  {name:<16} {label:<18} {fault or ''}")
        return fault

    def _fault(self, table: list[tuple[float, str]]) -> str | None:
        if self.scheduler.calls > self.weather.storm_calls:
            self.scheduler.calm()
            return None
        chance = self._draw()
        if not table or chance >= table[-1][0]:
            return None
        fault = next(name for bound, name in table if chance < bound)
        self.counts.bump(fault)
        return fault

    def _befall(self, fault: str, label: str, function: Callable[..., T], arguments: tuple[Any, ...]) -> T:
        if fault == "unavailable":
            raise Unavailable("simulated", call=label)
        if fault == "slow":
            self.scheduler.now_ms += self._delay_ms(self.weather.slow_ms_max)
            return function(*arguments)
        if fault == "freeze before":
            self.scheduler.sleep(self._delay_ms(self.weather.freeze_ms_max))
            return function(*arguments)
        if fault == "freeze after":
            return self._answer_late(function, arguments)
        if fault in ("lost answer", "crash after"):
            _effect(function, arguments)
        elif fault in ("late", "crash late"):
            delay_ms = self._delay_ms(self.weather.late_ms_max, self.weather.late_ms_min)
            self.scheduler.later(delay_ms, lambda: _effect(function, arguments))
        if fault.startswith("crash"):
            self._crash()
        raise OutcomeUnknown("simulated", call=label)

    def _answer_late(self, function: Callable[..., T], arguments: tuple[Any, ...]) -> T:
        try:
            return function(*arguments)
        finally:
            self.scheduler.sleep(self._delay_ms(self.weather.freeze_ms_max))

    def _tear(
        self, label: str, function: Callable[[str, Sequence[bytes]], None], group: str, bodies: Sequence[bytes]
    ) -> None:
        if count := int(self._draw() * len(bodies)):
            function(group, bodies[:count])
        raise OutcomeUnknown("simulated", call=label, sent=count)

    def _delay_ms(self, delay_ms_max: int, delay_ms_min: int = 10) -> int:
        return int(delay_ms_min * (delay_ms_max / delay_ms_min) ** self._draw())


class FaultyIndex:
    """An index behind a `FaultyLine`. A query has pages of random size, each a port call."""

    def __init__(self, line: FaultyLine, backend: Index) -> None:
        self._line = line
        self._backend = backend
        self.joint_commits = backend.joint_commits
        self.blob_bytes_max = backend.blob_bytes_max

    def get(self, partition: str, sort: str, *, consistent: bool = True) -> Item | None:
        return self._line.read("index.get", lambda: self._backend.get(partition, sort, consistent=consistent))

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
        left = limit
        commits = -1
        while left is None or left > 0:
            size = self._line.page_items() if left is None else min(left, self._line.page_items())
            page = self._line.read("index.query", self._page, partition, after, before, reverse, size, consistent)
            commits = self._count_torn(commits)
            yield from page
            if len(page) < size:
                return
            if reverse:
                before = page[-1].sort
            else:
                after = page[-1].sort
            left = None if left is None else left - size

    def commit(self, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        if blobs:
            self._line.counts.bump("commits with blobs")
        try:
            self._line.write("index.commit", self._backend.commit, tuple(writes), dict(blobs))
        except ConditionFailed:
            self._line.counts.bump("conflicts")
            raise

    def turn(self, partition: str) -> AbstractContextManager[bool]:
        """Return a turn that excludes no writer. Its value varies, since correctness must not depend on a turn."""
        return nullcontext(self._line.scheduler.steps % 2 == 0)

    def close(self) -> None:
        """Do nothing: the backend outlives the simulated processes."""

    def _count_torn(self, commits: int) -> int:
        """Return the number of calls of `commit` so far, and count a query with such a call between two of its pages.

        ``commits`` is the number of calls at the previous page; -1 before the first page.
        """
        now = self._line.counts.get("index.commit")
        if -1 < commits < now:
            self._line.counts.bump("commits amid a query")
        return now

    def _page(
        self, partition: str, after: str | None, before: str | None, reverse: bool, limit: int, consistent: bool
    ) -> list[Item]:
        return list(
            self._backend.query(
                partition, after=after, before=before, reverse=reverse, limit=limit, consistent=consistent
            )
        )


class FaultyBlobs:
    """Blobs behind a `FaultyLine`. A list has pages of random size, each a port call."""

    def __init__(self, line: FaultyLine, backend: Blobs) -> None:
        self._line = line
        self._backend = backend

    def put(self, key: str, body: bytes) -> None:
        self._line.write("blobs.put", self._backend.put, key, body)

    def get(self, key: str) -> bytes:
        return self._line.read("blobs.get", self._backend.get, key)

    def stat(self, key: str) -> BlobStat | None:
        return self._line.read("blobs.stat", self._backend.stat, key)

    def list(self, prefix: str, *, after: str = "", damaged: Damaged = ignore) -> Iterator[BlobStat]:
        while True:
            size = self._line.page_items()
            page = self._line.read("blobs.list", self._page, prefix, after, size, damaged)
            yield from page
            if len(page) < size:
                return
            after = page[-1].key

    def delete(self, key: str, stamp: str) -> bool:
        return self._line.write("blobs.delete", self._backend.delete, key, stamp)

    def close(self) -> None:
        """Do nothing: the backend outlives the simulated processes."""

    def _page(self, prefix: str, after: str, limit: int, damaged: Damaged) -> Sequence[BlobStat]:
        return list(islice(self._backend.list(prefix, after=after, damaged=damaged), limit))


class FaultyQueue:
    """A queue behind a `FaultyLine`. A receive whose answer is lost leaves its messages hidden until their timeout."""

    def __init__(self, line: FaultyLine, backend: Queue) -> None:
        self._line = line
        self._backend = backend

    def send(self, group: str, bodies: Sequence[bytes]) -> None:
        self._line.send("queue.send", self._backend.send, group, tuple(bodies))

    def receive(self, limit: int = 10, *, visibility_seconds: float = 30) -> list[Message]:
        try:
            return self._line.write(
                "queue.receive", lambda: self._backend.receive(limit, visibility_seconds=visibility_seconds)
            )
        except OutcomeUnknown as exc:
            raise Unavailable("simulated", call="queue.receive") from exc

    def acknowledge(self, message: Message) -> bool:
        return self._line.write("queue.acknowledge", self._backend.acknowledge, message)

    def release(self, message: Message, *, after_seconds: float = 0) -> bool:
        return self._line.write("queue.release", lambda: self._backend.release(message, after_seconds=after_seconds))

    def dead_letters(self, *, after: str = "") -> Iterator[DeadMessage]:
        yield from self._line.read("queue.dead_letters", lambda: list(self._backend.dead_letters(after=after)))

    def oldest_ms(self) -> int:
        return self._line.read("queue.oldest_ms", self._backend.oldest_ms)

    def close(self) -> None:
        """Do nothing: the backend outlives the simulated processes."""


def _table(weather: Weather, faults: Sequence[str]) -> list[tuple[float, str]]:
    """Return the faults with a rate above 0, each with the upper bound of its share of [0, 1)."""
    rates = [getattr(weather, fault.replace(" ", "_")) for fault in faults]
    return [(bound, fault) for bound, rate, fault in zip(accumulate(rates), rates, faults, strict=True) if rate]


def _effect(function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Make the call and drop its result or error: the caller has failed or crashed already."""
    with suppress(StratalogError):
        function(*arguments)

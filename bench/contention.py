"""Simulates the contention of many writers of one log: ``python -m bench.contention [--quick]``.

The result is the same on every machine. The log's own code runs on an index with the latency of DynamoDB, under a clock
that moves only while all writers wait. Each writer acts as a process: it appends again as soon as it has its answer, or
after a pause. The simulation counts reads and writes as AWS bills them: a read costs a fifth of a write.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import count
from typing import TypeVar

import msgspec
from greenlet import getcurrent, greenlet

from stratalog.backends.memory import MemoryBlobs, MemoryIndex
from stratalog.errors import ConditionFailed, ContentionError
from stratalog.log import Environment, Event, LogSettings, create_log, open_log
from stratalog.ports.index import NO_BLOBS, Item, Write

WRITE_MS = 5.0
READ_MS = 3.0
SPREAD = 0.35
READ_PRICE = 0.2
SEGMENT = 1_000_000
SEEDS = (1, 2, 3)
LOADS = ((2, 0.0, 200), (8, 0.0, 100), (64, 0.0, 40), (2, 1.0, 60), (8, 1.0, 40), (64, 1.0, 20))
"""The number of writers, the mean of their pauses in seconds, and the number of appends of each writer."""

HEADINGS = ("writers", "pause", "commits/s", "wasted", "reads", "units", "slow", "slowest", "gave up")

T = TypeVar("T")


class Outcome(msgspec.Struct, frozen=True):
    """The result of one run. ``wasted`` is the number of writes whose condition failed.

    ``wasted`` and ``reads`` are per successful commit, and NaN if no commit succeeded. ``slow_ms`` is the 99th
    percentile of the successful appends. ``failed`` is the number of failed appends.
    """

    commits_per_second: float
    wasted: float
    reads: float
    slow_ms: float
    slowest_ms: float
    failed: int

    @property
    def write_units(self) -> float:
        """The write units of a commit, including its reads."""
        return 1 + self.wasted + READ_PRICE * self.reads


class Loop:
    """Runs greenlets under a simulated clock, and wakes waiting greenlets in order of time."""

    def __init__(self, seed: int) -> None:
        self.now_ms = 0.0
        self.random = random.Random(seed)
        self._hub = getcurrent()
        self._order = count()
        self._waiting: list[tuple[float, int, greenlet]] = []

    def start(self, function: Callable[[], None]) -> None:
        self._wake_at(self.now_ms, greenlet(function, self._hub))

    def run(self) -> None:
        while self._waiting:
            self.now_ms, _, waiter = heapq.heappop(self._waiting)
            waiter.switch()

    def sleep(self, milliseconds: float) -> None:
        if getcurrent() is self._hub:
            self.now_ms += milliseconds
            return
        self._wake_at(self.now_ms + milliseconds, getcurrent())
        self._hub.switch()

    def _wake_at(self, moment: float, waiter: greenlet) -> None:
        heapq.heappush(self._waiting, (moment, next(self._order), waiter))


class LoopClock:
    """A clock with the time and the randomness of a loop."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def wall_ms(self) -> int:
        return 1_750_000_000_000 + int(self._loop.now_ms)

    def boot_ms(self) -> int:
        return int(self._loop.now_ms)

    def sleep(self, seconds: float) -> None:
        self._loop.sleep(seconds * 1000)

    def random(self) -> float:
        return self._loop.random.random()

    def random_bytes(self, count: int) -> bytes:
        return self._loop.random.randbytes(count)


class DistantIndex:
    """An index with latency. Half of the latency passes before a request takes effect, and the other half after it."""

    joint_commits = False
    blob_bytes_max = 0

    def __init__(self, loop: Loop, backend: MemoryIndex, counts: Counter[str]) -> None:
        self._loop = loop
        self._backend = backend
        self._counts = counts

    def get(self, partition: str, sort: str, *, consistent: bool = True) -> Item | None:
        return self._call("reads", READ_MS, lambda: self._backend.get(partition, sort))

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

        yield from self._call("reads", READ_MS, page)

    def commit(self, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        try:
            self._call("writes", WRITE_MS, lambda: self._backend.commit(writes, blobs))
        except ConditionFailed:
            self._counts["wasted"] += 1
            raise

    def turn(self, partition: str) -> AbstractContextManager[bool]:
        return self._backend.turn(partition)

    def close(self) -> None:
        """Do nothing: all handles share the backend."""

    def _call(self, what: str, median_ms: float, act: Callable[[], T]) -> T:
        self._counts[what] += 1
        self._loop.sleep(self._leg(median_ms))
        try:
            return act()
        finally:
            self._loop.sleep(self._leg(median_ms))

    def _leg(self, median_ms: float) -> float:
        return median_ms / 2 * self._loop.random.lognormvariate(0, SPREAD)


def contend(writers: int, appends: int, pause: float = 0, seed: int = 1) -> Outcome:
    """Let ``writers`` append to one log, each ``appends`` times. Return the result."""
    loop, backend, counts = Loop(seed), MemoryIndex(), Counter[str]()
    clock = LoopClock(loop)
    environment = Environment(
        DistantIndex(loop, backend, counts), MemoryBlobs(clock), clock, LogSettings(segment_entries_target=SEGMENT)
    )
    create_log(environment, "acme", "plan")
    times: list[float] = []
    began = loop.now_ms

    def write() -> None:
        log = open_log(environment, "acme", "plan")
        for _ in range(appends):
            if pause:
                loop.sleep(loop.random.expovariate(1 / pause) * 1000)
            sent = loop.now_ms
            try:
                log.append(Event("step", 1))
            except ContentionError:
                counts["failed"] += 1
            else:
                times.append(loop.now_ms - sent)

    for _ in range(writers):
        loop.start(write)
    counts.clear()
    loop.run()
    done = len(times)
    times = sorted(times) or [math.nan]
    return Outcome(
        commits_per_second=done / (loop.now_ms - began) * 1000,
        wasted=counts["wasted"] / (done or math.nan),
        reads=counts["reads"] / (done or math.nan),
        slow_ms=times[len(times) * 99 // 100],
        slowest_ms=times[-1],
        failed=counts["failed"],
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.contention", description="Simulate contention of writers.")
    parser.add_argument("--quick", action="store_true", help="use tiny sizes, only to check that the simulation runs")
    quick = parser.parse_args(arguments).quick
    print("".join(f"{heading:>10}" for heading in HEADINGS))
    for writers, pause, appends in LOADS:
        runs = [contend(writers, 3 if quick else appends, pause, seed) for seed in SEEDS[: 1 if quick else None]]
        print(f"{writers:>10}{pause:>10g}" + "".join(f"{value:>10}" for value in _cells(runs)))


def _cells(runs: Sequence[Outcome]) -> Iterator[str]:
    """Yield the means of the runs, but the maximum for the slowest append and for the number of failed appends."""
    yield f"{statistics.mean(run.commits_per_second for run in runs):.0f}"
    yield f"{statistics.mean(run.wasted for run in runs):.2f}"
    yield f"{statistics.mean(run.reads for run in runs):.2f}"
    yield f"{statistics.mean(run.write_units for run in runs):.2f}"
    yield f"{statistics.mean(run.slow_ms for run in runs):,.0f} ms"
    yield f"{max(run.slowest_ms for run in runs):,.0f} ms"
    yield f"{max(run.failed for run in runs)}"


if __name__ == "__main__":
    main()

"""Simulates writers at a hosted index with and without turns: ``python -m bench.turns [--quick]``.

This module uses the simulation of `bench.contention`, with the log's own code. Each writer acts as a process, and a
round trip takes 5 to 20 ms. A commit needs one round trip. *Busy* writers commit without pause. *Seldom* writers pause
for one second on average. A crashed waiter writes the mark of a waiter and does nothing after that. ``python -m
bench.turns_emulator`` uses an emulator.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

import msgspec

from bench.contention import READ_PRICE, SEGMENT, DistantIndex, Loop, LoopClock
from bench.figures import Measured
from bench.workplace import FULL, Workplace
from stratalog.backends.hosted_turns import HostedTurns
from stratalog.backends.memory import MemoryBlobs, MemoryIndex
from stratalog.clock import new_id
from stratalog.documents import Document
from stratalog.errors import ContentionError
from stratalog.keys import MARK_SORT, waiting_partition
from stratalog.log import Environment, Event, LogSettings, create_log, open_log
from stratalog.ports.index import NO_BLOBS, Item, Put, Write

__all__ = ["MEASURES", "Load", "Outcome", "compete", "main"]

LEG_MS = (2.5, 10.0)
ROUND_TRIP_MS = sum(LEG_MS)
"""The mean of a round trip."""

SELDOM_SECONDS = 1.0
CRASH_SECONDS = 5.0
SEEDS = (1, 2, 3)
SECONDS_FULL = 120.0
SECONDS_QUICK = 8.0
WEAK_READ_PRICE = READ_PRICE / 2
MANY = 8
MANY_SHORTER = 3
LINE = "{:<34}{:>7}{:>11}{:>8}{:>12}{:>18}{:>18}{:>9}"


class Load(msgspec.Struct, frozen=True):
    """The writers of one log: the number of busy writers, the number of seldom writers, and whether waiters crash.

    With ``document`` each commit is a mutation of a document. Otherwise it is an append to a log.
    """

    busy: int = 0
    seldom: int = 0
    crashes: bool = False
    document: bool = False

    def __str__(self) -> str:
        writers = f"{self.busy} busy, {self.seldom} seldom"
        return writers + ", crashed waiters" * self.crashes + ", document" * self.document


class Outcome(msgspec.Struct, frozen=True):
    """The result of a load. Durations are 99th percentiles. Their unit is the mean round trip."""

    commits_per_second: float
    units: float
    share: float
    """The largest number of commits of a busy writer, divided by the smallest number, over all seeds."""

    busy_round_trips: float
    seldom_round_trips: float
    failed: int


LOADS = (
    Load(busy=1),
    Load(busy=1, crashes=True),
    Load(busy=1, seldom=1),
    Load(busy=1, seldom=1, crashes=True),
    Load(busy=3, seldom=1),
    Load(busy=2),
    Load(busy=64),
    Load(busy=1, seldom=1, document=True),
    Load(busy=3, seldom=1, document=True),
    Load(busy=2, document=True),
)


class FarIndex(DistantIndex):
    """An index whose calls take 5 to 20 ms. The index counts the cost of the calls in write units."""

    def get(self, partition: str, sort: str, *, consistent: bool = True) -> Item | None:
        self.charge(READ_PRICE if consistent else WEAK_READ_PRICE)
        return super().get(partition, sort)

    def query(self, partition: str, **options: object) -> Iterator[Item]:  # type: ignore[override]
        self.charge(READ_PRICE)
        return super().query(partition, **options)  # type: ignore[arg-type]

    def commit(self, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        self.charge(1)
        super().commit(writes, blobs)

    def charge(self, units: float) -> None:
        self._counts["milliunits"] += round(1000 * units)

    def _leg(self, median_ms: float) -> float:
        return self._loop.random.uniform(*LEG_MS)


class Run:
    """One log with its writers, and the duration of each commit."""

    def __init__(self, load: Load, seconds: float, seed: int, turns: bool) -> None:
        self.loop = Loop(seed)
        self.counts = Counter[str]()
        self.busy: list[list[float]] = [[] for _ in range(load.busy)]
        self.seldom: list[list[float]] = [[] for _ in range(load.seldom)]
        self._load = load
        self._seconds = seconds
        self._turns = turns
        self._backend = MemoryIndex()
        self._clock = LoopClock(self.loop)
        kind = "document" if load.document else "log"
        created = create_log(self._environment(), "acme", "plan", kind)
        for times in self.busy:
            self.loop.start(lambda times=times: self._write(times, 0))  # type: ignore[misc]
        for times in self.seldom:
            self.loop.start(lambda times=times: self._write(times, SELDOM_SECONDS))  # type: ignore[misc]
        if load.crashes:
            self.loop.start(lambda: self._crash(waiting_partition(created.record.prefix)))
        self.counts.clear()
        self.loop.run()

    def _environment(self) -> Environment:
        far = FarIndex(self.loop, self._backend, self.counts)
        index = HostedTurns(far, self._clock, self.loop.start) if self._turns else far
        # A snapshot would run in a thread, which the simulation does not control.
        settings = LogSettings(segment_entries_target=SEGMENT, snapshot_entries_interval=SEGMENT)
        return Environment(index, MemoryBlobs(self._clock), self._clock, settings)

    def _goes_on(self) -> bool:
        return self.loop.now_ms < self._seconds * 1000

    def _write(self, times: list[float], pause: float) -> None:
        commit = self._committer()
        self.loop.sleep(self.loop.random.random() * 1000 * max(pause, 0.01))
        while self._goes_on():
            if pause:
                self.loop.sleep(self.loop.random.expovariate(1 / pause) * 1000)
            sent = self.loop.now_ms
            try:
                commit()
            except ContentionError:
                self.counts["failed"] += 1
            else:
                times.append(self.loop.now_ms - sent)

    def _committer(self) -> Callable[[], object]:
        """Open the log as a process does. Return a function that makes one commit."""
        log = open_log(self._environment(), "acme", "plan")
        if not self._load.document:
            return lambda: log.append(Event("step", 1))
        document, client = Document(log), new_id(self._clock)
        return lambda: document.mutate("put", {"key": client, "value": self.loop.now_ms}, client=client)

    def _crash(self, partition: str) -> None:
        """Write the mark of a new waiter at regular intervals. These waiters do nothing else."""
        while self._goes_on():
            self.loop.sleep(CRASH_SECONDS * 1000)
            mark = Item(partition, MARK_SORT, {"i": f"crashed-{self.loop.now_ms:.0f}"})
            self._backend.commit([Put(mark)])


def compete(load: Load, seconds: float, *, turns: bool = True, seeds: Sequence[int] = SEEDS) -> Outcome:
    """Let the writers of ``load`` commit for ``seconds`` of simulated time, once with each seed."""
    runs = [Run(load, seconds, seed, turns) for seed in seeds]
    done = [sum(map(len, run.busy + run.seldom)) for run in runs]
    counts = [len(times) for run in runs for times in run.busy] or [1]
    return Outcome(
        commits_per_second=sum(done) / seconds / len(runs),
        units=sum(run.counts["milliunits"] for run in runs) / sum(done) / 1000,
        share=max(counts) / max(1, min(counts)),
        busy_round_trips=_p99([time for run in runs for times in run.busy for time in times]) / ROUND_TRIP_MS,
        seldom_round_trips=_p99([time for run in runs for times in run.seldom for time in times]) / ROUND_TRIP_MS,
        failed=sum(run.counts["failed"] for run in runs),
    )


def lone(work: Workplace) -> Measured:
    return Measured(_outcome(work, Load(busy=1)).commits_per_second, _before(work, Load(busy=1)).commits_per_second)


def lone_units(work: Workplace) -> Measured:
    return Measured(_outcome(work, Load(busy=1)).units, _before(work, Load(busy=1)).units)


def seldom(work: Workplace) -> Measured:
    return _seldom(work, Load(busy=1, seldom=1))


def seldom_three(work: Workplace) -> Measured:
    return _seldom(work, Load(busy=3, seldom=1))


def seldom_document(work: Workplace) -> Measured:
    return _seldom(work, Load(busy=1, seldom=1, document=True))


def fairness(work: Workplace) -> Measured:
    return Measured(_outcome(work, Load(busy=2)).share, _before(work, Load(busy=2)).share)


def crashed(work: Workplace) -> Measured:
    """The round trips of a seldom writer next to a busy writer, with and without waiters that crash."""
    with_crashes = _outcome(work, Load(busy=1, seldom=1, crashes=True))
    return Measured(with_crashes.seldom_round_trips, _outcome(work, Load(busy=1, seldom=1)).seldom_round_trips)


def many(work: Workplace) -> Measured:
    """The number of commits of 64 busy writers that failed after their last retry."""
    return Measured(_outcome(work, Load(busy=64)).failed)


MEASURES: dict[str, Callable[[Workplace], Measured]] = {
    "hosted-lone": lone,
    "hosted-units": lone_units,
    "hosted-seldom": seldom,
    "hosted-three": seldom_three,
    "hosted-document": seldom_document,
    "hosted-fairness": fairness,
    "hosted-crashed": crashed,
    "hosted-64": many,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.turns", description="Simulate turns at a hosted index.")
    parser.add_argument("--quick", action="store_true", help="use short runs, only to check that the simulation runs")
    seconds, seeds = (2.0, SEEDS[:1]) if parser.parse_args(arguments).quick else (SECONDS_FULL, SEEDS)
    print("p99 in round trips of 12.5 ms")
    print(LINE.format("writers", "turns", "commits/s", "units", "most:least", "busy p99", "seldom p99", "gave up"))
    for load in LOADS:
        for turns in (False, True):
            outcome = compete(load, seconds, turns=turns, seeds=seeds)
            print(LINE.format(str(load), "yes" if turns else "no", *_cells(outcome)))


def _cells(outcome: Outcome) -> Iterator[str]:
    yield f"{outcome.commits_per_second:.1f}"
    yield f"{outcome.units:.2f}"
    yield f"{outcome.share:.2f}"
    yield f"{outcome.busy_round_trips:.1f}"
    yield f"{outcome.seldom_round_trips:.1f}"
    yield f"{outcome.failed}"


def _seldom(work: Workplace, load: Load) -> Measured:
    """The round trips of a seldom writer next to busy writers. Raises AssertionError if a commit failed."""
    outcome = _outcome(work, load)
    if outcome.failed:
        raise AssertionError(f"{outcome.failed} commits failed")
    return Measured(outcome.seldom_round_trips, _before(work, load).seldom_round_trips)


def _outcome(work: Workplace, load: Load) -> Outcome:
    return _competed(work.scale == FULL, load, True)


def _before(work: Workplace, load: Load) -> Outcome:
    return _competed(work.scale == FULL, load, False)


@cache
def _competed(full: bool, load: Load, turns: bool) -> Outcome:
    seconds = (SECONDS_FULL if full else SECONDS_QUICK) / (MANY_SHORTER if load.busy > MANY else 1)
    return compete(load, seconds, turns=turns, seeds=SEEDS if full else SEEDS[:1])


def _p99(times: Sequence[float]) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * 0.99))] if times else 0.0


if __name__ == "__main__":
    main()

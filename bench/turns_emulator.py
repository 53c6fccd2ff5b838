"""Measure turns at an emulator of DynamoDB: ``python -m bench.turns_emulator [--quick]``. Needs the development tools.

The program resembles `bench.turns`, but each writer is a real process that uses the emulator ministack. The program
delays each call by 5 to 20 ms, since an emulator on the same machine answers faster than a distant service. The unit of
a latency is the round trip of its run, since the machine's speed differs between runs. A round trip is the median, over
all processes of the run, of the median duration of a process's calls.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import boto3
import msgspec

from bench.turns import LEG_MS, Load
from stratalog.backends.dynamodb import DynamoIndex
from stratalog.backends.dynamodb_client import DynamoClient
from stratalog.backends.dynamodb_http import Endpoint
from stratalog.backends.dynamodb_setup import create_table
from stratalog.backends.hosted_turns import HostedTurns
from stratalog.backends.memory import MemoryBlobs
from stratalog.clock import SystemClock
from stratalog.errors import StratalogError
from stratalog.log import Environment, Event, create_log, open_log
from stratalog.ports.index import NO_BLOBS, Item, Write
from stratalog.testing.emulators import ministack

TABLE = "turns"
SECONDS_FULL = 30.0
SECONDS_QUICK = 2.0
START_SECONDS = 2.0
LOADS = (Load(busy=1), Load(busy=1, seldom=1), Load(busy=3, seldom=1), Load(busy=2))
SELDOM_SECONDS = 1.0
READ_UNIT = 0.2  # a read unit of DynamoDB costs a fifth of a write unit
HEADINGS = ("writers", "turns", "commits/s", "units", "most:least", "busy p99", "seldom p99", "trip", "failed")
LINE = "{:<20}{:>7}{:>11}{:>8}{:>12}{:>14}{:>14}{:>9}{:>9}"

T = TypeVar("T")


class Task(msgspec.Struct, frozen=True):
    """The task of one process."""

    url: str
    log: str
    begin: float
    seconds: float
    pause: float
    turns: bool


class Report(msgspec.Struct, frozen=True):
    """The result of a process.

    The report has the seconds of each commit, the number of failed commits, the cost of all calls in write units, and
    the median seconds of a call.
    """

    seconds: list[float]
    failed: int
    units: float
    round_trip: float


class DistantDynamo:
    """The table with a random delay before each request takes effect, and another random delay afterwards."""

    joint_commits = False
    blob_bytes_max = 0

    def __init__(self, index: DynamoIndex) -> None:
        self._index = index
        self.seconds: list[float] = []

    def get(self, partition: str, sort: str, *, consistent: bool = True) -> Item | None:
        return self._far(lambda: self._index.get(partition, sort, consistent=consistent))

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
        items = self._index.query(partition, after=after, before=before, reverse=reverse, limit=limit)
        yield from self._far(lambda: list(items))

    def commit(self, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        self._far(lambda: self._index.commit(writes, blobs))

    def turn(self, partition: str):  # type: ignore[no-untyped-def]
        return self._index.turn(partition)

    def close(self) -> None:
        self._index.close()

    def _far(self, act: Callable[[], T]) -> T:
        begun = time.perf_counter()
        time.sleep(random.uniform(*LEG_MS) / 1000)
        try:
            return act()
        finally:
            time.sleep(random.uniform(*LEG_MS) / 1000)
            self.seconds.append(time.perf_counter() - begun)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.turns_emulator", description="Measure turns at an emulator.")
    parser.add_argument("--quick", action="store_true", help="use short runs, only to check that the program runs")
    parser.add_argument("--task", help="the task of a child process of this program")
    options = parser.parse_args(arguments)
    if options.task:
        report = _work(msgspec.json.decode(options.task, type=Task))
        sys.stdout.buffer.write(msgspec.json.encode(report))
        return
    seconds = SECONDS_QUICK if options.quick else SECONDS_FULL
    with tempfile.TemporaryDirectory() as folder, ministack(Path(folder)) as emulator:
        create_table(_client(emulator.url), TABLE)
        print("p99 in round trips of the same run")
        print(LINE.format(*HEADINGS))
        for load in LOADS:
            for turns in (False, True):
                busy, seldom = _run(emulator.url, load, seconds, turns)
                who = str(load) if load.seldom else f"{load.busy} busy"
                print(LINE.format(who, "yes" if turns else "no", *_cells(busy, seldom, seconds)), flush=True)


def _run(url: str, load: Load, seconds: float, turns: bool) -> tuple[list[Report], list[Report]]:
    clock = SystemClock()
    name = f"log-{load.busy}-{load.seldom}-{turns}"
    create_log(Environment(DynamoIndex(_client(url), TABLE), MemoryBlobs(clock), clock), "bench", name)
    begin = time.time() + START_SECONDS
    pauses = [0.0] * load.busy + [SELDOM_SECONDS] * load.seldom
    processes = [_start(Task(url, name, begin, seconds, pause, turns)) for pause in pauses]
    try:
        reports = [msgspec.json.decode(process.communicate()[0], type=Report) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return reports[: load.busy], reports[load.busy :]


def _start(task: Task) -> subprocess.Popen[bytes]:
    encoded = msgspec.json.encode(task).decode()
    return subprocess.Popen([sys.executable, "-m", "bench.turns_emulator", "--task", encoded], stdout=subprocess.PIPE)


def _work(task: Task) -> Report:
    clock, client = SystemClock(), _client(task.url)
    far = DistantDynamo(DynamoIndex(client, TABLE))
    index = HostedTurns(far, clock) if task.turns else far
    log = open_log(Environment(index, MemoryBlobs(clock), clock), "bench", task.log)
    seconds: list[float] = []
    failed = 0
    time.sleep(max(0.0, task.begin - time.time()))
    ends = time.perf_counter() + task.seconds
    while (sent := time.perf_counter()) < ends:
        try:
            log.append(Event("step", 1))
            seconds.append(time.perf_counter() - sent)
        except StratalogError:
            failed += 1
        time.sleep(task.pause)
    index.close()
    units = client.meter.total("write units") + READ_UNIT * client.meter.total("read units")
    return Report(seconds, failed, units, statistics.median(far.seconds))


def _cells(busy: list[Report], seldom: list[Report], seconds: float) -> Iterator[str]:
    reports = busy + seldom
    commits = sum(len(report.seconds) for report in reports)
    round_trip = statistics.median(report.round_trip for report in reports)
    counts = sorted(len(report.seconds) for report in busy)
    yield f"{commits / seconds:.1f}"
    yield f"{sum(report.units for report in reports) / max(1, commits):.2f}"
    yield f"{counts[-1] / max(1, counts[0]):.2f}"
    yield f"{_p99(busy) / round_trip:.1f}"
    yield f"{_p99(seldom) / round_trip:.1f}" if seldom else "-"
    yield f"{1000 * round_trip:.0f} ms"
    yield f"{sum(report.failed for report in reports)}"


def _p99(reports: list[Report]) -> float:
    ordered = sorted(seconds for report in reports for seconds in report.seconds)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] if ordered else 0.0


def _client(url: str) -> DynamoClient:
    credentials = boto3.Session("test", "secret").get_credentials()
    return DynamoClient(Endpoint(url), "us-east-1", credentials.get_frozen_credentials, SystemClock())


if __name__ == "__main__":
    main()

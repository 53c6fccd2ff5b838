"""One of several processes that use one log and its forks: append, read, follow, fork, snapshot, archive, raise floors.

``python -m tests.cloud.historian TASK``. The process writes each result immediately to a file, as one line. So the
history survives a kill. Times are readings of the machine's monotonic clock, which all processes share.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from stratalog.backends.dynamodb import DynamoIndex
from stratalog.backends.dynamodb_client import DynamoClient, DynamoRetryPolicy
from stratalog.clock import SystemClock
from stratalog.errors import (
    Conflict,
    Corrupt,
    Invalid,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    StratalogError,
    Unavailable,
)
from stratalog.homes import Ports, open_ports
from stratalog.log import Environment, Log, LogSettings, fork_log, open_log
from stratalog.log.directory import LOGS, list_directory
from stratalog.log.retention import archive_segments, raise_floor
from stratalog.testing.checkers import Answered, Violation
from stratalog.testing.emulators import Emulator
from stratalog.testing.faults import FaultyBlobs, FaultyIndex, Weather
from tests.cloud.helpers import GivenCredentials
from tests.cloud.rough import RoughEndpoint, real_line
from tests.cloud.seaweed import VERSIONED, blobs_in
from tests.simulation.world_log import check_content, content

__all__ = ["MAIN", "ORGANISATION", "SETTINGS", "Forked", "Headed", "Met", "Read", "Record", "Sent", "Task", "Was"]

ORGANISATION, MAIN = "acme", "plan"
FOLLOWED = 10
SETTINGS = LogSettings(
    segment_entries_target=8, body_inline_bytes_max=64, append_seconds_max=5, follow_poll_seconds=0.01
)
WEATHER = Weather(
    unavailable=0.01,
    lost_request=0.005,
    lost_answer=0.01,
    late=0.01,
    crash_before=0.001,
    crash_after=0.002,
    crash_late=0.001,
    freeze_before=0.02,
    freeze_after=0.02,
    storm_calls=10**9,
    freeze_ms_max=150,
    late_ms_max=150,
)
LINE_FAULT_SHARE = 0.05


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """The addresses of the services, the name and seed of the process, and the file whose creation ends the process.

    If ``store`` has the URL of a store, the process uses this store and not the emulators at the other addresses.
    """

    folder: str
    name: str
    seed: int
    end: str
    store: str = ""
    dynamo: str = ""
    objects: str = ""
    table: str = ""
    prefix: str = ""


class Sent(msgspec.Struct, frozen=True, tag=True):
    """The process sends an append to a log."""

    log: str
    write_id: str
    moment: int


class Was(msgspec.Struct, frozen=True, tag=True):
    """The answer to an append."""

    write_id: str
    moment: int
    answered: Answered
    version: int = 0


class Headed(msgspec.Struct, frozen=True, tag=True):
    """A read of a log's head, with the times of the request and the answer."""

    log: str
    sent: int
    answered: int
    version: int


class Read(msgspec.Struct, frozen=True, tag=True):
    """A read of the entries from ``after`` + 1 on. With ``is_complete``, the read ended at the end of the log."""

    log: str
    sent: int
    answered: int
    after: int
    write_ids: list[str]
    is_complete: bool


class Forked(msgspec.Struct, frozen=True, tag=True):
    """A new fork, with its ancestors and the last version that the fork takes from each ancestor.

    The fork's name record drops the ancestors once the fork's floor has passed their versions.
    """

    log: str
    ancestors: list[tuple[str, int]]


class Met(msgspec.Struct, frozen=True, tag=True):
    """An event to count, or a violation that this process detected."""

    what: str
    violation: bool = False


Record = Sent | Was | Headed | Read | Forked | Met


def _index_of(task: Task) -> DynamoIndex:
    """Return an index whose endpoint throttles, refuses, loses and damages requests at random."""
    policy = DynamoRetryPolicy(wait_seconds_first=0.001, wait_seconds_max=0.01)
    endpoint = RoughEndpoint(task.dynamo, task.seed, LINE_FAULT_SHARE)
    client = DynamoClient(endpoint, "us-east-1", GivenCredentials, SystemClock(), retry_policy=policy)
    return DynamoIndex(client, task.table)


def _environment_of(task: Task) -> Environment:
    """Return the log's ports, wrapped with the faults of the simulation. An injected crash kills the process."""
    line, clock = real_line(task.seed, WEATHER), SystemClock()
    if task.store:
        ports = _opened(task.store)
        index, blobs = ports.index, ports.blobs
    else:
        index, blobs = _index_of(task), blobs_in(VERSIONED, Emulator(task.objects, 0), task.prefix)
    return Environment(FaultyIndex(line, index), FaultyBlobs(line, blobs), clock, SETTINGS)


def _opened(store: str) -> Ports:
    """Open a store. Try again while the store's server restarts."""
    clock = SystemClock()
    while True:
        try:
            return open_ports(store, False, clock, None)
        except Unavailable:
            clock.sleep(0.05)


class Historian:
    """Does random operations until the file ``end`` of its task exists."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._environment = _environment_of(task)
        self._random = random.Random(task.seed)
        self._file = os.open(Path(task.folder) / task.name, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        self._end = Path(task.end)
        self._number = 0

    def run(self) -> None:
        """Do operations until the end. Record errors of the store. Raise any other exception."""
        turns: list[tuple[Callable[[Log], None], int]] = [
            (self._append, 60),
            (self._head, 10),
            (self._read, 12),
            (self._follow, 5),
            (self._snapshot, 4),
            (self._archive, 3),
            (self._raise_floor, 2),
            (self._fork, 2),
        ]
        # Start with one operation of each kind, so that a short history has all kinds.
        due = self._random.sample([turn for turn, _ in turns], len(turns))
        log: Log | None = None
        while not self._end.exists():
            (turn,) = [due.pop()] if due else self._random.choices(*zip(*turns, strict=True))
            try:
                log = log if log is not None and self._random.random() < 0.97 else self._open()
                turn(log)
                self._tell(Met(turn.__name__))
            except (Corrupt, Violation) as exc:
                self._tell(Met(f"{type(exc).__name__}: {exc}", violation=True))
            except (Invalid, LimitExceeded) as exc:
                # This program makes no invalid request, so each of these errors is a violation.
                self._tell(Met(f"{type(exc).__name__}: {exc}", violation=True))
            except StratalogError as exc:
                self._tell(Met(exc.code))

    def _open(self) -> Log:
        """Return a new handle: usually of the main log, sometimes of a random log, which may be a fork."""
        names = [MAIN]
        if self._random.random() < 0.2:
            names = [line.id for line in list_directory(self._environment.index, ORGANISATION, LOGS)]
        return open_log(self._environment, ORGANISATION, self._random.choice(names))

    def _append(self, log: Log) -> None:
        self._number += 1
        write_id = f"{self._task.name}.{self._number}"
        known = log.known_head()
        expected = known.version if known and self._random.random() < 0.3 else None
        self._tell(Sent(log.record.name, write_id, time.monotonic_ns()))
        version, answered = 0, Answered.REFUSED
        try:
            version = log.append(content(write_id), expected=expected, write_id=write_id).version
            answered = Answered.ACKNOWLEDGED
        except OutcomeUnknown:
            answered = Answered.UNKNOWN
        except (Conflict, NotFound, Unavailable) as exc:
            self._tell(Met(exc.code))
        self._tell(Was(write_id, time.monotonic_ns(), answered, version))

    def _head(self, log: Log) -> None:
        sent = time.monotonic_ns()
        version = log.head().version
        self._tell(Headed(log.record.name, sent, time.monotonic_ns(), version))

    def _read(self, log: Log) -> None:
        """Read from a random version to the end. Check for gaps, and check each content against its write id."""
        head = log.head().version
        after = self._random.choice([log.floor(), self._random.randint(0, head), max(0, head - 5)])
        sent = time.monotonic_ns()
        self._note(log, sent, after, log.read(after), is_complete=True)

    def _follow(self, log: Log) -> None:
        """Follow the log through a few entries, from a version shortly before the head."""
        after = max(log.floor(), log.head().version - FOLLOWED // 2)
        sent = time.monotonic_ns()
        self._note(log, sent, after, islice(log.follow(after), FOLLOWED // 2), is_complete=False)

    def _note(self, log: Log, sent: int, after: int, entries: Any, *, is_complete: bool) -> None:
        write_ids = []
        for version, entry in enumerate(entries, after + 1):
            if entry.version != version:
                raise Violation("torn", "a reader met a gap", log=log.record.name, version=version, next=entry.version)
            check_content(entry)
            write_ids.append(entry.write_id)
        self._tell(Read(log.record.name, sent, time.monotonic_ns(), after, write_ids, is_complete))

    def _snapshot(self, log: Log) -> None:
        # An empty log has no version to snapshot.
        if version := log.head().version:
            log.save_snapshot(version, [b"state"])

    def _archive(self, log: Log) -> None:
        archive_segments(log, log.head().version // 2)

    def _raise_floor(self, log: Log) -> None:
        raise_floor(log, log.head().version // 4)

    def _fork(self, log: Log) -> None:
        """Fork the log at or shortly before its head, append two entries to the fork, and read the whole fork."""
        at = max(log.floor(), log.head().version - self._random.randint(0, 20))
        fork = fork_log(log, f"fork-{self._task.name}-{self._number}", at)
        self._tell(Forked(fork.record.name, [(parent.name, parent.version) for parent in fork.record.lineage]))
        self._append(fork)
        self._append(fork)
        sent = time.monotonic_ns()
        floor = fork.floor()
        self._note(fork, sent, floor, fork.read(floor), is_complete=True)

    def _tell(self, record: Record) -> None:
        os.write(self._file, msgspec.json.encode(record) + b"\n")


if __name__ == "__main__":
    Historian(msgspec.json.decode(sys.argv[1], type=Task)).run()

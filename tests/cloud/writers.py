"""A process whose threads write one log: ``python -m tests.cloud.writers TASK``. Several such processes compete.

Each thread has its own store. The threads of a process share an index client. A process prints ``ready``, waits for a
line, runs its writers, and prints one report of all writers as JSON.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import ExitStack

import msgspec

from stratalog.backends.dynamodb import DynamoIndex
from stratalog.backends.memory import MemoryBlobs, MemoryQueue
from stratalog.clock import SystemClock
from stratalog.errors import StratalogError
from stratalog.log import Environment, Event, LogSettings
from stratalog.store import Store
from stratalog.testing.emulators import Emulator
from tests.cloud.helpers import dynamo_client
from tests.processes import start

__all__ = ["SECONDS_MAX", "Report", "Task", "compete"]

SECONDS_MAX = 480
# The default is 10 seconds of wall-clock time. On a busy machine an emulator answered 32 requests a second, and the 256
# commits took longer than a minute. The test checks that every writer commits, and not the emulator's speed.
SETTINGS = LogSettings(append_seconds_max=SECONDS_MAX)


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """The task of one process."""

    url: str
    table: str
    name: str
    threads: int
    appends: int


class Report(msgspec.Struct, frozen=True):
    """The results of a process: version and write id of each append, errors, the slowest append, and units used."""

    acknowledged: list[tuple[int, str]]
    failed: list[str]
    slowest_seconds: float
    seconds: float
    written: float
    wasted: float
    read: float


def compete(emulator: Emulator, table: str, *, processes: int, threads: int, appends: int) -> list[Report]:
    """Start ``processes`` processes with ``threads`` writers each. All append to the log ``plan`` at the same time."""
    tasks = [
        Task(url=emulator.url, table=table, name=f"{n}", threads=threads, appends=appends) for n in range(processes)
    ]
    with ExitStack() as stack:
        started = [stack.enter_context(start(_command(task))) for task in tasks]
        for process in started:
            assert process.read_line() == "ready\n"
        for process in started:
            process.write_line("go")
        return [msgspec.json.decode(process.end(seconds=SECONDS_MAX), type=Report) for process in started]


def _command(task: Task) -> list[str]:
    return [sys.executable, "-m", "tests.cloud.writers", msgspec.json.encode(task).decode()]


def main() -> None:
    task = msgspec.json.decode(sys.argv[1], type=Task)
    index = DynamoIndex(dynamo_client(Emulator(task.url, 0)), task.table)
    writers = [_Writer(index, task, f"{task.name}/{n}") for n in range(task.threads)]
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.monotonic()
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    seconds = time.monotonic() - began
    meter = index.meter
    units = (meter.total("write units"), meter.total("wasted write units"), meter.total("read units"))
    acknowledged = [append for writer in writers for append in writer.acknowledged]
    failed = [error for writer in writers for error in writer.failed]
    report = Report(acknowledged, failed, max(writer.slowest_seconds for writer in writers), seconds, *units)
    print(msgspec.json.encode(report).decode())


class _Writer(threading.Thread):
    """A writer that starts the next append as soon as the last append returns."""

    def __init__(self, index: DynamoIndex, task: Task, name: str) -> None:
        super().__init__()
        clock = SystemClock()
        self._log = Store(Environment(index, MemoryBlobs(clock), clock, SETTINGS), MemoryQueue(clock)).log(
            "acme", "plan"
        )
        self._ids = [f"{name}.{n}" for n in range(task.appends)]
        self.acknowledged: list[tuple[int, str]] = []
        self.failed: list[str] = []
        self.slowest_seconds = 0.0

    def run(self) -> None:
        for write_id in self._ids:
            began = time.monotonic()
            try:
                self.acknowledged.append(
                    (self._log.append(Event("step", write_id), write_id=write_id).version, write_id)
                )
            except StratalogError as exc:
                self.failed.append(str(exc))
            self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - began)


if __name__ == "__main__":
    main()

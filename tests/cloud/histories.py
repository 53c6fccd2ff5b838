"""Runs processes on DynamoDB and an object store, kills some, and checks their records against the stored log.

    python -m tests.cloud.histories --records 60000 --processes 8 --seed 1

The simulation's checkers do the comparison. This module reads the stored log from the index item by item, from seal to
seal, without the log's own readers. A failed history prints its seed. The seed does not fix the order of the processes.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from stratalog.backends.s3_versions import create_bucket
from stratalog.clock import SystemClock
from stratalog.homes import open_ports
from stratalog.keys import entries_partition, segments_partition
from stratalog.log import create_log
from stratalog.log.directory import LOGS, list_directory
from stratalog.log.environment import Environment
from stratalog.log.names import NameRecord, require_name
from stratalog.ports.blobs import Blobs
from stratalog.ports.index import Index
from stratalog.testing.checkers import Answered, CheckedAppend, HeadRead, LoggedEntry, Violation, check_appends
from stratalog.testing.emulators import Emulator, describe_status, ministack, seaweed
from tests.cloud.helpers import dynamo_index
from tests.cloud.historian import MAIN, ORGANISATION, SETTINGS, Forked, Headed, Met, Read, Record, Sent, Task, Was
from tests.cloud.seaweed import VERSIONED, blobs_in, client

__all__ = ["History", "Left", "judge", "main", "run", "run_in", "run_until"]

NEVER = 2**63
KILL_RECORDS_MIN, KILL_RECORDS_MAX = 100, 400
SILENCE_SECONDS_MAX = 300


class History(msgspec.Struct, frozen=True):
    """The records of one process, in order. A record is a line of the process's file: a request, answer or event."""

    name: str
    records: Sequence[Record]


class Left(msgspec.Struct, frozen=True):
    """The content of a log after the run."""

    first: int
    """The first version that the log does not take from an ancestor."""

    write_ids: dict[int, str]
    """The write ids of the log's own versions."""

    ancestors: Sequence[tuple[str, int]] = ()
    """The ancestors of a fork, oldest first, and the last version that the fork takes from each ancestor."""


def run(dynamo: Emulator, objects: Emulator, *, records: int, processes: int, seed: int) -> Counter[str]:
    """Run ``processes`` processes until they have ``records`` records in all. Return event counts. Raises Violation."""
    with closing(dynamo_index(dynamo)) as index:
        blobs = blobs_in(VERSIONED, objects, prefix := f"history-{index.table}")
        task = Task(
            folder="",
            name="",
            seed=seed,
            end="",
            dynamo=dynamo.url,
            objects=objects.url,
            table=index.table,
            prefix=prefix,
        )
        return _run(index, blobs, task, records, processes)


def run_in(store: str, *, records: int, processes: int, seed: int, disturb: Callable[[], None]) -> Counter[str]:
    """Create a store at this URL, and do the same as `run` in this store. Call ``disturb`` after each kill."""
    ports = open_ports(store, True, SystemClock(), None)
    try:
        task = Task(folder="", name="", seed=seed, end="", store=store)
        return _run(ports.index, ports.blobs, task, records, processes, disturb)
    finally:
        ports.blobs.close()
        ports.index.close()


def _run(
    index: Index, blobs: Blobs, task: Task, records: int, processes: int, disturb: Callable[[], None] | None = None
) -> Counter[str]:
    environment = Environment(index, blobs, SystemClock(), SETTINGS)
    create_log(environment, ORGANISATION, MAIN, "model" if task.seed % 2 else "log")
    with TemporaryDirectory() as folder:
        (answers_folder := Path(folder) / "told").mkdir()
        task = msgspec.structs.replace(task, folder=str(answers_folder), end=f"{folder}/end")
        kills = _Crew(task, processes, records, disturb).work()
        histories = [History(path.name, list(_records(path))) for path in sorted(answers_folder.iterdir())]
    lines = [line.id for line in list_directory(index, ORGANISATION, LOGS)]
    left = {name: _left(index, require_name(index, ORGANISATION, name)) for name in lines}
    return judge(histories, left) + Counter(kills=kills)


def judge(histories: Sequence[History], left: dict[str, Left]) -> Counter[str]:
    """Check the histories against the content of the logs. Return the counts of the events. Raises Violation."""
    left = _with_ancestors(histories, left)
    met: Counter[str] = Counter()
    appends: dict[str, list[CheckedAppend]] = defaultdict(list)
    heads: dict[str, list[HeadRead]] = defaultdict(list)
    for history in histories:
        for append, log in _appends(history):
            appends[log].append(append)
            met[append.outcome.value] += 1
        for record in history.records:
            if isinstance(record, Met):
                met[record.what] += 1
                if record.violation:
                    raise Violation("seen", record.what, process=history.name)
            elif isinstance(record, Headed):
                heads[record.log].append(HeadRead(record.sent, record.answered, record.version))
            elif isinstance(record, Read):
                met["entries read"] += len(record.write_ids)
                _check_read(record, left)
                if record.is_complete:
                    last = record.after + len(record.write_ids)
                    heads[record.log].append(HeadRead(record.sent, record.answered, last))
    for log, own in left.items():
        logged = [_logged_entry(version, write_id) for version, write_id in own.write_ids.items()]
        check_appends(appends[log], heads[log], logged, own.first - 1)
        met["entries"] += len(logged)
    met["logs"] = len(left)
    return met


class _Crew:
    """The processes of a history. A new process, which starts without state, replaces each process that ends early.

    A kill or the end comes after a number of records, and not after a time. So the speed of the machine has no effect
    on the length of a history, nor on the number of kills.
    """

    def __init__(self, task: Task, processes: int, records: int, disturb: Callable[[], None] | None = None) -> None:
        self._task = task
        self._disturb = disturb
        self._records = records
        self._random = random.Random(task.seed)
        self._started = 0
        self._answer_counts: Counter[Path] = Counter()
        self._running = [self._start() for _ in range(processes)]
        self._kills = 0

    def work(self) -> int:
        """Run until there are enough records. Return the number of killed processes.

        Raises RuntimeError if a process failed, and Violation if no process made progress.
        """
        answers, answered_at, kill_at = 0, time.monotonic(), self._next_kill()
        try:
            while self._running:
                time.sleep(0.02)
                if self._count() > answers:
                    answers, answered_at = self._answer_counts.total(), time.monotonic()
                # The kills come before the end, even if this process has run so rarely that both are due.
                if kill_at < self._records:
                    if answers >= kill_at:
                        process = self._random.choice(self._running)
                        process.kill()
                        process.wait()
                        if self._disturb is not None:
                            self._disturb()
                        kill_at += self._next_kill()
                elif answers >= self._records:
                    Path(self._task.end).touch()
                self._replace_ended()
                if time.monotonic() > answered_at + SILENCE_SECONDS_MAX:
                    raise Violation("progress", "no process made progress, or a process did not end", answers=answers)
        finally:
            for process in self._running:
                process.kill()
                process.wait()
        return self._kills

    def _count(self) -> int:
        """Return the number of records in all files."""
        for path in Path(self._task.folder).iterdir():
            self._answer_counts[path] = path.read_bytes().count(b"\n")
        return self._answer_counts.total()

    def _replace_ended(self) -> None:
        for process in [process for process in self._running if process.poll() is not None]:
            self._running.remove(process)
            if process.returncode not in (0, -signal.SIGKILL):
                raise RuntimeError(f"process {process.args} ended with {describe_status(process.returncode)}")
            self._kills += process.returncode != 0
            if not Path(self._task.end).exists():
                self._running.append(self._start())

    def _start(self) -> subprocess.Popen[bytes]:
        self._started += 1
        task = msgspec.structs.replace(
            self._task, name=f"p{self._started}", seed=self._task.seed * 1000 + self._started
        )
        return subprocess.Popen([sys.executable, "-m", "tests.cloud.historian", msgspec.json.encode(task).decode()])

    def _next_kill(self) -> int:
        return self._random.randint(KILL_RECORDS_MIN, KILL_RECORDS_MAX)


def _records(path: Path) -> Iterator[Record]:
    """Yield the records of a process. Skip the last line if a kill cut the line."""
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            yield msgspec.json.decode(line, type=Record)  # type: ignore[arg-type]


def _appends(history: History) -> Iterator[tuple[CheckedAppend, str]]:
    """Yield the appends of a history with their logs. An append without a recorded answer has an unknown outcome."""
    answers = {record.write_id: record for record in history.records if isinstance(record, Was)}
    for record in history.records:
        if isinstance(record, Sent):
            answer = answers.get(record.write_id) or Was(record.write_id, NEVER, Answered.UNKNOWN)
            yield (
                CheckedAppend(
                    history.name, record.write_id, record.moment, answer.moment, answer.answered, answer.version
                ),
                record.log,
            )


def _with_ancestors(histories: Sequence[History], left: dict[str, Left]) -> dict[str, Left]:
    """Add the ancestors that a fork's name record has dropped. The process that made the fork recorded them."""
    forked = {
        record.log: record.ancestors
        for history in histories
        for record in history.records
        if isinstance(record, Forked)
    }
    return {
        log: own if own.ancestors else msgspec.structs.replace(own, ancestors=forked.get(log, ()))
        for log, own in left.items()
    }


def _check_read(read: Read, left: dict[str, Left]) -> None:
    """Check that each entry of a read is in the log or an ancestor.

    A kill may prevent a process from recording the ancestors of its fork. Then check only the fork's own entries.
    """
    own = left[read.log]
    known_from = 1 if own.ancestors else own.first
    complete = _complete_history(own, left)
    for version, write_id in enumerate(read.write_ids, read.after + 1):
        if version >= known_from and complete.get(version) != write_id:
            raise Violation("read", "a reader saw a wrong entry", log=read.log, version=version, read=write_id)


def _complete_history(own: Left, left: dict[str, Left]) -> dict[int, str]:
    """Return the write ids of all versions of a log, including the versions from its ancestors."""
    inherited: dict[int, str] = {}
    for name, last in own.ancestors:
        inherited |= {version: id for version, id in left[name].write_ids.items() if version <= last}
    return inherited | own.write_ids


def _left(index: Index, name: NameRecord) -> Left:
    """Read the content of a log, from seal to seal. No process frees a segment during a history."""
    first = segment = min(int(item.sort) for item in index.query(segments_partition(name.prefix)))
    write_ids: dict[int, str] = {}
    while segment:
        items = list(index.query(entries_partition(name.prefix, segment)))
        seals = [int(item.sort) for item in items if "k" in item.attributes]
        write_ids |= {int(item.sort): str(item.attributes["w"]) for item in items if "k" not in item.attributes}
        segment = seals[0] if seals else 0
    return Left(first, write_ids, [(parent.name, parent.version) for parent in name.lineage])


def _logged_entry(version: int, write_id: str) -> LoggedEntry:
    writer, _, number = write_id.rpartition(".")
    return LoggedEntry(version, writer, write_id, int(number))


def run_until(
    event: str,
    history: Callable[[int, int, int], Counter[str]],
    arguments: Sequence[str] | None,
    *,
    program: str,
    description: str | None,
) -> int:
    """Run a program that repeats histories until an event has happened often enough. Return 1 if a history failed.

    ``history`` gets the number of records, the number of processes and the seed of one history. ``history`` runs that
    history and returns the counts of the events.
    """
    parser = argparse.ArgumentParser(prog=program, description=description)
    parser.add_argument("--records", type=int, default=5000, help="the number of records that ends a history")
    parser.add_argument("--processes", type=int, default=6)
    parser.add_argument(f"--{event}", dest="wanted", type=int, default=20, help=f"the minimum number of {event} in all")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    met: Counter[str] = Counter()
    seed = given.seed
    while met[event] < given.wanted:
        try:
            met += history(given.records, given.processes, seed)
        except Violation as violation:
            print(f"seed {seed} failed: {violation}")
            return 1
        print(f"seeds {given.seed} to {seed}: {met[event]} {event}, {dict(sorted(met.items()))}", flush=True)
        seed += 1
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run histories one after another. Return 1 if any history failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=4000, help="the number of records that ends a history")
    parser.add_argument("--processes", type=int, default=6)
    parser.add_argument("--histories", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    failed = 0
    with _services() as (dynamo, objects):
        for seed in range(chosen.seed, chosen.seed + chosen.histories):
            try:
                met = run(dynamo, objects, records=chosen.records, processes=chosen.processes, seed=seed)
                print(f"seed {seed}: {dict(sorted(met.items()))}", flush=True)
            except Violation as violation:
                failed += 1
                print(f"seed {seed} failed: {violation}", flush=True)
    print(f"{chosen.histories} histories from seed {chosen.seed}, {failed} failed")
    return 1 if failed else 0


@contextmanager
def _services() -> Iterator[tuple[Emulator, Emulator]]:
    with TemporaryDirectory() as folder:
        folders = [Path(folder) / name for name in ("dynamo", "objects")]
        for made in folders:
            made.mkdir()
        with ministack(folders[0]) as dynamo, seaweed(folders[1]) as objects:
            create_bucket(client(objects), VERSIONED)
            yield dynamo, objects


if __name__ == "__main__":
    sys.exit(main())

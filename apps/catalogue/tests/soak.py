"""A soak test with kills: ``python -m apps.catalogue.tests.soak --records 1000000 --kills 40 --seed 7``.

Each process polls its own source and makes the works of that source. After each `EVENT_RECORDS` records it sends a byte
and waits for the answer. After a random number of these events, the test answers, kills the process at a random moment
before its next event, and starts it again. So the number of kills does not depend on the speed of the machine. Each
source has files of records, and a last file that changes some records. At the end every record must have its bytes,
versions and work, and there must be no dead letter. The exit code is 1 if a check fails.
"""

from __future__ import annotations

import argparse
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

import stratalog
from stratalog import Records
from stratalog_catalogue.polls import poll
from stratalog_catalogue.sources import Source, add_source
from stratalog_catalogue.workers import reconcile

FILE_RECORDS = 5_000
CHANGED_EVERY = 50
START_NS = 1_700_000_000_000_000_000
EVENT_RECORDS = 500
STOP_SECONDS_MAX = 24 * 3600


def soak(records: int, processes: int, kills: int, seed: int, pause: float, folder: Path) -> dict[str, int]:
    """Run the soak test and return its counts. Raises AssertionError if a check fails."""
    chance = random.Random(seed)
    store = str(folder / "store")
    each = -(-records // processes)
    # Each run scans all records of its source, so it has at least this many events.
    events_min = each // EVENT_RECORDS
    assert events_min > 1, f"each process needs at least {2 * EVENT_RECORDS} records"
    with stratalog.open(store) as opened:
        for number in range(processes):
            _write_files(folder / f"s{number}", each)
            add_source(opened.records("acme"), _source(folder, number))
    # The processes share the kills, and all of them run at once.
    shares = [len(range(number, kills, processes)) for number in range(processes)]
    seeds = [chance.getrandbits(32) for _ in range(processes)]

    def run(number: int) -> int:
        own, killed = random.Random(seeds[number]), 0
        for _ in range(shares[number]):
            with _Worker(store, number, folder) as worker:
                worker.proceed(own.randrange(1, events_min))
                time.sleep(own.random() * pause)  # the process works, or waits for the answer to its next event
                killed += worker.kill() == -signal.SIGKILL
        with _Worker(store, number, folder) as worker:
            worker.finish()
        return killed

    with ThreadPoolExecutor(processes) as pool:
        killed = sum(pool.map(run, range(processes)))
    with stratalog.open(store) as opened:
        for number in range(processes):
            _check(opened.records("acme"), number, each)
        assert list(opened.records("acme").dead_letters()) == []
    return {"records": each * processes, "kills": killed}


class _Worker:
    """A process that polls one source and makes its works. It waits for the answer to each of its events."""

    def __init__(self, store: str, number: int, folder: Path) -> None:
        self._errors = folder / f"errors-{number}"
        command = [sys.executable, "-m", "apps.catalogue.tests.soak", "--work", store, str(number)]
        with self._errors.open("ab") as errors:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(command, bufsize=0, stdin=pipe, stdout=pipe, stderr=errors)

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def proceed(self, events: int) -> None:
        """Wait for this many events, and answer each."""
        for _ in range(events):
            assert self._is_waiting(), self._report()
            self._answer()

    def finish(self) -> None:
        """Answer all events until the process ends. Its exit code must be 0."""
        while self._is_waiting():
            self._answer()
        assert self._process.wait() == 0, self._report()

    def kill(self) -> int:
        """Kill the process if it has not ended, and return its exit code."""
        with self._process:  # closes the pipes
            self._process.kill()
        return self._process.returncode

    def _is_waiting(self) -> bool:
        """Wait for an event or the end of the process, and return whether it is an event."""
        assert self._process.stdout is not None
        assert select.select([self._process.stdout], [], [], STOP_SECONDS_MAX)[0], self._report()
        return self._process.stdout.read(1) != b""

    def _answer(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b".")

    def _report(self) -> str:
        return self._errors.read_text()[-4000:]


class _Events:
    """Sends an event after each `EVENT_RECORDS` records, and waits for the answer."""

    def __init__(self) -> None:
        self._records = 0

    def __call__(self, count: int) -> None:
        before, self._records = self._records, self._records + count
        if before // EVENT_RECORDS < self._records // EVENT_RECORDS:
            os.write(sys.stdout.fileno(), b".")
            assert os.read(sys.stdin.fileno(), 1), "the test has ended"


def work(store: str, number: int) -> None:
    """Do the work of one process: poll its source, and make the works of the source."""
    with stratalog.open(store) as opened:
        for outcome in poll(opened, "acme", _no_client, sources=[f"s{number}"], progress=_Events()):
            assert not outcome.reason, outcome.reason
        assert not reconcile(opened, "acme", sources=[f"s{number}"], progress=_Events()).failed


def lines_of(first: int, stop: int, *, changed: bool = False) -> Iterator[bytes]:
    """Yield the first version of each record as a line. With ``changed``, yield only the second versions instead."""
    for number in range(first, stop):
        if not changed:
            yield _line(number, 1)
        elif number % CHANGED_EVERY == 0:
            yield _line(number, 2)


def _line(number: int, state: int) -> bytes:
    # No JSON encoder writes these spaces, so the test notices if the record is encoded again.
    return b'{"id": "%08d",  "title":"Record %d", "state":%d.0}' % (number, number, state)


def _source(folder: Path, number: int) -> Source:
    location = str(folder / f"s{number}")
    return Source(name=f"s{number}", adapter="folder", location=location, format="jsonl")


def _write_files(folder: Path, count: int) -> None:
    folder.mkdir()
    for day, first in enumerate(range(0, count, FILE_RECORDS)):
        _write(folder / f"{day:06d}.jsonl", lines_of(first, min(first + FILE_RECORDS, count)), day)
    _write(folder / "changes.jsonl", lines_of(0, count, changed=True), count)


def _write(file: Path, lines: Iterator[bytes], day: int) -> None:
    file.write_bytes(b"\n".join(lines) + b"\n")
    os.utime(file, ns=(START_NS + day * 10**9,) * 2)


def _check(records: Records, number: int, count: int) -> None:
    """Check that every record has its bytes, its versions, and a work of its newest version."""
    prefix = f"source/s{number}/"
    ids = [line.id for line in records.list(prefix=prefix)]
    assert ids == [f"{prefix}{position:08d}" for position in range(count)], f"{len(ids)} records of {count}"
    for position, record_id in enumerate(ids):
        changed = position % CHANGED_EVERY == 0
        record = records.get(record_id)
        assert (record.body, record.version.version) == (_line(position, 1 + changed), 1 + changed), record_id
        if changed:
            assert records.get(record_id, 1).body == _line(position, 1), record_id
        work_version = records.get(f"works/s{number}/{position:08d}")
        assert work_version.version.metadata["v"] == 1 + changed, record_id
        assert msgspec.json.decode(work_version.body)["title"] == f"Record {position}", record_id


def _no_client() -> None:
    raise AssertionError("a folder needs no connection")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", nargs=2, default=None)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--kills", type=int, default=12, help="The number of kills.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, default=10.0, help="Maximum seconds between an event and a kill.")
    options = parser.parse_args(arguments)
    if options.work:
        work(options.work[0], int(options.work[1]))
        return
    print(f"seed {options.seed}")
    with tempfile.TemporaryDirectory() as folder:
        print(soak(options.records, options.processes, options.kills, options.seed, options.pause, Path(folder)))


if __name__ == "__main__":
    main()

"""A soak test with kills: ``python -m apps.catalogue.tests.soak --records 1000000 --kills 40 --seed 7``.

Each process polls its own source and makes the works of that source. The test kills processes at random times and
restarts each immediately. Each source has files of records, and a last file that changes some records. At the end every
record must have its bytes, versions and work, and there must be no dead letter. The exit code is 1 if a check fails, or
if the test killed too few processes.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

import stratalog
from stratalog import Records
from stratalog_catalogue.polls import poll
from stratalog_catalogue.sources import Source, add_source
from stratalog_catalogue.workers import reconcile
from tests.processes import kill_pause

FILE_RECORDS = 5_000
CHANGED_EVERY = 50
START_NS = 1_700_000_000_000_000_000
RESTARTS_MAX = 10_000
STOP_SECONDS_MAX = 24 * 3600


def soak(records: int, processes: int, kills_min: int, seed: int, pause: float, folder: Path) -> dict[str, int]:
    """Run the soak test and return its counts. Raises AssertionError if a check fails."""
    chance = random.Random(seed)
    store = str(folder / "store")
    each = -(-records // processes)
    with stratalog.open(store) as opened:
        for number in range(processes):
            _write_files(folder / f"s{number}", each)
            add_source(opened.records("acme"), _source(folder, number))
    running = {number: _start(store, number, folder) for number in range(processes)}
    kills, ends = 0, time.monotonic() + STOP_SECONDS_MAX
    try:
        while running:
            assert time.monotonic() < ends
            time.sleep(chance.random() * 2 * kill_pause(pause, kills, kills_min))
            for number, process in [*running.items()]:
                if process.poll() is not None:
                    assert process.returncode == 0, (folder / f"errors-{number}").read_text()[-4000:]
                    del running[number]
            # The rate of kills per process stays the same when other processes have ended. At a higher rate, each kill
            # of the last process would come before its scan reaches the missing works.
            if (number := chance.randrange(processes)) in running:
                os.kill(running[number].pid, signal.SIGKILL)
                running[number].wait()
                kills += 1
                assert kills < RESTARTS_MAX, "the processes make no progress"
                running[number] = _start(store, number, folder)
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    with stratalog.open(store) as opened:
        for number in range(processes):
            _check(opened.records("acme"), number, each)
        assert list(opened.records("acme").dead_letters()) == []
    assert kills >= kills_min, f"only {kills} processes were killed; use a --pause below {pause} s"
    return {"records": each * processes, "kills": kills}


def work(store: str, number: int) -> None:
    """Do the work of one process: poll its source, and make the works of the source."""
    with stratalog.open(store) as opened:
        connect = _no_client
        for outcome in poll(opened, "acme", connect, sources=[f"s{number}"]):
            assert not outcome.reason, outcome.reason
        assert not reconcile(opened, "acme", sources=[f"s{number}"]).failed


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


def _start(store: str, number: int, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "apps.catalogue.tests.soak", "--work", store, str(number)]
    with (folder / f"errors-{number}").open("ab") as errors:
        return subprocess.Popen(command, stderr=errors)


def _no_client() -> None:
    raise AssertionError("a folder needs no connection")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", nargs=2, default=None)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--kills", type=int, default=12, help="The minimum number of kills.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, default=10.0, help="Mean seconds between kills.")
    options = parser.parse_args(arguments)
    if options.work:
        work(options.work[0], int(options.work[1]))
        return
    print(f"seed {options.seed}")
    with tempfile.TemporaryDirectory() as folder:
        print(soak(options.records, options.processes, options.kills, options.seed, options.pause, Path(folder)))


if __name__ == "__main__":
    main()

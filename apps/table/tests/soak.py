"""A soak test with kills: ``python -m apps.table.tests.soak --rows 5000000 --processes 4 --seed 7``.

Each process ingests its own rows into one table. Between batches it splits leaves, moves references, merges files,
collects garbage or reads a leaf. The soak kills processes at random and restarts each immediately. At the end the table
must have each row exactly once. With ``--store aws-local``, the table's log is in DynamoDB and its data is in S3. Both
services are emulated on this machine.
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
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import boto3
import numpy
import pyarrow as pa

import stratalog
from apps.table.tests.helpers import collect_now
from stratalog.homes import make_store
from stratalog.testing.aws_local import STORE, aws_local
from stratalog.testing.emulators import describe_status
from stratalog_table import Column, Schema, Table, create_table, open_table
from stratalog_table.data_files import DataFiles
from stratalog_table.maintenance import collect, compact, maintain_table, push_down, split_large
from stratalog_table.rows import RowSource, data_files_of, ingest, scan
from tests.processes import kill_pause

BATCH_ROWS = 20_000
AGE_MS = 20_000
MIX = 0x9E3779B97F4A7C15
LEAVES = 16
LAKE = "lake"
RESTARTS_MAX = 10_000


class Site(NamedTuple):
    """The locations of a soak: its store, its data files, and a folder for the errors of its processes."""

    store: str
    data_files: str
    folder: Path


@contextmanager
def site(name: str, folder: Path) -> Iterator[Site]:
    """Yield locations in a folder or, for ``aws-local``, in emulated services that run until the end of the block."""
    if name == "folder":
        yield Site(str(folder / "store"), (folder / "lake").as_uri(), folder)
        return
    before = dict(os.environ)
    with aws_local(folder) as services:
        os.environ.update(services)
        try:
            make_store(STORE)
            boto3.client("s3").create_bucket(Bucket=LAKE)
            yield Site(STORE, f"s3://{LAKE}/events", folder)
        finally:
            os.environ.clear()
            os.environ.update(before)


def soak(
    rows: int, processes: int, seed: int, pause: float, at: Site, batch_rows: int = BATCH_ROWS, kills_min: int = 1
) -> dict[str, int]:
    """Run until all rows are in the table and ``kills_min`` processes were killed. Return the counts of rows and kills.

    Raises AssertionError if a row is missing or duplicated, or if a process ended by itself or wrote an error.
    """
    chance = random.Random(seed)
    batches = -(-rows // (processes * batch_rows))
    with stratalog.open(at.store) as store:
        schema = Schema((Column("id", "long"),))
        create_table(store, "acme", "events", schema, data=at.data_files)
    rows_max = max(batch_rows, rows // LEAVES)
    numbers = (batches, batch_rows, rows_max)
    running = [_start(at, position, *numbers, seed) for position in range(processes)]
    kills = 0
    try:
        while kills < kills_min or not _is_in(at, processes, batches):
            time.sleep(chance.random() * 2 * kill_pause(pause, kills, kills_min))
            _check_running(running, at)
            position = chance.randrange(processes)
            os.kill(running[position].pid, signal.SIGKILL)
            running[position].wait()
            kills += 1
            assert kills < RESTARTS_MAX, "too many kills before all rows were in the table"
            running[position] = _start(at, position, *numbers, seed + kills)
        _check_running(running, at)
    finally:
        for process in running:
            process.kill()
            process.wait()
    return {"rows": _check(at, processes * batches * batch_rows, rows_max), "kills": kills}


def work(url: str, position: int, batches: int, batch_rows: int, rows_max: int, seed: int) -> None:
    """Run one process: ingest its own batches and maintain the whole table, until the soak kills the process."""
    chance = random.Random(seed * 1000 + position)
    with stratalog.open(url) as store:
        table = open_table(store, "acme", "events")
        data_files = data_files_of(table)
        while True:
            number = table.document.last_mutation(f"source/{position}") + 1
            if number <= batches:
                start = (position * batches + number - 1) * batch_rows
                ingest(table, data_files, rows_of(start, batch_rows), source=RowSource(f"source/{position}", number))
            _maintain_once(table, data_files, chance, rows_max)


def rows_of(start: int, count: int) -> pa.Table:
    """Return rows with distinct numbers and scattered keys. About one row in eight has the key of an earlier row."""
    numbers = numpy.arange(start, start + count, dtype=numpy.uint64)
    mixed = (numbers - numbers % 10 * (numbers % 7 == 0)) * numpy.uint64(MIX)
    return pa.table({"id": mixed.view(numpy.int64), "row": numbers.view(numpy.int64)})


def _maintain_once(table: Table, data_files: DataFiles, chance: random.Random, rows_max: int) -> None:
    what = chance.randrange(6)
    if what == 0:
        split_large(table, data_files, rows_max)
    elif what == 1:
        push_down(table, data_files)
    elif what in (2, 3):
        compact(table, data_files, files_min=chance.choice([2, 4, 8]), lease_ms=3000)
    elif what == 4:
        collect(table, data_files, AGE_MS)
    else:
        _look(table, data_files, chance)


def _look(table: Table, data_files: DataFiles, chance: random.Random) -> None:
    """Check that the files of a leaf have the number of rows that the same view records, despite concurrent changes."""
    view = table.at()
    holding = chance.choice([each for each in view.holdings() if each.leaf])
    held = view.on_partition(holding.partition)
    rows_read = sum(data_files.keys(each.filename, held.region).num_rows for each in held.references)
    assert rows_read == holding.tally.rows, f"{rows_read} rows in {holding}"


def _start(at: Site, position: int, *numbers: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "apps.table.tests.soak", "--work", at.store, *map(str, (position, *numbers))]
    with (at.folder / f"errors-{position}").open("ab") as errors:
        return subprocess.Popen(command, stderr=errors)


def _check_running(running: Sequence[subprocess.Popen[bytes]], at: Site) -> None:
    """Check that no process ended by itself, or wrote an error."""
    errors = "".join(at.folder.joinpath(f"errors-{position}").read_text() for position in range(len(running)))
    assert not errors, errors[-4000:]
    ended = [describe_status(process.returncode) for process in running if process.poll() is not None]
    assert not ended, f"processes ended by themselves: {ended}"


def _is_in(at: Site, processes: int, batches: int) -> bool:
    with stratalog.open(at.store) as store:
        document = open_table(store, "acme", "events").document
        return all(document.last_mutation(f"source/{position}") >= batches for position in range(processes))


def _check(at: Site, rows: int, rows_max: int) -> int:
    """Run maintenance until it finds no work, check that the table has each row once, and return the number of rows."""
    with stratalog.open(at.store) as store:
        table = open_table(store, "acme", "events")
        data_files = data_files_of(table)
        while (done := maintain_table(table, data_files, rows_max=rows_max, files_min=2, age_ms=0)) and any(
            (done.splits, done.moved, done.jobs)
        ):
            pass
        view = table.at()
        seen = numpy.zeros(rows, dtype=numpy.int32)
        for part in scan(view, data_files):
            numpy.add.at(seen, part.column("row").to_numpy(), 1)
        assert (seen == 1).all(), f"{(seen == 0).sum()} rows are missing, {(seen > 1).sum()} are there more than once"
        assert sum(each.tally.rows for each in view.holdings()) == rows
        assert table.jobs.waiting() == [*view.jobs()] == []
        collect_now(table, data_files)
        tracked = {file.filename for file in table.at().files(10**9).files}
        assert {each.filename for each in data_files.list()} == tracked, "the folder has other files than the table"
        leaves = sum(1 for each in view.holdings() if each.leaf)
        print(f"{rows:,} rows on {leaves} leaves in {len(tracked)} files, version {view.version}")
    return int(seen.sum())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", nargs=6, default=None)
    parser.add_argument("--store", choices=["folder", "aws-local"], default="folder")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=1, help="The minimum number of kills.")
    parser.add_argument("--pause", type=float, default=3.0, help="Mean seconds between kills.")
    options = parser.parse_args(arguments)
    if options.work:
        url, *numbers = options.work
        work(url, *map(int, numbers))
        return
    print(f"seed {options.seed}")
    with tempfile.TemporaryDirectory() as folder, site(options.store, Path(folder)) as at:
        asked = options.rows, options.processes, options.seed, options.pause
        print(soak(*asked, at, kills_min=options.kills))


if __name__ == "__main__":
    main()

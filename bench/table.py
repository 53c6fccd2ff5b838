"""The benchmark of the table store: ``python -m bench.table [--json PATH] [--plots FOLDER]``.

1, 4, 16 and 64 writers add single files to one table. 16 writers add single files to ten tables. One writer commits
10,000 files at a time. 16 writers do jobs: each writer assigns 10 files to a job and replaces these files by one file,
as a compaction does. A *ground* is the storage below all stores. *folder* is SQLite and files with durable commits.
*hosted* is memory with the latency of DynamoDB and S3.

Writers are threads that share a committer, as in a server or a worker. In further cases the writers are spread over
four independent committers: processes on *folder*, handles on *hosted*. On *hosted* a meter counts the requests of a
commit.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec

import stratalog
from bench.table_hosted import Hosted
from bench.table_postgres import Postgres, running_postgres
from bench.table_rows import GROUNDS, Row
from bench.table_sides import BOUNDS, JOB_FILES, SIDES, Side
from stratalog import Store
from stratalog.costs.bill import total, units_of
from stratalog.costs.prices import load_prices

SPREAD = 4
PARTITION_UNITS = 1000
STANDING = 10_000
COSTED = 200
"""The maximum number of commits whose requests are counted. For commits of 10,000 files the number is 3."""

EVERY = {**SIDES, **BOUNDS}
JOBS_STANDING = 4
"""A table with jobs has this many times as many initial files, since each file is in only one job."""

HEADINGS = (
    "store",
    "ground",
    "writers",
    "committers",
    "tables",
    "files",
    "commits/s",
    "files/s",
    "p50 ms",
    "p99 ms",
    "failed",
)
COSTS = ("requests", "KB written", "$ a million", "a partition takes")


class Case(msgspec.Struct, frozen=True):
    """One case. The benchmark measures each store in each case."""

    ground: str
    writers: int
    committers: int = 1
    tables: int = 1
    files: int = 1
    jobs: int = 0
    """The maximum number of jobs of each writer, or 0 if the writers add files."""


class Share(msgspec.Struct, frozen=True):
    """The measurements of one process."""

    milliseconds: list[float]
    failed: int
    begun: float
    ended: float


def main() -> None:
    options = _options()
    if options.plots:
        from bench.table_plots import draw  # imported now, so that a missing library fails before the measurement
    scale = (0.5, 1, 300) if options.quick else (options.seconds, 10, options.standing)
    rows = []
    for row in measured(*scale, options):
        rows.append(row)
        print(_line(row), flush=True)
    print("\n" + "\n".join(table(rows)))
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=2) + b"\n")
    if options.plots:
        draw(rows, options.plots)


def cases(big: int, standing: int, quick: bool) -> Iterator[Case]:
    for ground in GROUNDS:
        for writers in (1, 4) if quick else (1, 4, 16, 64):
            yield Case(ground, writers)
        for writers in (4,) if quick else (16, 64):
            yield Case(ground, writers, SPREAD)
        yield Case(ground, 2 if quick else 16, 1, 2 if quick else 10)
        yield Case(ground, 1, 1, 1, 1000 * big)
        writers = 4 if quick else 16
        yield Case(ground, writers, files=JOB_FILES, jobs=JOBS_STANDING * standing // (writers * JOB_FILES))


def measured(seconds: float, big: int, standing: int, options: argparse.Namespace) -> Iterator[Row]:
    """Yield all rows, each the best of several rounds. The stores alternate, so that other work affects all stores."""
    names = [name for name in EVERY if name in (options.only or SIDES)]
    every = list(cases(big, standing, options.quick))
    probes = [case for case in every if case.jobs] + [Case(ground, 4 if options.quick else 16) for ground in GROUNDS]
    with tempfile.TemporaryDirectory() as name, running_postgres() as url:
        if url is None:
            print("PostgreSQL is not installed, so its rows are missing")
        runs = Runs(Path(name), seconds, standing)
        best = {(side, probe.ground, probe.jobs > 0): runs.tuned(side, probe) for side in names for probe in probes}
        for position, case in enumerate(every):
            tunings = {side: best[side, case.ground, case.jobs > 0] for side in names}
            rounds = [{side: runs.run(side, case, tunings[side]) for side in names} for _ in range(options.rounds)]
            for side in names:
                yield costed(better([turn[side] for turn in rounds]), side, case, standing, tunings[side])
            if url and case.ground == "folder" and (not options.only or "postgres" in options.only):
                marks = [f"{position}.{turn}" for turn in range(options.rounds)]
                yield better([postgres(url, mark, case, seconds, standing) for mark in marks])


def better(rows: Sequence[Row]) -> Row:
    """Return the quickest round, with the failures of all rounds."""
    quickest = max(rows, key=lambda row: row.commits_per_second)
    return msgspec.structs.replace(quickest, failed=sum(row.failed for row in rows))


class Runs:
    """Runs rounds of cases. Keeps all folders until the end, since creating files is slow after many deletes."""

    def __init__(self, folder: Path, seconds: float, standing: int) -> None:
        self._folder = folder
        self._seconds = seconds
        self._standing = standing

    def run(self, name: str, case: Case, tuning: Any) -> Row:
        """Run one round of a store."""
        if case.ground == "folder":
            folder = tempfile.mkdtemp(dir=self._folder)
            with stratalog.open(folder) as store:
                prepare(name, store, case, self._standing)
            shares = _in_processes(_folder_share, (folder, name, tuning), case, self._seconds)
        else:
            ports = Hosted()
            prepare(name, ports.store(slow=False), case, self._standing)
            shares = _in_threads(ports, name, tuning, case, self._seconds)
        return _row(name, case, shares, tuning)

    def tuned(self, name: str, probe: Case) -> Any:
        """Return the tuning of a store with the most commits a second in the case ``probe``."""
        tunings = EVERY[name].tunings
        if len(tunings) == 1:
            return tunings[0]
        return max(tunings, key=lambda tuning: self.run(name, probe, tuning).commits_per_second)


def prepare(name: str, store: Store, case: Case, standing: int) -> None:
    """Create the tables with their initial files."""
    for table in _tables(case):
        EVERY[name].create(store, table)
        side = EVERY[name](store, table, EVERY[name].tunings[0])
        for names in _standing(case, standing):
            side.add(names)
        side.settle()


def costed(row: Row, name: str, case: Case, standing: int, tuning: Any) -> Row:
    """Return the row. If its ground is *hosted*, add the counted requests of its commits, and the failed commits."""
    if case.ground != "hosted":
        return row
    ports = Hosted()
    prepare(name, ports.store(slow=False), case, standing)
    store, meter = ports.store(), ports.meter
    sides = {table: EVERY[name](store, table, tuning) for table in _tables(case)}
    commits = min(COSTED, case.jobs * case.writers) if case.jobs else 3 if case.files > 1 else COSTED
    before, numbers = meter.read(), count()
    failures: list[Exception] = []

    def write(writer: int) -> None:
        side = sides[f"t{writer % case.tables}"]
        while (number := next(numbers)) < commits:
            try:
                _commit(side, case, number % case.writers, number // case.writers)
            except Exception as exc:  # noqa: BLE001 - any error is a failed update
                failures.append(exc)
                _report_failure(exc)

    _all(case.writers, write)
    row = msgspec.structs.replace(row, failed=row.failed + len(failures))
    done = commits - len(failures)
    if not done:
        return row
    units = units_of(meter.read(), before)
    requests = sum(amount - before.get(key, 0) for key, amount in meter.read().items() if key[1] == "requests")
    written = units.write_units + units.s3_bytes / 1024
    price = total(units, load_prices().prices) / done * 1e6
    return msgspec.structs.replace(
        row,
        requests=requests / done,
        kilobytes=written / done,
        dollars_per_million=price,
        partition_limit=PARTITION_UNITS * done / units.write_units,
    )


def postgres(socket: str, mark: str, case: Case, seconds: float, standing: int) -> Row:
    tables = [f"{mark}-{table}" for table in _tables(case)]
    Postgres.create(socket, tables)
    for table in tables:
        side = Postgres(socket, table)
        for names in _standing(case, standing):
            side.add(names)
        side.settle()
        side.close()
    return _row("postgres", case, _in_processes(_postgres_share, (socket, mark), case, seconds), None)


def _in_processes(work: Callable[..., Share], base: tuple[Any, ...], case: Case, seconds: float) -> list[Share]:
    processes = case.committers
    context = get_context("spawn")
    barrier = context.Manager().Barrier(processes)
    with context.Pool(processes) as pool:
        jobs = [(*base, case, seconds, position, processes, barrier) for position in range(processes)]
        return pool.starmap(work, jobs, chunksize=1)


def _folder_share(
    folder: str, name: str, tuning: Any, case: Case, seconds: float, position: int, processes: int, barrier: Any
) -> Share:
    with stratalog.open(folder) as store:
        sides = {table: EVERY[name](store, table, tuning) for table in _tables(case)}
        barrier.wait()
        return _share(lambda table: sides[table], case, seconds, position, processes)


def _postgres_share(
    socket: str, mark: str, case: Case, seconds: float, position: int, processes: int, barrier: Any
) -> Share:
    barrier.wait()
    return _share(lambda table: Postgres(socket, f"{mark}-{table}"), case, seconds, position, processes)


def _in_threads(ports: Hosted, name: str, tuning: Any, case: Case, seconds: float) -> list[Share]:
    processes = case.committers
    handles = []
    for _ in range(processes):
        store = ports.store()
        handles.append({table: EVERY[name](store, table, tuning) for table in _tables(case)})
    with ThreadPoolExecutor(processes) as pool:
        futures = [
            pool.submit(_share, handles[position].__getitem__, case, seconds, position, processes)
            for position in range(processes)
        ]
        return [future.result() for future in futures]


def _share(side_of: Callable[[str], Side], case: Case, seconds: float, position: int, processes: int) -> Share:
    """Run the writers of one process, which commit for ``seconds`` and at least once. Return their measurements."""
    milliseconds: list[float] = []
    failed = [0]
    begun = time.time()
    end = time.perf_counter() + seconds

    def write(thread: int) -> None:
        writer = thread * processes + position
        side = side_of(f"t{writer % case.tables}")
        for number in range(case.jobs) if case.jobs else count():
            # A writer whose process stops before its first commit also commits once, so each run has a measurement.
            if (start := time.perf_counter()) >= end and number:
                break
            try:
                _commit(side, case, writer, number)
                milliseconds.append((time.perf_counter() - start) * 1000)
            except Exception as exc:  # noqa: BLE001 - any error is a failed update
                failed[0] += 1
                _report_failure(exc)

    writers = case.writers // processes + (position < case.writers % processes)
    _all(writers, write)
    return Share(milliseconds, failed[0], begun, time.time())


def _report_failure(error: Exception) -> None:
    print(f"failed: {type(error).__name__}: {error}")


def _commit(side: Side, case: Case, writer: int, number: int) -> None:
    """Make the writer's commit with this number, or do the writer's job with this number."""
    if not case.jobs:
        side.add(_names(f"n{number}", writer, case.files))
        return
    job, names = f"job-{writer}-{number}", _names(f"job{number}", writer, case.files)
    side.assign(job, names)
    side.replace(job, names, f"{names[0]}.{job}")


def _standing(case: Case, standing: int) -> Iterator[list[str]]:
    """Yield the initial files of a table, a list for each commit: the files of all jobs, or ``standing`` files."""
    every = _names("standing", case.writers, 0 if case.jobs else standing)
    for writer in range(case.writers):
        for number in range(case.jobs):
            every += _names(f"job{number}", writer, case.files)
    for start in range(0, len(every), STANDING):
        yield every[start : start + STANDING]


def _all(threads: int, work: Callable[[int], None]) -> None:
    running = [threading.Thread(target=work, args=(thread,)) for thread in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def _row(name: str, case: Case, shares: Sequence[Share], tuning: Any) -> Row:
    times = sorted(duration for share in shares for duration in share.milliseconds)
    seconds = max(share.ended for share in shares) - min(share.begun for share in shares)
    rate = len(times) / seconds
    p99 = times[min(len(times) - 1, int(len(times) * 0.99))] if times else float("nan")
    p50 = statistics.median(times) if times else float("nan")
    failed = sum(share.failed for share in shares)
    names = (name, case.ground, case.writers, case.committers, case.tables, case.files)
    return Row(*names, rate, rate * case.files, p50, p99, failed, case.jobs > 0, tuning)


def _tables(case: Case) -> list[str]:
    return [f"t{number}" for number in range(case.tables)]


def _names(batch: str, writer: int, files: int) -> list[str]:
    return [
        f"s3a://bucket/table/data/partition_root/{batch}-{writer:03}-{number:06}.parquet" for number in range(files)
    ]


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of a Markdown table with the rows."""
    yield "| " + " | ".join((*HEADINGS, *COSTS)) + " |"
    yield "|---|---|" + "---:|" * (len(HEADINGS) + len(COSTS) - 2)
    for row in rows:
        yield _line(row)


def _line(row: Row) -> str:
    files = f"{row.files} → 1" if row.jobs else f"{row.files:,}"
    cells = [row.side, row.ground, str(row.writers), str(row.committers), str(row.tables), files]
    cells += [_number(value) for value in (row.commits_per_second, row.files_per_second, row.p50_ms, row.p99_ms)]
    cells += [str(row.failed)]
    cells += ["" if value is None else _number(value) for value in _counted(row)]
    return "| " + " | ".join(cells) + " |"


def _counted(row: Row) -> tuple[float | None, ...]:
    return row.requests, row.kilobytes, row.dollars_per_million, row.partition_limit


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.table", description=__doc__.split("\n")[0])
    parser.add_argument("--json", type=Path, metavar="PATH")
    parser.add_argument("--plots", type=Path, metavar="FOLDER")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--standing", type=int, default=STANDING, metavar="FILES", help="initial files of a table")
    parser.add_argument("--only", action="append", default=[], metavar="STORE", help=f"one of {', '.join(EVERY)}")
    parser.add_argument("--quick", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()

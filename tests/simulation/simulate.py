"""Run many seeds of the simulated worlds: ``python -m tests.simulation.simulate --seeds N --seed S``.

The command prints the first ten failing seeds, each with a command that repeats the seed, and the counts of events. The
exit code is 1 if a seed failed, or if the median seed made too few port calls. In a run of at least 1,000 seeds, the
exit code is also 1 if an event in a world's ``columns`` never happened. ``--mutants`` plants the bugs in `MUTANTS`, one
after the other. The exit code is then 0 only if each bug was caught by one of the checkers that its mutant names.
"""

from __future__ import annotations

import argparse
import gc
import logging
import multiprocessing
import os
import signal
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec

from stratalog.clock import SystemClock
from tests.simulation.mutants import Catch, hunt
from tests.simulation.mutants_backup import MUTANTS as BACKUP_MUTANTS
from tests.simulation.mutants_branches import MUTANTS as BRANCHES_MUTANTS
from tests.simulation.mutants_collect import MUTANTS as COLLECT_MUTANTS
from tests.simulation.mutants_decay import MUTANTS as DECAY_MUTANTS
from tests.simulation.mutants_disk import MUTANTS as DISK_MUTANTS
from tests.simulation.mutants_documents import MUTANTS as DOCUMENTS_MUTANTS
from tests.simulation.mutants_folder import MUTANTS as FOLDER_MUTANTS
from tests.simulation.mutants_log import MUTANTS as LOG_MUTANTS
from tests.simulation.mutants_queue import MUTANTS as QUEUE_MUTANTS
from tests.simulation.mutants_records import MUTANTS as RECORDS_MUTANTS
from tests.simulation.mutants_sync import MUTANTS as SYNC_MUTANTS
from tests.simulation.mutants_threads import MUTANTS as THREADS_MUTANTS
from tests.simulation.world_backup import BackupWorld
from tests.simulation.world_branches import BranchesWorld
from tests.simulation.world_clients import MUTANTS as CLIENTS_MUTANTS
from tests.simulation.world_clients import ClientsWorld
from tests.simulation.world_collect import CollectWorld
from tests.simulation.world_decay import DecayWorld
from tests.simulation.world_disk import DiskWorld
from tests.simulation.world_documents import DocumentWorld
from tests.simulation.world_folder import FolderWorld
from tests.simulation.world_hosted_turns import MUTANTS as HOSTED_TURNS_MUTANTS
from tests.simulation.world_hosted_turns import HostedTurnsWorld
from tests.simulation.world_index import MUTANTS as INDEX_MUTANTS
from tests.simulation.world_index import CounterWorld
from tests.simulation.world_log import LogWorld
from tests.simulation.world_queue import QueueWorld
from tests.simulation.world_records import RecordsWorld
from tests.simulation.world_restores import MUTANTS as RESTORES_MUTANTS
from tests.simulation.world_restores import RestoresWorld
from tests.simulation.world_snapshots import MUTANTS as SNAPSHOTS_MUTANTS
from tests.simulation.world_snapshots import SnapshotWorld
from tests.simulation.world_sync import SyncWorld
from tests.simulation.world_threads import ThreadWorld
from tests.simulation.world_turns import MUTANTS as TURNS_MUTANTS
from tests.simulation.world_turns import TurnsWorld
from tests.simulation.world_usage import MUTANTS as USAGE_MUTANTS
from tests.simulation.world_usage import UsageWorld
from tests.simulation.world_waiting import MUTANTS as WAITING_MUTANTS
from tests.simulation.world_waiting import WaitingWorld
from tests.simulation.worlds import Outcome, World, run_seed

__all__ = ["MUTANTS", "WORLDS", "Summary", "failure_lines", "main", "simulate", "summary", "world_of"]

COLUMN_SEEDS_MIN = 1_000
CALLS_MEDIAN_MIN = 200
FAILURES_SHOWN_MAX = 10
CHUNK_SEEDS = 10
PROGRESS_MS = 1_000
TICK_SECONDS = 10
SEED_TICKS_MAX = 12


class Listed(msgspec.Struct, frozen=True):
    """A world that the command runs. ``weight`` is the world's share of the seeds."""

    build: type[World]
    weight: int


WORLDS: Mapping[str, Listed] = {
    "backup": Listed(BackupWorld, weight=1),
    "branches": Listed(BranchesWorld, weight=2),
    "clients": Listed(ClientsWorld, weight=1),
    "collect": Listed(CollectWorld, weight=1),
    "decay": Listed(DecayWorld, weight=1),
    "documents": Listed(DocumentWorld, weight=2),
    "disk": Listed(DiskWorld, weight=1),
    "folder": Listed(FolderWorld, weight=1),
    "hosted-turns": Listed(HostedTurnsWorld, weight=1),
    "index": Listed(CounterWorld, weight=1),
    "log": Listed(LogWorld, weight=3),
    "queue": Listed(QueueWorld, weight=1),
    "records": Listed(RecordsWorld, weight=1),
    "restores": Listed(RestoresWorld, weight=1),
    "snapshots": Listed(SnapshotWorld, weight=1),
    "sync": Listed(SyncWorld, weight=2),
    "threads": Listed(ThreadWorld, weight=3),
    "turns": Listed(TurnsWorld, weight=1),
    "usage": Listed(UsageWorld, weight=1),
    "waiting": Listed(WaitingWorld, weight=1),
}
MUTANTS = (
    *BACKUP_MUTANTS,
    *BRANCHES_MUTANTS,
    *CLIENTS_MUTANTS,
    *COLLECT_MUTANTS,
    *DECAY_MUTANTS,
    *DISK_MUTANTS,
    *DOCUMENTS_MUTANTS,
    *FOLDER_MUTANTS,
    *HOSTED_TURNS_MUTANTS,
    *INDEX_MUTANTS,
    *LOG_MUTANTS,
    *QUEUE_MUTANTS,
    *RECORDS_MUTANTS,
    *RESTORES_MUTANTS,
    *SNAPSHOTS_MUTANTS,
    *SYNC_MUTANTS,
    *THREADS_MUTANTS,
    *TURNS_MUTANTS,
    *USAGE_MUTANTS,
    *WAITING_MUTANTS,
)


class Summary(msgspec.Struct, frozen=True):
    """The counts and failures of a run of many seeds."""

    seeds: int
    seconds: float
    calls: int
    calls_median: float
    counts: dict[str, int]
    zero_columns: list[str]
    failures: list[tuple[str, Outcome]]
    checks: list[str]


def world_of(seed: int, only: str | None = None) -> str:
    """Return the name of the world that a seed runs: ``only`` if given, else the world that the weights assign."""
    if only is not None:
        return only
    cluster = seed % sum(listed.weight for listed in WORLDS.values())
    for name, listed in WORLDS.items():
        if cluster < listed.weight:
            return name
        cluster -= listed.weight
    raise AssertionError("weights do not add up")


def simulate(seeds: Sequence[int], *, world: str | None = None, processes: int = 1) -> Iterator[tuple[str, Outcome]]:
    """Yield the outcome of each seed, in order, run by ``processes`` processes."""
    work = [(seed, world_of(seed, world)) for seed in seeds]
    if processes == 1:
        _ready()
        yield from map(_outcome, work)
        return
    with multiprocessing.get_context("fork").Pool(processes, initializer=_ready) as pool:
        yield from pool.imap(_outcome, work, chunksize=CHUNK_SEEDS)


def summary(outcomes: Iterable[tuple[str, Outcome]], progress: Callable[[str], None] = lambda line: None) -> Summary:
    """Add up outcomes, and report progress every second. ``checks`` of the result lists the reasons to fail the run."""
    clock = SystemClock()
    started = last_report = clock.boot_ms()
    counts: dict[str, int] = {}
    calls: list[int] = []
    failures = []
    met: set[str] = set()
    for name, outcome in outcomes:
        met.add(name)
        calls.append(outcome.calls)
        for column, count in outcome.counts.items():
            counts[column] = counts.get(column, 0) + count
        if outcome.checker:
            failures.append((name, outcome))
        if clock.boot_ms() - last_report > PROGRESS_MS:
            last_report = clock.boot_ms()
            progress(
                f"{len(calls)} seeds, {len(failures)} failed, {len(calls) * 1000 / (last_report - started):.0f} seeds/s"
            )
    zero = sorted({column for name in met for column in WORLDS[name].build.columns if not counts.get(column)})
    median = statistics.median(calls) if calls else 0
    seconds = max(1, clock.boot_ms() - started) / 1000
    checks = _checks(len(calls), median, zero, len(failures))
    return Summary(len(calls), seconds, sum(calls), median, dict(sorted(counts.items())), zero, failures, checks)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.processes is not None and (options.mutants or options.trace):
        parser.error("--mutants and --trace run in one process: leave out --processes")
    seeds = range(options.seed, options.seed + options.seeds)
    if options.trace:
        return _trace(options.seed, world_of(options.seed, options.world))
    if options.mutants:
        return _mutants(seeds, options.world, options.json)
    processes = min(options.processes or os.cpu_count() or 1, max(1, len(seeds) // CHUNK_SEEDS))
    result = summary(simulate(seeds, world=options.world, processes=processes), _progress)
    print(msgspec.json.encode(result).decode() if options.json else _text(result))
    return 1 if result.checks else 0


def _checks(seeds: int, median: float, zero: list[str], failed: int) -> list[str]:
    checks = []
    if failed:
        checks.append(f"{failed} seeds failed")
    if median < CALLS_MEDIAN_MIN:
        checks.append(f"the median of port calls is {median:.0f}, under {CALLS_MEDIAN_MIN}")
    if zero and seeds >= COLUMN_SEEDS_MIN:
        checks.append(f"never met: {', '.join(zero)}")
    return checks


def _outcome(work: tuple[int, str]) -> tuple[str, Outcome]:
    seed, name = work
    with _watched():
        return name, run_seed(WORLDS[name].build, seed)


def _ready() -> None:
    """Prepare a process: exempt existing objects from garbage collection, and silence the library's log messages."""
    logging.getLogger("stratalog").addHandler(logging.NullHandler())
    gc.freeze()


@contextmanager
def _watched() -> Iterator[None]:
    """Turn a deadlock into an error. Count timer signals, not time, because a stopped process gets no signals."""
    ticks = 0

    def tick(number: int, frame: object) -> None:
        nonlocal ticks
        ticks += 1
        if ticks == SEED_TICKS_MAX:
            seconds = SEED_TICKS_MAX * TICK_SECONDS
            raise TimeoutError(f"the seed still runs after {seconds} s: does an actor wait for a lock of threading?")

    before = signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, TICK_SECONDS, TICK_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _trace(seed: int, name: str) -> int:
    outcome = run_seed(WORLDS[name].build, seed, print)
    print(f"seed {seed} of {name}: {outcome.checker or 'ok'}, fingerprint {outcome.fingerprint}")
    print(outcome.details, end="\n" if outcome.details else "")
    return 1 if outcome.checker else 0


def _mutants(seeds: Sequence[int], world: str | None, as_json: bool) -> int:
    builds = {name: listed.build for name, listed in WORLDS.items()}
    chosen = [mutant for mutant in MUTANTS if world is None or issubclass(mutant.world, builds[world])]
    catches = [hunt(mutant, seeds) for mutant in chosen]
    if as_json:
        print(msgspec.json.encode(catches).decode())
    else:
        print("\n".join(map(_catch_line, catches)))
    return 0 if all(catch.good for catch in catches) else 1


def _catch_line(catch: Catch) -> str:
    verdict = f"caught by {catch.checker}" if catch.good else f"NOT CAUGHT by its checker ({catch.checker or 'unseen'})"
    line = f"{catch.mutant:<32} {verdict} after {catch.seeds} seeds"
    return line if catch.good else f"{line}\n{catch.details}"


def _text(result: Summary) -> str:
    lines = [f"{column:<32} {count:>12,}" for column, count in result.counts.items()]
    lines += [f"{column:<32} {'ZERO':>12}" for column in result.zero_columns]
    lines += [failure_lines(name, outcome) for name, outcome in result.failures[:FAILURES_SHOWN_MAX]]
    rate = result.seeds / result.seconds
    cost_us = result.seconds * 1e6 / max(1, result.calls)
    lines.append(
        f"{result.seeds} seeds in {result.seconds:.1f} s ({rate:.0f}/s), {len(result.failures)} failed, "
        f"median {result.calls_median:.0f} port calls a seed, {cost_us:.1f} µs a call"
    )
    lines += [f"FAILED: {check}" for check in result.checks]
    return "\n".join(lines)


def failure_lines(name: str, outcome: Outcome) -> str:
    """Return a description of a failed seed: its world, the last line of its details, and a command to repeat it."""
    last = outcome.details.strip().splitlines()[-1]
    command = f"python -m tests.simulation.simulate --seed {outcome.seed} --world {name} --trace"
    return f"seed {outcome.seed} of {name} failed: {last}\n  {command}"


def _progress(line: str) -> None:
    if sys.stderr.isatty():
        print(line, file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="the number of seeds to run")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--world", choices=WORLDS, help="run this world only")
    parser.add_argument("--trace", action="store_true", help="run only the first seed, and print every step")
    parser.add_argument(
        "--mutants", action="store_true", help="plant one bug after the other, and run seeds until a checker fails"
    )
    parser.add_argument("--processes", type=int, help="the number of processes; by default, one per core")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())

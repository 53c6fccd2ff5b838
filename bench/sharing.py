"""Benchmarks of processes that share a store: the duration of commits under contention, and fairness.

Each worker is a process: ``python -m bench.sharing '[url, worker, begin, seconds]'``.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from bench.figures import Measured
from bench.measure import alternated
from bench.workplace import DOCUMENT, FULL, ORGANISATION, Workplace
from stratalog import Event, StratalogError
from stratalog.homes import INDEX_FILE
from stratalog.store import open_store

__all__ = ["BUSY", "MEASURES", "SELDOM", "p99_ms", "runs_at"]

SECONDS_FULL = 6.0
SECONDS_QUICK = 0.3
START_SECONDS_FULL = 1.0
START_SECONDS_QUICK = 0.2
START_SECONDS_EACH = 0.2
SELDOM_PER_SECOND = 20
OFFERED_PER_SECOND = 12
OFFERING_FULL = 8
OFFERING_QUICK = 2


class Worker(msgspec.Struct, frozen=True):
    """The task of a process: it commits, and then pauses for 1 / ``per_second`` seconds, or does not pause if 0.

    With ``stops`` the process stops itself inside a turn.
    """

    per_second: float = 0
    stops: bool = False


class Run(msgspec.Struct, frozen=True):
    """The result of a process: the seconds of each successful commit, and the errors of failed commits."""

    seconds: list[float]
    failures: list[str]


BUSY = Worker()
SELDOM = Worker(per_second=SELDOM_PER_SECOND)
STOPPED = Worker(stops=True)


def seldom(work: Workplace) -> Measured:
    return Measured(p99_ms(_runs(work, [SELDOM, BUSY])[:1]), _lone_ms(work))


def fairness(work: Workplace) -> Measured:
    counts = sorted(len(run.seconds) for run in _runs(work, [BUSY, BUSY]))
    return Measured(counts[1] / max(1, counts[0]), 1.0)


def eight(work: Workplace) -> Measured:
    count = OFFERING_FULL if work.scale == FULL else OFFERING_QUICK
    return Measured(p99_ms(_runs(work, [Worker(per_second=OFFERED_PER_SECOND)] * count)), _lone_ms(work))


def stopped(work: Workplace) -> Measured:
    slowest = max(_runs(work, [SELDOM, STOPPED])[0].seconds)
    return Measured(1000 * slowest, _lone_ms(work))


def lone(work: Workplace) -> Measured:
    """Both sides alternate in one process, since variations of the disk would hide a difference of 3 %."""
    with open_store(work.fresh()) as ours, open_store(folder := work.fresh()) as other:
        logs = [store.create_log(ORGANISATION, "log") for store in (ours, other)]
        writer: Any = other.environment.index._file._writer  # type: ignore[attr-defined]
        with _single_lock(folder / INDEX_FILE) as writer._turnstile:
            batch = range(work.scale.commits)
            seconds = alternated(
                work.scale.rounds,
                lambda: [logs[0].append(Event("paid", number)) for number in batch],
                lambda: [logs[1].append(Event("paid", number)) for number in batch],
            )
    return Measured(len(batch) / seconds[0], len(batch) / seconds[1])


MEASURES: dict[str, Callable[[Workplace], Measured]] = {
    "shared-lone": lone,
    "shared-seldom": seldom,
    "shared-fairness": fairness,
    "shared-eight": eight,
    "shared-stopped": stopped,
}


class _SingleLock:
    """The reference for a turnstile: one file lock, without an order of the processes."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def enter(self) -> bool:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        return True

    def leave(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._descriptor)


@contextmanager
def _single_lock(path: Path) -> Any:
    yield _SingleLock(os.open(f"{path}.lock", os.O_RDWR))


@cache
def _lone_ms(work: Workplace) -> float:
    return p99_ms(_runs(work, [SELDOM]))


def p99_ms(runs: Sequence[Run]) -> float:
    """Return the 99th percentile of the commits in milliseconds. Raises AssertionError if a commit failed."""
    if failures := [failure for run in runs for failure in run.failures]:
        raise AssertionError(f"{len(failures)} commits failed: {sorted(set(failures))}")
    ordered = sorted(seconds for run in runs for seconds in run.seconds)
    return 1000 * ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


def _runs(work: Workplace, workers: Sequence[Worker]) -> list[Run]:
    return runs_at(str(work.fresh()), work, workers)


def runs_at(url: str, work: Workplace, workers: Sequence[Worker]) -> list[Run]:
    """Let all workers commit to one document of a new store at ``url`` at the same time.

    Return the results of the workers that do not stop themselves.
    """
    with open_store(url) as store:
        store.create(ORGANISATION, DOCUMENT)
    start, seconds = (START_SECONDS_FULL, SECONDS_FULL) if work.scale == FULL else (START_SECONDS_QUICK, SECONDS_QUICK)
    begin = time.time() + start + START_SECONDS_EACH * len(workers)
    processes = [_start(url, worker, begin, seconds) for worker in workers]
    try:
        return [
            msgspec.json.decode(process.communicate()[0], type=Run)
            for process, worker in zip(processes, workers, strict=True)
            if not worker.stops
        ]
    finally:
        for process in processes:
            process.kill()
            process.wait()
            process.stdout.close()  # type: ignore[union-attr]


def _start(url: str, worker: Worker, begin: float, seconds: float) -> subprocess.Popen[bytes]:
    task = msgspec.json.encode([url, worker, begin, seconds]).decode()
    return subprocess.Popen([sys.executable, "-m", "bench.sharing", task], stdout=subprocess.PIPE)


def _work(url: str, worker: Worker, begin: float, seconds: float) -> Run:
    run = Run([], [])
    with open_store(url) as store:
        document = store.document(ORGANISATION, DOCUMENT)
        client = f"worker-{os.getpid()}"
        document.mutate("put", {"key": f"items/{client}", "value": 0}, client=client)
        time.sleep(max(0.0, begin - time.time()))
        ends = time.perf_counter() + seconds
        while (sent := time.perf_counter()) < ends:
            if worker.stops:
                with document.log.turn():
                    os.kill(os.getpid(), signal.SIGSTOP)
            try:
                document.mutate("put", {"key": f"items/{client}", "value": len(run.seconds)}, client=client)
                run.seconds.append(time.perf_counter() - sent)
            except StratalogError as exc:
                run.failures.append(type(exc).__name__)
            if worker.per_second:
                time.sleep(1 / worker.per_second)
    return run


if __name__ == "__main__":
    task = msgspec.json.decode(sys.argv[1], type=tuple[str, Worker, float, float])
    sys.stdout.buffer.write(msgspec.json.encode(_work(*task)))

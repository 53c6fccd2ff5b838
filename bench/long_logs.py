"""Growth with the length of a log: appends, reads of the last entry and opening at 10,000 to 10,000,000 entries.

The other side is a log of 1,000 entries. The goal is that the times do not grow with the log. *Cold* is the first call
after the store was opened. The operating system's page cache is warm for cold calls too.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

from bench.figures import Figure, Measured
from bench.measure import seconds_once
from bench.payload import fact, fact_bytes
from bench.plain import Plain
from bench.workplace import LOG, ORGANISATION, Workplace
from stratalog import Event, Log
from stratalog.store import open_store

__all__ = ["FIGURES", "LARGE_FIGURES", "MEASURES"]

ENTRIES_BASE = 1000
SIZES = {"10k": 10_000, "100k": 100_000, "1m": 1_000_000}
LARGE_SIZES = {"10m": 10_000_000}
FLAT = 1.5
CALLS = {
    "append": "an append",
    "append-cold": "the first append after opening the store",
    "last": "a read of the last entry",
    "last-cold": "a read of the last entry, the first call after opening the store",
    "open": "opening the store and the log, and reading the head",
}


def _figures(sizes: dict[str, int]) -> tuple[Figure, ...]:
    return tuple(
        Figure(
            name=f"log-{name}-{call}",
            what=f"{what}, of a log of {entries:,} entries; reference: a log of {ENTRIES_BASE:,} entries",
            unit="µs",
            goal=FLAT,
            better="less",
            on_disk=True,
        )
        for name, entries in sizes.items()
        for call, what in CALLS.items()
    )


FIGURES = _figures(SIZES)
LARGE_FIGURES = _figures(LARGE_SIZES)


def measured(call: str, entries: int, work: Workplace) -> Measured:
    """Alternate between both logs, and compare the medians of single calls. Appends are also compared with inserts.

    No read follows an insert, since the first call after a wait for the disk is slower: its code and data are no longer
    in the CPU's caches.
    """
    sizes = min(entries, work.scale.log_entries), ENTRIES_BASE
    with ExitStack() as stack:
        sides = [ONCE[call](stack, work.log(size)) for size in sizes]
        if call.startswith("append"):
            plain = stack.enter_context(closing(Plain(work.fresh() / "plain.sqlite")))
            sides.append(partial(seconds_once, partial(plain.append_each, [fact_bytes(1)])))
        spent: list[list[float]] = [[] for _ in sides]
        for _ in range(work.scale.commits):
            for side, seconds in zip(sides, spent, strict=True):
                seconds.append(side())
    ours, base, *other = (1e6 * statistics.median(seconds[1:]) for seconds in spent)
    return Measured(ours, base, ours - other[0] if other else None)


def _warm(call: Callable[[Log], object], stack: ExitStack, folder: Path) -> Callable[[], float]:
    log = stack.enter_context(_opened(folder))
    return lambda: seconds_once(partial(call, log))


def _cold(call: Callable[[Log], object], _: ExitStack, folder: Path) -> Callable[[], float]:
    def once() -> float:
        with _opened(folder) as log:
            return seconds_once(partial(call, log))

    return once


def _opening(_: ExitStack, folder: Path) -> Callable[[], float]:
    def once() -> float:
        with ExitStack() as stack:
            return seconds_once(lambda: stack.enter_context(_opened(folder)).head())

    return once


@contextmanager
def _opened(folder: Path) -> Iterator[Log]:
    with open_store(folder) as store:
        yield store.log(ORGANISATION, LOG)


def _append(log: Log) -> object:
    return log.append(Event("paid", fact(1)))


def _last(log: Log) -> object:
    return log.entry(log.head().version)


ONCE: dict[str, Callable[[ExitStack, Path], Callable[[], float]]] = {
    "append": partial(_warm, _append),
    "append-cold": partial(_cold, _append),
    "last": partial(_warm, _last),
    "last-cold": partial(_cold, _last),
    "open": _opening,
}
MEASURES: dict[str, Callable[[Workplace], Measured]] = {
    f"log-{name}-{call}": partial(measured, call, entries)
    for name, entries in (SIZES | LARGE_SIZES).items()
    for call in CALLS
}

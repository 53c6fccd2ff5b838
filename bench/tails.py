"""Tails: the median, the 99th percentile and the maximum of the times of single commits, also while a snapshot runs.

The two sides are Stratalog and plain SQLite. Each side makes all of its measured commits without pause. Before them
Stratalog makes a tenth as many commits that do not count. A snapshot that is due runs during Stratalog's next commits.
The wait for the last snapshot is not measured.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial

import msgspec

from bench.figures import Figure, Measured
from bench.measure import seconds_once
from bench.payload import fact, fact_bytes, item_key
from bench.plain import Plain
from bench.workplace import DOCUMENT, LOG, ORGANISATION, Workplace
from stratalog import Event, Store
from stratalog.store import open_store

__all__ = ["FIGURES", "MEASURES", "Latencies", "latencies_of"]

SEED = 7
SMALL_KEYS = 1000
P99_PER_P50_MAX = 4
GOAL_OF_TAIL = "the row `…-tail` has the goal"
SUBJECTS = {
    "append": "appends of one event to a log",
    "mutate": "mutations of random keys of a document of 1,000 keys, with its snapshots",
    "mutate-1m": "mutations of random keys of a document of 1,000,000 keys, with its snapshots",
}


class Latencies(msgspec.Struct, frozen=True):
    """Percentiles and the maximum of the microseconds of single calls."""

    p50: float
    p99: float
    max: float

    @property
    def tail(self) -> float:
        """The 99th percentile divided by the median."""
        return self.p99 / self.p50


FIGURES: tuple[Figure, ...] = tuple(
    figure
    for name, what in SUBJECTS.items()
    for figure in (
        *(
            Figure(
                name=f"{name}-{part}",
                what=f"{what}: {words}; reference: plain inserts",
                unit="µs",
                better="less",
                reason=GOAL_OF_TAIL,
                on_disk=True,
            )
            for part, words in (("p50", "the median"), ("p99", "the 99th percentile"), ("max", "the longest"))
        ),
        Figure(
            name=f"{name}-tail",
            what=f"{what}: the 99th percentile divided by the median; reference: the same of plain inserts",
            unit="times",
            goal=P99_PER_P50_MAX,
            better="less",
            goal_bounds="value",
            reason="the three rows before show the µs above plain",
            on_disk=True,
        ),
    )
)


def latencies_of(calls: Iterable[Callable[[], object]]) -> Latencies:
    """Run the calls one after another, and return the percentiles of their times."""
    gc.collect()
    spent = sorted(map(seconds_once, calls))
    return Latencies(1e6 * spent[len(spent) // 2], 1e6 * spent[len(spent) * 99 // 100], 1e6 * spent[-1])


def _part(subject: str, part: str, work: Workplace) -> Measured:
    ours, plain = _both(subject, work)
    value, reference = getattr(ours, part), getattr(plain, part)
    return Measured(value, reference, None if part == "tail" else value - reference)


def _both(subject: str, work: Workplace) -> tuple[Latencies, Latencies]:
    """Measure both sides once for all rows of ``subject``."""
    name = f"tail of {subject}"
    if name not in work.results:
        work.results[name] = _measured(subject, work)
    latencies: tuple[Latencies, Latencies] = work.results[name]
    return latencies


def _measured(subject: str, work: Workplace) -> tuple[Latencies, Latencies]:
    count = work.scale.tail_commits
    bodies = [[fact_bytes(number)] for number in range(count)]
    keys = work.scale.keys if subject == "mutate-1m" else SMALL_KEYS
    folder = work.fresh() if subject == "append" else work.document(keys)
    with open_store(folder) as store, closing(Plain(work.fresh() / "plain.sqlite")) as plain:
        made = count + count // 10
        calls = _appends(store, made) if subject == "append" else _mutations(store, keys, made)
        for uncounted in calls[count:]:
            uncounted()
        store.environment.background.wait()
        # Make no call again: a put of the stored value changes nothing, and takes less time.
        ours = latencies_of(calls[:count])
        store.environment.background.wait()
        return ours, latencies_of([partial(plain.append_each, body) for body in bodies])


def _appends(store: Store, count: int) -> list[Callable[[], object]]:
    log = store.create_log(ORGANISATION, LOG)
    return [partial(log.append, Event("paid", fact(number))) for number in range(count)]


def _mutations(store: Store, keys: int, count: int) -> list[Callable[[], object]]:
    chance = random.Random(SEED)
    document = store.document(ORGANISATION, DOCUMENT)
    chosen = [item_key(chance.randrange(keys)) for _ in range(count)]
    return [
        partial(document.mutate, "put", {"key": key, "value": fact(number)}) for number, key in enumerate(chosen, 1)
    ]


MEASURES: dict[str, Callable[[Workplace], Measured]] = {
    f"{subject}-{part}": partial(_part, subject, part) for subject in SUBJECTS for part in ("p50", "p99", "max", "tail")
}

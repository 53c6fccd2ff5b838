"""Growth with the size of a document: mutations at 1,000 to 10,000,000 keys, compared with a document of 100 keys.

A *warm* mutation changes one of 200 keys that are spread over the document. The keys were changed before, so their
chunks are in memory. A *cold* mutation is the first after the document was opened, so no chunk is in memory. Rows of
warm and of cold mutations are medians of single mutations. A *sustained* row is a rate that includes the time of the
snapshots: each round ends when its snapshots are made.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial

from bench.figures import Figure, Measured
from bench.measure import alternated_sides, seconds_once
from bench.payload import fact, fact_bytes, item_key
from bench.plain import Plain
from bench.workplace import DOCUMENT, ORGANISATION, Workplace, reopened
from stratalog import Document, Store
from stratalog.store import open_store

__all__ = ["FIGURES", "LARGE_FIGURES", "MEASURES"]

SEED = 7
KEYS_BASE = 100
SIZES = {"1k": 1000, "10k": 10_000, "100k": 100_000, "1m": 1_000_000}
LARGE_SIZES = {"10m": 10_000_000}
GOAL = 0.6
MILLION = "1m"
WITHOUT_GOAL = "for comparison: `mutate-1m-…` has the goal"
COLD = "for information: the goal is for chunks in memory"
SUSTAINED = 500
"""Mutations in a round of a sustained row: at the full scale a snapshot is due in every round."""


def _figures(sizes: dict[str, int]) -> tuple[Figure, ...]:
    return tuple(_figure(name, keys, how) for name, keys in sizes.items() for how in ("warm", "cold", "sustained"))


def _figure(name: str, keys: int, how: str) -> Figure:
    reason = COLD if how == "cold" else None if name == MILLION else WITHOUT_GOAL
    return Figure(
        name=f"mutate-{name}-{how}",
        what=f"mutations of a document of {keys:,} keys, {WORDS[how]}; reference: one of {KEYS_BASE} keys",
        unit="events/s",
        goal=None if reason else GOAL,
        reason=reason,
        on_disk=True,
    )


WORDS = {
    "warm": "with the chunks in memory",
    "cold": "newly opened, with no chunk in memory",
    "sustained": "with the chunks in memory and the time of the snapshots",
}


def warm(keys: int, work: Workplace) -> Measured:
    """Compare the medians of single mutations."""
    with ExitStack() as stack:
        sides = [_Mutating(stack.enter_context(open_store(work.document(size))), size) for size in _sizes(keys, work)]
        plain = _Inserting(stack.enter_context(closing(Plain(work.fresh() / "plain.sqlite"))))
        for _ in range(work.scale.rounds // 2 + 1):
            for side in sides:
                side.mutate(work.scale.commits)
            plain.insert(work.scale.commits)
        ours, base, other = map(statistics.median, (sides[0].spent, sides[1].spent, plain.spent))
    return Measured(1 / ours, 1 / base, 1e6 * (ours - other))


def cold(keys: int, work: Workplace) -> Measured:
    """Compare the medians of first mutations after the document was opened, without the time of opening it."""
    with ExitStack() as stack:
        stores = [stack.enter_context(open_store(work.document(size))) for size in _sizes(keys, work)]
        plain = _Inserting(stack.enter_context(closing(Plain(work.fresh() / "plain.sqlite"))))
        spent: tuple[list[float], list[float]] = ([], [])
        for turn in range(work.scale.commits):
            for size, store, seconds in zip(_sizes(keys, work), stores, spent, strict=True):
                document = reopened(store)
                document.state()
                key = item_key(random.Random(turn).randrange(size))
                seconds.append(_seconds(document, key, turn))
            plain.insert(1)
        ours, base, other = map(statistics.median, (*spent, plain.spent))
    return Measured(1 / ours, 1 / base, 1e6 * (ours - other))


def sustained(keys: int, work: Workplace) -> Measured:
    """Compare rounds that end when their snapshots are made."""
    count = SUSTAINED * work.scale.commits // 200
    with ExitStack() as stack:
        sides = [_Mutating(stack.enter_context(open_store(work.document(size))), size) for size in _sizes(keys, work)]
        plain = _Inserting(stack.enter_context(closing(Plain(work.fresh() / "plain.sqlite"))))
        for side in sides:
            side.prepare(count // 2)
        rounds = {
            "ours": partial(sides[0].mutate, count),
            "base": partial(sides[1].mutate, count),
            "plain": partial(plain.insert, count),
        }
        ours, base, other = alternated_sides(max(1, work.scale.rounds // 3), rounds).values()
    return Measured(count / ours, count / base, 1e6 * (ours - other) / count)


FIGURES = _figures(SIZES)
LARGE_FIGURES = _figures(LARGE_SIZES)
MEASURES: dict[str, Callable[[Workplace], Measured]] = {
    f"mutate-{name}-{how.__name__}": partial(how, keys)
    for name, keys in (SIZES | LARGE_SIZES).items()
    for how in (warm, cold, sustained)
}


class _Mutating:
    """Mutates a document and records the seconds of each mutation, from the second round on."""

    def __init__(self, store: Store, keys: int) -> None:
        chance = random.Random(SEED)
        self._store = store
        self._document = store.document(ORGANISATION, DOCUMENT)
        self._keys = [item_key(chance.randrange(keys)) for _ in range(200)]
        self._rounds = 0
        self.spent: list[float] = []

    def prepare(self, count: int) -> None:
        """Make a snapshot, then mutate ``count`` keys. So the next snapshot is due in the middle of a round."""
        self._document.snapshot()
        self.mutate(count)

    def mutate(self, count: int) -> None:
        """Mutate ``count`` keys, then wait for the snapshots that were due."""
        self._rounds += 1
        seconds = [_seconds(self._document, self._keys[n % 200], n + self._rounds) for n in range(count)]
        if self._rounds > 1:
            self.spent += seconds
        self._store.environment.background.wait()


class _Inserting:
    """Inserts rows into plain SQLite and records the seconds of each insert."""

    def __init__(self, plain: Plain) -> None:
        self._plain = plain
        self.spent: list[float] = []

    def insert(self, count: int) -> None:
        """Insert ``count`` rows, one commit each."""
        for number in range(count):
            self.spent.append(seconds_once(partial(self._plain.append_each, [fact_bytes(number)])))


def _sizes(keys: int, work: Workplace) -> Sequence[int]:
    return min(keys, work.scale.keys), KEYS_BASE


def _seconds(document: Document, key: str, number: int) -> float:
    return seconds_once(partial(document.mutate, "put", {"key": key, "value": fact(number)}))

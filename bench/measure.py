"""Medians of rounds. The rounds alternate between the sides, so that other work of the machine affects both sides."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable

__all__ = ["alternated", "median_ms", "medians", "seconds_of"]


def alternated(rounds: int, ours: Callable[[], object], other: Callable[[], object]) -> tuple[float, float]:
    """Return the median seconds of a round, for each side. The first round of a side does not count."""
    first, second = medians(rounds, ours, other)
    return first, second


def medians(rounds: int, *sides: Callable[[], object]) -> list[float]:
    """Return like `alternated` the median seconds of a round, for any number of sides."""
    times: list[list[float]] = [[] for _ in sides]
    for turn in range(rounds + 1):
        for side, spent in zip(sides, times, strict=True):
            seconds = seconds_of(side)
            if turn:
                spent.append(seconds)
    return [statistics.median(spent) for spent in times]


def median_ms(rounds: int, once: Callable[[], object]) -> float:
    """Return the median milliseconds of ``rounds`` calls."""
    return statistics.median(seconds_of(once) for _ in range(rounds)) * 1000


def seconds_of(side: Callable[[], object]) -> float:
    """Return the seconds of a call, without the time for freeing its result. Collects earlier garbage first."""
    gc.collect()
    begun = time.perf_counter()
    answer = side()
    seconds = time.perf_counter() - begun
    del answer
    return seconds

"""Medians of rounds. The rounds alternate between the sides, so that other work of the machine affects both sides."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping

__all__ = ["alternated", "alternated_sides", "median_ms", "seconds_of", "seconds_once"]


def alternated(rounds: int, ours: Callable[[], object], other: Callable[[], object]) -> tuple[float, float]:
    """Return the median seconds of a round, for each side. The first round of a side does not count."""
    medians = alternated_sides(rounds, {"ours": ours, "other": other})
    return medians["ours"], medians["other"]


def alternated_sides(rounds: int, sides: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Return the median seconds of a round, for each side. The first round of a side does not count."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(rounds + 1):
        for name, side in sides.items():
            seconds = seconds_of(side)
            if turn:
                times[name].append(seconds)
    return {name: statistics.median(spent) for name, spent in times.items()}


def median_ms(rounds: int, once: Callable[[], object]) -> float:
    """Return the median milliseconds of ``rounds`` calls."""
    return statistics.median(seconds_of(once) for _ in range(rounds)) * 1000


def seconds_of(side: Callable[[], object]) -> float:
    """Return the seconds of a call, without the time for freeing its result. Collects earlier garbage first."""
    gc.collect()
    return seconds_once(side)


def seconds_once(call: Callable[[], object]) -> float:
    """Return the seconds of a call, without the time for freeing its result. Collects no garbage."""
    begun = time.perf_counter()
    answer = call()
    seconds = time.perf_counter() - begun
    del answer
    return seconds

"""A clock moved by hand, for tests that must not wait."""

from __future__ import annotations

import random
import threading

__all__ = ["ManualClock"]


class ManualClock:
    """A :class:`stratalog.clock.Clock` whose time passes only when a test moves it. Its randomness comes from a seed.

    Safe for threads. ``sleep`` moves both clocks forward and returns at once.
    """

    def __init__(self, wall_ms: int = 1_700_000_000_000, boot_ms: int = 1_000, seed: int = 0) -> None:
        self._lock = threading.Lock()
        self._wall_ms = wall_ms
        self._boot_ms = boot_ms
        self._random = random.Random(seed)
        self._slept_ms = 0.0  # the fraction of a millisecond that earlier sleeps left for the next sleep

    def wall_ms(self) -> int:
        return self._wall_ms

    def boot_ms(self) -> int:
        return self._boot_ms

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self._slept_ms += seconds * 1000
            passed = round(self._slept_ms)
            self._slept_ms -= passed
            self._wall_ms += passed
            self._boot_ms += passed

    def set_wall(self, wall_ms: int) -> None:
        """Set the wall clock, but not the boot clock, as an administrator or a time server does."""
        with self._lock:
            self._wall_ms = wall_ms

    def random(self) -> float:
        with self._lock:
            return self._random.random()

    def random_bytes(self, count: int) -> bytes:
        with self._lock:
            return self._random.randbytes(count)

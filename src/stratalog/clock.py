"""Time, randomness, ids and sleep: the only place they come from, always passed in, so that a simulation owns them."""

from __future__ import annotations

import os
import random
import time
from typing import Protocol

__all__ = ["Clock", "Observation", "SystemClock", "id_from", "new_id"]


class Clock(Protocol):
    """What the core asks of its surroundings."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970 in UTC; may jump either way."""
        ...

    def boot_ms(self) -> int:
        """Milliseconds since the machine started; never goes back and counts time asleep."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return after about ``seconds``."""
        ...

    def random(self) -> float:
        """A number in [0, 1)."""
        ...

    def random_bytes(self, count: int) -> bytes:
        """``count`` unpredictable bytes, fit for ids."""
        ...


class SystemClock:
    """The machine's own clocks and randomness."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def boot_ms(self) -> int:
        return time.clock_gettime_ns(_BOOT_CLOCK) // 1_000_000

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def random(self) -> float:
        return random.random()

    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)


class Observation:
    """When something was asked for. Made *before* the request is sent, since the answer is no newer than that."""

    __slots__ = ("_clock", "boot_ms", "wall_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.wall_ms = clock.wall_ms()
        self.boot_ms = clock.boot_ms()

    def age_seconds(self) -> float:
        """Time since then, by whichever of the wall and boot clock says more."""
        clock = self._clock
        by_wall_ms, by_boot_ms = clock.wall_ms() - self.wall_ms, clock.boot_ms() - self.boot_ms
        return (by_wall_ms if by_wall_ms > by_boot_ms else by_boot_ms) / 1000

    def seconds_until(self, later: Observation) -> float:
        """The same from here to ``later``, which spares reading the clocks again."""
        by_wall_ms, by_boot_ms = later.wall_ms - self.wall_ms, later.boot_ms - self.boot_ms
        return (by_wall_ms if by_wall_ms > by_boot_ms else by_boot_ms) / 1000


def new_id(clock: Clock, characters: int = 16) -> str:
    """A random id in lower-case base 32: five bits a character."""
    return id_from(clock.random_bytes(characters))


def id_from(random_bytes: bytes) -> str:
    """An id of as many characters as there are random bytes."""
    return random_bytes.translate(_BASE_32).decode()


# A byte's last five bits as a character: one call, where encoding the bits of fewer bytes takes a dozen.
_BASE_32 = b"abcdefghijklmnopqrstuvwxyz234567" * 8
_BOOT_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

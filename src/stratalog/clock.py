"""Time, randomness, ids and sleep. Other modules use a `Clock`, so a simulation can replace time and randomness."""

from __future__ import annotations

import os
import random
import time
from typing import Protocol

__all__ = ["Clock", "Observation", "SystemClock", "id_from", "is_interval_over", "new_id"]


class Clock(Protocol):
    """The time and randomness of the process's environment."""

    def wall_ms(self) -> int:
        """Return the milliseconds since 1970 in UTC. The wall clock may jump forwards or backwards."""
        ...

    def boot_ms(self) -> int:
        """Return the milliseconds since the machine started, including its time asleep. They never decrease."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return after about ``seconds``."""
        ...

    def random(self) -> float:
        """Return a number in [0, 1)."""
        ...

    def random_bytes(self, count: int) -> bytes:
        """Return ``count`` unpredictable bytes, fit for ids."""
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
    """The time of a read. Make an observation *before* you send the read.

    Then the response to the read shows no state that is older than the observation.
    """

    __slots__ = ("_clock", "boot_ms", "wall_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.wall_ms: int = clock.wall_ms()
        self.boot_ms: int = clock.boot_ms()

    def age_seconds(self) -> float:
        """Return this observation's age in seconds: the larger of the ages by the wall clock and by the boot clock."""
        clock = self._clock
        by_wall_ms, by_boot_ms = clock.wall_ms() - self.wall_ms, clock.boot_ms() - self.boot_ms
        return (by_wall_ms if by_wall_ms > by_boot_ms else by_boot_ms) / 1000

    def seconds_until(self, later: Observation) -> float:
        """Return the seconds from this observation to ``later``, by the rule of `age_seconds`. Reads no clock."""
        by_wall_ms, by_boot_ms = later.wall_ms - self.wall_ms, later.boot_ms - self.boot_ms
        return (by_wall_ms if by_wall_ms > by_boot_ms else by_boot_ms) / 1000


def is_interval_over(clock: Clock, began_ms: int, interval_ms: float) -> bool:
    """Return whether work that last began at the stored time ``began_ms`` is due again, ``interval_ms`` later.

    If ``began_ms`` is further ahead than the interval, the clock was wrong then, and the work is due too. Otherwise it
    would not be done before that time.
    """
    return abs(clock.wall_ms() - began_ms) >= interval_ms


def new_id(clock: Clock, characters: int = 16) -> str:
    """Return a random id in lower-case base 32: five bits a character."""
    return id_from(clock.random_bytes(characters))


def id_from(random_bytes: bytes) -> str:
    """Return an id of as many characters as there are random bytes."""
    return random_bytes.translate(_BASE_32).decode()


# Maps a byte to the character of its last five bits, so `id_from` needs one call. A conversion that uses all bits of a
# byte needs fewer random bytes, but a dozen calls.
_BASE_32 = b"abcdefghijklmnopqrstuvwxyz234567" * 8
_BOOT_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

"""A clock whose wall tells the time of an entry that is written anew, so that it keeps the time it had."""

from __future__ import annotations

from stratalog.clock import Clock

__all__ = ["ReplayedClock"]


class ReplayedClock:
    """Another clock with a wall time that is said. Time awake still passes as the boot clock of the other says."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall_ms: int | None = None

    def say(self, wall_ms: int | None) -> None:
        """From now on it is ``wall_ms``; None: what the other clock says."""
        self._wall_ms = wall_ms

    def wall_ms(self) -> int:
        return self._clock.wall_ms() if self._wall_ms is None else self._wall_ms

    def boot_ms(self) -> int:
        return self._clock.boot_ms()

    def sleep(self, seconds: float) -> None:
        self._clock.sleep(seconds)

    def random(self) -> float:
        return self._clock.random()

    def random_bytes(self, count: int) -> bytes:
        return self._clock.random_bytes(count)

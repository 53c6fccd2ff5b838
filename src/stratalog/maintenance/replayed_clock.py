"""A clock that shows the time of an old entry, so that the entry keeps its time when it is written again."""

from __future__ import annotations

from stratalog.clock import Clock

__all__ = ["ReplayedClock"]


class ReplayedClock:
    """A clock whose wall time can be set. The boot time, sleep and randomness come from the wrapped clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall_ms: int | None = None

    def say(self, wall_ms: int | None) -> None:
        """Stop the wall time at ``wall_ms``. With None, show the wrapped clock's wall time again."""
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

"""A clock that shows the time of an old entry, so that the entry keeps its time when it is written again."""

from __future__ import annotations

from stratalog.clock import Clock

__all__ = ["ReplayedClock"]


class ReplayedClock:
    """A clock whose wall time can be set. The boot time, sleep and randomness come from the wrapped clock."""

    def __init__(self, clock: Clock) -> None:
        self.boot_ms = clock.boot_ms
        self.sleep = clock.sleep
        self.random = clock.random
        self.random_bytes = clock.random_bytes
        self._clock = clock
        self._wall_ms: int | None = None

    def say(self, wall_ms: int | None) -> None:
        """Stop the wall time at ``wall_ms``. With None, show the wrapped clock's wall time again."""
        self._wall_ms = wall_ms

    def wall_ms(self) -> int:
        return self._clock.wall_ms() if self._wall_ms is None else self._wall_ms

"""Patience: how long to go on trying, and how long to wait before each next try."""

from __future__ import annotations

from stratalog.clock import Observation, backoff_seconds
from stratalog.log.place import Place

__all__ = ["Patience"]


class Patience:
    """A time budget, spent with full-jitter back-off. It begins when it is made, or with ``since``."""

    def __init__(self, place: Place, since: Observation | None = None) -> None:
        self._place = place
        self._since = since or Observation(place.clock)
        self.attempts = 0
        """How many tries have failed."""

    def wait(self) -> bool:
        """After a try that failed: wait for the next, or say False at once where the budget is used up."""
        self.attempts += 1
        settings = self._place.settings
        if self._since.age_seconds() > settings.append_seconds_max:
            return False
        first, most = settings.append_backoff_seconds_first, settings.append_backoff_seconds_max
        self._place.clock.sleep(backoff_seconds(self._place.clock, self.attempts, first, most))
        return True

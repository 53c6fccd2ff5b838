"""Retry: how long to try again, and how long to wait before each try."""

from __future__ import annotations

from stratalog.clock import Observation, backoff_seconds
from stratalog.errors import Conflict, StratalogError
from stratalog.log.contention import Contention
from stratalog.log.environment import Environment

__all__ = ["Retry"]

LEFT_SHARE = 0.1


class Retry:
    """A time budget, spent with full-jitter back-off. It begins when it is made, or with ``since``.

    No wait for other writers is longer than a tenth of the time left. So a writer that has waited long tries more
    often, and new writers cannot starve it. A store that fails is not asked more often.
    """

    def __init__(
        self, environment: Environment, since: Observation | None = None, *, contention: Contention | None = None
    ) -> None:
        """With ``contention`` the waits for others grow with what was seen of them, not with the tries alone."""
        self._environment = environment
        self._since = since or Observation(environment.clock)
        self._contention = contention
        self.attempts = 0
        """How many tries have failed."""

    def wait(self, cause: StratalogError | None = None, *, has_turn: bool = False) -> bool:
        """After a try that failed: wait for the next, or say False at once where the budget is used up.

        A writer that has its turn holds others off and does not wait for them; see `Index.turn`.
        """
        self.attempts += 1
        clock, settings = self._environment.clock, self._environment.settings
        left = settings.append_seconds_max - self._since.age_seconds()
        if left < 0:
            return False
        if has_turn:
            return True
        first, most = settings.append_backoff_seconds_first, settings.append_backoff_seconds_max
        if cause is None or isinstance(cause, Conflict):
            most = min(most, max(first, left * LEFT_SHARE))
        if self._contention is not None and isinstance(cause, Conflict):
            clock.sleep(clock.random() * min(most, max(first, self._contention.backoff_seconds)))
        else:
            clock.sleep(backoff_seconds(clock, self.attempts, first, most))
        return True

"""Retry: the time for which a call is retried, and the wait before each try."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Protocol

import msgspec

from stratalog.clock import Clock, Observation
from stratalog.errors import Conflict, StratalogError

__all__ = ["Pace", "Retry", "RetryPolicy"]

LEFT_SHARE = 0.1


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The time for which a call is retried, and the limits of the wait before each try."""

    seconds_max: float = math.inf
    """A try that fails after this time is the last try."""

    wait_seconds_first: float = 0.05
    wait_seconds_max: float = 2.0


class Pace(Protocol):
    """The contention that earlier calls have observed."""

    backoff_seconds: float
    """The limit of the next wait after a lost race."""


class Retry:
    """The tries of one call, or of one loop: full-jitter back-off within a time budget.

    The budget begins when this object is made, or at ``since``. The rule is from Marc Brooker, “Exponential Backoff And
    Jitter”, AWS Architecture Blog, 2015.

    After a `Conflict` a wait is at most a tenth of the time left, or the first wait if that is longer. So a writer
    tries more often towards the end of its budget. After any other error the waits do not shrink, so a failing store is
    not called more often.
    """

    def __init__(
        self, clock: Clock, policy: RetryPolicy, since: Observation | None = None, *, pace: Pace | None = None
    ) -> None:
        """With ``pace`` the waits after a `Conflict` follow the observed contention, not the number of tries."""
        self._clock = clock
        self._policy = policy
        self._since = since or (Observation(clock) if policy.seconds_max < math.inf else None)
        self._pace = pace
        self._hindrances: dict[Hashable, _Hindrance] = {}
        self._counted_seconds = 0.0
        self.attempts: int = 0
        """The number of failed tries since this object was made, or since the last `reset`."""

    def next_seconds(self) -> float:
        """Count a failed try and return the seconds to wait before the next try. This ignores the time budget."""
        self.attempts += 1
        return self._jittered(self.attempts, self._policy.wait_seconds_max)

    def reset(self) -> None:
        """Record that a try succeeded: the waits of a loop start from the first wait again."""
        self.attempts = 0

    def wait(self, cause: StratalogError, *, has_turn: bool = False) -> bool:
        """Count a try that failed with ``cause``, and wait for the next try. Return False at once if no time is left.

        A writer that has a turn does not wait here. The index makes other writers wait, or makes this writer wait at
        the start of its turn; see `Index.turn`.
        """
        self.attempts += 1
        left = self._policy.seconds_max - self._age_seconds()
        if left <= 0:
            return False
        if has_turn:
            return True
        first, limit_seconds = self._policy.wait_seconds_first, self._policy.wait_seconds_max
        if isinstance(cause, Conflict):
            limit_seconds = min(limit_seconds, max(first, left * LEFT_SHARE))
            if self._pace is not None:
                self._clock.sleep(self._clock.random() * min(limit_seconds, max(first, self._pace.backoff_seconds)))
                return True
        self._clock.sleep(self._jittered(self.attempts, limit_seconds))
        return True

    def wait_for(self, hindrance: Hashable, seconds_max: float) -> bool:
        """Wait after a try that failed for the cause ``hindrance``. Return False at once if the budget is used up.

        Each cause has its own time budget, of ``seconds_max``, and its own number of tries. The budget includes the
        time of the tries. So a cause that lasts long does not use up the budget of another cause. Without
        ``since``, the policy must have a finite ``seconds_max``: otherwise no time is counted.
        """
        self.attempts += 1
        met = self._hindrances.setdefault(hindrance, _Hindrance())
        met.seconds += self._uncounted_seconds()
        if met.seconds >= seconds_max:
            return False
        met.attempts += 1
        self._clock.sleep(self._jittered(met.attempts, self._policy.wait_seconds_max))
        met.seconds += self._uncounted_seconds()
        return True

    def _uncounted_seconds(self) -> float:
        """Return the time since the last call of this method."""
        age = self._age_seconds()
        passed, self._counted_seconds = age - self._counted_seconds, age
        return passed

    def _age_seconds(self) -> float:
        """Return the time since the budget began. Without a budget, return 0 and read no clock."""
        return self._since.age_seconds() if self._since is not None else 0.0

    def _jittered(self, attempt: int, limit_seconds: float) -> float:
        ceiling = min(limit_seconds, self._policy.wait_seconds_first * 2 ** min(attempt - 1, 30))
        return float(self._clock.random() * ceiling)


class _Hindrance:
    """The time that failed tries with one cause took, and the number of these tries."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.attempts = 0

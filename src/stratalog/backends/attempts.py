"""Attempts: asking a service over the network again, within a budget, without forgetting what may have been written."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

import msgspec

from stratalog.clock import Clock, backoff_seconds
from stratalog.errors import OutcomeUnknown, StratalogError, Unavailable

__all__ = ["Again", "Budget", "Waits", "persist"]

T = TypeVar("T")


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """How long one call may be tried again, and how long one try may take."""

    seconds_max: float = 10
    """No try begins later than that; the last one may take `request_seconds_max` more."""

    wait_seconds_first: float = 0.05
    wait_seconds_max: float = 2
    connect_seconds_max: float = 5
    request_seconds_max: float = 30


class Again(Exception):
    """One try failed in a way that another may not: ``error`` is what it would be if it were the last."""

    def __init__(self, error: StratalogError) -> None:
        super().__init__(str(error))
        self.error = error


class Waits:
    """The waits of one call between its tries: full jitter, and a time of its own for whatever stands in the way.

    The tries that met it count, too. What lasts long does not use up the time in which another passes.
    """

    def __init__(self, clock: Clock, seconds_first: float, seconds_max: float) -> None:
        self._clock = clock
        self._seconds_first = seconds_first
        self._seconds_max = seconds_max
        self._since_ms = clock.boot_ms()
        self._spent_ms: dict[Hashable, int] = {}
        self._tries: dict[Hashable, int] = {}

    def wait(self, seconds_max: float, hindrance: Hashable = None) -> bool:
        """Sleep before the next try; False where ``seconds_max`` were spent on what stood in the way of this one."""
        self._spend(hindrance)
        if self._spent_ms[hindrance] >= seconds_max * 1000:
            return False
        tries = self._tries[hindrance] = self._tries.get(hindrance, 0) + 1
        self._clock.sleep(backoff_seconds(self._clock, tries, self._seconds_first, self._seconds_max))
        self._spend(hindrance)
        return True

    def _spend(self, hindrance: Hashable) -> None:
        now = self._clock.boot_ms()
        self._spent_ms[hindrance] = self._spent_ms.get(hindrance, 0) + now - self._since_ms
        self._since_ms = now


def persist(clock: Clock, budget: Budget, call: Callable[[], T]) -> T:
    """What ``call`` answers, tried again on `Again` with full-jitter back-off until the budget is used up.

    Once a try left the outcome unknown it stays so: a later refusal says nothing about the earlier try.
    """
    waits = Waits(clock, budget.wait_seconds_first, budget.wait_seconds_max)
    unknown = False
    while True:
        again = False
        try:
            return call()
        except Again as exc:
            error, cause, again = exc.error, exc.__cause__, True
        except Unavailable as exc:
            error, cause = exc, exc.__cause__
        unknown = unknown or isinstance(error, OutcomeUnknown)
        if not again or not waits.wait(budget.seconds_max):
            raise (OutcomeUnknown(error.message, **error.details) if unknown else error) from cause

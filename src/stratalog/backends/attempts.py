"""Attempts: asking a service over the network again, within a budget, without forgetting what may have been written."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from stratalog.clock import Clock, Observation, backoff_seconds
from stratalog.errors import OutcomeUnknown, StratalogError, Unavailable

__all__ = ["Again", "Budget", "persist"]

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


def persist(clock: Clock, budget: Budget, call: Callable[[], T]) -> T:
    """What ``call`` answers, tried again on `Again` with full-jitter back-off until the budget is used up.

    Once a try left the outcome unknown it stays so: a later refusal says nothing about the earlier try.
    """
    begun = Observation(clock)
    unknown = False
    tries = 0
    while True:
        again = False
        try:
            return call()
        except Again as exc:
            error, cause, again = exc.error, exc.__cause__, True
        except Unavailable as exc:
            error, cause = exc, exc.__cause__
        unknown = unknown or isinstance(error, OutcomeUnknown)
        tries += 1
        if not again or begun.age_seconds() >= budget.seconds_max:
            raise (OutcomeUnknown(error.message, **error.details) if unknown else error) from cause
        clock.sleep(backoff_seconds(clock, tries, budget.wait_seconds_first, budget.wait_seconds_max))

"""Requests to a service over the network: tried again, and what may have been written is not forgotten."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from stratalog.clock import Clock
from stratalog.errors import OutcomeUnknown, StratalogError, Unavailable
from stratalog.retry import Retry, RetryPolicy

__all__ = ["RequestPolicy", "Retryable", "send_request"]

T = TypeVar("T")


class RequestPolicy(RetryPolicy, frozen=True, kw_only=True):
    """How long a request is tried again, and how long one try may take.

    No try begins later than ``seconds_max``; the last one may take ``request_seconds_max`` more.
    """

    seconds_max: float = 10.0
    connect_seconds_max: float = 5.0
    request_seconds_max: float = 30.0


class Retryable(Exception):
    """One try failed in a way that another may not: ``error`` is what it would be if it were the last."""

    def __init__(self, error: StratalogError) -> None:
        super().__init__(str(error))
        self.error = error


def send_request(clock: Clock, policy: RequestPolicy, call: Callable[[], T]) -> T:
    """What ``call`` answers, tried again on `Retryable` until the policy's time is over.

    Once a try left the outcome unknown it stays so: a later refusal says nothing about the earlier try.
    """
    retry = Retry(clock, policy)
    unknown = False
    while True:
        retryable = False
        try:
            return call()
        except Retryable as exc:
            error, cause, retryable = exc.error, exc.__cause__, True
        except Unavailable as exc:
            error, cause = exc, exc.__cause__
        unknown = unknown or isinstance(error, OutcomeUnknown)
        if not retryable or not retry.wait(error):
            raise (OutcomeUnknown(error.message, **error.details) if unknown else error) from cause

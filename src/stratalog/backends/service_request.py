"""Requests to a hosted service, with retries that remember whether an earlier try may have taken effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from stratalog.clock import Clock
from stratalog.errors import OutcomeUnknown, StratalogError, Unavailable
from stratalog.retry import Retry, RetryPolicy

__all__ = ["READY_SECONDS_MAX", "RequestPolicy", "Retryable", "send_request", "wait_until_ready"]

T = TypeVar("T")

READY_SECONDS_MAX = 120
READY_WAIT_SECONDS = 1.0


class RequestPolicy(RetryPolicy, frozen=True, kw_only=True):
    """The limits on the time of a request with its retries, and on the time of one try.

    A try that fails later than ``seconds_max`` after the start is the last try. In obstore ``request_seconds_max``
    limits one try. In boto3 it limits each wait for bytes of the response.
    """

    seconds_max: float = 10.0
    connect_seconds_max: float = 5.0
    request_seconds_max: float = 30.0


class Retryable(Exception):
    """One try failed, and another try may succeed. ``error`` is the error to raise if there is no further try."""

    def __init__(self, error: StratalogError) -> None:
        super().__init__(str(error))
        self.error = error


def send_request(clock: Clock, policy: RequestPolicy, call: Callable[[], T]) -> T:
    """Return the result of ``call``, which is retried on `Retryable` until the policy's time is used up.

    Raises the error of the last try. If the outcome of any try is unknown, raises OutcomeUnknown instead. The error of
    a later try does not show whether an earlier try took effect.
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


def wait_until_ready(clock: Clock, is_ready: Callable[[], bool], kind: str, name: str) -> None:
    """Call ``is_ready`` once a second until it returns True. Raises Unavailable after `READY_SECONDS_MAX` seconds.

    ``kind`` and ``name`` identify the new resource in the error.
    """
    for _ in range(int(READY_SECONDS_MAX / READY_WAIT_SECONDS)):
        if is_ready():
            return
        clock.sleep(READY_WAIT_SECONDS)
    raise Unavailable(f"the {kind} is not ready yet", **{kind: name}, seconds=READY_SECONDS_MAX)

"""Errors in responses: one shape for all errors, and one status for each kind of error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from stratalog.codec import Value
from stratalog.errors import (
    BY_CODE,
    Closed,
    Collected,
    Conflict,
    ContentionError,
    Corrupt,
    Forbidden,
    HistoryChanged,
    Invalid,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    QueueFull,
    QuotaExceeded,
    Redacted,
    StratalogError,
    Unavailable,
    Unsupported,
    VersionForgotten,
)

__all__ = ["MEANINGS", "Problem", "Refused", "encoded_problem", "problem_of", "retry_headers", "status_of"]

RETRY_SECONDS = 1


class Problem(msgspec.Struct, frozen=True):
    """The reason why a request failed. ``limit`` and ``value`` are the limit and the value that caused the failure.

    ``scope`` names the kind of holder of a shared limit: process, organisation, principal, address or document.
    ``code`` is the code of an error in `stratalog.errors`, or a code that only the server uses. No code is ever
    removed.
    """

    code: Annotated[str, msgspec.Meta(extra_json_schema={"examples": sorted(BY_CODE)})]
    message: str
    limit: Value = None
    value: Value = None
    scope: str | msgspec.UnsetType = msgspec.UNSET


class Refused(StratalogError):
    """The server refused a request, the rest of a large push, or a response that its memory budget cannot contain.

    The server wrote nothing of a refused request or rest. A refused response may belong to a request that has written.
    """

    def __init__(self, status: int, code: str, message: str, **details: Any) -> None:
        super().__init__(message, **details)
        self.status = status
        self.wire_code = code


# The first matching class decides the status. So each class precedes its base classes.
_STATUSES: tuple[tuple[type[StratalogError], int], ...] = (
    (Collected, 410),
    (VersionForgotten, 410),
    (Redacted, 410),
    (NotFound, 404),
    # Nothing was written, and the same request may succeed later: the caller has no conflict to resolve.
    (ContentionError, 503),
    (HistoryChanged, 503),
    (Conflict, 409),
    (Forbidden, 403),
    (Unsupported, 501),
    (Invalid, 400),
    (LimitExceeded, 422),
    (QueueFull, 429),
    (QuotaExceeded, 507),
    (Unavailable, 503),
    (Closed, 503),
    # 504 is the status of a gateway whose upstream did not answer in time. The upstream of this server is the store.
    (OutcomeUnknown, 504),
    (Corrupt, 500),
)
_UNWRITTEN = "nothing was written, except earlier parts of a large push"
MEANINGS = {
    400: "the input is not valid",
    401: "the token is missing or not valid",
    403: "the principal, host or origin may not do this",
    404: "not found",
    405: "the path does not support the method",
    408: "the body did not arrive in time",
    409: "a conflict with the stored state, or the write id was used for another write; see the code",
    410: "the requested version, content or client group is no longer kept",
    413: "the body is too large",
    415: "the media type or the encoding of the body is not supported",
    416: "the range lies outside the body",
    422: "a value exceeds a limit",
    429: "too many requests, or the caller has used its share; see Retry-After",
    500: "stored bytes are damaged, or the server failed",
    501: "stored by a newer version of Stratalog, or this program cannot process the data",
    503: f"temporarily unavailable; see Retry-After; {_UNWRITTEN}",
    507: f"the server's temporary folder is full, or the organisation's quota is exceeded; see the code; {_UNWRITTEN}",
    504: "the outcome is unknown: repeat the request with the same ids",
}
"""The meaning of each status of an error, for the OpenAPI document."""


def status_of(error: StratalogError) -> int:
    """Return the HTTP status of an error, or 500 for an unknown kind of error."""
    if isinstance(error, Refused):
        return error.status
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def problem_of(error: StratalogError) -> Problem:
    """Return the error as the body of a response."""
    code = error.wire_code if isinstance(error, Refused) else error.code
    details = error.details
    limit, value = _plain(details.get("limit")), _plain(details.get("value"))
    return Problem(code, str(error), limit, value, details.get("scope", msgspec.UNSET))


def encoded_problem(error: StratalogError) -> tuple[dict[str, str], bytes]:
    """Return the headers and the JSON body for an error, for code that has not read the request's headers."""
    body = msgspec.json.encode(problem_of(error))
    headers = {"content-type": "application/json", "content-length": str(len(body))}
    return headers | retry_headers(status_of(error), error.details), body


def retry_headers(status: int, details: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of an error response for a retry (429, 503) or for authentication (401)."""
    if status == 401:
        return {"WWW-Authenticate": "Bearer"}
    return {"Retry-After": str(details.get("seconds", RETRY_SECONDS))} if status in (429, 503) else {}


def _plain(value: Any) -> Value:
    return value if isinstance(value, int | float | str | bool | None) else str(value)

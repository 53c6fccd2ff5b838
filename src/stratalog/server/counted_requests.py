"""Counted requests: the bytes of a request's body, counted against its organisation's quota as they arrive.

The number of stored bytes differs from this count: the store compresses bodies, stores equal values once, and repeats
values in snapshots. The next measurement of the stored bytes corrects the count.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from litestar.types import Message, Receive, Scope, Send

from stratalog.codec import is_decimal
from stratalog.errors import OutcomeUnknown
from stratalog.log.admission import Reservation
from stratalog.log.usage import Amounts
from stratalog.server.request_headers import headers_of

__all__ = ["CountedRequest"]

OUTCOME_UNKNOWN = 504


class CountedRequest:
    """One request and the reservation of its bytes.

    As a context manager, this object releases the reservation at the end if the request failed. Otherwise it confirms
    the reservation. An unknown outcome or a cancellation confirms the reservation too, because the store may have the
    bytes.
    """

    def __init__(self, reservation: Reservation, scope: Scope, receive: Receive, send: Send) -> None:
        self._reservation = reservation
        self._receive = receive
        self._send = send
        self._status = 0
        self._announced: int | None = _announced(scope)

    async def receive(self) -> Any:
        """Return the next message after counting its body.

        The first call checks the whole announced Content-Length before it receives a message. Raises QuotaExceeded.
        """
        announced, self._announced = self._announced, None
        if announced:
            self._reservation.check(Amounts(stored_bytes=announced))
        message: Any = await self._receive()
        if message["type"] == "http.request" and (size := len(message.get("body", b""))):
            self._reservation.add(Amounts(stored_bytes=size))
        return message

    async def send(self, message: Message) -> None:
        """Pass a message on, and remember the status of the response."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
        await self._send(message)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        # If an inner layer turned an error into a response, only the status shows the error. If the error arrives here
        # as an exception, an outer layer turns it into a response later.
        refused = 400 <= self._status < 600 and self._status != OUTCOME_UNKNOWN
        if refused or (isinstance(exc, Exception) and not isinstance(exc, OutcomeUnknown)):
            self._reservation.release()
        else:
            self._reservation.confirm()


def _announced(scope: Scope) -> int:
    text = headers_of(scope).get("content-length", "")
    return int(text) if is_decimal(text) else 0

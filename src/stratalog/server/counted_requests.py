"""Counted requests: what a request stores, counted against its organisation's quota as its body arrives.

What is stored in the end is another number: bodies are compressed, values are stored once, snapshots are made of them.
The next measurement knows it.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from litestar.types import Message, Receive, Scope, Send

from stratalog.codec import is_decimal
from stratalog.errors import OutcomeUnknown
from stratalog.log.admission import Reservation
from stratalog.log.usage import Amounts

__all__ = ["CountedRequest"]

OUTCOME_UNKNOWN = 504


class CountedRequest:
    """One request, with the bytes that it was admitted with. As a context manager they are kept if it was served."""

    def __init__(self, reservation: Reservation, scope: Scope, receive: Receive, send: Send) -> None:
        self._reservation = reservation
        self._receive = receive
        self._send = send
        self._status = 0
        self._announced: int | None = _announced(scope)

    async def receive(self) -> Any:
        """The next message, counted. Raises QuotaExceeded, at the first one for all that was announced."""
        announced, self._announced = self._announced, None
        if announced:
            self._reservation.check(Amounts(stored_bytes=announced))
        message: Any = await self._receive()
        if message["type"] == "http.request" and (size := len(message.get("body", b""))):
            self._reservation.add(Amounts(stored_bytes=size))
        return message

    async def send(self, message: Message) -> None:
        """Pass it on."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
        await self._send(message)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        # An error may be answered further in or further out.
        refused = 400 <= self._status < 600 and self._status != OUTCOME_UNKNOWN
        if refused or (isinstance(exc, Exception) and not isinstance(exc, OutcomeUnknown)):
            self._reservation.release()
        else:
            self._reservation.confirm()


def _announced(scope: Scope) -> int:
    headers = dict(scope["headers"])
    text = headers.get(b"content-length", b"").decode("latin-1")
    return int(text) if is_decimal(text) else 0

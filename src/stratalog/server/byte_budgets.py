"""Byte budgets: limits on the memory and temporary files of one process's requests, with a share for each caller."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from stratalog.errors import LimitExceeded, StratalogError
from stratalog.limits import (
    ANSWER_BYTES_COUNTED_MIN,
    DECODED_BYTES_SMALL_MAX,
    DECODED_WAITS_OF_HOLDER_MAX,
    LARGE_ROW_BYTES_MIN,
    LARGE_ROWS_MAX,
)
from stratalog.process_fork import close_in_child
from stratalog.server.application import Application
from stratalog.server.budget_queue import BudgetQueue
from stratalog.server.connection_shares import connection_of
from stratalog.server.error_responses import error_response
from stratalog.server.errors import Refused
from stratalog.server.shares import Allocation, Budget, HolderKind

__all__ = ["ByteBudgets", "RequestBytes", "bounded", "bytes_of"]

_STATE = "stratalog_bytes"
_METHODS_THAT_READ = frozenset({"GET", "HEAD", "OPTIONS"})


class ByteBudgets:
    """The budgets of one process. Without authentication there are no shares: only the process's limits apply."""

    def __init__(self, application: Application) -> None:
        limits = application.limits
        has_shares = application.authenticate is not None

        def budget(resource: str, limit: int, principal: int) -> Budget:
            # One organisation gets at most three quarters of the limit, or the share of a principal if that share is
            # larger. The rest stays free for other organisations, even if one organisation has many principals.
            organisation = max(principal, limit * 3 // 4)
            shares: dict[HolderKind, int] = {"principal": principal, "organisation": organisation}
            return Budget(resource, limit, {**shares, "address": principal} if has_shares else {})

        self.bodies = budget("bytes of bodies", limits.body_bytes_in_flight_max, limits.body_bytes_of_principal_max)
        self.decoded = budget(
            "bytes of decoded bodies", limits.decoded_bytes_in_flight_max, limits.decoded_bytes_of_principal_max
        )
        self.decoded_queue = BudgetQueue(
            seconds_max=limits.decoded_wait_seconds_max,
            waits_of_holder_max=DECODED_WAITS_OF_HOLDER_MAX,
            small_max=DECODED_BYTES_SMALL_MAX,
        )
        self.files = budget("bytes of temporary files", limits.file_bytes_max, limits.file_bytes_of_principal_max)
        self.answers = budget(
            "bytes of answers", limits.answer_bytes_in_flight_max, limits.answer_bytes_of_principal_max
        )
        self.large_rows = threading.BoundedSemaphore(LARGE_ROWS_MAX)
        close_in_child(self, "large_rows")


class RequestBytes:
    """The bytes that one request has taken from each budget, until `release`."""

    def __init__(self, budgets: ByteBudgets, scope: Scope) -> None:
        self.may_have_written = scope.get("method") not in _METHODS_THAT_READ
        """Whether the request may have written something. A handler of another method that only reads sets False."""

        self._budgets = budgets
        self._scope = scope
        self._allocations: dict[Budget, Allocation] = {}

    def take_body(self, amount: int) -> None:
        """Take memory for bytes of a body as they arrive. After Refused, nothing was taken."""
        self._allocation(self._budgets.bodies).add(amount)

    async def take_decoded(self, amount: int) -> None:
        """Wait for the memory that decoding and applying a body needs, and take it.

        Raises Refused when no room becomes free in time, or when too many bodies of the caller wait. Raises
        LimitExceeded for a body larger than the caller's share or the process's limit.
        """
        allocation = self._allocation(self._budgets.decoded)
        if amount > allocation.amount_max:
            text = "the body takes too much memory once decoded"
            raise LimitExceeded(text, value=amount, limit=allocation.amount_max)
        await self._budgets.decoded_queue.add(allocation, amount)

    def take_file(self, amount: int) -> None:
        """Take room in a temporary file, in addition to room taken before. Raises Refused."""
        self._allocation(self._budgets.files).add(amount)

    def cover_file(self, amount: int) -> None:
        """Take the room that the request still lacks for a temporary file of ``amount`` bytes. Raises Refused."""
        allocation = self._allocation(self._budgets.files)
        allocation.add(max(0, amount - allocation.amount))

    def cover_answer(self, amount: int) -> None:
        """Take the memory that the request still lacks for a response of ``amount`` bytes.

        Raises Refused, and LimitExceeded for a response larger than the caller's share or the process's limit.
        """
        allocation = self._allocation(self._budgets.answers)
        if amount > allocation.amount_max:
            limit = allocation.amount_max
            raise LimitExceeded("the response is too large: request fewer rows or a blob", value=amount, limit=limit)
        allocation.add(max(0, amount - allocation.amount))

    def room_for_row(self, row_bytes: int) -> AbstractContextManager[object]:
        """Return a context to enter while a row of ``row_bytes`` is decoded and encoded.

        During this work a row takes many times its size in memory, so at most `LARGE_ROWS_MAX` large rows are processed
        at once. Above this number, entering the context blocks the thread until another large row is done. This wait
        costs little: the work is mostly computation, and the interpreter runs one thread at a time.
        """
        return self._budgets.large_rows if row_bytes > LARGE_ROW_BYTES_MIN else nullcontext()

    def settle_answer(self, amount: int) -> None:
        """Release the memory beyond the ``amount`` bytes of a finished response, or all memory of a small response."""
        self._allocation(self._budgets.answers).reduce(amount if amount >= ANSWER_BYTES_COUNTED_MIN else 0)

    def release(self) -> None:
        """Release everything, and admit callers that wait for memory to decode."""
        for allocation in self._allocations.values():
            allocation.release()
        if self._budgets.decoded in self._allocations:
            self._budgets.decoded_queue.wake()

    def _allocation(self, budget: Budget) -> Allocation:
        allocation = self._allocations.get(budget)
        if allocation is None:
            # Determine the holders at the first use. An earlier allocation would lack the organisation, because the
            # request had not entered its organisation.
            allocation = self._allocations[budget] = budget.take(*connection_of(self._scope).holders, amount=0)
        return allocation


def bounded(app: ASGIApp, budgets: ByteBudgets) -> ASGIApp:
    """Wrap an application: the body and the response of a request count against ``budgets`` until the request ends."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            return await app(scope, receive, send)
        state: Any = scope.setdefault("state", {})
        request_bytes = state[_STATE] = RequestBytes(budgets, scope)
        try:
            await app(scope, receive, _CountedAnswer(request_bytes, scope, send).send)
        finally:
            request_bytes.release()
        return None

    return call


def bytes_of(scope: Scope) -> RequestBytes:
    """Return the amounts that the request of this scope has taken."""
    state: Any = scope["state"]
    request_bytes: RequestBytes = state[_STATE]
    return request_bytes


class _CountedAnswer:
    """A sender that delays a response's head until it has counted the first piece of the body.

    So a refusal can replace the response. This sender never refuses the response to a request that may have written:
    the client would conclude that nothing was written, and could write the same again under another number.
    """

    def __init__(self, request_bytes: RequestBytes, scope: Scope, send: Send) -> None:
        self._bytes = request_bytes
        self._scope = scope
        self._send = send
        self._start: Message | None = None
        self._is_refused = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return None
        if self._is_refused:
            return None
        if self._start is not None and message["type"] == "http.response.body":
            start, self._start = self._start, None
            size = len(message.get("body", b""))
            try:
                # Do not count a small response. A stream has one piece in memory at a time, so count only its first
                # piece.
                if size >= ANSWER_BYTES_COUNTED_MIN:
                    self._bytes.cover_answer(size)
            except (Refused, LimitExceeded) as exc:
                if not self._bytes.may_have_written:
                    return await self._refuse(exc)
            await self._send(start)
        await self._send(message)
        return None

    async def _refuse(self, error: StratalogError) -> None:
        self._is_refused = True
        status, headers, body = error_response(self._scope, error)
        encoded = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        start: Any = {"type": "http.response.start", "status": status, "headers": encoded}
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

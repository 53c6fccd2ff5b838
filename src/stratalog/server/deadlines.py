"""Deadlines of callers: the slowest allowed rates of sending a request's body and of reading a response.

Times are arguments or come from the event loop's clock. Only the time in which the server waits for the caller counts.
"""

from __future__ import annotations

import asyncio
from typing import Any

from litestar.types import Receive

from stratalog.limits import REQUEST_SILENCE_SECONDS_MAX
from stratalog.server.application import ServerLimits
from stratalog.server.errors import Refused

__all__ = ["AnswerProgress", "within_deadline"]

PROGRESS_WINDOW_SECONDS = 60.0


def within_deadline(receive: Receive, limits: ServerLimits) -> Receive:
    """Wrap the ``receive`` of a request, so that the wrapper enforces the deadlines of the request's body.

    The wrapper raises Refused: 400 if the caller disconnects, 408 if the caller is silent for
    `REQUEST_SILENCE_SECONDS_MAX` or too slow. For the whole body the server waits for `request_body_seconds_max`, plus
    one second for each `request_body_bytes_per_second_min` bytes received. Time in which the handler does not read the
    body does not count.
    """
    complete = False
    loop = asyncio.get_running_loop()
    waited_seconds = 0.0
    received_bytes = 0

    async def give() -> Any:
        nonlocal complete, waited_seconds, received_bytes
        # After the body, the only possible message is a disconnect, which has no deadline.
        if complete:
            return await receive()
        allowed_seconds = limits.request_body_seconds_max + received_bytes / limits.request_body_bytes_per_second_min
        began = loop.time()
        try:
            async with asyncio.timeout(max(0.0, min(REQUEST_SILENCE_SECONDS_MAX, allowed_seconds - waited_seconds))):
                message: Any = await receive()
        except TimeoutError as exc:
            limit = round(min(REQUEST_SILENCE_SECONDS_MAX, allowed_seconds), 3)
            raise Refused(408, "timeout", "the body did not arrive in time", limit=limit) from exc
        waited_seconds += loop.time() - began
        if message["type"] == "http.disconnect":
            raise Refused(400, "invalid", "the caller disconnected before the body ended")
        received_bytes += len(message.get("body", b""))
        complete = not message.get("more_body", False)
        return message

    return give


class AnswerProgress:
    """The progress with which a caller reads its responses. Each call of `is_overdue` takes a sample."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._read_bytes = 0
        self._progressed = 0.0
        self._window_began: float | None = None
        self._window_read_bytes = 0

    def is_overdue(self, now: float, read_bytes: int, waiting_bytes: int) -> bool:
        """Return whether the caller reads too slowly.

        Too slow means no byte for `answer_silence_seconds_max`, or an average below `answer_bytes_per_second_min` in
        `PROGRESS_WINDOW_SECONDS`. ``now`` is in seconds. ``read_bytes`` is the number of bytes sent since the caller
        connected. ``waiting_bytes`` is the number of bytes that the server has still to send.
        """
        # The caller has read everything, so a later wait begins a new window.
        if not waiting_bytes:
            self._window_began = None
            return False
        if self._window_began is None:
            self._read_bytes, self._progressed = read_bytes, now
            self._begin_window(now, read_bytes)
            return False
        if read_bytes > self._read_bytes:
            self._read_bytes, self._progressed = read_bytes, now
        if now - self._progressed >= self._limits.answer_silence_seconds_max:
            return True
        window_seconds = now - self._window_began
        if window_seconds < PROGRESS_WINDOW_SECONDS:
            return False
        rate = (read_bytes - self._window_read_bytes) / window_seconds
        self._begin_window(now, read_bytes)
        return rate < self._limits.answer_bytes_per_second_min

    def _begin_window(self, now: float, read_bytes: int) -> None:
        self._window_began = now
        self._window_read_bytes = read_bytes

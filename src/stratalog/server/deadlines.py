"""Deadlines of callers: how slowly a body may come, and how slowly an answer may be read.

Both take the time as an argument or from the event loop, and count only time in which the caller is waited for.
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
    """The same, for a request with a body: raises Refused where its caller goes away, falls silent or is too slow.

    The whole body may be waited for `request_body_seconds_max`, and a second longer for each
    `request_body_bytes_per_second_min` that came. Time in which nobody reads the body does not count.
    """
    complete = False
    loop = asyncio.get_running_loop()
    waited_seconds = 0.0
    received_bytes = 0

    async def give() -> Any:
        nonlocal complete, waited_seconds, received_bytes
        if complete:
            return await receive()
        allowed_seconds = limits.request_body_seconds_max + received_bytes / limits.request_body_bytes_per_second_min
        began = loop.time()
        try:
            async with asyncio.timeout(max(0.0, min(REQUEST_SILENCE_SECONDS_MAX, allowed_seconds - waited_seconds))):
                message: Any = await receive()
        except TimeoutError as exc:
            limit = round(min(REQUEST_SILENCE_SECONDS_MAX, allowed_seconds), 3)
            raise Refused(408, "timeout", "the rest of the body did not come", limit=limit) from exc
        waited_seconds += loop.time() - began
        if message["type"] == "http.disconnect":
            raise Refused(400, "invalid", "the caller went away before the body ended")
        received_bytes += len(message.get("body", b""))
        complete = not message.get("more_body", False)
        return message

    return give


class AnswerProgress:
    """Whether a caller reads what it asked for. It is looked at now and then, with the time and what was read."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._read_bytes = 0
        self._progressed = 0.0
        self._window_began: float | None = None
        self._window_read_bytes = 0

    def is_overdue(self, now: float, read_bytes: int, waiting_bytes: int) -> bool:
        """Whether bytes have waited too long: none was read for a while, or too few within a minute.

        ``read_bytes`` is how many the caller has taken since it connected, ``waiting_bytes`` how many wait for it.
        """
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

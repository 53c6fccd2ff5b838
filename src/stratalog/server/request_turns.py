"""Turns of requests: so many begin in one turn of the event loop, and those of each address take turns.

A burst of hundreds of connections would else make one turn long, and a request that waits for the loop ten times waits
for ten such turns.
"""

from __future__ import annotations

import asyncio

from stratalog.limits import REQUESTS_PER_TURN_MAX
from stratalog.server.rotation import Rotation

__all__ = ["RequestTurns"]


class RequestTurns:
    """Those of one event loop."""

    def __init__(self) -> None:
        self._left = REQUESTS_PER_TURN_MAX
        self._waiting: Rotation[asyncio.Future[None]] = Rotation()
        self._is_counting = False

    async def begin(self, address: str) -> None:
        """Return once a request of the address may begin."""
        loop = asyncio.get_running_loop()
        if not self._is_counting:
            self._is_counting = True
            loop.call_soon(self._next, loop)
        if self._left and not self._waiting:
            self._left -= 1
            return
        turn = loop.create_future()
        self._waiting.add(address, turn)
        await turn

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        began, self._left = self._left < REQUESTS_PER_TURN_MAX, REQUESTS_PER_TURN_MAX
        while self._left and (turn := self._waiting.take()) is not None:
            if not turn.done():
                turn.set_result(None)
                self._left -= 1
        self._is_counting = began or bool(self._waiting)
        if self._is_counting:
            loop.call_soon(self._next, loop)

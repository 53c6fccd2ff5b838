"""Workers: the threads on which pushes run, one push of a document at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.to_thread

from stratalog.server.errors import Refused

__all__ = ["Workers"]

T = TypeVar("T")


class Workers:
    """Runs the synchronous core for asynchronous callers, on at most ``threads`` threads.

    The pushes of one document wait here, without a thread, for the one that runs: however many want the same document,
    they hold one thread, and the others are left to other documents.
    """

    def __init__(self, threads: int, waiting_max: int) -> None:
        self._threads = threads
        self._waiting_max = waiting_max
        self._limiter: anyio.CapacityLimiter | None = None
        self._turns: dict[tuple[str, str], _Turn] = {}

    async def in_turn(self, name: tuple[str, str], function: Callable[[], T]) -> T:
        """Run ``function`` after those of the same (organisation, name) that came before.

        Raises Refused where too many wait.

        A caller who goes away while it runs does not stop it: what is being committed is committed.
        """
        turn = self._turns.setdefault(name, _Turn())
        if turn.waiting >= self._waiting_max:
            raise Refused(429, "too-many-pushes", "too many pushes wait for the document", limit=self._waiting_max)
        turn.waiting += 1
        try:
            async with turn.lock:
                return await anyio.to_thread.run_sync(function, limiter=self._capacity())
        finally:
            turn.waiting -= 1
            if not turn.waiting:
                self._turns.pop(name, None)

    def _capacity(self) -> anyio.CapacityLimiter:
        """Made on first use, since it belongs to the event loop that runs then."""
        self._limiter = self._limiter or anyio.CapacityLimiter(self._threads)
        return self._limiter


class _Turn:
    """Whose turn it is at one document."""

    def __init__(self) -> None:
        self.lock = anyio.Lock()
        self.waiting = 0

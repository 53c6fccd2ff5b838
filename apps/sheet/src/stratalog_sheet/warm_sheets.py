"""What a server keeps warm of its sheets: the handles, the engines, and the threads on which engines are waited for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import anyio
import anyio.to_thread

from stratalog import Store
from stratalog.errors import Unavailable
from stratalog_sheet.pool import EnginePool
from stratalog_sheet.settings import EngineSettings
from stratalog_sheet.sheets import Sheets

__all__ = ["EngineTurns", "WarmSheets"]

T = TypeVar("T")
_log = logging.getLogger("stratalog.sheet")


class EngineTurns:
    """Runs what needs an engine on threads of its own, as many as there are engines.

    Callers wait without a thread, and those of one sheet one behind the other. So however many want an engine, the
    server's other threads are free, and a sheet whose engine is at work holds up no other sheet.
    """

    def __init__(self, settings: EngineSettings) -> None:
        self._threads = settings.engines_max
        self._waiting_max = settings.waiting_max
        self._waiting = 0
        self._turns: dict[tuple[str, str], _Turn] = {}
        self._limiter: anyio.CapacityLimiter | None = None

    async def run(self, name: tuple[str, str], function: Callable[[], T]) -> T:
        """What ``function`` answers, called when it is the turn of the sheet ``name``, (organisation, name).

        Raises Unavailable where too many wait. One sheet has half the places, so that it cannot take them all.
        """
        turn = self._turns.setdefault(name, _Turn())
        if self._waiting >= self._waiting_max or turn.waiting >= max(self._waiting_max // 2, 1):
            text = "too many requests wait for the spreadsheet's engines"
            raise Unavailable(text, limit=self._waiting_max, value=turn.waiting)
        self._limiter = self._limiter or anyio.CapacityLimiter(self._threads)
        self._waiting += 1
        turn.waiting += 1
        try:
            async with turn.lock:
                return await anyio.to_thread.run_sync(function, limiter=self._limiter)
        finally:
            self._waiting -= 1
            turn.waiting -= 1
            if not turn.waiting:
                self._turns.pop(name, None)


class _Turn:
    def __init__(self) -> None:
        self.lock = anyio.Lock()
        self.waiting = 0


class WarmSheets:
    """The sheets of the one store that an application serves. Made at the first call, or when the server starts."""

    def __init__(self, settings: EngineSettings | None = None) -> None:
        self._settings = settings or EngineSettings()
        self._lock = threading.Lock()
        self._sheets: Sheets | None = None
        self.turns = EngineTurns(self._settings)

    def sheets(self, store: Store) -> Sheets:
        """The sheets of the store."""
        with self._lock:
            if self._sheets is None:
                self._sheets = Sheets(store, EnginePool(self._settings))
            return self._sheets

    @contextmanager
    def running(self, store: Store) -> Iterator[None]:
        """While a server runs: an engine that is started ahead, and the end of all of them."""
        sheets = self.sheets(store)
        try:
            sheets.engines.start()
        except Unavailable as exc:
            _log.warning("no engine was started ahead: %s", exc)
        try:
            yield
        finally:
            with self._lock:
                self._sheets, self.turns = None, EngineTurns(self._settings)
            sheets.close()

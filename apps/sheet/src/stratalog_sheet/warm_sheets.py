"""What a server keeps warm of its sheets: the handles, the engines, and the threads on which engines are waited for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from stratalog import Store
from stratalog.errors import Unavailable
from stratalog.server import Pool, PoolSettings, present_work
from stratalog_sheet.pool import EnginePool
from stratalog_sheet.settings import EngineSettings
from stratalog_sheet.sheets import Sheets

__all__ = ["EngineTurns", "WarmSheets"]

T = TypeVar("T")
_log = logging.getLogger("stratalog.sheet")


class EngineTurns:
    """Runs what needs an engine on threads of its own, as many as there are engines, and one for a sheet.

    So however many want an engine, the server's other threads are free, and a sheet whose engine is at work holds up no
    other sheet.
    """

    def __init__(self, settings: EngineSettings) -> None:
        self._pool = Pool(
            "engines",
            PoolSettings(
                threads=settings.engines_max,
                threads_of_key_max=1,
                calls_max=settings.waiting_max,
                wait_seconds_max=settings.wait_seconds_max,
            ),
        )

    async def run(self, name: tuple[str, str], function: Callable[[], T]) -> T:
        """What ``function`` answers, called when it is the turn of the sheet ``name``, (organisation, name).

        Raises Refused where too many wait, or it waited too long. One sheet has half of the room.
        """
        work = present_work()
        return await self._pool.run(function, key=name, caller=work.caller if work else None)

    def close(self) -> None:
        """Wait for the calls that run, and end the threads."""
        self._pool.close()


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
                turns, self._sheets, self.turns = self.turns, None, EngineTurns(self._settings)
            # The engines first: their end is the end of the calls that wait for one's answer.
            sheets.close()
            turns.close()

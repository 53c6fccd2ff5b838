"""Warm sheets of a server: the open handles, the engines, and the threads that wait for engines."""

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
    """Threads for the calls that need an engine: as many threads as engines, and one call of a sheet at a time.

    So calls that wait for an engine never occupy the server's other threads, and the calls of one sheet never occupy
    more than one engine.
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
        """Call ``function``, which needs the sheet ``name`` = (organisation, name), and return its result.

        Calls of one sheet and one caller begin in their order of arrival. Raises Refused if there are too many calls,
        or if this call waited too long. Running and waiting calls both count. One sheet may have half of the calls, and
        so may one caller.
        """
        work = present_work()
        return await self._pool.run(function, key=name, caller=work.caller if work else None)

    def close(self) -> None:
        """Wait for the calls in flight, and end the threads."""
        self._pool.close()


class WarmSheets:
    """The sheets of an application's store, opened when the server starts or at the first call."""

    def __init__(self, settings: EngineSettings | None = None) -> None:
        self._settings = settings or EngineSettings()
        self._lock = threading.Lock()
        self._sheets: Sheets | None = None
        self.turns = EngineTurns(self._settings)

    def sheets(self, store: Store) -> Sheets:
        """Return the sheets of the store."""
        with self._lock:
            if self._sheets is None:
                self._sheets = Sheets(store, EnginePool(self._settings))
            return self._sheets

    @contextmanager
    def running(self, store: Store) -> Iterator[None]:
        """The context of a running server: start an engine ahead of its use, and end all engines on exit."""
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
            # Close the engines first. This ends the calls that wait for an engine; `turns.close` waits for those calls.
            sheets.close()
            turns.close()

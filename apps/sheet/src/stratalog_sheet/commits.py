"""Commits of the routes. After a commit, the server pokes listeners. At some versions it also saves due snapshots."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

from stratalog.errors import StratalogError
from stratalog.server import Service
from stratalog_sheet.events import SheetChange
from stratalog_sheet.sheet import Sheet
from stratalog_sheet.warm_sheets import EngineTurns

__all__ = ["announce", "commit", "compute"]

T = TypeVar("T")
SNAPSHOT_CHECK_VERSIONS = 50
"""The server checks whether a snapshot is due when it commits a version that is a multiple of this number."""

_checks: set[asyncio.Task[None]] = set()
_log = logging.getLogger("stratalog.sheet")


async def compute(turns: EngineTurns, sheet: Sheet, call: Callable[[], T]) -> T:
    """Run a call that needs an engine on the engines' threads, and return its result."""
    return await turns.run((sheet.organisation, sheet.name), call)


async def commit(service: Service, turns: EngineTurns, sheet: Sheet, change: Callable[[], SheetChange]) -> SheetChange:
    """Make a change after the changes of earlier `commit` calls for the same sheet, and announce the change."""
    done = await service.in_turn(sheet.organisation, sheet.name, change)
    return announce(service, turns, sheet, done)


def announce(service: Service, turns: EngineTurns, sheet: Sheet, done: SheetChange) -> SheetChange:
    """Poke a sheet's listeners about a change. Every `SNAPSHOT_CHECK_VERSIONS` versions, start saving due snapshots."""
    service.hub.poke(sheet.organisation, sheet.name, done.version)
    if done.version % SNAPSHOT_CHECK_VERSIONS == 0:
        task = asyncio.get_running_loop().create_task(_save_snapshots(turns, sheet))
        _checks.add(task)  # the event loop has only weak references to its tasks
        task.add_done_callback(_checks.discard)
    return done


async def _save_snapshots(turns: EngineTurns, sheet: Sheet) -> None:
    """Save the due snapshots. After an error, only log the error, because maintenance saves the snapshots later."""

    def save() -> None:
        while sheet.snapshot_due() is not None:
            pass

    try:
        await compute(turns, sheet, save)
    except StratalogError:
        _log.warning("a sheet's snapshot could not be saved", exc_info=True)

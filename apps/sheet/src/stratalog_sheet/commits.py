"""Commits of the routes: they run in order, are announced to listeners, and now and then start an app snapshot."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from stratalog.errors import StratalogError
from stratalog.server import Service
from stratalog_sheet.events import SheetChange
from stratalog_sheet.sheet import Sheet
from stratalog_sheet.warm_sheets import EngineTurns

__all__ = ["announce", "commit", "compute"]

T = TypeVar("T")
SNAPSHOT_CHECK_VERSIONS = 50
"""A commit of every so many versions makes the server check whether a snapshot is due."""

_checks: set[asyncio.Task[None]] = set()
_log = logging.getLogger("stratalog.sheet")


async def compute(turns: EngineTurns, sheet: Sheet, call: Callable[[], T]) -> T:
    """The result of a call that needs an engine."""
    return await turns.run((sheet.organisation, sheet.name), call)


async def commit(service: Service, turns: EngineTurns, sheet: Sheet, change: Callable[[], SheetChange]) -> SheetChange:
    """Make a change after earlier changes of the same sheet, and announce it."""
    done = await service.in_turn(sheet.organisation, sheet.name, change)
    return announce(service, turns, sheet, done)


def announce(service: Service, turns: EngineTurns, sheet: Sheet, done: SheetChange) -> SheetChange:
    """Tell all listeners of a change. Check now and then whether a snapshot is due."""
    service.hub.poke(sheet.organisation, sheet.name, done.version)
    if done.version % SNAPSHOT_CHECK_VERSIONS == 0:
        task = asyncio.get_running_loop().create_task(compute(turns, sheet, partial(_save_snapshots, sheet)))
        _checks.add(task)
        task.add_done_callback(_checks.discard)
    return done


def _save_snapshots(sheet: Sheet) -> None:
    """Save the snapshots that are due. Maintenance makes up for a failure, so nobody waits for it."""
    try:
        while sheet.snapshot_due() is not None:
            pass
    except StratalogError:
        _log.warning("a sheet's snapshot could not be saved", exc_info=True)

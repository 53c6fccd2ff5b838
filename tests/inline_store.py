"""A store that does its work beside callers at once, so that two runs of one seed leave the same items."""

from __future__ import annotations

from pathlib import Path

import stratalog
from stratalog.clock import Clock
from stratalog.log.tasks import InlineTasks

__all__ = ["open_inline"]


def open_inline(
    url: str | Path = "memory:",
    *,
    settings: stratalog.LogSettings = stratalog.LogSettings(),  # noqa: B008 - frozen
    clock: Clock | None = None,
) -> stratalog.Store:
    """Open a store whose snapshots are there when the call that made them due returns.

    For tests that compare what is stored: a thread may end a snapshot between two looks.
    """
    store = stratalog.open(url, settings=settings, clock=clock)
    store.environment.background = InlineTasks()
    return store

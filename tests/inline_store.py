"""A store that does its background work inline, so that two runs with the same seed store the same items."""

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
    """Open a store whose calls write a due snapshot before they return.

    Use this function in tests that compare stored content. With a normal store, a background thread could finish a
    snapshot between two reads.
    """
    store = stratalog.open(url, settings=settings, clock=clock)
    store.environment.background = InlineTasks()
    return store

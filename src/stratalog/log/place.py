"""A place: the ports a log stands on, with the numbers that tune it."""

from __future__ import annotations

from collections import Counter

import msgspec

from stratalog.clock import Clock
from stratalog.limits import BODY_INLINE_BYTES_MAX
from stratalog.ports.blobs import Blobs
from stratalog.ports.index import Index

__all__ = ["Place", "Settings"]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers that tune speed and cost; none of them is part of a stored format."""

    segment_entries_target: int = 10_000
    """A segment is sealed once it holds this many entries; one with state waits for its snapshot up to twice that."""

    snapshot_entries_interval: int = 500
    """A document is given a snapshot every so many versions."""

    body_inline_bytes_max: int = BODY_INLINE_BYTES_MAX
    """An entry's events above this size go to a blob; below it the index is cheaper."""

    append_seconds_max: float = 10.0
    """How long an append goes on trying under contention or while the index is unavailable."""

    append_backoff_seconds_first: float = 0.002
    append_backoff_seconds_max: float = 1.0

    follow_poll_seconds: float = 0.5
    """How often a follower looks for new entries."""


class Place:
    """Index, blobs and clock behind one store, its settings, and counters of what is worth knowing."""

    def __init__(self, index: Index, blobs: Blobs, clock: Clock, settings: Settings | None = None) -> None:
        self.index = index
        self.blobs = blobs
        self.clock = clock
        self.settings = settings or Settings()
        self.counters: Counter[str] = Counter()

"""A place: the ports a log stands on, with the numbers that tune it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

import msgspec

from stratalog.clock import Clock
from stratalog.limits import BODY_INLINE_BYTES_MAX
from stratalog.ports.blobs import Blobs
from stratalog.ports.index import Index
from stratalog.process_fork import close_in_child

__all__ = ["Beside", "Place", "Settings"]


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


class Beside:
    """Work beside the callers', each in a thread of its own. Whoever closes the place waits for all of it first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        close_in_child(self, "_lock")
        self._threads: list[threading.Thread] = []

    def start(self, work: Callable[[], None]) -> threading.Thread:
        """Begin ``work``, which raises nothing. Join what is answered to wait for its end."""
        thread = threading.Thread(target=work, name="stratalog-beside")
        with self._lock:
            self._threads = [other for other in self._threads if other.is_alive()]
            self._threads.append(thread)
            thread.start()
        return thread

    def wait(self) -> None:
        """Wait for all that was begun."""
        with self._lock:
            threads, self._threads = self._threads, []
        for thread in threads:
            thread.join()


class Place:
    """Index, blobs and clock behind one store, its settings, and counters of what is worth knowing."""

    def __init__(self, index: Index, blobs: Blobs, clock: Clock, settings: Settings | None = None) -> None:
        self.index = index
        self.blobs = blobs
        self.clock = clock
        self.settings = settings or Settings()
        self.counters: Counter[str] = Counter()
        self.beside = Beside()
        close_in_child(self, "index", "blobs")

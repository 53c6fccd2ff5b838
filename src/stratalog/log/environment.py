"""The environment of a log: its ports, clock, settings, counters, caches and background tasks."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import msgspec

from stratalog.cache import ByteCache
from stratalog.clock import Clock, Observation
from stratalog.limits import BACKGROUND_OFFERS_MAX, BODY_INLINE_BYTES_MAX, CHUNK_CACHE_BYTES_MAX
from stratalog.ports.blobs import Blobs
from stratalog.ports.index import Index
from stratalog.process_fork import close_in_child
from stratalog.recent_reads import RecentReads
from stratalog.retry import Pace, Retry, RetryPolicy

__all__ = ["BackgroundTasks", "EnteredOrganisations", "Environment", "InlineTasks", "LogSettings", "Task", "Tasks"]

ORGANISATIONS_REMEMBERED_MAX = 10_000

_log = logging.getLogger("stratalog")


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
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


class Task(Protocol):
    """Work that was begun."""

    def join(self) -> None:
        """Wait for its end."""
        ...


class Tasks(Protocol):
    """Runs work beside the callers'. `BackgroundTasks` does it in threads, a simulation in actors of its own."""

    def start(self, work: Callable[[], None]) -> Task:
        """Begin ``work``, which raises nothing."""
        ...

    def offer(self, work: Callable[[], None]) -> bool:
        """Begin ``work``, which raises nothing, unless too much is under way. False: it was not begun, nor will be."""
        ...

    def wait(self) -> None:
        """Wait for all that was begun."""
        ...

    def close(self) -> None:
        """Take no more offers, and wait for all that was begun."""
        ...


class BackgroundTasks:
    """Work in short-lived threads of its own. Closing the store waits for all of it, and so does the program's end.

    A function on AWS Lambda is frozen between two calls, its threads too. They go on at the next call or never.
    """

    def __init__(self, offers_max: int = BACKGROUND_OFFERS_MAX) -> None:
        self._lock = threading.Lock()
        close_in_child(self, "_lock")
        self._offers_max = offers_max
        self._offers = 0
        self._closed = False
        self._threads: list[threading.Thread] = []

    def start(self, work: Callable[[], None]) -> threading.Thread:
        """Begin ``work``, which raises nothing. Join what is answered to wait for its end."""
        thread = threading.Thread(target=work, name="stratalog-background")
        with self._lock:
            self._threads = [other for other in self._threads if other.is_alive()]
            thread.start()
            self._threads.append(thread)
        return thread

    def offer(self, work: Callable[[], None]) -> bool:
        """Begin ``work``, which raises nothing, unless too much is under way. False: it was not begun, nor will be."""
        with self._lock:
            if self._closed or self._offers >= self._offers_max:
                return False
            self._offers += 1
        try:
            self.start(partial(self._run_offer, work))
        except RuntimeError:  # the system has no thread left, or the program is ending
            self._end_offer()
            return False
        return True

    def wait(self) -> None:
        """Wait for all that was begun."""
        with self._lock:
            threads, self._threads = self._threads, []
        for thread in threads:
            thread.join()

    def close(self) -> None:
        """Take no more offers, and wait for all that was begun."""
        with self._lock:
            self._closed = True
        self.wait()

    def _run_offer(self, work: Callable[[], None]) -> None:
        try:
            work()
        finally:
            self._end_offer()

    def _end_offer(self) -> None:
        with self._lock:
            self._offers -= 1


class InlineTasks:
    """Does all work at once, in the caller's thread, so that what is begun has ended."""

    def start(self, work: Callable[[], None]) -> Task:
        """Do ``work``."""
        work()
        return _Ended()

    def offer(self, work: Callable[[], None]) -> bool:
        """Do ``work``. True."""
        work()
        return True

    def wait(self) -> None:
        """Nothing is under way."""

    def close(self) -> None:
        """Nothing is under way."""


class _Ended:
    def join(self) -> None:
        """It has ended."""


class EnteredOrganisations:
    """Organisations that a read found in the store's list. None is ever taken out of it, so this cannot be outdated."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def knows(self, organisation: str) -> bool:
        """Whether it was found before."""
        return organisation in self._names

    def learn(self, organisation: str) -> None:
        """It was found."""
        if len(self._names) >= ORGANISATIONS_REMEMBERED_MAX:
            self._names.clear()
        self._names.add(organisation)


class Environment:
    """Index, blobs and clock of one store, its settings, and counters of notable events."""

    def __init__(
        self,
        index: Index,
        blobs: Blobs,
        clock: Clock,
        settings: LogSettings | None = None,
        *,
        background: Tasks | None = None,
    ) -> None:
        self.index = index
        self.blobs = blobs
        self.clock = clock
        self.settings = settings or LogSettings()
        self._retry_policy = RetryPolicy(
            seconds_max=self.settings.append_seconds_max,
            wait_seconds_first=self.settings.append_backoff_seconds_first,
            wait_seconds_max=self.settings.append_backoff_seconds_max,
        )
        self.counters: Counter[str] = Counter()
        self.background: Tasks = background or BackgroundTasks()
        self.chunk_cache: ByteCache[Any] = ByteCache(CHUNK_CACHE_BYTES_MAX)
        """The decoded chunks of all documents of the store."""

        self.entered_organisations = EnteredOrganisations()
        self.reads = RecentReads()
        close_in_child(self, "index", "blobs")

    def report(self, what: str, **details: object) -> None:
        """Count something that an operator must hear of, and log it. Alarms look for ``what`` in metrics and logs.

        ``details`` name things. They hold no content of documents and nothing that an exception says of it.
        """
        self.counters[what] += 1
        _log.error("%s: %s", what, " ".join(f"{name}={value}" for name, value in details.items()))

    def retry(self, since: Observation | None = None, *, pace: Pace | None = None) -> Retry:
        """The retry of one write: within `LogSettings.append_seconds_max`, which begins now or with ``since``."""
        return Retry(self.clock, self._retry_policy, since, pace=pace)

"""The environment of a log: its ports, clock, settings, counters, caches and background tasks."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from stratalog.arguments import CheckedStruct, check_class
from stratalog.cache import ByteCache
from stratalog.clock import Clock, Observation
from stratalog.limits import BODY_INLINE_BYTES_MAX, CHUNK_CACHE_BYTES_MAX
from stratalog.log.admission import UNBOUND, Admission, Reservation
from stratalog.log.tasks import BackgroundTasks, Tasks
from stratalog.log.usage import Amounts
from stratalog.ports.blob_source import BlobSource
from stratalog.ports.blobs import Blobs
from stratalog.ports.index import Index
from stratalog.process_fork import close_in_child
from stratalog.recent_reads import RecentReads
from stratalog.retry import Pace, Retry, RetryPolicy

__all__ = ["EnteredOrganisations", "Environment", "LogSettings"]

ORGANISATIONS_REMEMBERED_MAX = 10_000

_log = logging.getLogger("stratalog")


Count = Annotated[int, msgspec.Meta(ge=1)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]


class LogSettings(CheckedStruct, frozen=True, kw_only=True):
    """Numbers that change speed and cost. No number is part of a stored format."""

    segment_entries_target: Count = 10_000
    """A segment is sealed once it has this many entries.

    In a document, and in any log of another kind than ``log``, the segment must also have a snapshot. Without a
    snapshot it is sealed at twice as many entries.
    """

    snapshot_entries_interval: Count = 500
    """The number of versions from one snapshot of a document to the next.

    A snapshot is also due after 20 times as many mutations or changed keys, but not before 10,000.
    """

    body_inline_bytes_max: Annotated[int, msgspec.Meta(ge=0)] = BODY_INLINE_BYTES_MAX
    """A larger compressed body of an entry or record is stored as a blob. A smaller body costs less in the index."""

    append_seconds_max: Seconds = 10.0
    """The time for which an append or another write retries under contention or while the index is unavailable."""

    append_backoff_seconds_first: Seconds = 0.002
    append_backoff_seconds_max: Seconds = 1.0

    follow_poll_seconds: Annotated[float, msgspec.Meta(gt=0)] = 0.5
    """The interval at which a follower polls for new entries."""


class EnteredOrganisations:
    """Organisations that a read found in the store's list. No organisation is ever removed from the list."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def knows(self, organisation: str) -> bool:
        """Return whether the organisation was found before."""
        return organisation in self._names

    def learn(self, organisation: str) -> None:
        """Record that the organisation was found."""
        if len(self._names) >= ORGANISATIONS_REMEMBERED_MAX:
            self._names.clear()
        self._names.add(organisation)


class Environment:
    """The ports, clock, settings, caches, background tasks and counters that the logs of one store share."""

    def __init__(
        self,
        index: Index,
        blobs: Blobs,
        clock: Clock,
        settings: LogSettings | None = None,
        *,
        background: Tasks | None = None,
        chunk_source: BlobSource | None = None,
    ) -> None:
        self.index = index
        self.blobs = blobs
        self.clock = clock
        self.settings: LogSettings = LogSettings() if settings is None else settings
        check_class(LogSettings, settings=self.settings)
        self._retry_policy = RetryPolicy(
            seconds_max=self.settings.append_seconds_max,
            wait_seconds_first=self.settings.append_backoff_seconds_first,
            wait_seconds_max=self.settings.append_backoff_seconds_max,
        )
        self.counters: Counter[str] = Counter()
        """The counts of events in this process, by name. Only `count` changes them."""

        self._counters_lock = threading.Lock()
        self.background: Tasks = background or BackgroundTasks()
        self.chunk_cache: ByteCache[Any] = ByteCache(CHUNK_CACHE_BYTES_MAX)
        """The decoded chunks of all documents of the store."""

        self.chunk_source: BlobSource = chunk_source or BlobSource(blobs)
        """The source of the chunks that the cache lacks."""

        self.admission: Admission | None = None
        """Enforces quotas; None if this process enforces no quotas. Only a server sets this attribute."""

        self.entered_organisations: EnteredOrganisations = EnteredOrganisations()
        self.reads: RecentReads = RecentReads()
        close_in_child(self, "index", "blobs", "chunk_source", "_counters_lock")

    def count(self, what: str, amount: int = 1) -> None:
        """Add ``amount`` to the counter ``what``. Safe for threads."""
        # Without the lock, a thread could overwrite the count that another thread adds between its read and its write.
        with self._counters_lock:
            self.counters[what] += amount

    def report(self, what: str, **details: object) -> None:
        """Count and log an event that an operator must learn of. Alarms match ``what`` in metrics and logs.

        ``details`` identify objects, e.g. a log or a version. They must not contain content of documents. They must not
        contain texts of exceptions, which could quote such content.
        """
        self.count(what)
        _log.error("%s: %s", what, " ".join(f"{name}={value}" for name, value in details.items()))

    def reserve(
        self,
        organisation: str,
        amounts: Amounts,
        *,
        document_clients: Callable[[], int] | None = None,
        principal: str = "",
    ) -> Reservation:
        """Admit the amounts of a write, if quotas are enforced; see `Admission.reserve`. Raises QuotaExceeded."""
        if self.admission is None:
            return UNBOUND
        return self.admission.reserve(organisation, amounts, document_clients=document_clients, principal=principal)

    def retry(self, since: Observation | None = None, *, pace: Pace | None = None) -> Retry:
        """Return the retry of one write. The budget, `LogSettings.append_seconds_max`, begins now or at ``since``."""
        return Retry(self.clock, self._retry_policy, since, pace=pace)

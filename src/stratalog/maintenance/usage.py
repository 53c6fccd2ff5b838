"""Measurement of the documents, records, clients and bytes that an organisation stores.

A measurement reads the items of the organisation's logs, records, failures, dead letters and uploads, and lists its
blobs. The measurement does not count the name lines and the items of maintenance. The measurement saves its progress in
the index, so that it resumes after an interruption. The result is not a snapshot of one moment: items written meanwhile
may or may not be counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from stratalog.clock import Observation
from stratalog.documents import Document
from stratalog.errors import Corrupt, NotFound
from stratalog.keys import (
    NAME_SORT,
    checkpoints_partition,
    dead_letters_partition,
    deleted_partition,
    directory_partition,
    entries_partition,
    escape,
    failures_partition,
    family_partition,
    forks_partition,
    name_partition,
    record_key,
    record_partition,
    segments_partition,
    snapshots_partition,
    uploads_partition,
    usage_partition,
    waiting_partition,
)
from stratalog.limits import USAGE_PROGRESS_SECONDS_MAX
from stratalog.log import open_log
from stratalog.log.callbacks import Stop, never
from stratalog.log.directory import LOGS, RECORDS, SHARDS
from stratalog.log.environment import Environment
from stratalog.log.listed_items import get_listed
from stratalog.log.segments import list_segments
from stratalog.log.usage import NOTHING, Amounts, Measurement, save_measurement
from stratalog.maintenance.damage import DamageList
from stratalog.maintenance.recording_ports import RecordingIndex
from stratalog.ports.index import Delete, Item, Put, item_bytes

__all__ = ["measure_usage"]

FORMAT = 1
PROGRESS_SORT = "progress"
SAVE_SECONDS = 60


class _Progress(msgspec.Struct, array_like=True):
    """The progress of a measurement: the stage, the directory shard, and the last sort key or blob key counted."""

    began_ms: int
    stage: int = 0
    shard: int = 0
    after: str = ""
    amounts: Amounts = NOTHING
    document_clients: int = 0
    unreadable: int = 0
    log: str = ""
    """The prefix of the current log."""

    segment: int = 0
    """The current log's segments that begin below this version are counted in ``log_bytes``."""

    log_bytes: int = 0

    def begin(self, prefix: str) -> None:
        """Begin the count of a log, or resume it.

        The bytes of another, unfinished log do not count: that log was deleted.
        """
        if self.log != prefix:
            self.log, self.segment, self.log_bytes = prefix, 0, 0

    def finish(self, after: str, amounts: Amounts = NOTHING) -> None:
        """Count the current log and ``amounts``. The measurement continues after ``after``."""
        own = Amounts(stored_bytes=self.log_bytes)
        self.after, self.amounts = after, self.amounts.plus(own).plus(amounts)
        self.log, self.segment, self.log_bytes = "", 0, 0


def measure_usage(environment: Environment, organisation: str, *, stop: Stop = never) -> Measurement | None:
    """Measure an organisation, save the result and return it; None if ``stop`` returned True. The next call resumes.

    ``stop`` is called between reads. An unfinished measurement that began more than a day ago starts again. Damaged
    items do not count. Raises Unavailable, OutcomeUnknown.
    """
    return _Measuring(environment, organisation, stop).run()


class _Measuring:
    def __init__(self, environment: Environment, organisation: str, stop: Stop) -> None:
        self._environment = environment
        # A damaged item counts for nothing, and does not end the measurement. A verification names it.
        self._index = RecordingIndex(environment.index, DamageList())
        self._clock = environment.clock
        self._organisation = organisation
        self._stop = stop
        self._saved = Observation(self._clock)
        self._progress, self._is_saved = self._load()

    def run(self) -> Measurement | None:
        progress = self._progress
        stages: list[Callable[[], Iterator[None]]] = [self._logs, self._deleted, self._records, self._rest, self._blobs]
        while progress.stage < len(stages):
            # A stage yields only when the progress includes everything counted so far, so the progress may be saved
            # now.
            for _ in stages[progress.stage]():
                if self._stop():
                    self._save()
                    return None
                if self._saved.age_seconds() > SAVE_SECONDS:
                    self._save()
            progress.stage, progress.shard, progress.after = progress.stage + 1, 0, ""
        return self._finish()

    def _logs(self) -> Iterator[None]:
        """Count the live documents, logs and forks."""
        for line in self._index.query(directory_partition(self._organisation, LOGS, 0), after=self._after):
            try:
                log = open_log(self._environment, self._organisation, line.sort)
            except NotFound:
                continue  # deleted since it was listed, so `_deleted` counts it
            except Corrupt:
                self._progress.unreadable += 1
                continue
            record, progress = log.record, self._progress
            yield from self._log(record.prefix, record.owner)
            name = self._index.get(name_partition(self._organisation, record.name), NAME_SORT)
            clients = self._clients(Document(log)) if record.kind == "document" else 0
            size = item_bytes(line) + (item_bytes(name) if name else 0)
            progress.finish(line.sort, Amounts(documents=1, clients=clients, stored_bytes=size))
            yield

    def _deleted(self) -> Iterator[None]:
        """Count the deleted logs whose items are not swept yet."""
        for line in self._index.query(deleted_partition(self._organisation), after=self._after):
            yield from self._log(line.sort, str(line.attributes.get("o")))
            self._progress.finish(line.sort, Amounts(stored_bytes=item_bytes(line)))
            yield

    def _records(self) -> Iterator[None]:
        progress, organisation = self._progress, self._organisation
        for shard in range(progress.shard, SHARDS[RECORDS]):
            for line in self._index.query(directory_partition(organisation, RECORDS, shard), after=self._after):
                versions = record_partition(organisation, record_key(line.sort))
                size = item_bytes(line) + self._bytes_in(versions, waiting_partition(versions))
                progress.finish(line.sort, Amounts(records=1, stored_bytes=size))
                yield
            progress.shard, progress.after = shard + 1, ""

    def _rest(self) -> Iterator[None]:
        """Count the failures and dead letters of records, and the uploads."""
        organisation = self._organisation
        failures, letters = failures_partition(organisation), dead_letters_partition(organisation)
        size = self._bytes_in(uploads_partition(organisation), failures, letters)
        self._progress.finish("", Amounts(stored_bytes=size))
        yield from ()

    def _blobs(self) -> Iterator[None]:
        for stat in self._environment.blobs.list(f"{escape(self._organisation)}/", after=self._progress.after):
            self._progress.finish(stat.key, Amounts(stored_bytes=stat.stored_bytes))
            yield

    def _log(self, prefix: str, owner: str) -> Iterator[None]:
        """Count the items of an incarnation, segment by segment. A family's own items count for its first log."""
        progress = self._progress
        progress.begin(prefix)
        for segment in list_segments(self._index, prefix, first=progress.segment):
            if not segment.freed:
                progress.log_bytes += self._bytes_in(entries_partition(prefix, segment.first))
            progress.segment = segment.first + 1
            yield
        parts = [segments_partition, snapshots_partition, forks_partition, checkpoints_partition, waiting_partition]
        progress.log_bytes += self._bytes_in(*(partition_of(prefix) for partition_of in parts))
        if owner == prefix:
            progress.log_bytes += self._bytes_in(family_partition(owner))

    def _clients(self, document: Document) -> int:
        try:
            clients = document.state().count_clients()
        except NotFound:
            return 0  # deleted since it was opened
        except Corrupt:
            self._progress.unreadable += 1
            return 0
        self._progress.document_clients = max(self._progress.document_clients, clients)
        return clients

    def _bytes_in(self, *partitions: str) -> int:
        return sum(item_bytes(item) for partition in partitions for item in self._index.query(partition))

    @property
    def _after(self) -> str | None:
        return self._progress.after or None

    def _finish(self) -> Measurement:
        progress = self._progress
        measurement = Measurement(
            began_ms=progress.began_ms,
            ended_ms=self._clock.wall_ms(),
            amounts=progress.amounts,
            document_clients=progress.document_clients,
            unreadable=progress.unreadable,
        )
        save_measurement(self._environment.index, self._organisation, measurement)
        if self._is_saved:
            self._environment.index.commit([Delete(usage_partition(self._organisation), PROGRESS_SORT)])
        return measurement

    def _load(self) -> tuple[_Progress, bool]:
        """Return the progress, and whether any is saved. Saved progress that is old or unreadable is not used."""
        now_ms = self._clock.wall_ms()
        listed = get_listed(self._environment.index, usage_partition(self._organisation), PROGRESS_SORT)
        item = listed.item
        if item is None or item.attributes.get("f") != FORMAT:
            return _Progress(now_ms), item is not None or bool(listed.fault)
        try:
            progress = _decode_progress(item.attributes["b"])  # type: ignore[arg-type]
        except (KeyError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return _Progress(now_ms), True
        is_old = abs(now_ms - progress.began_ms) > USAGE_PROGRESS_SECONDS_MAX * 1000
        return (_Progress(now_ms) if is_old else progress), True

    def _save(self) -> None:
        self._saved, self._is_saved = Observation(self._clock), True
        body = msgspec.msgpack.encode(self._progress)
        self._environment.index.commit(
            [Put(Item(usage_partition(self._organisation), PROGRESS_SORT, {"f": FORMAT, "b": body}))]
        )


_decode_progress = msgspec.msgpack.Decoder(_Progress).decode

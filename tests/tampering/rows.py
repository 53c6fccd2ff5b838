"""The stored versions of one history, read and changed below the store's checks."""

from __future__ import annotations

from typing import Any

import msgspec

import stratalog
from stratalog.backends.memory import MemoryBlobs, MemoryIndex
from stratalog.keys import entries_partition, number, record_key, record_partition, snapshots_partition
from stratalog.log.archive import open_archive, pack_archive
from stratalog.log.bodies import write_body
from stratalog.log.names import name_put
from stratalog.log.segments import list_segments, segment_change
from stratalog.maintenance.verification import HistoryName, HistoryReport
from stratalog.ports.index import Delete, Item, Put
from stratalog.records.floor import read_floor
from stratalog.records.versions import Name
from tests.tampering.rehash import entry_hash, genesis, version_hash

__all__ = ["Backup", "LogRows", "RecordRows", "Rows", "rows_of"]

Rows = dict[int, dict[str, Any]]
"""The attributes of each verified version, by version number."""


class Backup:
    """A copy of a store's content. The campaign restores the content after each alteration."""

    def __init__(self, store: stratalog.Store) -> None:
        self.index, self.blobs = ports(store)
        self._items = self._all()
        self._bodies, self._stats = dict(self.blobs._bodies), dict(self.blobs._stats)

    def restore(self) -> None:
        """Restore the content."""
        now = self._all()
        for key in now.keys() - self._items.keys():
            self.index.commit([Delete(*key)])
        for key, item in self._items.items():
            if now.get(key) != item:
                self.index.commit([Put(item)])
        self.blobs._bodies, self.blobs._stats = dict(self._bodies), dict(self._stats)

    def _all(self) -> dict[tuple[str, str], Item]:
        parts = self.index._partitions.values()
        return {(item.partition, item.sort): item for part in parts for item in part.items.values()}


def ports(store: stratalog.Store) -> tuple[MemoryIndex, MemoryBlobs]:
    index, blobs = store.environment.index, store.environment.blobs
    assert isinstance(index, MemoryIndex)
    assert isinstance(blobs, MemoryBlobs)
    return index, blobs


class RecordRows:
    """The versions of a record."""

    hash_name = "ch"

    def __init__(self, store: stratalog.Store, report: HistoryReport) -> None:
        self.index, self.blobs = ports(store)
        self.partition = record_partition("acme", record_key(report.history.name))
        self.folder = f"acme/records/{record_key(report.history.name)}/bodies"
        self.start = report.chain.start
        floor = read_floor(self.index, Name("acme", report.history.name))
        self.before = floor.hash or genesis(report.chain.origin)

    def load(self) -> Rows:
        items = self.index.query(self.partition, after=number(self.start))
        return {int(item.sort): dict(item.attributes) for item in items}

    def save(self, rows: Rows) -> None:
        """Replace the stored versions by ``rows``."""
        for version in self.load().keys() - rows.keys():
            self.index.commit([Delete(self.partition, number(version))])
        for version, attributes in rows.items():
            self.index.commit([Put(Item(self.partition, number(version), attributes))])

    def hash(self, before: bytes, version: int, attributes: dict[str, Any]) -> bytes:
        return version_hash(before, version, attributes)

    def cover(self, rows: Rows) -> None:
        """Do nothing, because no other item contains the hash of one of these versions."""


class LogRows:
    """The entries of a log in the index and in archives, without the entries of the log's ancestors."""

    hash_name = "h"

    def __init__(self, store: stratalog.Store, report: HistoryReport) -> None:
        self.index, self.blobs = ports(store)
        self._environment = store.environment
        self.log = store.log("acme", report.history.name)
        self.start = max(report.chain.start, self.log.first)
        self.before = self.log.hash_at(self.start)
        self.folder = f"{self.log.record.owner}/bodies"

    def load(self) -> Rows:
        record, rows = self.log.record, dict[int, dict[str, Any]]()
        for segment in list_segments(self.index, record.prefix):
            if segment.archive is not None:
                items = open_archive(self._environment, record.prefix, record.owner, segment)
            else:
                items = list(self.index.query(entries_partition(record.prefix, segment.first)))
            rows |= {int(item.sort): dict(item.attributes) for item in items if "k" not in item.attributes}
        return {version: attributes for version, attributes in rows.items() if version > self.start}

    def save(self, rows: Rows) -> None:
        """Replace the stored entries by ``rows``, each in the segment of its version."""
        segments = list(list_segments(self.index, self.log.record.prefix))
        for position, segment in enumerate(segments):
            upto = segments[position + 1].first if position + 1 < len(segments) else 2**53
            own = {version: row for version, row in rows.items() if segment.first <= version < upto}
            partition = entries_partition(self.log.record.prefix, segment.first)
            if not segment.freed and not (segment.marked_ms and segment.archive is None):
                self._save_items(partition, own)
            if segment.archive is not None:
                self._save_archive(segment, own)

    def hash(self, before: bytes, version: int, attributes: dict[str, Any]) -> bytes:
        return entry_hash(before, version, attributes)

    def cover(self, rows: Rows) -> None:
        """Update the other items that contain an entry's hash: the name record and snapshots."""
        hashes = {self.start: self.before} | {version: row["h"] for version, row in rows.items()}
        record = stratalog_record(self)
        if record.segment - 1 in hashes:
            self._put(name_put(msgspec.structs.replace(record, hash=hashes[record.segment - 1])))
        for item in list(self.index.query(snapshots_partition(record.prefix))):
            if int(item.sort) in hashes:
                attributes = {**item.attributes, "h": hashes[int(item.sort)]}
                self.index.commit([Put(Item(item.partition, item.sort, attributes))])

    def _save_items(self, partition: str, own: Rows) -> None:
        items = {int(item.sort): item for item in self.index.query(partition)}
        # A seal may have the key of the next entry.
        seals = {version for version, item in items.items() if "k" in item.attributes}
        for version in items.keys() - own.keys() - seals:
            if version > self.start:
                self.index.commit([Delete(partition, number(version))])
        for version, row in own.items():
            self.index.commit([Put(Item(partition, number(version), row))])

    def _save_archive(self, segment: Any, own: Rows) -> None:
        record = self.log.record
        items = open_archive(self._environment, record.prefix, record.owner, segment)
        below = [item for item in items if int(item.sort) <= self.start]
        partition = entries_partition(record.prefix, segment.first)
        made = [*below, *(Item(partition, number(version), own[version]) for version in sorted(own))]
        ref = write_body(self.blobs, f"{record.owner}/archive", pack_archive(made))
        if ref != segment.archive:
            self._put(segment_change(record.prefix, msgspec.structs.replace(segment, archive=ref)))

    def _put(self, write: Put) -> None:
        """Put the item without the condition of the write."""
        self.index.commit([Put(write.item)])


def stratalog_record(rows: LogRows) -> Any:
    """Return the current name record."""
    from stratalog.log.names import read_name

    record = read_name(rows.index, "acme", rows.log.record.name)
    assert record is not None
    return record


def rows_of(store: stratalog.Store, report: HistoryReport) -> LogRows | RecordRows:
    """Return the rows of a history."""
    history: HistoryName = report.history
    return RecordRows(store, report) if history.kind == "record" else LogRows(store, report)

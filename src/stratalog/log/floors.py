"""The floor of a log: its own floor, or in a fork the floor that an ancestor has raised since the fork was made."""

from __future__ import annotations

from itertools import takewhile
from operator import attrgetter

import msgspec

from stratalog.log.names import NameRecord, Parent, read_name
from stratalog.log.segments import list_segments, segment_change, segment_holding
from stratalog.log.snapshots import list_snapshots
from stratalog.ports.index import Index, Write

__all__ = ["LogFloor", "floor_named", "floor_rank", "read_log_floor"]


class LogFloor(msgspec.Struct, frozen=True):
    """The oldest version kept (0 while all versions are kept), and its hash; ``b""`` if only its entry has the hash."""

    version: int
    hash: bytes


floor_rank = attrgetter("version")
"""Orders the floors that one process has seen of one log."""


def read_log_floor(index: Index, record: NameRecord) -> LogFloor:
    """Return the floor of a log. Every entry above it is kept.

    Reads the name record of each ancestor that has versions above the floor found so far. An ancestor's
    floor counts only if it lies in the versions that the ancestor itself stores for the log.
    """
    floor, before = LogFloor(record.floor, record.floor_hash), 0
    for parent in record.lineage:
        if parent.version > floor.version:
            theirs = _floor_of_ancestor(index, parent, before)
            if theirs.version > max(before, floor.version):
                floor = theirs
        before = parent.version
    return floor


def _floor_of_ancestor(index: Index, parent: Parent, before: int) -> LogFloor:
    """Return the floor in an ancestor's name record, or if a new log has the name, the floor by its segments.

    The name record of a deleted log stays until a new log has the name.
    """
    record = read_name(index, parent.organisation, parent.name)
    if record is not None and record.incarnation == parent.incarnation:
        return LogFloor(record.floor, record.floor_hash)
    return _floor_of_segments(index, parent, before)


def _floor_of_segments(index: Index, parent: Parent, before: int) -> LogFloor:
    """Return the oldest version that an ancestor without a name record keeps of its versions after ``before``.

    If the floor is within a segment, the record of the segment names the floor; see `floor_named`. Otherwise the floor
    follows from the segments. The record of a forgotten segment is deleted once its entries are freed. Every entry
    above the forgotten segments is stored. The floor of an ancestor with state is its first snapshot at or above the
    last forgotten version. Without state the floor is the first entry kept: no record has the hash of the version
    before it.
    """
    segments = list(takewhile(lambda segment: segment.first <= parent.version, list_segments(index, parent.prefix)))
    forgotten = before
    for segment in segments:
        if not segment.marked_ms or segment.archive is not None:
            forgotten = max(forgotten, segment.first - 1)
            break
        forgotten = segment.last
    named = max((segment.base for segment in segments), default=0)
    base = next(list_snapshots(index, parent.prefix, first=max(named, forgotten)), None)
    if named > forgotten:
        return LogFloor(named, base.hash if base is not None and base.version == named else b"")
    if forgotten == before:
        return LogFloor(0, b"")
    if base is not None and base.version <= parent.version:
        return LogFloor(base.version, base.hash)
    return LogFloor(min(forgotten + 1, parent.version), b"")


def floor_named(index: Index, record: NameRecord) -> list[Write]:
    """Return the write that names a log's floor in the segment of the floor's version; none if nothing has to change.

    The deletion of the log commits it. Later another log may have the name, and then only this segment record tells the
    forks of the deleted log its floor. A rise of the floor names it too, but not in the last segment.
    """
    holding = segment_holding(index, record.prefix, record.floor) if record.floor else None
    if holding is None or holding.base == record.floor or holding.is_forgotten:
        return []
    return [segment_change(record.prefix, msgspec.structs.replace(holding, base=record.floor))]

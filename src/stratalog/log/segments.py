"""Segments: runs of entries that share an index partition, listed under their first version."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from stratalog.codec import encode
from stratalog.keys import number, parse_number, segments_partition
from stratalog.log.bodies import BodyRef, decode_body_ref
from stratalog.ports.index import Attribute, Condition, Equals, Index, Item, Put
from stratalog.ports.stored_attributes import Count, Packed, StoredVersion, Time, decode_attribute, read_attributes

__all__ = [
    "Segment",
    "StoredSegment",
    "list_segments",
    "segment_change",
    "segment_changed",
    "segment_from_item",
    "segment_holding",
    "segment_put",
    "segment_unchanged",
]


NOUN = "a segment record"


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """The record of one segment."""

    first: int
    created_ms: int
    revision: int = 1
    """The number of this record's writes. Each change is conditional on the revision that was read."""

    last: int = 0
    """The last version of a marked segment; 0 before the mark."""

    archive: BodyRef | None = None
    """The reference to the segment's archive; None if the segment is not archived, or is forgotten."""

    marked_ms: int = 0
    """The time at which the segment's entries were marked for freeing; 0 before the mark.

    After the mark, readers use the archive. If it is damaged, they use the entries until these are freed. Without an
    archive they report the versions as forgotten.
    """

    freed: bool = False
    """Whether the segment's entries were deleted from the index after the mark."""

    base: int = 0
    """A floor of the log; 0 if this record has none.

    If the floor rises to version n, the segment that contains n + 1 records n, unless this segment is the log's last.
    If the log is deleted, the segment that contains its floor records the floor, even if this segment is the last.
    """

    @property
    def is_forgotten(self) -> bool:
        """Whether the segment's versions are forgotten: it is marked and not archived."""
        return bool(self.marked_ms) and self.archive is None


def segment_put(prefix: str, segment: Segment, condition: Condition) -> Put:
    """Return the write that stores the record."""
    attributes: dict[str, Attribute] = {"c": segment.created_ms, "r": segment.revision, "m": segment.marked_ms}
    if segment.archive:
        attributes["a"] = encode(segment.archive)
    for name, value in (("l", segment.last), ("d", int(segment.freed)), ("b", segment.base)):
        if value:
            attributes[name] = value
    return Put(Item(segments_partition(prefix), number(segment.first), attributes), condition)


def segment_change(prefix: str, segment: Segment) -> Put:
    """Return the write that stores a changed record, if the stored record still has the revision of ``segment``."""
    changed = msgspec.structs.replace(segment, revision=segment.revision + 1)
    return segment_put(prefix, changed, segment_unchanged(segment))


def segment_unchanged(segment: Segment) -> Condition:
    """Return the condition that the stored record still has the revision of ``segment``."""
    return Equals("r", segment.revision)


def segment_holding(index: Index, prefix: str, version: int) -> Segment | None:
    """Return the segment that contains ``version``; None if ``version`` is below the first segment kept."""
    items = index.query(segments_partition(prefix), before=number(version + 1), reverse=True, limit=1)
    return next((segment_from_item(item) for item in items), None)


def segment_changed(index: Index, prefix: str, segment: Segment) -> bool:
    """Return whether another process changed or deleted the segment's record since the caller read it."""
    return segment_holding(index, prefix, segment.first) != segment


def list_segments(index: Index, prefix: str, *, first: int = 0) -> Iterator[Segment]:
    """Yield the segments whose first version is ``first`` or above, in order, by pages."""
    after = number(first - 1) if first else None
    for item in index.query(segments_partition(prefix), after=after):
        yield segment_from_item(item)


class StoredSegment(msgspec.Struct, frozen=True, gc=False):
    """The attributes of a segment record."""

    c: Time
    r: Count
    m: Time
    a: Packed = b""
    l: StoredVersion = 0  # noqa: E741 - the name of the stored attribute
    d: Count = 0
    b: StoredVersion = 0


def segment_from_item(item: Item) -> Segment:
    """Return the segment that an index item stores. Raises Corrupt."""
    stored = read_attributes(item, StoredSegment, NOUN)
    return Segment(
        first=parse_number(item.sort),
        created_ms=stored.c,
        revision=stored.r,
        last=stored.l,
        archive=decode_attribute(item, "a", decode_body_ref, NOUN) if "a" in item.attributes else None,
        marked_ms=stored.m,
        freed=bool(stored.d),
        base=stored.b,
    )

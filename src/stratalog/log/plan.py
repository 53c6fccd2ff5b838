"""Plans: what one commit writes so that entries follow a head. Pure: nothing is read and nothing is written here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from stratalog.keys import entries_partition, number
from stratalog.log.entries import SEAL
from stratalog.log.head import Head
from stratalog.log.names import NameRecord, name_put
from stratalog.log.pending_entry import PendingEntry
from stratalog.log.segments import Segment, segment_put
from stratalog.ports.index import NO_BLOBS, Absent, Check, Equals, Item, Put, Write

__all__ = ["Plan", "plan_append"]

_ABSENT = Absent()


class Plan(msgspec.Struct, frozen=True):
    """One commit: its writes and their blobs, the pending entries from version ``first`` on, and the head after it."""

    writes: Sequence[Write]
    first: int
    batch: Sequence[PendingEntry]
    partition: str
    segment: int
    created_ms: int
    hashes: Sequence[bytes]
    """Of the batch's entries, in order."""

    blobs: Mapping[str, bytes] = NO_BLOBS


def plan_append(
    name: NameRecord,
    head: Head,
    batch: Sequence[PendingEntry],
    now_ms: int,
    *,
    roll_over: bool = False,
    checks_head: bool = False,
) -> Plan:
    """What to write so that ``batch`` follows ``head``: an item each, and on roll-over the seal and the new segment.

    With ``checks_head`` the commit stands only while the head's own entry does. The put alone does not show that: it
    would land behind a gap in an index that was put back beneath an open handle.
    """
    created_ms = now_ms if now_ms > head.created_ms else head.created_ms
    version, before = head.version, head.hash
    segment = version + 1 if roll_over else head.segment
    partition = entries_partition(name.prefix, segment)
    writes: list[Write] = _seal(name, head, created_ms) if roll_over else []
    hashes: list[bytes] = []
    blobs = NO_BLOBS
    for pending in batch:
        version += 1
        before = pending.hash_after(before, version, created_ms)
        hashes.append(before)
        # The hash comes first, where SQLite finds it without decoding the item; see `backends/sqlite.py`.
        attributes = {"h": before, "c": created_ms, **pending.attributes}
        writes.append(Put(Item(partition, number(version), attributes), _ABSENT))
        if pending.blobs:
            blobs = {**blobs, **pending.blobs}
    if checks_head and head.version >= head.segment:
        standing = entries_partition(name.prefix, head.segment) if roll_over else partition
        writes.append(Check(standing, number(head.version), Equals("h", head.hash)))
    return Plan(writes, head.version + 1, batch, partition, segment, created_ms, hashes, blobs)


def _seal(name: NameRecord, head: Head, created_ms: int) -> list[Write]:
    """The seal where the next entry would have stood, the next segment's record, the name record that leads there."""
    version = head.version + 1
    seal = Item(entries_partition(name.prefix, head.segment), number(version), {"c": created_ms, "k": SEAL})
    return [
        Put(seal, _ABSENT),
        segment_put(name.prefix, Segment(first=version, created_ms=created_ms), _ABSENT),
        name_put(msgspec.structs.replace(name, segment=version, hash=head.hash, revision=name.revision + 1)),
    ]

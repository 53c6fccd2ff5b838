"""Plans: the writes of one commit that appends entries after a head. This module itself reads and writes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from stratalog.errors import Corrupt
from stratalog.keys import entries_partition, number
from stratalog.log.chain import genesis
from stratalog.log.entries import SEAL
from stratalog.log.head import Head
from stratalog.log.names import NameRecord, name_check, name_put
from stratalog.log.pending_entry import PendingEntry
from stratalog.log.segments import Segment, segment_put
from stratalog.ports.index import NO_BLOBS, Absent, Check, Equals, Item, Put, Write

__all__ = ["Plan", "plan_append"]

_ABSENT = Absent()


class Plan(msgspec.Struct, frozen=True):
    """One commit: its writes and their blobs, the pending entries from version ``first`` on, and the resulting head."""

    writes: Sequence[Write]
    first: int
    batch: Sequence[PendingEntry]
    partition: str
    segment: int
    created_ms: int
    hashes: Sequence[bytes]
    """The hashes of the batch's entries, in order."""

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
    """Return the commit that appends ``batch`` after ``head``. A roll-over adds a seal and the record of a new segment.

    With ``checks_head`` the commit succeeds only while the head's own entry exists unchanged. The condition of the put
    does not check the head. Without the check a handle could write after a gap, if the index was restored from a backup
    while the handle was open.

    If the last entry has a snapshot, the commit stores the snapshot too. The commit then succeeds only while the name
    record is unchanged, and while the snapshot exists whose parts the new snapshot shares.

    Raises Corrupt if the name record names a segment that cannot be empty, and the segment is empty.
    """
    assert batch, "a plan appends at least one entry"
    if head.version < head.segment and not _can_begin(name, head):
        raise Corrupt("the name record names an empty segment", log=name.name, segment=head.segment)
    # Times never decrease along a log, even if this process's clock is behind the clock of the last writer.
    created_ms = now_ms if now_ms > head.created_ms else head.created_ms
    version, before = head.version, head.hash
    segment = version + 1 if roll_over else head.segment
    partition = entries_partition(name.prefix, segment)
    writes: list[Write] = _seal(name, head, created_ms) if roll_over else []
    hashes: list[bytes] = []
    blobs = NO_BLOBS
    for pending in batch:
        assert pending.digest, "an entry has its salt and its write id before it is planned"
        assert pending.expected is None or pending.expected == version, "an entry is planned at its expected version"
        version += 1
        before = pending.hash_after(before, version, created_ms)
        hashes.append(before)
        # The hash comes first, so that a database in SQL finds it without decoding the item; see
        # `backends/item_rows.py`.
        attributes = {"h": before, "c": created_ms, **pending.attributes}
        writes.append(Put(Item(partition, number(version), attributes), _ABSENT))
        if pending.blobs:
            blobs = {**blobs, **pending.blobs}
    if (snapshot := batch[-1].snapshot) is not None:
        # A check of the name record shows that the segment is current. So no entry lands in a freed position, where its
        # snapshot would replace the state of another entry. A roll-over's put of the name record is such a check too.
        writes += [] if roll_over else [name_check(name)]
        writes += snapshot.writes(version, created_ms, before)  # a put is last: `_head_is_gone` looks for a last check
    if checks_head and head.version >= head.segment:
        standing = entries_partition(name.prefix, head.segment) if roll_over else partition
        writes.append(Check(standing, number(head.version), Equals("h", head.hash)))
    return Plan(writes, head.version + 1, batch, partition, segment, created_ms, hashes, blobs)


def _can_begin(name: NameRecord, head: Head) -> bool:
    """Whether the segment of ``head`` can be empty. If not, an append to it could use a version a second time.

    A roll-over commits a segment with its first entry. So only three logs have an empty segment: a new log, a new fork,
    and a log that was restored at the version of its floor. The hash before the segment is then the hash that the
    history begins with. A head below the floor is outdated, and its append will fail. A log without ancestors owns its
    blobs, so another owner shows that the incarnation is damaged.
    """
    if name.lineage:
        return (head.version, head.hash) == (name.first, name.lineage[-1].hash)
    if head.version == 0:
        return name.owner == name.prefix and head.hash == genesis(name.origin)
    return head.version < name.floor or (head.version, head.hash) == (name.floor, name.floor_hash)


def _seal(name: NameRecord, head: Head, created_ms: int) -> list[Write]:
    """Return the writes of a roll-over.

    The first write is the seal, item n + 1 of the old segment. The second write is the record of the new segment. The
    third write is the name record, which names the new segment.
    """
    version = head.version + 1
    seal = Item(entries_partition(name.prefix, head.segment), number(version), {"c": created_ms, "k": SEAL})
    return [
        Put(seal, _ABSENT),
        segment_put(name.prefix, Segment(first=version, created_ms=created_ms), _ABSENT),
        name_put(msgspec.structs.replace(name, segment=version, hash=head.hash, revision=name.revision + 1)),
    ]

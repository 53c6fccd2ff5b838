"""Redaction: erases the events and the salt of an entry. The digest that represents them in the chain stays.

The chain verifies as before. Without the salt nobody can check a guess of the events. `formats/log.md` has the item.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from stratalog.errors import (
    ConditionFailed,
    Conflict,
    ContentionError,
    Corrupt,
    NotFound,
    RedactionRefused,
    VersionForgotten,
)
from stratalog.keys import entries_partition, number, snapshots_partition
from stratalog.log.archive import open_archive, pack_archive
from stratalog.log.blob_batch import BlobBatch
from stratalog.log.chain import digest_of
from stratalog.log.commit import commit_once
from stratalog.log.entries import entry_from_item
from stratalog.log.environment import Environment
from stratalog.log.names import NameRecord, name_check, name_put, reread_name
from stratalog.log.pins import list_pins
from stratalog.log.segments import Segment, segment_change, segment_holding
from stratalog.log.snapshots import Snapshot, list_snapshots
from stratalog.ports.index import Check, Delete, Equals, Item, Put, Write

__all__ = ["check_redactable", "check_unpinned", "erase_entry", "redact_entry", "retire_snapshots"]


def redact_entry(environment: Environment, record: NameRecord, version: int) -> list[int]:
    """Erase an entry of a log of kind ``log``, and delete the app snapshots of this and later versions.

    Return the versions of the deleted snapshots.

    The caller has called `check_redactable`. Erasing an entry again is harmless. Raises RedactionRefused,
    VersionForgotten. Raises ContentionError, Corrupt, Unavailable or OutcomeUnknown: the entry may be erased and
    snapshots may be deleted, and the next call resumes.
    """
    if record.kind != "log":
        raise RedactionRefused(
            "a log of this kind has a state; redact through its document or application", kind=record.kind
        )
    erase_entry(environment, record, version)
    retired: set[int] = set()
    retry = environment.retry()
    # List the snapshots after the erasure, so that a snapshot taken from the entry meanwhile is deleted too.
    while True:
        newest = reread_name(environment.index, record)
        if newest.floor >= version:
            raise VersionForgotten("the version was forgotten meanwhile", log=record.name, floor=newest.floor)
        snapshots = list(list_snapshots(environment.index, record.prefix, first=version))
        try:
            retire_snapshots(environment, newest, snapshots, retired)
        except ConditionFailed as exc:
            if not retry.wait(exc):
                raise ContentionError(
                    "other writers kept changing the log during the redaction", log=record.name, version=version
                ) from exc
            continue
        return sorted(retired)


def check_redactable(environment: Environment, record: NameRecord, floor: int, head: int, version: int) -> None:
    """Raise RedactionRefused if a fork needs the version, or the version belongs to an ancestor.

    Raises NotFound, VersionForgotten.
    """
    if not 1 <= version <= head:
        raise NotFound("version not found", log=record.name, version=version)
    if parent := next((parent for parent in record.lineage if version <= parent.version), None):
        raise RedactionRefused(
            "the version belongs to the log that this one was forked from", log=parent.name, version=version
        )
    if version <= floor:
        raise VersionForgotten(
            "the version is at or below the base; raise the floor instead", log=record.name, floor=floor
        )
    check_unpinned(environment, record, version)


def check_unpinned(environment: Environment, record: NameRecord, version: int) -> None:
    """Raise RedactionRefused if a fork pins the version or a later version.

    While the name record is unchanged, no fork can pin one of these versions later.
    """
    if pinned := [pin.prefix for pin in list_pins(environment.index, record.prefix, first=version)]:
        raise RedactionRefused("forks need the version; delete them and sweep first", log=record.name, forks=pinned)


def erase_entry(environment: Environment, record: NameRecord, version: int, checks: Sequence[Check] = ()) -> None:
    """Erase the entry in the index and in its archive, if ``checks`` hold and no fork pins this or a later version.

    The segment's record changes in the same commit, so no record can name an archive that was made of the old item. The
    commit also changes the name record. A fork does the same, so of an erasure and a concurrent fork one commit fails.

    Raises ConditionFailed if one of the checks does not hold, RedactionRefused for a fork, VersionForgotten,
    ContentionError, and Corrupt if the entry or its archive is damaged.
    """
    retry = environment.retry()
    while (lost := _erase(environment, record, version, checks)) is not None:
        if not retry.wait(lost):
            raise ContentionError(
                "other writers kept changing the log during the redaction", log=record.name, version=version
            ) from lost


def _erase(environment: Environment, record: NameRecord, version: int, checks: Sequence[Check]) -> Conflict | None:
    """Try `erase_entry` once. Return None, or the conflict with another process that changed the log meanwhile."""
    prefix = record.prefix
    newest = reread_name(environment.index, record)
    check_unpinned(environment, newest, version)
    segment = segment_holding(environment.index, prefix, version)
    if segment is None or segment.is_forgotten:
        raise VersionForgotten("the version is no longer kept", log=record.name, version=version)
    stored = environment.index.get(entries_partition(prefix, segment.first), number(version))
    blob_batch = BlobBatch(environment, held_bytes_max=0)  # put blobs at once, as for archives
    writes: list[Write] = list(checks)
    if stored is not None and "d" not in stored.attributes:
        writes.append(Put(_erased(environment, record, stored), Equals("s", stored.attributes["s"])))
    changed = _without(environment, record, segment, version, blob_batch) if segment.marked_ms else segment
    if changed is not None and (len(writes) > len(checks) or changed is not segment):
        writes.append(segment_change(prefix, changed))
    if len(writes) == len(checks):
        if stored is None and not segment.marked_ms:
            return Conflict("the segment's entries were freed between two reads", log=record.name, version=version)
        return None
    writes.append(name_put(msgspec.structs.replace(newest, revision=newest.revision + 1, redacted=True)))
    try:
        with blob_batch.sending():
            commit_once(environment, writes, lambda: _is_erased(environment, record, version))
    except ConditionFailed as exc:
        if any(position < len(checks) for position in exc.items):
            raise
        return exc
    environment.count("redaction")
    return None


def retire_snapshots(
    environment: Environment, record: NameRecord, snapshots: Sequence[Snapshot], retired: set[int]
) -> None:
    """Delete snapshots and add their versions to ``retired``. The collector frees the blobs that only they used.

    Raises ConditionFailed if the name record has changed since ``record`` was read: a snapshot may be the base of a
    floor or of a fork by now. The snapshots before it are then deleted, and ``retired`` has their versions.
    """
    for snapshot in snapshots:
        deletion = Delete(snapshots_partition(snapshot.prefix), number(snapshot.version))
        environment.index.commit([deletion, name_check(record)])
        retired.add(snapshot.version)


def _erased(environment: Environment, record: NameRecord, item: Item) -> Item:
    """Return the item without events and salt."""
    entry = entry_from_item(item, environment.blobs, record.owner)
    attributes = {name: value for name, value in item.attributes.items() if name not in ("s", "b", "z", "x")}
    return Item(item.partition, item.sort, {**attributes, "d": digest_of(entry)})


def _without(
    environment: Environment, record: NameRecord, segment: Segment, version: int, blob_batch: BlobBatch
) -> Segment | None:
    """Return the segment with a new archive, in which the entry is erased; None if it is erased already."""
    items = open_archive(environment, record.prefix, record.owner, segment)
    position = _position(items, record, version)
    if "d" in items[position].attributes:
        return None
    items[position] = _erased(environment, record, items[position])
    archive = blob_batch.write(f"{record.owner}/archive", pack_archive(items))
    return msgspec.structs.replace(segment, archive=archive)


def _position(items: Sequence[Item], record: NameRecord, version: int) -> int:
    """Return the position of a version in an archive, which may be damaged: it may lack an earlier version."""
    sort = number(version)
    for position, item in enumerate(items):
        if item.sort == sort:
            return position
    raise Corrupt("an archive lacks a version", prefix=record.prefix, version=version)


def _is_erased(environment: Environment, record: NameRecord, version: int) -> bool:
    attributes: Any = None
    segment = segment_holding(environment.index, record.prefix, version)
    if segment is not None and segment.archive is not None:
        items = open_archive(environment, record.prefix, record.owner, segment)
        attributes = items[_position(items, record, version)].attributes
    elif segment is not None:
        item = environment.index.get(entries_partition(record.prefix, segment.first), number(version))
        attributes = item.attributes if item else None
    return attributes is not None and "d" in attributes

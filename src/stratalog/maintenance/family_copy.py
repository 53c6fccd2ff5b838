"""The copy of a family: the logs that share blobs.

A damaged item does not end the copy of its log, and a log that cannot be read does not end the copy of its family. If
the head of a log is unknown, or its name record is damaged, the copy has the log's other items but not its name: a
writer in the target could put other entries in place of the damaged ones. Forks of the log can read its entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

import msgspec

from stratalog.errors import Conflict, Corrupt, NotFound
from stratalog.keys import (
    NAME_SORT,
    checkpoints_partition,
    deleted_partition,
    entries_partition,
    family_partition,
    forks_partition,
    name_partition,
    number,
    parse_number,
    segments_partition,
    snapshots_partition,
    split_prefix,
)
from stratalog.log.directory import LOGS, directory_put, name_line_put
from stratalog.log.family_members import depth_of, member_put, minimal_depths
from stratalog.log.head import find_head
from stratalog.log.lifecycle import deleted_line
from stratalog.log.listed_items import ListedItem, list_items
from stratalog.log.names import NameRecord, read_name, read_name_of
from stratalog.maintenance.copied_references import CopiedReferences
from stratalog.maintenance.damage import item_key
from stratalog.maintenance.mirror import Fail, Mirror, last_item
from stratalog.maintenance.shapes import shape_fault
from stratalog.ports.index import Item, required

__all__ = ["FamilyCopy", "continues", "other", "require_sound", "succeeds"]

ATTEMPTS_MAX = 3


class _Log(msgspec.Struct, frozen=True):
    """The items of a log except its entries, read before the entries. ``head`` is None for a deleted log.

    ``error`` is the reason that the name record or the head of a log cannot be read.
    """

    prefix: str
    organisation: str
    name: str
    record: NameRecord | None
    item: Item | None
    head: int | None
    segments: tuple[ListedItem, ...]
    snapshots: tuple[ListedItem, ...]
    error: Corrupt | None


class _Moved(Exception):
    """Another process freed entries between their listing and their copy, or created a log of the family."""


class FamilyCopy:
    """Copies families of logs, each once, and again if a log of the family was created meanwhile."""

    def __init__(self, mirror: Mirror, fail: Fail, *, is_resumed: bool) -> None:
        """``is_resumed`` means that the target may lack items in the middle of a partition: compare all items."""
        self._mirror = mirror
        self._fail = fail
        self._is_resumed = is_resumed
        self._source = mirror.source.index
        self._target = mirror.target.index
        self._prefixes: set[str] = set()
        self.owners: set[str] = set()
        """The families that were copied."""

        self.left_out: set[tuple[str, str]] = set()
        """The organisation and name of each log whose name is not in the target, or is as an earlier copy wrote it."""

    def copy(self, record: NameRecord) -> None:
        """Copy the family of a live or deleted log, unless an earlier call has copied this log."""
        if record.prefix not in self._prefixes:
            self._prefixes.add(record.prefix)
            self.copy_family(record.owner, record)

    def copy_family(self, owner: str, record: NameRecord | None = None) -> None:
        """Copy the logs that share blobs. Items that refer to blobs are written after the blobs.

        It is a failure if the family lacks the item of the log ``record``, or of one of its ancestors.
        """
        self.owners.add(owner)
        for _ in range(ATTEMPTS_MAX):
            with suppress(_Moved):
                # Read the heads and snapshots before listing the blobs, so that every blob they refer to is listed.
                members = self._members(owner, record)
                logs = [self._read_log(member.sort) for member in sorted(members, key=_depth)]
                self._prefixes.update(log.prefix for log in logs)
                return self._copy_logs(owner, members, logs)
        raise Conflict("the source freed entries during the copy; stop its maintenance, and copy again", owner=owner)

    def leave_out(self, organisation: str, name: str, error: Corrupt) -> None:
        """Note that a log cannot be copied with its name."""
        self._fail(f"{organisation}/{name}", error)
        self.left_out.add((organisation, name))

    def is_ours(self, organisation: str, name: str) -> bool:
        """Return whether the target's log of this name is or was a log of the source, or does not exist any more.

        The source keeps the name record of a deleted log until the name is used again. The source also lists the
        deleted log until the log is swept. A damaged item of the source proves nothing, so the copy only names it.
        """
        theirs = read_name(self._target, organisation, name)
        try:
            ours = read_name(self._source, organisation, name)
            if theirs is None or theirs.deleted_ms or (ours is not None and ours.prefix == theirs.prefix):
                return True
            return self._source.get(deleted_partition(organisation), theirs.prefix) is not None
        except Corrupt:
            return True

    def list_for_sweep(self, organisation: str, name: str, prefix: str) -> None:
        """List the target's log of this name as deleted, since it loses the name, unless ``prefix`` is its prefix."""
        there = read_name(self._target, organisation, name)
        if there is not None and not there.deleted_ms and there.prefix != prefix:
            line = deleted_line(there, self._mirror.target.clock.wall_ms())
            self._mirror.put(line.partition, line.sort, line)

    def _copy_logs(self, owner: str, members: list[ListedItem], logs: list[_Log]) -> None:
        references = CopiedReferences(self._mirror, owner, self._fail)
        try:
            if self._is_resumed:
                references.read_target()
            self._mirror.blobs(f"{owner}/", copied=references.copied)
        except Corrupt as exc:  # the list of the blobs is damaged: no item may refer to a blob that is not there
            for log in logs:
                self.leave_out(log.organisation, log.name, exc)
            return
        complete = [log for log in logs if self._copy_log(log, references)]
        references.end()
        self._mirror.items(family_partition(owner), members)
        for log in complete:
            self._publish(log)

    def _members(self, owner: str, record: NameRecord | None) -> list[ListedItem]:
        """Return the members of a family in the order of their prefixes. Make damaged and lost members anew."""
        partition = family_partition(owner)
        members = {member.sort: member for member in self._mirror.read(partition)}
        if record is not None and not record.deleted_ms:
            for prefix, depth in minimal_depths(record):
                if prefix not in members:
                    self._require_lost(partition, prefix, record)
                    members[prefix] = ListedItem(prefix, member_put(owner, prefix, depth).item)
        return [self._member(owner, member) for _, member in sorted(members.items())]

    def _require_lost(self, partition: str, prefix: str, record: NameRecord) -> None:
        """Note that a member of the family of a live log is lost. Raises _Moved if the family changed meanwhile."""
        current = read_name(self._source, record.organisation, record.name)
        if self._source.get(partition, prefix) is not None or current is None or _life(current) != _life(record):
            raise _Moved
        reason = Corrupt("an item of the family is missing", partition=partition, sort=prefix)
        self._fail(item_key(partition, prefix), reason)

    def _member(self, owner: str, member: ListedItem) -> ListedItem:
        """Return a member of a family. If it is damaged, make it anew, if the name record of its log is intact."""
        if not member.fault:
            return member
        with suppress(Corrupt):
            record = read_name_of(self._source, member.sort)
            if record is not None:
                depth = dict(minimal_depths(record))[member.sort]
                return ListedItem(member.sort, member_put(owner, member.sort, depth).item)
        return member

    def _read_log(self, prefix: str) -> _Log:
        organisation, name, record, item, head, current, error = "", "", None, None, None, None, None
        try:
            organisation, name = split_prefix(prefix)
            record = read_name(self._source, organisation, name)
            if record is not None and record.prefix == prefix:
                item = self._source.get(name_partition(organisation, name), NAME_SORT)
                if not record.deleted_ms:
                    with suppress(NotFound):  # the log was just deleted, so it does not change any more
                        newest = find_head(self._source, self._mirror.source.clock, record)
                        require_sound(
                            self._source.get(entries_partition(prefix, newest.segment), number(newest.version))
                        )
                        head, current = newest.version, newest.segment
        except Corrupt as exc:
            error = exc
        segments = tuple(self._mirror.read(segments_partition(prefix)))
        if current is not None and self._is_lost(prefix, current, segments):
            # Copy the entries of the segment nevertheless: its version is in the name record or in a seal.
            lost = Corrupt("the record of the current segment is missing", prefix=prefix, segment=current)
            self._fail(item_key(segments_partition(prefix), number(current)), lost)
            segments = (*segments, ListedItem(number(current), None))
        snapshots = tuple(self._mirror.read(snapshots_partition(prefix)))
        return _Log(prefix, organisation, name, record, item, head, segments, snapshots, error)

    def _is_lost(self, prefix: str, segment: int, segments: tuple[ListedItem, ...]) -> bool:
        """Return whether the record of the current segment is not in ``segments``, although the log is not deleted."""
        if segments[-1:] and segments[-1].sort >= number(segment):
            return False
        record = read_name_of(self._source, prefix)
        return record is not None and not record.deleted_ms

    def _copy_log(self, log: _Log, references: CopiedReferences) -> bool:
        """Copy a log except its name. Return whether its name may be copied too."""
        try:
            self._copy_items(log, references)
        except Corrupt as exc:
            self.leave_out(log.organisation, log.name, exc)
            return False
        if log.error is not None:
            self.leave_out(log.organisation, log.name, log.error)
        return log.error is None

    def _copy_items(self, log: _Log, references: CopiedReferences) -> None:
        standing = {item.sort: item for item in self._target.query(segments_partition(log.prefix))}
        self._refuse_other_log(log, standing)
        for segment in log.segments:
            if segment.position is not None:
                continue
            last = segment is log.segments[-1]
            before = number(log.head + 1) if last and log.head is not None else None
            partition = entries_partition(log.prefix, parse_number(segment.sort))
            if (
                self._is_resumed
                or standing.get(segment.sort) != segment.item
                or not self._mirror.is_complete(partition, before)
            ):
                self._copy_references(partition, self._mirror.read(partition, before=before), references, before)
        damaged = next((segment for segment in log.segments if segment.position is not None), None)
        for sort in standing.keys() - {segment.sort for segment in log.segments} if damaged is None else ():
            self._mirror.items(entries_partition(log.prefix, parse_number(sort)), ())  # the source forgot this segment
        self._check_still(log)
        self._copy_references(snapshots_partition(log.prefix), log.snapshots, references)
        self._copy_references(segments_partition(log.prefix), log.segments, references)
        self._mirror.items(forks_partition(log.prefix))
        self._mirror.items(checkpoints_partition(log.prefix))
        if damaged is not None:  # its first version is unknown, so the copy lacks its entries
            raise Corrupt(damaged.fault, partition=segments_partition(log.prefix), sort=damaged.sort)

    def _copy_references(
        self, partition: str, items: Iterable[ListedItem], references: CopiedReferences, before: str | None = None
    ) -> None:
        """Mirror items that refer to blobs, and note the references of those that are new; of all in a resumed copy."""
        if self._is_resumed:
            self._mirror.items(partition, references.listed(items), before=before)
        else:
            self._mirror.items(partition, items, before=before, ahead=references.written)

    def _check_still(self, log: _Log) -> None:
        freed = {item.sort for item in list_items(self._source, segments_partition(log.prefix)) if _is_freed(item)}
        if freed - {item.sort for item in log.segments if _is_freed(item)}:
            raise _Moved

    def _publish(self, log: _Log) -> None:
        """Write a log's name record and, if it is live, its two lines: of its name and of the directory.

        Skip a log whose name another log has now.
        """
        record = log.record
        if record is None or log.item is None:
            return
        try:
            self.list_for_sweep(log.organisation, log.name, log.prefix)
        except Corrupt as exc:
            self.leave_out(log.organisation, log.name, exc)
            return
        self._mirror.put(log.item.partition, log.item.sort, log.item)
        if log.head is not None:
            own = name_line_put(record.organisation, record.name, record.kind).item
            self._mirror.item(own.partition, own.sort, lambda: own)
            line = directory_put(record.organisation, LOGS, record.name, record.kind, record.created_ms).item
            self._mirror.item(line.partition, line.sort, lambda: line)

    def _refuse_other_log(self, log: _Log, standing: Mapping[str, Item]) -> None:
        """Raise Conflict if the target's log of that name is another log or has entries that the source lacks."""
        if log.item is not None and not self.is_ours(log.organisation, log.name):
            raise other("log", log.organisation, log.name)
        known = {listed.sort: listed.item for listed in log.segments}
        for segment in standing.values() if log.head is not None else ():
            ours = known.get(segment.sort)
            if ours is None and (segment.sort in known or segment.sort < log.segments[-1].sort):
                continue  # the source has forgotten this segment since, or cannot decode its record
            if ours is None or not succeeds(ours, segment):
                self._mirror.require_keys(segment.partition)
                raise other("log", log.organisation, log.name)
            partition = entries_partition(log.prefix, parse_number(segment.sort))
            last = last_item(self._target, partition)
            if last is not None and "d" not in ours.attributes:
                self._refuse_other_entry(log, ours, last)

    def _refuse_other_entry(self, log: _Log, segment: Item, last: Item) -> None:
        try:
            there = self._source.get(last.partition, last.sort)
        except Corrupt:
            return  # the copy names this entry
        # The entries of a marked segment may be freed, even if the segment's record does not show it yet.
        if not (continues(there, last) if there else required(segment, "m")):
            self._mirror.require_keys(last.partition)
            raise other("log", log.organisation, log.name)


def _life(record: NameRecord) -> tuple[object, ...]:
    """Return the fields of a name record that determine which members its family has."""
    return record.incarnation, record.deleted_ms, record.lineage


def _depth(member: ListedItem) -> tuple[int, int]:
    """Return the depth of a member. A member whose depth is unknown comes after all others."""
    try:
        return (0, depth_of(member.item)) if member.item is not None else (1, 0)
    except Corrupt:
        return (1, 0)


def _is_freed(segment: ListedItem) -> bool:
    return segment.item is not None and "d" in segment.item.attributes


def require_sound(item: Item | None) -> None:
    """Raise Corrupt if an item of the source has a fault. A mirror leaves such an item out."""
    if item is not None and (fault := shape_fault(item)):
        raise Corrupt(fault, partition=item.partition, sort=item.sort)


def succeeds(ours: Item | None, theirs: Item) -> bool:
    """Return whether the source's record of a segment or floor equals the target's, or is newer."""
    return ours == theirs or (ours is not None and _revision(ours) > _revision(theirs))


def _revision(item: Item) -> int:
    return int(required(item, "r"))


def continues(ours: Item, theirs: Item) -> bool:
    """Return whether the source's entry or version equals the target's, or is its redacted form."""
    hash = "ch" if "ch" in theirs.attributes else "h"
    return ours == theirs or ("d" in ours.attributes and ours.attributes.get(hash) == theirs.attributes.get(hash))


def other(what: str, organisation: str, id: str) -> Conflict:
    """Return the error for a target that holds data which is not from the source."""
    details = {"organisation": organisation, what: id}
    remedy = "delete the log there, or copy into a new store" if what == "log" else "copy into a new store"
    return Conflict(f"the target holds data that is not from the source: {remedy}", **details)

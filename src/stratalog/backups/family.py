"""Reading a family of logs for a backup while its writers continue: each log as of one head.

The order of the reads matters. The list of members is read first, so no listed fork begins after its parent's head. A
head is read before the entries up to it, and all items are read before the blobs. At the end the items that refer to
blobs are read again. If these items are unchanged, no collection has deleted a blob that they refer to: a missing blob
is lost. If one of these items changed meanwhile, a floor rose, or a log was deleted, the family is read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from stratalog.backups.format import BLOBS_ROW, HISTORY_ROW, ITEMS_ROW
from stratalog.backups.gaps import Gaps
from stratalog.backups.references import BodyReferences, LostBlobs
from stratalog.backups.writer import BackupWriter
from stratalog.errors import Conflict, Corrupt, NotFound
from stratalog.keys import (
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
from stratalog.log.archive import open_archive
from stratalog.log.entries import END, SEAL
from stratalog.log.environment import Environment
from stratalog.log.family_members import depth_of, member_put, minimal_depths
from stratalog.log.head import Head, find_head
from stratalog.log.names import NameRecord, name_put, read_name, read_name_of
from stratalog.log.pins import Pin, listed_pins, pin_put
from stratalog.log.segments import Segment, segment_from_item
from stratalog.maintenance.checkpoint import Checkpoint
from stratalog.maintenance.damage import item_key
from stratalog.maintenance.verification import HistoryName
from stratalog.ports.index import Absent, Item, required

__all__ = ["FamilyBackup", "FamilyRead", "history_row", "unmarked"]

ATTEMPTS_MAX = 8
COLLECTING = ("collecting",)


class FamilyRead(msgspec.Struct):
    """The rows of a family, and its live logs."""

    rows: dict[str, bytes] = {}
    logs: list[NameRecord] = []
    deleted: list[Item] = []
    """The items of `deleted_partition` that list deleted logs which forks in the backup need."""

    later_names: dict[str, bytes] = {}
    """The rows of name records of logs that had the name of such a deleted log later, and were deleted too.

    Another family may have the row of the same name, as it was before that deletion.
    """
    retained: set[str] = set()
    """The keys of the rows that this backup takes unchanged from its base, the earlier backup."""


class _Log(msgspec.Struct, frozen=True):
    """The items of one log, except its entries. ``head`` is None for a deleted log, which does not change any more."""

    prefix: str
    member: Item
    record: NameRecord | None
    head: Head | None
    segments: tuple[Item, ...]
    snapshots: tuple[Item, ...]
    checkpoints: tuple[Item, ...]


class _Moved(Exception):
    """Items of the family were freed or changed while it was read.

    ``gap`` is the prefix of a log and the version of its missing entry. Such an entry was freed meanwhile, or is lost.
    """

    def __init__(self, gap: tuple[str, int] | None = None) -> None:
        super().__init__(gap)
        self.gap = gap


class FamilyBackup:
    """Reads families of logs and returns their rows for a catalogue."""

    def __init__(self, environment: Environment, catalogue: BackupWriter) -> None:
        self._environment = environment
        self._index = environment.index
        self._catalogue = catalogue

    def read(self, owner: str, listed: Iterable[NameRecord]) -> FamilyRead:
        """Read a family as of one head of each log. ``listed`` are its logs in the directory, read before this call.

        Raises Corrupt, and Conflict if the family changed during each of `ATTEMPTS_MAX` attempts.
        """
        gaps = Gaps()
        for _ in range(ATTEMPTS_MAX):
            try:
                return self._read(owner, listed)
            except _Moved as exc:
                if exc.gap is not None:
                    gaps.add(*exc.gap)
                self._environment.count("family read again")
        raise Conflict("the logs kept changing while they were read for a backup", owner=owner)

    def _read(self, owner: str, listed: Iterable[NameRecord]) -> FamilyRead:
        logs, read, bodies = self._read_logs(owner, listed), FamilyRead(), BodyReferences()
        if not logs:
            return read
        self._put(read, family_partition(owner), [log.member for log in logs])
        for log in logs:
            self._add(read, owner, log)
        pins = self._listed_pins(read, {log.prefix for log in logs})
        self._add_pins(read, logs, pins)
        # The collector may delete the blobs of redacted, forgotten or deleted content long after the items changed, and
        # its run changes no item. So list the blobs of such a family again, even if all items are as in the base.
        is_unchanged = not any(map(_may_have_garbage, logs)) and self._is_as_in_base(read, owner)
        blobs = None if is_unchanged else self._catalogue.copy_blobs(owner, COLLECTING, bodies.note)
        for log in logs:
            self._check_unchanged(log)
        if blobs is not None:
            search = LostBlobs(self._environment, self._catalogue, owner, blobs, bodies)
            read.rows[f"{BLOBS_ROW}{owner}"] = search.run(read.rows, read.retained)
        else:
            read.retained.add(f"{BLOBS_ROW}{owner}")
        return read

    def _read_logs(self, owner: str, listed: Iterable[NameRecord]) -> list[_Log]:
        """Return the live logs and their ancestors, in the order of their prefixes."""
        members = list(self._index.query(family_partition(owner)))  # whole: a fork may soon forget a deleted ancestor
        logs = {member.sort: self._read_log(member) for member in members}
        for record in listed:
            if record.prefix not in logs and self._is_alive(record):
                self._add_lost_members(owner, logs, record)
        alive = [log for log in logs.values() if log.head is not None]
        needed = {log.prefix for log in alive}
        for log in alive:
            assert log.record is not None
            self._add_lost_members(owner, logs, log.record)
            needed.update(parent.prefix for parent in log.record.lineage)
        return [log for prefix, log in sorted(logs.items()) if prefix in needed]

    def _add_lost_members(self, owner: str, logs: dict[str, _Log], record: NameRecord) -> None:
        """Add a live log and its ancestors to ``logs``. It is a failure if the family lacks the item of one of them.

        The name record leads to all of them, so the backup makes such an item again.
        """
        for prefix, depth in minimal_depths(record):
            if prefix in logs:
                continue
            member = member_put(owner, prefix, depth).item
            # Read the log after the member, since a deletion of both may free the member.
            if self._index.get(member.partition, prefix) is not None or not self._is_alive(record):
                raise _Moved  # the family changed while its members were read page by page
            what, reason = item_key(member.partition, prefix), "an item of the family is missing"
            self._catalogue.fail(what, Corrupt.code, reason, is_complete=True)
            logs[prefix] = self._read_log(member)

    def _is_alive(self, record: NameRecord) -> bool:
        current = read_name_of(self._index, record.prefix)
        return current is not None and not current.deleted_ms

    def _read_log(self, member: Item) -> _Log:
        prefix = member.sort
        record = read_name_of(self._index, prefix)
        depth_of(member)  # raises Corrupt: a restoration needs the depth, to sort the logs
        # Read the checkpoints before the head, so that no checkpoint is of a version after the head.
        checkpoints = tuple(self._index.query(checkpoints_partition(prefix)))
        head = None
        if record is not None and not record.deleted_ms:
            try:
                head = find_head(self._index, self._environment.clock, record)
            except NotFound:
                record = None  # another process has just deleted the log
        before = number(head.segment + 1) if head else None
        segments = tuple(self._index.query(segments_partition(prefix), before=before))
        before = number(head.version + 1) if head else None
        snapshots = tuple(self._index.query(snapshots_partition(prefix), before=before))
        return _Log(prefix, member, record, head, segments, snapshots, checkpoints)

    def _add(self, read: FamilyRead, owner: str, log: _Log) -> None:
        organisation, name = split_prefix(log.prefix)
        retained, last = list[Item](), _version_before(log)
        for position, item in enumerate(log.segments):
            following = log.segments[position + 1] if position + 1 < len(log.segments) else None
            segment = self._add_segment(read, owner, log, item, following)
            if segment is not None:
                if last is not None and parse_number(item.sort) > last + 1:
                    raise _Moved((log.prefix, last + 1))
                retained.append(segment)
                last = _last_version(segment, following)
        if log.head is not None and log.head.segment not in [parse_number(item.sort) for item in log.segments[-1:]]:
            raise _Moved((log.prefix, log.head.segment))  # the record of the current segment
        self._put(read, segments_partition(log.prefix), retained)
        self._put(read, snapshots_partition(log.prefix), log.snapshots)
        self._put(read, checkpoints_partition(log.prefix), log.checkpoints)
        if log.record is not None:
            self._put(read, name_partition(organisation, name), [name_put(log.record, Absent()).item])
        elif (later := self._later_deleted(organisation, name)) is not None:
            partition = name_partition(organisation, name)
            read.later_names[f"{ITEMS_ROW}{partition}"] = self._catalogue.pack(
                partition, [name_put(later, Absent()).item]
            )
        if log.head is None:
            line = self._index.get(deleted_partition(organisation), log.prefix)
            read.deleted += [line] if line else []
        else:
            assert log.record is not None
            read.logs.append(log.record)
            history = HistoryName("log", organisation, name)
            checkpoint = Checkpoint(history, log.record.origin, log.head.version, log.head.hash)
            read.rows[history_row(history, name_partition(organisation, name))] = checkpoint.line().encode()

    def _later_deleted(self, organisation: str, name: str) -> NameRecord | None:
        """Return the name record of a log that had the name after a deleted log, if it was deleted too.

        The record belongs to no log of the backup. But without a name record the deleted log would count as damaged.
        """
        record = read_name(self._index, organisation, name)
        return record if record is not None and record.deleted_ms else None

    def _add_segment(self, read: FamilyRead, owner: str, log: _Log, item: Item, following: Item | None) -> Item | None:
        """Add a segment's entries, unless the backup uses its archive. Return its record; None if it is forgotten."""
        first, segment = parse_number(item.sort), segment_from_item(item)
        partition = entries_partition(log.prefix, first)
        is_last = following is None and log.head is not None
        if required(item, "m") and not is_last and not _is_searched(log, first):
            if "a" not in item.attributes:
                return None
            if self._is_archived(owner, log.prefix, item, segment):
                return _with(item, d=1)
        key = f"{ITEMS_ROW}{partition}"
        if following is not None and self._is_sealed_in_base(log.prefix, item, following):
            read.retained.add(key)
        else:
            last = log.head.version if is_last and log.head else None
            read.rows[key] = self._catalogue.pack(partition, self._entries(log, partition, first, following, last))
        return unmarked(item)

    def _entries(
        self, log: _Log, partition: str, first: int, following: Item | None, last: int | None
    ) -> Iterator[Item]:
        """Yield the entries of a segment up to its seal or the head. Raises _Moved if an entry is missing."""
        version, hash = first - 1, b""
        for item in self._index.query(partition, before=None if last is None else number(last + 1)):
            if parse_number(item.sort) != version + 1:
                raise _Moved((log.prefix, version + 1))
            kind = item.attributes.get("k")
            if kind is None:
                version, hash = version + 1, required(item, "h")
            yield item
            if kind in (SEAL, END):
                break
        end = parse_number(following.sort) - 1 if following is not None else last
        if end is not None and version != end:
            raise _Moved((log.prefix, version + 1))
        if last is not None and hash and hash != log.head.hash:  # type: ignore[union-attr]
            raise _Moved

    def _is_archived(self, owner: str, prefix: str, item: Item, segment: Segment) -> bool:
        """Return whether the backup uses the segment's archive. If not, the backup reads the entries from the index.

        If the archive is damaged and its entries are freed, the index has no copy of them. Then the backup notes a
        failure and continues.
        """
        base = self._catalogue.base.get(item.partition, item.sort)
        if base is not None and base.attributes.get("a") == item.attributes["a"]:
            return True
        try:
            open_archive(self._environment, prefix, owner, segment)
        except Corrupt as exc:
            if not segment.freed:
                return False
            self._catalogue.fail(f"{prefix}/{segment.first}", exc.code, exc.message)
        return True

    def _is_sealed_in_base(self, prefix: str, item: Item, following: Item) -> bool:
        """Return whether the base has the whole segment: the base has the next segment, and this record is unchanged.

        A redaction changes the record of its segment.
        """
        base = self._catalogue.base
        if base.get(item.partition, item.sort) != unmarked(item):
            return False
        later = next(base.query(segments_partition(prefix), after=item.sort, limit=1), None)
        return later is not None and later.sort == following.sort

    def _listed_pins(self, read: FamilyRead, prefixes: set[str]) -> list[tuple[str, Pin]]:
        """Return the deleted logs' pins at ancestors that are in the backup. Remove all other pins from their lines.

        A fork of a log whose floor is at its own fork version does not need the ancestors of that log.
        """
        lines, read.deleted, pins = read.deleted, [], list[tuple[str, Pin]]()
        for line in lines:
            try:
                listed = [(ancestor, pin) for ancestor, pin in listed_pins(line) if ancestor in prefixes]
            except Corrupt as exc:
                self._catalogue.fail(line.sort, exc.code, exc.message)
                read.deleted.append(line)
                continue
            text = " ".join(f"{ancestor} {pin.version}" for ancestor, pin in listed)
            read.deleted.append(Item(line.partition, line.sort, {**line.attributes, "l": text}))
            pins += listed
        return pins

    def _add_pins(self, read: FamilyRead, logs: list[_Log], of_deleted: list[tuple[str, Pin]]) -> None:
        """Add the pins of the forks in the backup. A pin of any other fork would block the floor for ever.

        The pins of a deleted fork are those in its line, since its sweep deletes these pins.
        """
        pins: dict[str, list[Item]] = {log.prefix: [] for log in logs}
        for log in logs:
            for parent in log.record.lineage if log.record and log.head else ():
                pins[parent.prefix].append(pin_put(parent.prefix, Pin(parent.version, log.prefix)).item)
        for ancestor, pin in of_deleted:
            pins[ancestor].append(pin_put(ancestor, pin).item)
        for prefix, items in pins.items():
            self._put(read, forks_partition(prefix), sorted(items, key=lambda item: item.sort))

    def _put(self, read: FamilyRead, partition: str, items: list[Item] | tuple[Item, ...]) -> None:
        if items:
            read.rows[f"{ITEMS_ROW}{partition}"] = self._catalogue.pack(partition, items)

    def _is_as_in_base(self, read: FamilyRead, owner: str) -> bool:
        base = self._catalogue.base
        if base.row(f"{BLOBS_ROW}{owner}") is None or not self._catalogue.may_skip_blobs:
            return False
        return all(base.row(key) == value for key, value in read.rows.items())

    def _check_unchanged(self, log: _Log) -> None:
        """Raise _Moved if an item that refers to the log's blobs has changed since it was read."""
        if log.head is not None and log.record is not None:
            again = read_name_of(self._index, log.prefix)
            if again is None or again.deleted_ms or _retention_of(again) != _retention_of(log.record):
                raise _Moved
        for partition, items in (
            (segments_partition(log.prefix), log.segments),
            (snapshots_partition(log.prefix), log.snapshots),
        ):
            standing = {item.sort: item for item in self._index.query(partition)}
            if any(standing.get(item.sort) != item for item in items):
                raise _Moved


def history_row(history: HistoryName, name: str) -> str:
    """Return the key of a history's row; ``name`` is its escaped organisation and name."""
    return f"{HISTORY_ROW}{history.kind}/{name}"


def _is_searched(log: _Log, first: int) -> bool:
    """Return whether the search for the log's head may read the segment. The backup then needs the segment's entries.

    The search follows the seals from the segment in the name record. The backup reads that record before the segments.
    A roll-over between these reads seals the segment. Another process may then archive and mark the segment.
    """
    return log.head is not None and log.record is not None and first >= log.record.segment


def _version_before(log: _Log) -> int | None:
    """Return the version before the first kept version of a log; None if the log's name record is of another log."""
    if log.record is None:
        return None
    return max(log.record.floor, *(parent.version for parent in log.record.lineage), 0)


def _last_version(segment: Item, following: Item | None) -> int | None:
    """Return the last version of a segment in the backup; None for the last segment of a log."""
    if "a" in segment.attributes:
        return int(required(segment, "l"))
    return None if following is None else parse_number(following.sort) - 1


def _may_have_garbage(log: _Log) -> bool:
    """Return whether content of the log was redacted, forgotten or deleted, so that a collection may delete blobs."""
    return log.head is None or log.record is None or log.record.redacted or log.record.floor > 0


def _retention_of(record: NameRecord) -> tuple[str, int, object]:
    """Return the fields of a name record that determine which history is kept."""
    return record.incarnation, record.floor, record.lineage


def unmarked(item: Item) -> Item:
    """Return a segment's record without marks, for a backup that has the entries in its index."""
    attributes = {name: value for name, value in item.attributes.items() if name not in ("l", "a", "d")}
    return Item(item.partition, item.sort, {**attributes, "m": 0})


def _with(item: Item, **attributes: int) -> Item:
    return Item(item.partition, item.sort, {**item.attributes, **attributes})

"""Copy of a whole store to another store on any backend: the same logs, records and names, unchanged.

Items and blobs are copied as they are. Incarnations, write ids, forks, floors, archives and snapshots stay the same, so
clients, forks and merges continue in the copy. A copy is a move: after the copy, only one of the two stores may be
written to. Queued messages are not copied; the workers of the source process them.

A repeated copy skips what the target has. It compares the items of a segment if the segment's record or its last entry
is new or has changed, and the versions of a record if its latest version or its floor is new or has changed. Archiving,
freeing and redaction change the segment's record or the record's floor. So the copy writes a segment's record after the
segment's entries, and a record's floor after the record's versions.

A log's name is written to the target after everything that the log refers to, so every name in the target leads to a
complete log. The position of an unfinished copy is saved in the target. The run that resumes the copy lists the blobs
of records that the target has already, since the interrupted run may have left out damaged blobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import msgspec

from stratalog.errors import Conflict, NotFound, StratalogError
from stratalog.keys import (
    NAME_SORT,
    REJECTED_PARTITION,
    RecordKey,
    checkpoints_partition,
    dead_letters_partition,
    deleted_partition,
    entries_partition,
    failures_partition,
    family_partition,
    forks_partition,
    name_partition,
    names_partition,
    number,
    parse_number,
    record_key,
    record_owner,
    record_partition,
    segments_partition,
    snapshots_partition,
    split_prefix,
)
from stratalog.limits import DAMAGED_PARTS_NAMED_MAX
from stratalog.log.directory import LOGS, RECORDS, directory_put, list_directory, list_organisations, organisation_put
from stratalog.log.family_members import depth_of
from stratalog.log.head import find_head
from stratalog.log.lifecycle import deleted_line
from stratalog.log.names import read_name
from stratalog.maintenance.collection import MaintenanceFailure
from stratalog.maintenance.copy_check import check_copy
from stratalog.maintenance.copy_position import Position, SavedPosition
from stratalog.maintenance.mirror import Fail, Mirror, last_item
from stratalog.ports.index import Item, Put, Write, required
from stratalog.records.floor import FLOOR_SORT
from stratalog.records.versions import BEFORE_VERSIONS
from stratalog.store import Store

__all__ = ["CopyReport", "copy_store"]

RECORDS_PER_MARK = 100
ATTEMPTS_MAX = 3

Progress = Callable[[int], None]


class CopyReport(msgspec.Struct, frozen=True):
    """The numbers of organisations, logs and records compared, and of the items and blobs that this run wrote.

    ``failures`` are the damaged blobs, logs and records of the source that were found; the copy has the same damage.
    ``more_failures`` is the number of failures after `DAMAGED_PARTS_NAMED_MAX`, which are not in ``failures``.
    """

    organisations: int
    logs: int
    records: int
    items_written: int
    blobs_written: int
    failures: tuple[MaintenanceFailure, ...] = ()
    more_failures: int = 0


def copy_store(source: Store, target: Store, progress: Progress | None = None) -> CopyReport:
    """Make ``target`` the same store as ``source``, and compare the two at the end; see `check_copy`.

    An interrupted copy resumes. Repeat a copy to add the source's later writes. No process may write to the target
    meanwhile, and none to the source during the last run. ``progress`` is called with the number of items or blobs
    written since its last call.

    Raises Conflict if the target holds an object that the source does not have: no item of that object is overwritten.
    Raises Conflict if the source was written to meanwhile: run the copy again. Raises Corrupt if the comparison fails,
    or an item of the source is damaged, and the errors of the ports.
    """
    failures: dict[MaintenanceFailure, None] = {}
    more = 0

    def fail(what: str, error: StratalogError) -> None:
        nonlocal more
        failure = MaintenanceFailure.of(what, error)
        if failure in failures or len(failures) < DAMAGED_PARTS_NAMED_MAX:
            failures[failure] = None
        else:
            more += 1

    with Mirror(source.environment, target.environment, progress or (lambda count: None), fail) as mirror:
        report = _Copy(mirror, fail, SavedPosition(target.environment, failures)).run()
    return msgspec.structs.replace(report, failures=tuple(failures), more_failures=more)


class _Log(msgspec.Struct, frozen=True):
    """The items of a log except its entries, read before the entries. ``head`` is None for a deleted log."""

    prefix: str
    organisation: str
    name: str
    record: Item | None
    head: int | None
    segments: tuple[Item, ...]
    snapshots: tuple[Item, ...]


class _Moved(Exception):
    """Another process freed entries between their listing and their copy."""


class _Copy:
    def __init__(self, mirror: Mirror, fail: Fail, position: SavedPosition) -> None:
        self._mirror = mirror
        self._fail = fail
        self._position = position
        self._source = mirror.source.index
        self._target = mirror.target.index
        self._owners: set[str] = set()

    def run(self) -> CopyReport:
        organisations = list(list_organisations(self._source))
        self._refuse_others(organisations)
        start = self._position.start
        self._position.begin()
        for organisation in organisations:
            if organisation >= start.organisation:
                self._copy_organisation(organisation, start)
        self._mirror.items(REJECTED_PARTITION)
        # Finish before the comparison. So a later run reads everything, even if the comparison fails.
        self._position.finish()
        logs, records = check_copy(self._mirror.source, self._mirror.target, organisations, self._fail)
        written = self._mirror.written
        return CopyReport(len(organisations), logs, records, written.items, written.blobs)

    def _copy_organisation(self, organisation: str, start: Position) -> None:
        entered = organisation_put(organisation).item
        self._mirror.put(entered.partition, entered.sort, entered)
        here = start if start.organisation == organisation else Position()
        if here.shelf in ("", LOGS):
            self._copy_logs(organisation, here.id)
        self._copy_records(organisation, here.id if here.shelf == RECORDS else "")
        self._copy_deleted(organisation)
        self._copy_failures(organisation)

    def _copy_logs(self, organisation: str, after: str) -> None:
        for listing in list_directory(self._source, organisation, LOGS, after=after):
            record = read_name(self._source, organisation, listing.id)
            if record is not None and record.owner not in self._owners:
                self._owners.add(record.owner)
                self._copy_family(record.owner)
            self._position.save(Position(organisation, LOGS, listing.id))

    def _copy_family(self, owner: str) -> None:
        """Copy the logs that share blobs. Items that refer to blobs are written after the blobs."""
        for _ in range(ATTEMPTS_MAX):
            # Read the heads and snapshots before listing the blobs, so that every blob they refer to is listed.
            members = sorted(self._source.query(family_partition(owner)), key=depth_of)
            logs = [self._read_log(member.sort) for member in members]
            self._mirror.blobs(f"{owner}/")
            try:
                for log in logs:
                    self._copy_log(log)
            except _Moved:
                continue
            self._mirror.items(family_partition(owner), sorted(members, key=_sort))
            for log in logs:
                self._publish(log)
            return
        raise Conflict("the source freed entries during the copy; stop its maintenance, and copy again", owner=owner)

    def _read_log(self, prefix: str) -> _Log:
        organisation, name = split_prefix(prefix)
        record = read_name(self._source, organisation, name)
        ours = record is not None and record.prefix == prefix
        item = self._source.get(name_partition(organisation, name), NAME_SORT) if ours else None
        head = None
        if record is not None and ours and not record.deleted_ms:
            with suppress(NotFound):  # the log was just deleted, so it does not change any more
                head = find_head(self._source, self._mirror.source.clock, record).version
        segments = tuple(self._source.query(segments_partition(prefix)))
        snapshots = tuple(self._source.query(snapshots_partition(prefix)))
        return _Log(prefix, organisation, name, item, head, segments, snapshots)

    def _copy_log(self, log: _Log) -> None:
        standing = {item.sort: item for item in self._target.query(segments_partition(log.prefix))}
        self._refuse_other_log(log, standing)
        for segment in log.segments:
            last = segment is log.segments[-1]
            before = number(log.head + 1) if last and log.head is not None else None
            partition = entries_partition(log.prefix, parse_number(segment.sort))
            if standing.get(segment.sort) != segment or not self._mirror.is_complete(partition, before):
                self._mirror.items(partition, before=before)
        for sort in standing.keys() - {segment.sort for segment in log.segments}:
            self._mirror.items(entries_partition(log.prefix, parse_number(sort)), ())  # the source forgot this segment
        self._check_still(log)
        self._mirror.items(snapshots_partition(log.prefix), log.snapshots)
        self._mirror.items(segments_partition(log.prefix), log.segments)
        self._mirror.items(forks_partition(log.prefix))
        self._mirror.items(checkpoints_partition(log.prefix))

    def _check_still(self, log: _Log) -> None:
        freed = {item.sort for item in self._source.query(segments_partition(log.prefix)) if "d" in item.attributes}
        if freed - {item.sort for item in log.segments if "d" in item.attributes}:
            raise _Moved

    def _publish(self, log: _Log) -> None:
        """Write a log's name record and, if it is live, its two lines: of its name and of the directory.

        Skip a log whose name another log has now.
        """
        if log.record is None:
            return
        self._list_for_sweep(log.organisation, log.name, log.prefix)
        self._mirror.put(log.record.partition, log.record.sort, log.record)
        if log.head is not None:
            self._mirror.item(names_partition(log.name), log.organisation)
            line = directory_put(log.organisation, LOGS, log.name, "", 0).item
            self._mirror.item(line.partition, line.sort)

    def _copy_deleted(self, organisation: str) -> None:
        """Copy the names of logs that were deleted since an earlier run or that still wait to be swept.

        The target sweeps its own items of a log that the source has swept since.
        """
        lists = [list_directory(index, organisation, LOGS) for index in (self._source, self._target)]
        ours, theirs = ({line.id for line in lines} for lines in lists)
        partition = deleted_partition(organisation)
        waiting = {line.sort: line for line in self._source.query(partition)}
        # If another log has the name of a deleted log now, no directory line leads to the deleted log.
        deleted = [line for line in waiting.values() if self._has_segments(line.sort)]
        for owner in {str(required(line, "o")) for line in deleted} - self._owners:
            self._copy_family(owner)
        for name in (theirs | {split_prefix(prefix)[1] for prefix in waiting}) - ours:
            line = directory_put(organisation, LOGS, name, "", 0).item
            record = read_name(self._source, organisation, name)
            # The log is still live if only its directory line is lost.
            self._list_for_sweep(organisation, name, "" if record is None or record.deleted_ms else record.prefix)
            self._mirror.item(names_partition(name), organisation)
            self._mirror.item(name_partition(organisation, name), NAME_SORT)
            self._mirror.item(line.partition, line.sort)
        swept = {line.sort: line for line in self._target.query(partition) if line.sort not in waiting}
        for prefix in swept:
            self._mirror.items(forks_partition(prefix))
        self._mirror.items(partition, sorted((waiting | swept).values(), key=_sort))

    def _list_for_sweep(self, organisation: str, name: str, prefix: str) -> None:
        """List the target's log of this name as deleted, since it loses the name, unless ``prefix`` is its prefix."""
        there = read_name(self._target, organisation, name)
        if there is not None and not there.deleted_ms and there.prefix != prefix:
            line = deleted_line(there, self._mirror.target.clock.wall_ms())
            self._mirror.put(line.partition, line.sort, line)

    def _has_segments(self, prefix: str) -> bool:
        """Return whether the target has segments of the log. A deleted log that the target never had is not copied."""
        return next(self._target.query(segments_partition(prefix), limit=1), None) is not None

    def _copy_records(self, organisation: str, after: str) -> None:
        for count, listing in enumerate(list_directory(self._source, organisation, RECORDS, after=after), 1):
            self._copy_record(organisation, listing.id)
            if count % RECORDS_PER_MARK == 0:
                self._position.save(Position(organisation, RECORDS, listing.id))

    def _copy_failures(self, organisation: str) -> None:
        """Copy the failures and dead letters, also of records without a version. Copy each body before its item.

        Unfinished uploads are not copied; their blobs are garbage in the target.
        """

        def put_bodies(writes: Sequence[Write]) -> None:
            for item in (write.item for write in writes if isinstance(write, Put) and "x" in write.item.attributes):
                self._mirror.blobs(f"{record_owner(organisation, RecordKey(item.sort))}/")

        if self._position.is_resumed:
            put_bodies([Put(item) for item in self._target.query(failures_partition(organisation))])
        self._mirror.items(failures_partition(organisation), ahead=put_bodies)
        self._mirror.items(dead_letters_partition(organisation))

    def _copy_record(self, organisation: str, id: str) -> None:
        """Copy a record up to its latest version, each body before the versions that refer to it."""
        key = record_key(id)
        partition = record_partition(organisation, key)
        latest, standing = last_item(self._source, partition), last_item(self._target, partition)
        self._refuse_other_record(organisation, id, latest, standing)
        is_new = latest is None or latest.sort <= BEFORE_VERSIONS
        before = number(1) if is_new or latest is None else number(parse_number(latest.sort) + 1)

        def put_bodies(writes: Sequence[Write]) -> None:
            if any(isinstance(write, Put) and "x" in write.item.attributes for write in writes):
                self._mirror.blobs(f"{record_owner(organisation, key)}/")

        # Read the floor before the versions and write it after them. So an equal floor proves that no version changed.
        ours, theirs = (index.get(partition, FLOOR_SORT) for index in (self._source, self._target))
        if theirs is not None and not _succeeds(ours, theirs):
            raise _other("record", organisation, id)
        if standing is not None and self._position.is_resumed:
            self._mirror.blobs(f"{record_owner(organisation, key)}/")
        if latest != standing or ours != theirs:
            self._mirror.items(partition, after=BEFORE_VERSIONS, before=before, ahead=put_bodies)
            self._mirror.put(partition, FLOOR_SORT, ours)
        line = directory_put(organisation, RECORDS, id, "", 0).item
        self._mirror.item(line.partition, line.sort)

    def _refuse_other_record(self, organisation: str, id: str, latest: Item | None, standing: Item | None) -> None:
        if standing is None or standing.sort <= BEFORE_VERSIONS:
            return
        there = self._source.get(standing.partition, standing.sort)
        if latest is None or standing.sort > latest.sort or not (there is None or _continues(there, standing)):
            raise _other("record", organisation, id)

    def _refuse_others(self, organisations: list[str]) -> None:
        """Raise Conflict if the target has an organisation, log or record that the source does not have."""
        for organisation in list_organisations(self._target):
            if organisation not in organisations:
                raise _other("organisation", organisation, organisation)
            for shelf, what in ((LOGS, "log"), (RECORDS, "record")):
                ours = {line.id for line in list_directory(self._source, organisation, shelf)}
                for line in list_directory(self._target, organisation, shelf):
                    if line.id not in ours and not (shelf == LOGS and self._is_ours(organisation, line.id)):
                        raise _other(what, organisation, line.id)

    def _is_ours(self, organisation: str, name: str) -> bool:
        """Return whether the target's log of this name is or was a log of the source, or does not exist any more.

        The source keeps the name record of a deleted log until the name is used again. The source also lists the
        deleted log until the log is swept.
        """
        ours, theirs = (read_name(index, organisation, name) for index in (self._source, self._target))
        if theirs is None or theirs.deleted_ms or (ours is not None and ours.prefix == theirs.prefix):
            return True
        return self._source.get(deleted_partition(organisation), theirs.prefix) is not None

    def _refuse_other_log(self, log: _Log, standing: Mapping[str, Item]) -> None:
        """Raise Conflict if the target's log of that name is another log or has entries that the source lacks."""
        if log.record is not None and not self._is_ours(log.organisation, log.name):
            raise _other("log", log.organisation, log.name)
        known = {item.sort: item for item in log.segments}
        for segment in standing.values() if log.head is not None else ():
            ours = known.get(segment.sort)
            if ours is None and segment.sort < log.segments[-1].sort:
                continue  # the source has forgotten this segment since
            if ours is None or not _succeeds(ours, segment):
                raise _other("log", log.organisation, log.name)
            partition = entries_partition(log.prefix, parse_number(segment.sort))
            last = last_item(self._target, partition)
            if last is not None and "d" not in ours.attributes:
                there = self._source.get(partition, last.sort)
                # The entries of a marked segment may be freed, even if the segment's record does not show it yet.
                if not (_continues(there, last) if there else required(ours, "m")):
                    raise _other("log", log.organisation, log.name)


def _sort(member: Item) -> str:
    return member.sort


def _succeeds(ours: Item | None, theirs: Item) -> bool:
    """Return whether the source's record of a segment or floor equals the target's, or is newer."""
    return ours == theirs or (ours is not None and _revision(ours) > _revision(theirs))


def _revision(item: Item) -> int:
    return int(required(item, "r"))


def _continues(ours: Item, theirs: Item) -> bool:
    """Return whether the source's entry or version equals the target's, or is its redacted form."""
    hash = "ch" if "ch" in theirs.attributes else "h"
    return ours == theirs or ("d" in ours.attributes and ours.attributes.get(hash) == theirs.attributes.get(hash))


def _other(what: str, organisation: str, id: str) -> Conflict:
    details = {"organisation": organisation, what: id}
    remedy = "delete the log there, or copy into a new store" if what == "log" else "copy into a new store"
    return Conflict(f"the target holds data that is not from the source: {remedy}", **details)

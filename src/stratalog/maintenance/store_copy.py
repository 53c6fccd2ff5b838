"""Copy of a whole store to another store on any backend: the same logs, records and names, unchanged.

Items and blobs are copied as they are. Incarnations, write ids, forks, floors, archives and snapshots stay the same, so
clients, forks and merges continue in the copy. After the last run, write to only one of the two stores. Queued messages
are not copied; the workers of the source process them.

A repeated copy skips objects that the target has. It compares the items of a segment only if the segment's record or
last entry is new or has changed, and the versions of a record only if its latest version or floor is new or has
changed. Archiving, freeing and redaction change the segment's record or the record's floor. So the copy writes a
segment's record after the segment's entries, and a record's floor after the record's versions.

The copy writes a log's name after everything that the log refers to, so every name in the target leads to a complete
log. The position of an unfinished copy is saved in the target. The run that resumes there compares all items from this
position on. It also lists the blobs of records that the target has, since the interrupted run may have left out damaged
items and blobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import msgspec

from stratalog.errors import Corrupt, StratalogError
from stratalog.keys import (
    NAME_SORT,
    ORGANISATIONS_PARTITION,
    REJECTED_PARTITION,
    RecordKey,
    dead_letters_partition,
    deleted_partition,
    failures_partition,
    forks_partition,
    name_partition,
    names_partition,
    number,
    parse_number,
    record_key,
    record_owner,
    record_partition,
    segments_partition,
    split_prefix,
)
from stratalog.limits import DAMAGED_PARTS_NAMED_MAX
from stratalog.log.callbacks import Report, quiet
from stratalog.log.directory import (
    LOGS,
    RECORDS,
    directory_put,
    is_listed,
    line_partition,
    list_ids,
    list_lines,
    list_organisations,
    organisation_put,
)
from stratalog.log.listed_items import ListedItem, list_items
from stratalog.log.names import read_name
from stratalog.maintenance.collection import MaintenanceFailure
from stratalog.maintenance.copied_references import CopiedReferences
from stratalog.maintenance.copy_check import check_copy
from stratalog.maintenance.copy_position import Position, SavedPosition
from stratalog.maintenance.family_copy import FamilyCopy, continues, other, require_sound, succeeds
from stratalog.maintenance.mirror import Fail, Mirror, last_item
from stratalog.ports.index import Item, Put, Write
from stratalog.records.floor import FLOOR_SORT
from stratalog.records.versions import BEFORE_VERSIONS
from stratalog.store import Store

__all__ = ["CopyReport", "copy_store"]

RECORDS_PER_MARK = 100


class CopyReport(msgspec.Struct, frozen=True):
    """The numbers of organisations, logs and records compared, and of the items and blobs that this run wrote.

    ``failures`` names the damage found in the source: damaged or lost blobs, damaged items, logs and records. The copy
    has the same damage or lacks the damaged object. Of more than `DAMAGED_PARTS_NAMED_MAX` failures, ``failures`` has
    the first, and ``more_failures`` counts the others.
    """

    organisations: int
    logs: int
    records: int
    items_written: int
    blobs_written: int
    failures: tuple[MaintenanceFailure, ...] = ()
    more_failures: int = 0


def copy_store(source: Store, target: Store, progress: Report | None = None) -> CopyReport:
    """Make ``target`` the same store as ``source``, and compare the two at the end; see `check_copy`.

    An interrupted copy resumes. Repeat a copy to add the source's later writes. No process may write to the target
    during a run, nor to the source during the last run. ``progress`` is called with the number of items or blobs
    written since its last call.

    Raises Conflict if the target holds an object that the source does not have; no item of that object is overwritten.
    Raises Conflict if the source was written to during the run: run the copy again. Raises Corrupt if the comparison
    fails, and the errors of the ports.

    Damage of the source does not end the copy. A damaged item is left out, or made anew from other items. A log whose
    name record or head is damaged has no name in the target, and a record whose latest version or floor is damaged is
    not copied. If an earlier run copied such an item, log or record, the target retains that copy. The report names the
    damage, and the next run compares all items again.
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

    with Mirror(source.environment, target.environment, progress or quiet, fail) as mirror:
        report = _Copy(mirror, fail, SavedPosition(target.environment, failures)).run()
    return msgspec.structs.replace(report, failures=tuple(failures), more_failures=more)


class _Copy:
    def __init__(self, mirror: Mirror, fail: Fail, position: SavedPosition) -> None:
        self._mirror = mirror
        self._fail = fail
        self._position = position
        self._source = mirror.source.index
        self._target = mirror.target.index
        self._families = FamilyCopy(mirror, fail, is_resumed=position.is_resumed)
        self._left_out: set[tuple[str, str, str]] = set()
        """The organisation, shelf and id of each record that this run did not copy."""

    def run(self) -> CopyReport:
        lines = self._mirror.read(ORGANISATIONS_PARTITION)
        organisations = [line.sort for line in lines if line.position is None]
        self._refuse_others(organisations)
        start = self._position.start
        self._position.begin()
        for organisation in organisations:
            if organisation >= start.organisation:
                self._copy_organisation(organisation, start)
        self._mirror.items(REJECTED_PARTITION)
        # Finish before the comparison. So if the comparison fails, the next run begins with the first organisation.
        self._position.finish()
        left_out = self._left_out | {(organisation, LOGS, name) for organisation, name in self._families.left_out}
        logs, records = check_copy(
            self._mirror.source,
            self._mirror.target,
            organisations,
            self._fail,
            left_out,
            is_incomplete=self._position.is_damaged,
        )
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
        # The loop uses only the sort key of a line, so a line with damaged attributes does not stop the copy.
        for line in list_lines(self._source, organisation, LOGS, after=after):
            name = line.sort
            try:
                self._require_key(organisation, LOGS, line)
                record = read_name(self._source, organisation, name)
                if record is None or record.deleted_ms:
                    self._require_unlisted(organisation, name)
                if record is not None:
                    self._families.copy(record)
            except Corrupt as exc:
                self._families.leave_out(organisation, name, exc)
            if line.position is None:
                self._position.save(Position(organisation, LOGS, name))

    def _require_key(self, organisation: str, shelf: str, line: ListedItem) -> None:
        """Raise Corrupt if the sort key of a directory line is damaged, since only the key names the log or record."""
        if line.position is not None:
            raise Corrupt(line.fault, organisation=organisation, shelf=shelf, sort=line.sort)

    def _require_unlisted(self, organisation: str, name: str) -> None:
        """Raise Corrupt if the directory lists a log without a live name record. A deletion removes both at once."""
        if is_listed(self._source, organisation, LOGS, name):
            record = read_name(self._source, organisation, name)
            if record is None or record.deleted_ms:
                raise Corrupt("a listed log has no live name record", organisation=organisation, log=name)

    def _copy_deleted(self, organisation: str) -> None:
        """Copy the names of logs that were deleted since an earlier run or that still wait to be swept.

        The target sweeps its own items of a log that the source has swept since.
        """
        ours, theirs = (set(list_ids(index, organisation, LOGS)) for index in (self._source, self._target))
        partition = deleted_partition(organisation)
        waiting = {line.sort: line for line in self._mirror.read(partition)}
        # A deleted log whose name another log has now is found only by its prefix in this partition.
        deleted = [line for line in waiting.values() if self._has_segments(line.sort)]
        owners = {str(line.item.attributes["o"]) for line in deleted if line.item is not None}
        for owner in owners - self._families.owners:
            self._families.copy_family(owner)
        for name in (theirs | set(_names(waiting))) - ours:
            try:
                self._copy_deleted_name(organisation, name)
            except Corrupt as exc:
                self._families.leave_out(organisation, name, exc)
        swept = {line.sort: line for line in list_items(self._target, partition) if line.sort not in waiting}
        for prefix in swept:
            self._mirror.items(forks_partition(prefix))
        self._mirror.items(partition, sorted((waiting | swept).values(), key=_sort))

    def _copy_deleted_name(self, organisation: str, name: str) -> None:
        line = directory_put(organisation, LOGS, name, "", 0).item
        record = read_name(self._source, organisation, name)
        # The log is still live if only its directory line is lost.
        self._families.list_for_sweep(organisation, name, "" if record is None or record.deleted_ms else record.prefix)
        self._mirror.item(names_partition(name), organisation)
        self._mirror.item(name_partition(organisation, name), NAME_SORT)
        self._mirror.item(line.partition, line.sort)

    def _has_segments(self, prefix: str) -> bool:
        """Return whether the target has segments of a deleted log. Without them the log need not be copied."""
        return next(self._target.query(segments_partition(prefix), limit=1), None) is not None

    def _copy_records(self, organisation: str, after: str) -> None:
        for count, line in enumerate(list_lines(self._source, organisation, RECORDS, after=after), 1):
            id = line.sort
            try:
                self._require_key(organisation, RECORDS, line)
                self._copy_record(organisation, id)
            except Corrupt as exc:
                self._fail(f"{organisation}/{id}", exc)
                self._left_out.add((organisation, RECORDS, id))
            if count % RECORDS_PER_MARK == 0 and line.position is None:
                self._position.save(Position(organisation, RECORDS, id))

    def _copy_failures(self, organisation: str) -> None:
        """Copy the failures and dead letters, even of records without a version. Copy each body before its item.

        The pins of unfinished uploads are not copied. The uploads' blobs may be copied, and are garbage in the target.
        """

        def put_bodies(writes: Sequence[Write]) -> None:
            for item in (write.item for write in writes if isinstance(write, Put) and "x" in write.item.attributes):
                self._mirror.blobs(f"{record_owner(organisation, RecordKey(item.sort))}/")

        if self._position.is_resumed:
            there = list_items(self._target, failures_partition(organisation))
            put_bodies([Put(listed.item) for listed in there if listed.item is not None])
        self._mirror.items(failures_partition(organisation), ahead=put_bodies)
        self._mirror.items(dead_letters_partition(organisation))

    def _copy_record(self, organisation: str, id: str) -> None:
        """Copy a record up to its latest version, each body before the versions that refer to it.

        Raises Corrupt, and copies nothing, if the latest version or the floor is damaged. Otherwise an older version
        would be the latest one in the copy, or forgotten versions would look lost.
        """
        key = record_key(id)
        partition = record_partition(organisation, key)
        latest, standing = last_item(self._source, partition), last_item(self._target, partition)
        self._refuse_other_record(organisation, id, latest, standing)
        is_new = latest is None or latest.sort <= BEFORE_VERSIONS
        before = number(1) if is_new or latest is None else number(parse_number(latest.sort) + 1)

        references = CopiedReferences(self._mirror, record_owner(organisation, key), self._fail)

        def put_bodies(writes: Sequence[Write]) -> None:
            if any(isinstance(write, Put) and "x" in write.item.attributes for write in writes):
                references.written(writes)
                self._mirror.blobs(f"{record_owner(organisation, key)}/", copied=references.copied_of_record)

        # Read the floor before the versions and write it after them. So an equal floor proves that no version changed.
        ours, theirs = (index.get(partition, FLOOR_SORT) for index in (self._source, self._target))
        for item in (ours, latest):
            require_sound(item)
        if theirs is not None and not succeeds(ours, theirs):
            self._mirror.require_keys(partition)
            raise other("record", organisation, id)
        if standing is not None and self._position.is_resumed:
            self._mirror.blobs(f"{record_owner(organisation, key)}/")
        if latest != standing or ours != theirs or self._position.is_resumed:
            versions = self._mirror.read(partition, after=BEFORE_VERSIONS, before=before)
            wanted = references.listed(versions) if self._position.is_resumed else versions
            self._mirror.items(partition, wanted, after=BEFORE_VERSIONS, before=before, ahead=put_bodies)
            references.end()
            self._mirror.put(partition, FLOOR_SORT, ours)
        line = directory_put(organisation, RECORDS, id, "record", 0).item
        self._mirror.item(line.partition, line.sort, lambda: self._line_anew(partition, line))

    def _line_anew(self, partition: str, line: Item) -> Item:
        """Return a new directory line for a record whose line is damaged, with the oldest version's time."""
        first = next(list_items(self._source, partition, after=BEFORE_VERSIONS, limit=1), None)
        created = first.item.attributes.get("c") if first is not None and first.item is not None else None
        return Item(line.partition, line.sort, {**line.attributes, "c": created if isinstance(created, int) else 0})

    def _refuse_other_record(self, organisation: str, id: str, latest: Item | None, standing: Item | None) -> None:
        if standing is None or standing.sort <= BEFORE_VERSIONS:
            return
        there = self._source.get(standing.partition, standing.sort)
        if latest is None or standing.sort > latest.sort or not (there is None or continues(there, standing)):
            self._mirror.require_keys(standing.partition)
            raise other("record", organisation, id)

    def _refuse_others(self, organisations: list[str]) -> None:
        """Raise Conflict if the target has an organisation, log or record that the source does not have.

        An object of the target is tolerated if a damaged sort key of the source may be that object's key.
        """
        for organisation in list_organisations(self._target):
            if organisation not in organisations:
                if self._mirror.has_damaged_key(ORGANISATIONS_PARTITION):
                    continue
                raise other("organisation", organisation, organisation)
            for shelf, what in ((LOGS, "log"), (RECORDS, "record")):
                ours = set(list_ids(self._source, organisation, shelf))
                for id in list_ids(self._target, organisation, shelf):
                    if id in ours or (shelf == LOGS and self._families.is_ours(organisation, id)):
                        continue
                    if not self._mirror.has_damaged_key(line_partition(organisation, shelf, id)):
                        raise other(what, organisation, id)


def _names(prefixes: Iterable[str]) -> Iterator[str]:
    for prefix in prefixes:
        with suppress(Corrupt):
            yield split_prefix(prefix)[1]


def _sort(listed: ListedItem) -> str:
    return listed.sort

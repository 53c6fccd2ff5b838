"""Retention of sealed segments: archive or forget a segment, then free its entries long after it was marked.

A mark is one conditional write of the segment's record. After the mark readers use the archive, or report the versions
as forgotten. The entries are freed `OBSERVATION_SECONDS_MAX` plus a grace after the mark at the earliest. By the
observation rule no writer that saw a free position in the segment can write into it after that time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import msgspec

from stratalog.clock import Clock
from stratalog.errors import ConditionFailed, ContentionError, Corrupt, Invalid, NotFound, OutcomeUnknown, Unavailable
from stratalog.keys import check_version, entries_partition, segments_partition, snapshots_partition
from stratalog.keys import number as fixed
from stratalog.limits import COMMIT_WRITES_MAX
from stratalog.log.archive import prove_archive, write_archive
from stratalog.log.base import AppBases, needs_base, require_app_base
from stratalog.log.blob_batch import BlobBatch
from stratalog.log.callbacks import Report, Stop, never, quiet
from stratalog.log.commit import commit_once
from stratalog.log.environment import Environment
from stratalog.log.listed_items import list_items
from stratalog.log.log import Log
from stratalog.log.marks import free_time_reached, is_mark_ahead
from stratalog.log.names import NameRecord, name_put, read_name, reread_name
from stratalog.log.pins import Pin, lowest_pin, pin_delete
from stratalog.log.segments import (
    Segment,
    list_segments,
    segment_change,
    segment_changed,
    segment_holding,
    segment_unchanged,
)
from stratalog.log.snapshots import Snapshot, snapshot_check
from stratalog.ports.index import Delete, Index, Write, no_turn
from stratalog.retry import Retry

__all__ = [
    "archive_segments",
    "delete_items",
    "delete_partition",
    "forget_segment",
    "free_segments",
    "free_segments_below",
    "is_due",
    "pinned_floor",
    "raise_floor",
    "raise_floor_onto",
    "sealed_segments",
]

BASE_CHECK = 1
"""The position of the check that the base exists, among the writes that raise a floor."""

Prove = Callable[[int], Snapshot | None]
Permitted = Callable[[int], int]


def archive_segments(log: Log, upto: int | None = None, stop: Stop = never, report: Report = quiet) -> int:
    """Archive the sealed segments that end at ``upto`` or before (all sealed segments, if None); return their number.

    Each archive is stored and read back before the segment's record changes. After the change readers use the archive.
    The function calls ``stop`` before each segment, and ends if the result is True. It calls ``report`` with 1 after
    each segment, so that a caller knows the number also after an error. Raises Corrupt for a damaged segment, after all
    others.
    """
    if upto is not None:
        check_version(upto)
    environment, prefix = log.environment, log.record.prefix
    archived, damage = 0, None
    for segment, last in sealed_segments(environment.index, prefix):
        if segment.marked_ms or (upto is not None and last > upto):
            continue
        if stop():
            break
        blob_batch = BlobBatch(environment, held_bytes_max=0)  # the archive is read back before a record names it
        try:
            ref = write_archive(environment, prefix, log.record.owner, segment, last, blob_batch)
        except Corrupt as exc:
            if not segment_changed(environment.index, prefix, segment):
                damage = damage or exc
            continue
        with blob_batch.sending():
            is_marked = _mark(environment, prefix, msgspec.structs.replace(segment, last=last, archive=ref))
        if is_marked:
            archived += 1
            environment.count("archive")
            report(1)
    if damage is not None:
        raise damage
    return archived


def raise_floor(log: Log, version: int) -> int:
    """Forget history below ``version`` and return the new floor. The floor never rises above a version that is pinned.

    The history of a log with a state then begins with a base: the newest app snapshot at or below ``version`` that
    reads back with all parts. Without a base the floor stays. A log without state needs no base.

    Raises NotFound for a version beyond the head, Invalid for a document, ContentionError and Unavailable: the floor is
    unchanged. OutcomeUnknown: the floor is unchanged or rose, and the next call resumes. Corrupt for a damaged
    snapshot: the floor is unchanged, or rose to an older snapshot.
    """
    if log.record.kind == "document":
        raise Invalid("use Document.forget_below for a document: it proves the base", log=log.record.name)
    bases = AppBases(log)
    floor = raise_floor_onto(log, version, bases.find if needs_base(log) else None)
    bases.raise_damage()
    return floor


def raise_floor_onto(log: Log, version: int, prove: Prove | None, permitted: Permitted | None = None) -> int:
    """Raise the floor to a base from ``prove``, as `raise_floor` does. Packages that store states of logs call this.

    The floor rises at most to the result of ``permitted``, if given. It is called with ``version`` if that exists.
    ``prove`` is None for a log that needs no base. Otherwise it makes or finds a snapshot at or below a given version,
    and reads the snapshot back from storage. The snapshot stays a valid base while the floor and the pins are
    unchanged, however often the log rolls over. ``prove`` returns None if the floor must stay. ``prove`` may raise
    Corrupt, NotFound or Unavailable. If another process has raised the floor meanwhile, this function drops the error
    and tries again. Otherwise it raises the error.
    """
    if check_version(version) > log.head().version:
        raise NotFound("version not found", log=log.record.name, version=version)
    return _Raising(log, permitted(version) if permitted else version, prove).run()


class _Raising:
    """Raises the floor once. After a lost race it reads and commits again, with the same base if this still fits."""

    def __init__(self, log: Log, version: int, prove: Prove | None) -> None:
        self._log = log
        self._version = version
        self._prove = prove or (lambda wanted: None)
        self._is_plain = prove is None
        self._proven_for = 0
        self._base: Snapshot | None = None
        self._floor, self._hash = 0, b""
        self._retry: Retry | None = None
        self._lost: ConditionFailed | None = None

    def run(self) -> int:
        while True:
            with self._log.turn() if self._retry else no_turn() as has_turn:
                if self._retry and self._lost and not self._retry.wait(self._lost, has_turn=has_turn):
                    raise ContentionError(
                        "other writers kept changing the log while its floor was raised", log=self._log.record.name
                    ) from self._lost
                # Plan before the read of the name record: a commit soon after the read seldom loses its race.
                plan = self._plan() if self._proven_for else None
                record, wanted = self._look()
                if wanted <= max(record.floor, self._log.first - 1):
                    _forget_below(self._log.environment, record.prefix, record.floor)
                    return self._log.learn_floor(record)
                # Another process may have raised the floor above a base that is below ``wanted``.
                if plan is not None and self._proven_for == wanted and plan.floor > record.floor:
                    if self._commit(record, plan):
                        return self._end(plan.floor)
                    continue
            if not self._find_base(record, wanted):
                return self._log.floor()

    def _look(self) -> tuple[NameRecord, int]:
        """Return the name record and the limit of the floor. Read the pins second: a later pin changes the record."""
        record = reread_name(self._log.environment.index, self._log.record)
        return record, pinned_floor(self._log.environment.index, record.prefix, self._version)

    def _find_base(self, record: NameRecord, wanted: int) -> bool:
        """Prove a base for ``wanted``. Return True if the caller must read again, False if the floor must stay."""
        self._retry = self._lost = None
        self._proven_for = 0  # an error below may leave a new base with the hash of an older base
        try:
            self._base = self._prove(wanted)
            self._floor = self._base.version if self._base else wanted
            self._hash = self._log.hash_at(self._floor)
        except (Corrupt, NotFound, Unavailable):
            # If another process raised the floor and deleted the snapshot during the read, read that floor.
            if self._look()[0].floor == record.floor:
                raise
            return True
        self._proven_for = wanted
        return self._floor > record.floor and (self._is_plain or self._base is not None)

    def _plan(self) -> _Plan:
        segment = _segment_above(self._log.environment.index, self._log.record.prefix, self._floor)
        return _Plan(self._floor, self._hash, self._base, segment)

    def _commit(self, record: NameRecord, plan: _Plan) -> bool:
        """Commit the floor. Return False if another process changed the log; the caller then reads again."""
        try:
            _commit_floor(self._log.environment, record, plan)
        except ConditionFailed as exc:
            if plan.base is not None and BASE_CHECK in exc.items:
                self._proven_for = 0
            self._lost, self._retry = exc, self._retry or self._log.retry()
            return False
        return True

    def _end(self, floor: int) -> int:
        """Finish after the commit. A later failure must not be reported as if the floor had not risen."""
        self._log.environment.count("floor")
        try:
            _forget_below(self._log.environment, self._log.record.prefix, floor)
            return self._log.floor()
        except Unavailable as exc:
            raise OutcomeUnknown("the floor rose, but some segments below it are not marked: call again") from exc


class _Plan(msgspec.Struct, frozen=True):
    """The floor to commit, with its hash and base."""

    floor: int
    hash: bytes
    base: Snapshot | None
    segment: Segment | None
    """The segment that will name the base."""


def pinned_floor(index: Index, prefix: str, version: int) -> int:
    """Return the highest floor up to ``version`` that the lowest pin of a fork allows."""
    pin = lowest_pin(index, prefix)
    return min(version, pin.version) if pin else version


def free_segments(log: Log, stop: Stop = never, report: Report = quiet) -> int:
    """Delete the entries of due segments from the index; return the number of segments. An interrupted call can resume.

    A segment is due some time after its mark; see `is_due`. A mark of a clock that was far ahead is made again. Before
    it deletes archived entries, the function reads their archive back from storage; before forgotten entries, the base
    at the floor. Either may be damaged by now. The function makes a damaged archive again from the entries. It calls
    ``stop`` before each due segment, and ``report`` with 1 after it.

    Raises Corrupt, after all other segments, if an archive cannot be made again or the base does not read back. Without
    the base no forgotten segment is freed. Raises Invalid for a document, Unavailable.
    """
    if log.record.kind == "document":
        raise Invalid("use Document.free_segments for a document", log=log.record.name)
    return free_segments_below(log, lambda: require_app_base(log), stop, report)


def free_segments_below(log: Log, require_base: Callable[[], None], stop: Stop = never, report: Report = quiet) -> int:
    """Free segments as `free_segments` does, after ``require_base``. Packages that store states of logs call this.

    The function calls ``require_base`` once, before it frees the first forgotten segment. ``require_base`` raises if
    the base at the floor does not read back.
    """
    environment, prefix = log.environment, log.record.prefix
    freed, damage = 0, None
    has_base: bool | None = None
    for segment in list_segments(environment.index, prefix):
        if not segment.freed and is_mark_ahead(environment.clock, segment.marked_ms):
            _mark(environment, prefix, segment)
        if not is_due(environment.clock, segment):
            continue
        if stop():
            break
        try:
            if segment.archive is None and has_base is None:
                has_base = False
                require_base()
                has_base = True
            if segment.archive is None and not has_base:
                continue
            if not prove_archive(environment, prefix, log.record.owner, segment):
                continue
        except Corrupt as exc:
            damage = damage or exc
            continue
        delete_partition(environment.index, entries_partition(prefix, segment.first))
        _settle_freed(environment, prefix, segment)
        freed += 1
        environment.count("freed segment")
        report(1)
    if damage is not None:
        raise damage
    return freed


def is_due(clock: Clock, segment: Segment) -> bool:
    """Return whether a segment's entries may be freed and are still in the index."""
    return bool(segment.marked_ms) and not segment.freed and free_time_reached(clock, segment.marked_ms)


def delete_partition(index: Index, partition: str, *, spared_kind: str | None = None) -> None:
    """Delete a partition's items, except items of ``spared_kind``.

    The seal is the last item, so a reader still finds it during the deletion.
    """
    items = (listed for listed in list_items(index, partition) if listed.position is None)
    if spared_kind is not None:  # a damaged item may be of this kind
        items = (each for each in items if each.item is not None and each.item.attributes.get("k") != spared_kind)
    for _ in delete_items(index, partition, (listed.sort for listed in items)):
        pass


def delete_items(index: Index, partition: str, sorts: Iterator[str]) -> Iterator[int]:
    """Delete items of a partition in the order of ``sorts``. Yield the number of items after each commit."""
    size = COMMIT_WRITES_MAX if index.joint_commits else 1  # joint deletes may cost twice as much each
    while batch := [Delete(partition, sort) for sort in islice(sorts, size)]:
        index.commit(batch)
        yield len(batch)


def sealed_segments(index: Index, prefix: str) -> Iterator[tuple[Segment, int]]:
    """Yield the segments that another segment follows, each with its last version."""
    former: Segment | None = None
    for segment in list_segments(index, prefix):
        if former is not None:
            yield former, segment.first - 1
        former = segment


def _commit_floor(environment: Environment, record: NameRecord, plan: _Plan) -> None:
    """Raise the floor in the name record and name the base in the first segment above it. Raises ConditionFailed.

    The commit succeeds only while the base exists. A fork whose new floor is above its fork version deletes its pins at
    its ancestors. At the fork version it keeps them: all its own entries are kept, so it can still be merged.
    """
    assert plan.floor > record.floor, "a floor never falls: the commit is conditional on this record"
    assert plan.base is None or plan.base.version == plan.floor, "history begins with the base"
    own = bool(record.lineage) and record.lineage[-1].version < plan.floor
    raised = msgspec.structs.replace(
        record,
        floor=plan.floor,
        floor_hash=plan.hash,
        revision=record.revision + 1,
        lineage=() if own else record.lineage,
    )
    writes: list[Write] = [name_put(raised)]
    if plan.base is not None:
        assert len(writes) == BASE_CHECK
        writes.append(snapshot_check(plan.base))
    if plan.segment is not None:
        writes.append(segment_change(record.prefix, msgspec.structs.replace(plan.segment, base=plan.floor)))
    if own:
        writes += [pin_delete(parent.prefix, Pin(parent.version, record.prefix)) for parent in record.lineage]

    def landed() -> bool:
        stored = read_name(environment.index, record.organisation, record.name)
        return stored is not None and (stored.incarnation, stored.floor) == (record.incarnation, plan.floor)

    commit_once(environment, writes, landed)


def _segment_above(index: Index, prefix: str, floor: int) -> Segment | None:
    """Return the segment of the first version above the floor, if another segment follows it."""
    holding = segment_holding(index, prefix, floor + 1)
    first = list(islice(list_segments(index, prefix, first=holding.first if holding else 0), 2))
    return first[0] if len(first) == 2 else None


def _forget_below(environment: Environment, prefix: str, floor: int) -> None:
    """Mark the segments that end at or below the floor, and delete the snapshots below the base."""
    for segment, last in sealed_segments(environment.index, prefix):
        if last > floor:
            break
        # An archived segment is marked already, but not forgotten.
        if not segment.marked_ms or segment.archive:
            forget_segment(environment, prefix, msgspec.structs.replace(segment, last=last))
    for item in environment.index.query(snapshots_partition(prefix), before=fixed(floor)):
        environment.index.commit([Delete(item.partition, item.sort)])


def forget_segment(environment: Environment, prefix: str, segment: Segment) -> bool:
    """Mark a segment, so that readers report its versions as forgotten. Return False if its record changed."""
    return _mark(environment, prefix, msgspec.structs.replace(segment, archive=None))


def _mark(environment: Environment, prefix: str, segment: Segment) -> bool:
    """Mark the segment's record. Return False if another process has changed the record."""
    is_ahead = is_mark_ahead(environment.clock, segment.marked_ms)
    earliest_ms = 0 if is_ahead else segment.marked_ms + 1
    marked = msgspec.structs.replace(segment, marked_ms=max(environment.clock.wall_ms(), earliest_ms), freed=False)
    try:
        environment.index.commit([segment_change(prefix, marked)])
    except ConditionFailed:
        return False
    return True


def _settle_freed(environment: Environment, prefix: str, segment: Segment) -> None:
    """Record that an archived segment is freed; delete the record of a forgotten segment.

    An entry that takes effect in a forgotten segment after that, against the observation rule, stays for ever. No
    reader reads the entry, and `docs/guarantees.md` names this exception.
    """
    write: Write = (
        segment_change(prefix, msgspec.structs.replace(segment, freed=True))
        if segment.archive
        else Delete(segments_partition(prefix), fixed(segment.first), segment_unchanged(segment))
    )
    try:
        environment.index.commit([write])
    except ConditionFailed:
        environment.count("segment record changed while freed")

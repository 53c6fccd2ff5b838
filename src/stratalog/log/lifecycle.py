"""The lifecycle of logs: creation or forking in one commit, and deletion by an appended end marker."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from stratalog.arguments import check_class
from stratalog.clock import Observation, new_id
from stratalog.errors import (
    ConditionFailed,
    Conflict,
    ContentionError,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    VersionForgotten,
)
from stratalog.keys import check_version, deleted_partition, entries_partition, family_partition, log_prefix, number
from stratalog.limits import CREATION_STORED_BYTES, FORK_DEPTH_MAX, OBSERVATION_SECONDS_MAX
from stratalog.log.chain import genesis
from stratalog.log.commit import commit_once
from stratalog.log.directory import (
    LOGS,
    directory_delete,
    directory_put,
    name_delete,
    name_line_put,
    organisation_missing,
)
from stratalog.log.entries import END, Upcasters
from stratalog.log.environment import Environment
from stratalog.log.family_members import depth_of, member_put, minimal_depths
from stratalog.log.floors import floor_named
from stratalog.log.log import Log
from stratalog.log.names import NameRecord, Parent, name_put, read_name, require_name, reread_name
from stratalog.log.pins import Pin, pin_put
from stratalog.log.segments import Segment, segment_put
from stratalog.log.snapshots import newest_snapshot
from stratalog.log.usage import Amounts
from stratalog.ports.index import Absent, Attribute, Index, Item, Put, Write, no_turn

__all__ = ["create_log", "delete_log", "deleted_line", "fork_log", "open_log"]

INCARNATION_CHARACTERS = 12
ORIGIN_CHARACTERS = 24


def create_log(
    environment: Environment,
    organisation: str,
    name: str,
    kind: str = "log",
    *,
    upcasters: Upcasters | None = None,
    origin: str = "",
) -> Log:
    """Create a log, in one commit with its first segment and its line in the directory.

    ``origin`` is the origin of the history that an import copies. Without ``origin`` the log gets a new origin.

    Raises Conflict if the organisation has a log of that name, QuotaExceeded, Invalid, LimitExceeded, Unavailable:
    nothing is created. Raises OutcomeUnknown: the log may exist. Does not raise NotFound.
    """
    seen = Observation(environment.clock)
    return Log(environment, _create(environment, organisation, name, kind, origin=origin), upcasters, seen=seen)


def open_log(
    environment: Environment,
    organisation: str,
    name: str,
    *,
    upcasters: Upcasters | None = None,
    known: Log | None = None,
    noun: str = "log",
) -> Log:
    """Return the log that has the name now. One read. Raises NotFound, whose message calls the log a ``noun``.

    ``known`` is an earlier handle. The function returns ``known`` if it belongs to the same incarnation and history.
    """
    seen = Observation(environment.clock)
    record = require_name(environment.index, organisation, name, noun=noun)
    if known is not None and known.record.incarnation == record.incarnation and not known.is_lost:
        return known
    return Log(environment, record, upcasters, seen=seen)


def fork_log(
    log: Log,
    name: str,
    at: int,
    *,
    upcasters: Upcasters | None = None,
    require_state: Callable[[], object] = lambda: None,
) -> Log:
    """Create a log that shares the versions of ``log`` up to ``at``. A history of any length needs only one commit.

    The same commit pins ``at``: the log that stores this version cannot raise its floor above the version. The fork
    belongs to the same organisation and shares the blobs of ``log``. For another organisation, copy the log instead.

    ``require_state`` raises if no state of ``at`` can be loaded from storage. The function calls it only if a version
    was redacted, and after the read of the name record. A later redaction changes the name record, so the commit fails
    and is repeated.

    Raises NotFound (the log or the version does not exist), VersionForgotten (the version is below the floor), Conflict
    (the name is in use), LimitExceeded (the forks are nested too deeply, or the name is too long), ContentionError (the
    source kept changing), QuotaExceeded, Invalid, Unavailable, and the errors of ``require_state``: nothing is created.
    Raises OutcomeUnknown: the fork may exist.
    """
    check_class(Log, log=log)
    environment, organisation = log.environment, log.record.organisation
    head = log.head()
    if check_version(at) > head.version or at < 0:
        raise NotFound("the version to fork does not exist", log=log.record.name, version=at)
    retry = environment.retry()
    while True:
        source = _holder(environment, log.record, at)
        if at < source.floor:
            raise VersionForgotten("the version is no longer kept", log=source.name, version=at, floor=source.floor)
        seen = Observation(environment.clock)
        if source.redacted:
            require_state()
        try:
            record = _create(
                environment,
                organisation,
                name,
                source.kind,
                source,
                _lineage(environment.index, source, at, log.hash_at(at)),
                head.created_ms,
            )
        except _SourceChanged as exc:
            if not retry.wait(exc.lost):
                raise ContentionError("other writers kept changing the log to fork", log=log.record.name) from exc.lost
            continue
        return Log(environment, record, upcasters, seen=seen)


def delete_log(log: Log) -> None:
    """Delete the log. One commit writes an end marker as entry n + 1 and marks the name record as deleted.

    `sweep_deleted` removes the log's items later, when no process may rely on an earlier read of them. A repeated call
    raises NotFound. Raises ContentionError or Unavailable: the log is unchanged. Raises OutcomeUnknown: the log may be
    deleted.
    """
    check_class(Log, log=log)
    retry = log.environment.retry()
    lost: ConditionFailed | None = None
    while True:
        with log.turn() if lost else no_turn() as has_turn:
            if lost and not retry.wait(lost, has_turn=has_turn):
                raise ContentionError("other writers kept changing the log to delete", log=log.record.name) from lost
            try:
                _append_end(log)
                break
            except ConditionFailed as exc:
                lost = exc
    log.environment.count("deletion")


def _append_end(log: Log) -> None:
    """Delete the log by one commit at its head. Raises ConditionFailed if another process changed the log first."""
    environment, record = log.environment, log.record
    # Read the name record before the head. A later roll-over changes the record's revision, and the commit then fails.
    # So the end marker is put only into the current segment.
    record = reread_name(environment.index, record)
    head = log.head()
    seal = Item(
        entries_partition(record.prefix, head.segment),
        number(head.version + 1),
        {"c": max(environment.clock.wall_ms(), head.created_ms), "k": END, "w": new_id(environment.clock)},
    )

    def landed() -> bool:
        stored = environment.index.get(seal.partition, seal.sort)
        return stored is not None and stored.attributes.get("w") == seal.attributes["w"]

    writes = [*_deletion(record, seal, environment.clock.wall_ms()), *floor_named(environment.index, record)]
    commit_once(environment, writes, landed)


class _SourceChanged(Exception):
    """The source of a fork changed between the read of its name record and the commit. The commit raised ``lost``."""

    def __init__(self, lost: ConditionFailed) -> None:
        super().__init__(str(lost))
        self.lost = lost


def _create(
    environment: Environment,
    organisation: str,
    name: str,
    kind: str,
    source: NameRecord | None = None,
    lineage: tuple[Parent, ...] = (),
    created_ms_min: int = 0,
    origin: str = "",
) -> NameRecord:
    former = read_name(environment.index, organisation, name)
    if former is not None and not former.deleted_ms:
        raise Conflict("the name is in use", organisation=organisation, log=name)
    incarnation = new_id(environment.clock, INCARNATION_CHARACTERS)
    origin = source.origin if source else origin or new_id(environment.clock, ORIGIN_CHARACTERS)
    record = NameRecord(
        organisation=organisation,
        name=name,
        kind=kind,
        incarnation=incarnation,
        created_ms=max(environment.clock.wall_ms(), created_ms_min),
        revision=former.revision + 1 if former else 1,
        origin=origin,
        hash=lineage[-1].hash if lineage else genesis(origin),
        segment=lineage[-1].version + 1 if lineage else 1,
        floor=source.floor if source else 0,
        floor_hash=source.floor_hash if source else b"",
        owner=source.owner if source else log_prefix(organisation, name, incarnation),
        lineage=lineage,
    )
    creation = _creation(record, former, _depth(environment, source, record))
    entering = organisation_missing(environment, organisation)
    writes = [*creation, *entering, *(_pin(source, record) if source else [])]
    reserved = environment.reserve(organisation, Amounts(documents=1, stored_bytes=CREATION_STORED_BYTES))
    sent = Observation(environment.clock)

    def landed() -> bool:
        stored = read_name(environment.index, organisation, name)
        if stored is None or stored.incarnation == incarnation:
            return stored is not None
        # Another log has the name. Our log may have been created, used and deleted before the answer came.
        if environment.index.get(deleted_partition(organisation), record.prefix) is not None:
            return True
        if sent.age_seconds() > OBSERVATION_SECONDS_MAX and stored.revision > record.revision:
            raise OutcomeUnknown(
                "the outcome of the creation is unknown: the log was created and swept, or was never created",
                organisation=organisation,
                log=name,
            )
        return False

    try:
        with reserved:
            commit_once(environment, writes, landed)
    except ConditionFailed as exc:
        if min(exc.items) >= len(creation):
            raise _SourceChanged(exc) from exc
        raise Conflict("the name is in use", organisation=organisation, log=name) from exc
    environment.count("creation")
    return record


def _depth(environment: Environment, source: NameRecord | None, record: NameRecord) -> int:
    """Return the depth of a new log in its family: 0 without ``source``, else one more than the depth of ``source``.

    The collector reads the references of logs in order of depth, so those of a log before those of its forks. If the
    item of ``source`` in the family is lost, the function returns the minimal depth. A repair of this item gives
    ``source`` a smaller depth.
    """
    _, depth = minimal_depths(record)[-1]
    if source is None:
        return depth
    member = environment.index.get(family_partition(source.owner), source.prefix)
    return max(depth, depth_of(member) + 1) if member else depth


def _creation(record: NameRecord, former: NameRecord | None, depth: int) -> list[Write]:
    """Return the writes of a creation.

    The first write is the name record, whose condition protects all writes. The other writes are the line of the name,
    the first segment, the line in the directory, and the member of the family.
    """
    return [
        name_put(record, None if former else Absent()),
        name_line_put(record.organisation, record.name, record.kind),
        segment_put(record.prefix, Segment(first=record.segment, created_ms=record.created_ms), Absent()),
        directory_put(record.organisation, LOGS, record.name, record.kind, record.created_ms),
        member_put(record.owner, record.prefix, depth),
    ]


def _holder(environment: Environment, record: NameRecord, at: int) -> NameRecord:
    """Return the name record of the log that version ``at`` belongs to: the log of ``record`` or one of its ancestors.

    The version at which a fork was made belongs to the fork. Raises NotFound if the log was deleted. The pinned
    versions of a deleted ancestor stay readable, but no new fork may pin one of these versions.
    """
    ancestor = next((parent for parent in record.lineage if at < parent.version), None)
    return reread_name(environment.index, ancestor or record)


def _lineage(index: Index, source: NameRecord, at: int, hash: bytes) -> tuple[Parent, ...]:
    """Return a fork's ancestors: the ancestors of ``source``, and ``source`` if it has own versions up to ``at``.

    At the version at which ``source`` itself was forked, ``source`` may have the base of its history. A fork of this
    version then needs no other ancestor than ``source``.
    """
    own = Parent(source.organisation, source.name, source.incarnation, at, hash)
    if source.lineage and source.lineage[-1].version == at:
        base = newest_snapshot(index, source.prefix, at) if source.floor == at else None
        return (own,) if base is not None and base.version == at else source.lineage
    if len(source.lineage) >= FORK_DEPTH_MAX:
        raise LimitExceeded("forks of forks are nested too deeply", value=len(source.lineage) + 1, limit=FORK_DEPTH_MAX)
    return (*source.lineage, own)


def _pin(source: NameRecord, record: NameRecord) -> list[Write]:
    """Return the writes that pin a version of every ancestor for the fork. They fail if the source has changed.

    The pinned version is the newest version that the fork reads from the ancestor. The commit raises the revision of
    the source's name record. So no process can commit a floor that it chose from an older read of the pins. The record
    of an older ancestor need not change: the source already pins that ancestor at the same version.
    """
    pins: list[Write] = [pin_put(parent.prefix, Pin(parent.version, record.prefix)) for parent in record.lineage]
    return [*pins, name_put(msgspec.structs.replace(source, revision=source.revision + 1))]


def deleted_line(record: NameRecord, now_ms: int) -> Item:
    """Return the item that lists a log for the sweep as deleted at ``now_ms``."""
    ancestors = " ".join(f"{parent.prefix} {parent.version}" for parent in record.lineage)
    gone: dict[str, Attribute] = {"m": now_ms, "o": record.owner, "l": ancestors}
    return Item(deleted_partition(record.organisation), record.prefix, gone)


def _deletion(record: NameRecord, seal: Item, now_ms: int) -> list[Write]:
    return [
        Put(seal, Absent()),
        name_put(msgspec.structs.replace(record, deleted_ms=now_ms, revision=record.revision + 1)),
        directory_delete(record.organisation, LOGS, record.name),
        name_delete(record.organisation, record.name),
        Put(deleted_line(record, now_ms)),
    ]

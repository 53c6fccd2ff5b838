"""Snapshots: states by version. Each version has its own key, so an older snapshot never replaces a newer snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from stratalog.clock import new_id
from stratalog.codec import PLAIN, unpack_item
from stratalog.errors import ConditionFailed, Corrupt, Unavailable, VersionForgotten
from stratalog.keys import number, parse_number, snapshots_partition
from stratalog.limits import SNAPSHOT_BODY_BYTES_MAX
from stratalog.log.commit import commit_once
from stratalog.log.environment import Environment
from stratalog.log.names import NameRecord, name_check, reread_name
from stratalog.ports.index import NO_BLOBS, Absent, Attribute, Check, Equals, Index, Item, Put, Write
from stratalog.ports.stored_attributes import Hash, Time, read_attributes

__all__ = [
    "Snapshot",
    "StoredSnapshot",
    "latest_snapshots",
    "list_snapshots",
    "newest_in_history",
    "newest_snapshot",
    "put_snapshot",
    "snapshot_check",
    "snapshot_from_item",
    "snapshot_item",
]

SNAPSHOT_PUT, NAME_CHECK, BASE_CHECK = range(3)
"""The positions of the three writes in the commit that stores a snapshot."""


class Snapshot(msgspec.Struct, frozen=True):
    """A state at a version, encoded by its model.

    The body contains the roots of a document's trees, an app snapshot's manifest, or the body of a request over HTTP.
    """

    prefix: str
    version: int
    created_ms: int
    id: str
    body: bytes
    hash: bytes
    """The hash of the chain at ``version``."""


class StoredSnapshot(msgspec.Struct, frozen=True, gc=False):
    """The attributes of a snapshot."""

    c: Time
    w: str
    h: Hash
    b: bytes = b""
    z: bytes = b""


def put_snapshot(
    environment: Environment,
    record: NameRecord,
    version: int,
    hash: bytes,
    body: bytes,
    base: Snapshot | None,
    blobs: Mapping[str, bytes] = NO_BLOBS,
) -> bool:
    """Store a snapshot of the log of ``record`` and return True; return False if ``version`` has a snapshot.

    The snapshot's blobs must be stored already, except ``blobs``. ``base`` is the snapshot whose blobs the new snapshot
    reuses. The commit succeeds only while the base exists, since the base's record keeps those blobs safe from the
    collector. The commit also succeeds only while the floor is at or below ``version``. If the floor is above
    ``version``, entries up to ``version`` are forgotten. The collector may then have deleted blobs of the state that
    only these entries named. Also, only `raise_floor_onto` deletes the snapshots below a floor. A snapshot that is
    stored there later would stay until the next call.

    Raises VersionForgotten below the floor, NotFound if the log is deleted, ConditionFailed if the base is gone. Raises
    Unavailable if the name record kept changing. Raises the errors of ``Index.commit``.
    """
    id = new_id(environment.clock)
    item = snapshot_item(record.prefix, version, environment.clock.wall_ms(), id, body, hash)
    retry = environment.retry()

    def landed() -> bool:
        stored = environment.index.get(item.partition, item.sort)
        return stored is not None and stored.attributes["w"] == id

    while True:
        writes: list[Write] = [Put(item, Absent()), _floor_check(environment.index, record, version)]
        if base is not None:
            writes.append(snapshot_check(base))
        try:
            commit_once(environment, writes, landed, blobs)
        except ConditionFailed as exc:
            if SNAPSHOT_PUT in exc.items:
                return False
            if BASE_CHECK in exc.items:
                raise
            if not retry.wait(exc):
                raise Unavailable("a log kept changing while its snapshot was stored", log=record.name) from exc
            continue
        environment.count("snapshot")
        return True


def _floor_check(index: Index, record: NameRecord, version: int) -> Check:
    """Return the check that lets a commit succeed only while the floor is at or below ``version``.

    Raises VersionForgotten if the floor is above ``version``, NotFound if the log is deleted.
    """
    newest = reread_name(index, record)
    if newest.floor > version:
        raise VersionForgotten("the version is not kept", log=record.name, version=version, floor=newest.floor)
    return name_check(newest)


def snapshot_item(prefix: str, version: int, created_ms: int, id: str, body: bytes, hash: bytes) -> Item:
    """Return the item that stores a snapshot."""
    attributes: dict[str, Attribute] = {"c": created_ms, "w": id, PLAIN.tag: body, "h": hash}
    return Item(snapshots_partition(prefix), number(version), attributes)


def snapshot_check(snapshot: Snapshot) -> Check:
    """Return the check that lets a commit succeed only while the snapshot exists."""
    return Check(snapshots_partition(snapshot.prefix), number(snapshot.version), Equals("w", snapshot.id))


def newest_snapshot(index: Index, prefix: str, at: int) -> Snapshot | None:
    """Return the newest snapshot of version ``at`` or below; None without such a snapshot."""
    items = index.query(snapshots_partition(prefix), before=number(at + 1), reverse=True, limit=1)
    return next((snapshot_from_item(prefix, item) for item in items), None)


def newest_in_history(index: Index, record: NameRecord, at: int) -> Snapshot | None:
    """Return the newest snapshot of version ``at`` or below, of a log or of its ancestors; None without a snapshot."""
    newest = newest_snapshot(index, record.prefix, at)
    # A fork may have a snapshot of a version of its ancestor. The ancestor may have a newer one, for example at its
    # floor.
    for parent in reversed(record.lineage):
        upto = min(at, parent.version)
        if newest is None or newest.version < upto:
            theirs = newest_snapshot(index, parent.prefix, upto)
            newest = theirs if newest is None or (theirs and theirs.version > newest.version) else newest
    return newest


def list_snapshots(index: Index, prefix: str, *, first: int = 0, limit: int | None = None) -> Iterator[Snapshot]:
    """Yield the snapshots of version ``first`` and above in order of version, by pages."""
    for item in index.query(snapshots_partition(prefix), after=number(first - 1) if first else None, limit=limit):
        yield snapshot_from_item(prefix, item)


def latest_snapshots(index: Index, prefix: str, before: int | None = None) -> Iterator[Snapshot]:
    """Yield the snapshots of versions below ``before``, or all of them, the newest first, by pages."""
    bound = None if before is None else number(before)
    for item in index.query(snapshots_partition(prefix), before=bound, reverse=True):
        yield snapshot_from_item(prefix, item)


def snapshot_from_item(prefix: str, item: Item) -> Snapshot:
    """Return the snapshot that an item stores. Raises Corrupt."""
    stored = read_attributes(item, StoredSnapshot, "a snapshot")
    body = unpack_item(item.attributes, SNAPSHOT_BODY_BYTES_MAX, f"{item.partition}/{item.sort}")
    if body is None:
        raise Corrupt("a snapshot has no body", partition=item.partition, sort=item.sort)
    return Snapshot(prefix, parse_number(item.sort), stored.c, stored.w, body, stored.h)

"""Pruning: old versions are first marked as forgotten, and later freed, by the observation rule.

Marking raises the floor by one conditional write, and readers obey the new floor at once. Freeing deletes the items
below the floor, at the earliest `OBSERVATION_SECONDS_MAX` and a grace after the mark. A put that read a freed position
as empty may commit into this position even later. The put then detects that its commit came too late. The latest
version is never marked and never freed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import msgspec

from stratalog.errors import ConditionFailed, Conflict, ContentionError, Corrupt, Invalid
from stratalog.keys import MARK_SORT, number, parse_number, waiting_partition
from stratalog.limits import GRACE_SECONDS, RECORD_MARKS_MAX
from stratalog.log.bodies import blob_addresses, read_body_back
from stratalog.log.callbacks import Report, quiet
from stratalog.log.environment import Environment
from stratalog.log.listed_items import ignore, keys_of, list_items
from stratalog.log.marks import free_time_reached, is_mark_ahead
from stratalog.log.retention import delete_items
from stratalog.ports.blobs import BlobStat
from stratalog.ports.index import Delete, Equals, Index, Item
from stratalog.ports.read_back import require_intact
from stratalog.records.content import body_prefix
from stratalog.records.failures import failure_items
from stratalog.records.floor import FLOOR_SORT, Floor, Mark, floor_from_item, read_floor, store_floor
from stratalog.records.history import item_of, items_in_order
from stratalog.records.uploads import is_uploading, pins_of
from stratalog.records.versions import BEFORE_VERSIONS, Name, decode_ref
from stratalog.retry import Retry

__all__ = ["collect_blobs", "free_versions", "is_known", "prune_versions", "referenced", "remove_waiting_mark"]


def prune_versions(
    environment: Environment,
    name: Name,
    *,
    retain: int | None = None,
    before_ms: int | None = None,
    dry_run: bool = False,
) -> int:
    """Forget all but the newest ``retain`` versions, or all versions superseded at or before ``before_ms``.

    Return the oldest version kept. The function first reads the bodies of that version and of the latest version back
    from storage. If one of these bodies is damaged, the function raises Corrupt and forgets nothing: an older version
    may be the last good copy. A dry run reads back no body and returns the version that would be the oldest kept.

    Raises NotFound, Invalid, ContentionError, Unavailable, OutcomeUnknown, Corrupt.
    """
    if (retain is None) == (before_ms is None):
        raise Invalid(
            "pruning needs either a number of versions to retain or a time", retain=retain, before_ms=before_ms
        )
    if retain is not None and (type(retain) is not int or retain < 1):
        raise Invalid("the number of versions to retain must be at least 1", retain=retain)
    retry = environment.retry()
    while True:
        floor = read_floor(environment.index, name)
        wanted = (
            _oldest_retained(environment, name, retain)
            if retain is not None
            else _current_at(environment, name, before_ms or 0)
        )
        if wanted <= floor.version:
            return floor.version
        if dry_run:
            return wanted
        try:
            _read_back(environment, name, floor, wanted)
            timely = msgspec.structs.replace(floor, marks=_timely_marks(environment, floor))
            raised = _on_base(environment.index, name, _marked(timely, wanted, environment.clock.wall_ms()))
            return store_floor(environment, name, raised).version
        except Conflict as exc:
            _wait(environment, name, retry, exc)


def free_versions(environment: Environment, name: Name, *, dry_run: bool = False, report: Report = quiet) -> int:
    """Delete the items of versions marked long enough ago; return the number of items. Restartable.

    An item that a late put wrote to a freed position is deleted too. A dry run only counts the items. ``report`` is
    called with the number of items of each commit.

    Raises ContentionError, Unavailable or OutcomeUnknown: items may be deleted, and the next call resumes.
    """
    if dry_run:
        known = read_floor(environment.index, name)
        freeing = max([known.freeing, *_due(environment, known)])
        due = sum(1 for _ in _sorts_below(environment.index, name, freeing))
        report(due)
        return due
    floor = _begin_freeing(environment, name)
    deleted = 0
    forgotten = _sorts_below(environment.index, name, floor.freeing)
    for count in delete_items(environment.index, name.partition, forgotten):
        deleted += count
        environment.count("freed record version", count)
        report(count)
    if floor.freed < floor.freeing:
        _settle_freed(environment, name, floor.freeing)
    return deleted


def remove_waiting_mark(environment: Environment, name: Name) -> bool:
    """Delete the waiting mark of a writer that has lost many races; return whether there was a mark.

    The mark is a hint: a writer that still waits writes another mark. So an eventually consistent read is enough, at
    half the cost.
    """
    partition = waiting_partition(name.partition)
    mark = environment.index.get(partition, MARK_SORT, consistent=False)
    if mark is None:
        return False
    with suppress(ConditionFailed):  # another writer has replaced the mark just now
        environment.index.commit([Delete(partition, MARK_SORT, Equals("i", mark.attributes["i"]))])
        environment.count("removed waiting mark")
    return True


def collect_blobs(environment: Environment, name: Name) -> int:
    """Delete the record's blobs that have no reference; return the number of blobs. Restartable.

    Deletes a blob only if it is older than the grace period, and was not put again since it was listed. The versions
    are read in ascending order. If a version is freed meanwhile, a later version that was made from it is still read.
    """
    old = [stat for stat in environment.blobs.list(f"{body_prefix(name)}/") if _older_than_grace(environment, stat)]
    roots = referenced(environment, name) if old else None
    if roots is None:
        return 0
    deleted = sum(_collect(environment, stat) for stat in old if stat.key.rpartition("/")[2] not in roots)
    environment.count("collected record blob", deleted)
    return deleted


def referenced(environment: Environment, name: Name, *, dry_run: bool = False) -> set[str] | None:
    """Return the hashes of all blobs that the record refers to; None while a body of several blobs is being uploaded.

    An expired pin is deleted, but not in a dry run.
    """
    return None if is_uploading(environment, name, dry_run=dry_run) else set(_roots(environment, name))


def is_known(environment: Environment, name: Name) -> bool:
    """Return whether the record has an item in its partition, a pin, a failure, or a dead letter."""
    versions = environment.index.query(name.partition, limit=1)
    lists = (versions, pins_of(environment, name), failure_items(environment, name))
    return any(next(items, None) is not None for items in lists)


def _wait(environment: Environment, name: Name, retry: Retry, lost: Conflict) -> None:
    """Wait after another process changed the floor first. Raises ContentionError if no time is left."""
    environment.count("record floor conflict")
    if not retry.wait(lost):
        raise ContentionError("other processes kept changing the record's floor", record=name.id) from lost


def _read_back(environment: Environment, name: Name, floor: Floor, oldest: int) -> None:
    """Read back the bodies of ``oldest`` and of the latest version. Raises Corrupt.

    Raises Conflict instead if the floor has changed: the missing body may then be forgotten.
    """
    items = [environment.index.get(name.partition, number(oldest)), item_of(environment, name, None)]
    refs = [decode_ref(item.attributes["x"]) for item in items if item is not None and "x" in item.attributes]
    try:
        for ref in dict.fromkeys(refs):
            readings = read_body_back(environment.blobs, body_prefix(name), ref)
            require_intact(reading.damage for reading in readings)
    except Corrupt as exc:
        if read_floor(environment.index, name).revision == floor.revision:
            raise
        raise Conflict("the floor changed while bodies were read back", record=name.id) from exc


def _oldest_retained(environment: Environment, name: Name, retain: int) -> int:
    return max(1, parse_number(item_of(environment, name, None).sort) - retain + 1)


def _current_at(environment: Environment, name: Name, time_ms: int) -> int:
    """Return the version that was the latest at ``time_ms``; 0 if all kept versions are later."""
    for item in items_in_order(environment, name, reverse=True):
        if int(item.attributes["c"]) <= time_ms:
            return parse_number(item.sort)
    return 0


def _marked(floor: Floor, version: int, now_ms: int) -> Floor:
    """Return ``floor`` raised to ``version``. If it has `RECORD_MARKS_MAX` marks, the new mark replaces the last mark.

    The new mark has the latest time of all marks, so nothing is freed too early.
    """
    assert version > floor.version, "a floor never falls"
    waiting = floor.marks[: RECORD_MARKS_MAX - 1]
    last_ms = max([now_ms, *(mark.marked_ms for mark in floor.marks)])
    return msgspec.structs.replace(floor, version=version, marks=(*waiting, Mark(version, last_ms)))


def _on_base(index: Index, name: Name, floor: Floor) -> Floor:
    """Return ``floor`` with its origin and the hash of the version before it.

    Raises Conflict if a version is missing because the stored floor has changed, and Corrupt if it is missing for
    another reason. While the stored floor is unchanged, all items from the stored floor on exist. `store_floor` writes
    the new floor only on this condition.
    """
    before = index.get(name.partition, number(floor.version - 1))
    first = None if floor.origin else index.get(name.partition, number(1))
    if before is None or not (floor.origin or first):
        if read_floor(index, name).revision != floor.revision:
            raise Conflict("the floor changed while versions were read", record=name.id)
        raise Corrupt("a version of a record is missing", record=name.id, version=floor.version - 1)
    origin = floor.origin or str(first.attributes["og"] if first else "")
    return msgspec.structs.replace(floor, hash=before.attributes["ch"], origin=origin)


def _begin_freeing(environment: Environment, name: Name) -> Floor:
    """Record the version below which items may be missing. Call this function before the first item is deleted."""
    retry = environment.retry()
    while True:
        floor = read_floor(environment.index, name)
        freeing = max([floor.freeing, *_due(environment, floor)])
        left = tuple(mark for mark in _timely_marks(environment, floor) if mark.version > freeing)
        if left == floor.marks:
            return floor
        try:
            return store_floor(environment, name, msgspec.structs.replace(floor, freeing=freeing, marks=left))
        except ConditionFailed as exc:
            _wait(environment, name, retry, exc)


def _due(environment: Environment, floor: Floor) -> list[int]:
    return [mark.version for mark in floor.marks if free_time_reached(environment.clock, mark.marked_ms)]


def _timely_marks(environment: Environment, floor: Floor) -> tuple[Mark, ...]:
    """Return the floor's marks. A mark of a clock that was far ahead counts as made now."""
    clock = environment.clock
    return tuple(
        Mark(mark.version, clock.wall_ms()) if is_mark_ahead(clock, mark.marked_ms) else mark for mark in floor.marks
    )


def _settle_freed(environment: Environment, name: Name, freed: int) -> None:
    """Record the version below which any item is a late write. Call this function after the last item was deleted."""
    retry = environment.retry()
    while (floor := read_floor(environment.index, name)).freed < freed:
        try:
            store_floor(environment, name, msgspec.structs.replace(floor, freed=freed))
        except ConditionFailed as exc:
            _wait(environment, name, retry, exc)


def _sorts_below(index: Index, name: Name, version: int) -> Iterator[str]:
    """Yield the sort keys of the items below a version, also those of damaged items."""
    return keys_of(list_items(index, name.partition, after=BEFORE_VERSIONS, before=number(version)), ignore)


def _older_than_grace(environment: Environment, stat: BlobStat) -> bool:
    return environment.clock.wall_ms() - stat.modified_ms > GRACE_SECONDS * 1000


def _roots(environment: Environment, name: Name) -> Iterator[str]:
    """Yield the hashes of all blobs that a version, the last failure or the dead letter refers to."""
    freeing = 0
    for item in environment.index.query(name.partition):
        if item.sort == FLOOR_SORT:
            freeing = floor_from_item(item).freeing
        elif "x" in item.attributes and not BEFORE_VERSIONS < item.sort < number(freeing):
            yield from _addresses(environment, name, item)
    for failure in failure_items(environment, name):
        if "x" in failure.attributes:
            yield from _addresses(environment, name, failure)


def _addresses(environment: Environment, name: Name, item: Item) -> Iterator[str]:
    for address in blob_addresses(environment.blobs, body_prefix(name), decode_ref(item.attributes["x"])):
        yield address.hex()


def _collect(environment: Environment, stat: BlobStat) -> bool:
    again = environment.blobs.stat(stat.key)
    return again is not None and again.stamp == stat.stamp and environment.blobs.delete(stat.key, stat.stamp)

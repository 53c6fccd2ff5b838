"""The sweep deletes the items of a deleted log, once no process may rely on an earlier read of the log.

The restoration of a log adds its copy to the list of deleted logs before it copies anything. So the sweep also deletes
the remains of a restoration that did not end.

The sweep decodes no body of an entry, so damaged bodies do not stop it.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from stratalog.errors import ConditionFailed, Corrupt
from stratalog.keys import (
    checkpoints_partition,
    deleted_partition,
    entries_partition,
    family_partition,
    segments_partition,
    snapshots_partition,
    waiting_partition,
)
from stratalog.limits import UNKNOWN_OWNER_SECONDS_MAX
from stratalog.log.callbacks import Report, Stop, never, quiet
from stratalog.log.entries import END
from stratalog.log.environment import Environment
from stratalog.log.listed_items import list_items
from stratalog.log.marks import free_time_reached, is_mark_ahead
from stratalog.log.names import name_put, read_name_of
from stratalog.log.pins import listed_pins, lowest_pin, pin_delete
from stratalog.log.retention import delete_partition, forget_segment
from stratalog.log.segments import list_segments
from stratalog.ports.index import Delete, Equals, Item, Put, Write
from stratalog.ports.stored_attributes import Time, read_attributes

__all__ = ["UNNAMED", "StoredDeletion", "sweep_deleted"]

UNNAMED = "u"
"""The attribute of a listed incarnation that never had a name: an ancestor's copy, or a log whose restoration did not
end.
"""


class StoredDeletion(msgspec.Struct, frozen=True):
    """The attributes of the item that lists a deleted log for the sweep."""

    m: Time
    """The time of the deletion. For an unfinished restoration, a time in the future."""

    o: str
    """The owner of the log's blobs: its family."""

    l: str  # noqa: E741 - the name of the stored attribute
    """The ancestors with the versions that the log pins; see `listed_pins`."""

    u: Time = 0
    """1 if the log is `UNNAMED`."""


def sweep_deleted(
    environment: Environment,
    organisation: str,
    *,
    dry_run: bool = False,
    stop: Stop = never,
    report: Report = quiet,
) -> int:
    """Sweep an organisation's deleted incarnations that are due; return their number. An interrupted sweep can resume.

    A dry run only counts the incarnations. The sweep calls ``stop`` before each incarnation, and ends if the result is
    True. It calls ``report`` with 1 after each incarnation, so that a caller knows the number also after an error.

    The log's end marker and name record stay. The sweep skips an incarnation that a fork still pins. The sweep of a
    family's last member deletes the family's blobs. Before that sweep only the collector deletes blobs of the family.

    Raises Corrupt if an incarnation is damaged, after the sweep of all others.
    """
    swept, damage = 0, None
    partition = deleted_partition(organisation)
    for listed in list_items(environment.index, partition):
        try:
            if listed.item is None:
                raise Corrupt(listed.fault, partition=partition, sort=listed.sort)
            line = read_attributes(listed.item, StoredDeletion, "a deleted log")
            if is_mark_ahead(environment.clock, line.m - _waits_ms(line)) and not dry_run:
                _list_again(environment, listed.item, line)
            if not _is_due(environment, listed.sort, line):
                continue
            if stop():
                break
            if not dry_run:
                _sweep(environment, listed.item, line)
                environment.count("swept log")
            swept += 1
            report(1)
        except Corrupt as exc:
            damage = damage or exc
    if damage is not None:
        raise damage
    return swept


def _waits_ms(line: StoredDeletion) -> int:
    """Return by how many milliseconds the time of a line may be after the time at which the line was written.

    A restoration lists its unfinished copy with a time in the future. The sweep leaves the copy alone until then.
    """
    return UNKNOWN_OWNER_SECONDS_MAX * 1000 if line.u else 0


def _list_again(environment: Environment, gone: Item, line: StoredDeletion) -> None:
    """List the incarnation as deleted now, since the clock that listed it was far ahead. Also set its name record."""
    index, now_ms = environment.index, environment.clock.wall_ms()
    listed = {**gone.attributes, "m": now_ms + _waits_ms(line)}
    writes: list[Write] = [Put(Item(gone.partition, gone.sort, listed), Equals("m", line.m))]
    record = read_name_of(index, gone.sort)
    if record is not None and record.deleted_ms:
        writes.append(name_put(msgspec.structs.replace(record, deleted_ms=now_ms, revision=record.revision + 1)))
    with suppress(ConditionFailed):  # another process has swept it, listed it again, or used the name again
        index.commit(writes)
        environment.count("deleted log listed again")


def _is_due(environment: Environment, prefix: str, line: StoredDeletion) -> bool:
    return free_time_reached(environment.clock, line.m) and lowest_pin(environment.index, prefix) is None


def _sweep(environment: Environment, gone: Item, line: StoredDeletion) -> None:
    # Read the pins first, so that nothing of a damaged incarnation is deleted.
    prefix, owner, pins = gone.sort, line.o, listed_pins(gone)
    for segment in list_segments(environment.index, prefix):
        # Mark first: a reader during the sweep then reports forgotten versions, not a missing entry.
        forget_segment(environment, prefix, segment)
        delete_partition(environment.index, entries_partition(prefix, segment.first), spared_kind=END)
    for partition_of in (segments_partition, snapshots_partition, checkpoints_partition, waiting_partition):
        delete_partition(environment.index, partition_of(prefix))
    for ancestor, pin in pins:
        environment.index.commit([pin_delete(ancestor, pin)])
    environment.index.commit([Delete(family_partition(owner), prefix)])
    if next(environment.index.query(family_partition(owner), limit=1), None) is None:
        for stat in environment.blobs.list(f"{owner}/"):
            environment.blobs.delete(stat.key, stat.stamp)
    environment.index.commit([Delete(gone.partition, gone.sort)])

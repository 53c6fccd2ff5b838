"""The sweep deletes the items of a deleted log, once no process may rely on an earlier read of the log.

The restoration of a log lists its copy here before it copies anything. So the sweep also deletes what a restoration
leaves that does not end.

The sweep decodes no body of an entry, so damaged bodies do not stop it.
"""

from __future__ import annotations

from typing import Any

from stratalog.keys import (
    checkpoints_partition,
    deleted_partition,
    entries_partition,
    family_partition,
    segments_partition,
    snapshots_partition,
    waiting_partition,
)
from stratalog.log.entries import END
from stratalog.log.environment import Environment
from stratalog.log.pins import Pin, lowest_pin, pin_delete
from stratalog.log.retention import Stop, delete_items, forget_segment, free_time_reached, never
from stratalog.log.segments import list_segments
from stratalog.ports.index import Delete, Item

__all__ = ["UNNAMED", "sweep_deleted"]

UNNAMED = "u"
"""The attribute of a listed incarnation that never had a name: an ancestor's copy, or a log whose restoration did not
end.
"""


def sweep_deleted(environment: Environment, organisation: str, *, dry_run: bool = False, stop: Stop = never) -> int:
    """Sweep an organisation's deleted incarnations that are due; return their number. An interrupted sweep can resume.

    A dry run only counts the incarnations. The sweep calls ``stop`` before each incarnation, and ends if the result is
    True.

    The log's end marker and name record stay. The sweep skips an incarnation that a fork still pins. The sweep of a
    family's last member deletes the family's blobs. Before that sweep only the collector deletes blobs of the family.
    """
    swept = 0
    for item in environment.index.query(deleted_partition(organisation)):
        attributes: Any = item.attributes
        if not free_time_reached(environment.clock, attributes["m"]) or lowest_pin(environment.index, item.sort):
            continue
        if stop():
            break
        if not dry_run:
            _sweep(environment, item)
            environment.counters["swept log"] += 1
        swept += 1
    return swept


def _sweep(environment: Environment, gone: Item) -> None:
    prefix, owner = gone.sort, str(gone.attributes["o"])
    for segment in list_segments(environment.index, prefix):
        # Mark first: a reader during the sweep then reports forgotten versions, not a missing entry.
        forget_segment(environment, prefix, segment)
        delete_items(environment.index, entries_partition(prefix, segment.first), spared_kind=END)
    for partition_of in (segments_partition, snapshots_partition, checkpoints_partition, waiting_partition):
        delete_items(environment.index, partition_of(prefix))
    _release_ancestors(environment, gone)
    environment.index.commit([Delete(family_partition(owner), prefix)])
    if next(environment.index.query(family_partition(owner), limit=1), None) is None:
        for stat in environment.blobs.list(f"{owner}/"):
            environment.blobs.delete(stat.key, stat.stamp)
    environment.index.commit([Delete(gone.partition, gone.sort)])


def _release_ancestors(environment: Environment, gone: Item) -> None:
    ancestors = str(gone.attributes["l"]).split()
    for prefix, version in zip(ancestors[::2], ancestors[1::2], strict=True):
        environment.index.commit([pin_delete(prefix, Pin(int(version), gone.sort))])

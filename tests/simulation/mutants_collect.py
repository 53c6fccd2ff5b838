"""Bugs planted in the collection of blobs. Most bugs break a rule that protects needed blobs from deletion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from stratalog.backends.memory import MemoryIndex
from stratalog.limits import GRACE_SECONDS
from stratalog.log import blob_batch
from stratalog.log.segments import Segment, list_segments
from stratalog.log.snapshots import list_snapshots
from stratalog.maintenance import collection
from stratalog.maintenance.collection import _Collection
from stratalog.maintenance.marks import Marking
from stratalog.maintenance.progress import CollectionProgress, load_work
from stratalog.tree.nodes import Leaf, Node
from tests.simulation.mutants import Mutant, replaced
from tests.simulation.world_collect import CollectWorld

__all__ = ["MUTANTS"]

_init: Callable[..., None] = _Collection.__init__
_mark_segment: Callable[[Marking, str, Segment], None] = Marking._mark_segment


def _delete_unseen(self: _Collection, key: str, stamp: str) -> bool:
    """Delete the blob even if its generation has changed since the marking."""
    again = self._environment.blobs.stat(key)
    return again is not None and (self._dry_run or self._environment.blobs.delete(key, again.stamp))


def _load_work_and_look(cluster: Any, scope: str) -> tuple[CollectionProgress, bool]:
    """Combine the present stamps of the candidates with the marks of an earlier time."""
    work, is_needed = load_work(cluster, scope)
    for name, candidate in list(work.candidates.items()):
        stat = cluster.blobs.stat(f"{work.owner}/{name}")
        if stat is not None:
            work.candidates[name] = msgspec.structs.replace(candidate, stamp=stat.stamp)
    return work, is_needed


def _begin_ahead(self: Marking, prefix: str, segment: Segment) -> None:
    """Record a segment as read before reading the segment."""
    self.reached.segment = segment.first + 1
    _mark_segment(self, prefix, segment)


def _mark_parents_first(self: Marking, node: Node) -> None:
    """Record a chunk as walked before walking the chunks below it."""
    self._step()
    if isinstance(node, Leaf):
        for stored in node.values:
            self._mark_value(stored)
        return
    for position, address in enumerate(node.addresses):
        if address not in self._seen:
            self._mark_chunk(address)
            self._mark_below(self._chunks.child(node, position))


def _mark_known_logs(self: Marking) -> None:
    """Mark only the logs that were in the family when the marking began."""
    for prefix in self._unread():
        self._mark_log(prefix)


def _mark_snapshots_first(self: Marking, prefix: str) -> None:
    """Mark snapshots before entries, with a long pause between them."""
    index = self._environment.index
    for snapshot in list_snapshots(index, prefix):
        self._mark_snapshot(snapshot)
    self._environment.clock.sleep(1800)
    for segment in list_segments(index, prefix):
        self._mark_segment(prefix, segment)
    self.reached.done.append(prefix)


def _begin_dry_runs_anew(
    self: _Collection, cluster: Any, scope: str, dry_run: bool, *rest: Any, **options: Any
) -> None:
    _init(self, cluster, scope, dry_run, *rest, **options)
    if dry_run:
        self._work = CollectionProgress()


def _put_new_blobs(self: MemoryIndex, blobs: Mapping[str, bytes]) -> None:
    """Do not renew the age of an existing blob that a commit stores again."""
    for key, body in blobs.items():
        if self._blobs is not None and self._blobs.stat(key) is None:
            self._blobs.put(key, body)


class FreezingCollectWorld(CollectWorld):
    """Processes freeze often, so that a whole collection may run between a commit and its effect.

    With the usual fault rates, a collection runs between a commit and its effect in only one of 600 seeds.
    """

    freeze_rate = 0.15


def _mutant(name: str, owner: Any, attribute: str, bug: object, caught_by: tuple[str, ...] = ()) -> Mutant:
    return Mutant(name, CollectWorld, replaced(owner, attribute, bug), caught_by or DANGLING)


DANGLING = ("nothing dangling", "history kept")
MUTANTS = (
    _mutant("observation rule ignored (blobs)", collection, "OLD_SECONDS", GRACE_SECONDS - 301),
    _mutant("blob deleted without its stamp", _Collection, "_delete", _delete_unseen),
    _mutant("commit leaves the age of its blobs", MemoryIndex, "_put_blobs", _put_new_blobs),
    Mutant(
        "late commit does not put its blobs again",
        FreezingCollectWorld,
        replaced(blob_batch, "GRACE_SECONDS", 10**9),
        DANGLING,
    ),
    _mutant("collect: new stamps with old marks", collection, "load_work", _load_work_and_look),
    _mutant("collect: segment recorded before it is read", Marking, "_mark_segment", _begin_ahead),
    _mutant("collect: chunk walked before its children", Marking, "_mark_below", _mark_parents_first),
    _mutant("collect: forks made meanwhile not read", Marking, "run", _mark_known_logs),
    _mutant("collect: snapshots read before entries", Marking, "_mark_log", _mark_snapshots_first),
    _mutant("collect: dry run begins anew", _Collection, "__init__", _begin_dry_runs_anew, ("dry run",)),
)

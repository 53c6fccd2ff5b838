"""The restoration of one log into a store with other logs.

The restored log has a new incarnation and possibly another name. It keeps its origin and the hashes of its versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from stratalog.clock import new_id
from stratalog.errors import Conflict
from stratalog.keys import (
    deleted_partition,
    entries_partition,
    family_partition,
    log_prefix,
    parse_number,
    segments_partition,
    snapshots_partition,
)
from stratalog.log.commit import commit_once
from stratalog.log.directory import LOGS, directory_put, name_line_put, organisation_put
from stratalog.log.lifecycle import INCARNATION_CHARACTERS
from stratalog.log.names import NameRecord, Parent, name_put, read_name, require_name
from stratalog.log.pins import Pin, pin_put
from stratalog.maintenance.mirror import Mirror
from stratalog.ports.index import Absent, Attribute, Item, Put
from stratalog.store import Store

__all__ = ["restore_log"]


def restore_log(
    backup: Store,
    organisation: str,
    name: str,
    target: Store,
    new_name: str,
    progress: Callable[[int], None] | None = None,
) -> NameRecord:
    """Copy the log ``name`` of ``backup`` to ``target`` as ``new_name``, with its ancestors as deleted logs.

    The copy is a new incarnation with the same origin. So sync clients of the old document continue with the copy if
    the copy has the old name. Raises NotFound if the backup has no such log, and Conflict if ``new_name`` is in use.
    After a failed restoration, the copied items stay, but no name record leads to them. If the log is no fork, a later
    collection deletes the copied blobs.
    """
    record = require_name(backup.environment.index, organisation, name)
    standing = read_name(target.environment.index, organisation, new_name)
    if standing is not None and not standing.deleted_ms:
        raise Conflict("the name is in use", organisation=organisation, log=new_name)
    with Mirror(backup.environment, target.environment, progress or (lambda count: None)) as mirror:
        return _Restoration(mirror, record, new_name).run(standing)


class _Restoration:
    def __init__(self, mirror: Mirror, record: NameRecord, name: str) -> None:
        self._mirror = mirror
        self._source = mirror.source.index
        self._record = record
        self._name = name
        clock = mirror.target.clock
        self._incarnations = {prefix: new_id(clock, INCARNATION_CHARACTERS) for prefix in self._old_prefixes()}

    def run(self, standing: NameRecord | None) -> NameRecord:
        record, organisation = self._record, self._record.organisation
        lineage = tuple(self._renamed(parent) for parent in record.lineage)
        prefix = self._new_prefix(record.prefix)
        owner = lineage[0].prefix if lineage else prefix
        self._copy_blobs(owner)
        for depth, parent in enumerate(record.lineage):
            self._copy_log(parent.prefix)
            self._put(Item(family_partition(owner), self._new_prefix(parent.prefix), {"d": depth}))
            self._put(pin_put(self._new_prefix(parent.prefix), Pin(parent.version, prefix)).item)
            self._put_deleted(owner, lineage[:depth], self._new_prefix(parent.prefix))
        self._copy_log(record.prefix)
        made = msgspec.structs.replace(
            record,
            name=self._name,
            incarnation=self._incarnations[record.prefix],
            owner=owner,
            lineage=lineage,
            revision=standing.revision + 1 if standing else 1,
        )
        writes = [
            name_put(made, None if standing else Absent()),
            name_line_put(organisation, self._name, made.kind),
            directory_put(organisation, LOGS, self._name, made.kind, made.created_ms),
            Put(Item(family_partition(owner), prefix, {"d": len(lineage)})),
            organisation_put(organisation),
        ]
        index = self._mirror.target.index

        def landed() -> bool:
            stored = read_name(index, organisation, self._name)
            # Compare only the incarnation: other processes may have changed the record since.
            return stored is not None and stored.incarnation == made.incarnation

        commit_once(self._mirror.target, writes, landed)
        return made

    def _old_prefixes(self) -> list[str]:
        return [*(parent.prefix for parent in self._record.lineage), self._record.prefix]

    def _new_prefix(self, prefix: str) -> str:
        """Return the prefix of a log's copy. An ancestor keeps its name, but no name record leads to its copy."""
        names = {parent.prefix: parent.name for parent in self._record.lineage}
        name = names.get(prefix, self._name)
        return log_prefix(self._record.organisation, name, self._incarnations[prefix])

    def _renamed(self, parent: Parent) -> Parent:
        return msgspec.structs.replace(parent, incarnation=self._incarnations[parent.prefix])

    def _put_deleted(self, owner: str, lineage: tuple[Parent, ...], prefix: str) -> None:
        """List an ancestor as a deleted log. Maintenance sweeps an ancestor that no fork pins any more."""
        ancestors = " ".join(f"{parent.prefix} {parent.version}" for parent in lineage)
        gone: dict[str, Attribute] = {"m": self._mirror.target.clock.wall_ms(), "o": owner, "l": ancestors}
        self._put(Item(deleted_partition(self._record.organisation), prefix, gone))

    def _put(self, item: Item) -> None:
        self._mirror.put(item.partition, item.sort, item)

    def _copy_log(self, old: str) -> None:
        new = self._new_prefix(old)
        segments = list(self._source.query(segments_partition(old)))
        for segment in segments:
            first = parse_number(segment.sort)
            self._copy(entries_partition(old, first), entries_partition(new, first))
        self._copy(snapshots_partition(old), snapshots_partition(new))
        self._copy(segments_partition(old), segments_partition(new))

    def _copy(self, old: str, new: str) -> None:
        self._mirror.items(new, self._moved(old, new))

    def _moved(self, old: str, new: str) -> Iterator[Item]:
        return (Item(new, item.sort, item.attributes) for item in self._source.query(old))

    def _copy_blobs(self, owner: str) -> None:
        self._mirror.blobs(f"{self._record.owner}/", f"{owner}/")

"""The restoration of one log into a store with other logs.

The restored log has a new incarnation and possibly another name. It keeps its origin and the hashes of its versions.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from stratalog.clock import Observation, new_id
from stratalog.documents import Document
from stratalog.errors import ConditionFailed, Conflict, LimitExceeded
from stratalog.keys import (
    deleted_partition,
    entries_partition,
    escape,
    log_prefix,
    parse_number,
    segments_partition,
    snapshots_partition,
)
from stratalog.limits import UNKNOWN_OWNER_SECONDS_MAX
from stratalog.log.callbacks import Report, quiet
from stratalog.log.commit import commit_once
from stratalog.log.directory import LOGS, directory_put, name_line_put, organisation_put
from stratalog.log.family_members import member_put, minimal_depths
from stratalog.log.lifecycle import INCARNATION_CHARACTERS, open_log
from stratalog.log.listed_items import ListedItem
from stratalog.log.names import DOCUMENT_OR_LOG, NameRecord, Parent, name_put, read_name, require_name
from stratalog.log.pins import Pin, pin_put
from stratalog.log.sweep import UNNAMED
from stratalog.maintenance.mirror import Mirror
from stratalog.ports.index import Absent, Attribute, Delete, Equals, Item, Write
from stratalog.store import Store

__all__ = ["restorable_log", "restore_log"]


def restore_log(
    backup: Store,
    organisation: str,
    name: str,
    target: Store,
    new_name: str,
    progress: Report | None = None,
) -> NameRecord:
    """Copy the log ``name`` of ``backup`` to ``target`` as ``new_name``, with its ancestors as deleted logs.

    The copy is a new incarnation with the same origin. So sync clients of the old document continue with the copy if
    the copy has the old name.

    Raises NotFound if the backup has no such log, Redacted if its document has no state at its last version, so that
    nobody could open the copy, and Corrupt if the backup is damaged. Raises Conflict if ``new_name`` is in use, or if a
    sweep removed the unfinished copy. Raises LimitExceeded if the restoration took longer than
    `UNKNOWN_OWNER_SECONDS_MAX`. After these errors, or a crash before the last commit, no name record leads to the
    copied items. The sweep deletes these items and their blobs once `UNKNOWN_OWNER_SECONDS_MAX` and then the grace are
    over. After OutcomeUnknown the log may be restored.
    """
    record = restorable_log(backup, organisation, name, new_name)
    standing = read_name(target.environment.index, organisation, new_name)
    if standing is not None and not standing.deleted_ms:
        raise Conflict("the name is in use", organisation=organisation, log=new_name)
    with Mirror(backup.environment, target.environment, progress or quiet) as mirror:
        return _Restoration(mirror, record, new_name).run(standing)


def restorable_log(backup: Store, organisation: str, name: str, new_name: str) -> NameRecord:
    """Return the name record of a log of ``backup`` that can be restored as ``new_name``.

    Raises NotFound if the backup has no such log, Redacted if its document has no state at its last version, Corrupt if
    the backup is damaged, and Invalid or LimitExceeded for a new name that no log can have.
    """
    record = require_name(backup.environment.index, organisation, name, noun=DOCUMENT_OR_LOG)
    escape(new_name)
    if record.kind == "document" and record.redacted:
        Document(open_log(backup.environment, organisation, name)).state()
    return record


class _Restoration:
    def __init__(self, mirror: Mirror, record: NameRecord, name: str) -> None:
        self._mirror = mirror
        self._source = mirror.source.index
        self._record = record
        self._name = name
        clock = mirror.target.clock
        self._incarnations = {prefix: new_id(clock, INCARNATION_CHARACTERS) for prefix in self._old_prefixes()}

    def run(self, standing: NameRecord | None) -> NameRecord:
        lineage = tuple(self._renamed(parent) for parent in self._record.lineage)
        prefix = self._new_prefix(self._record.prefix)
        owner = lineage[0].prefix if lineage else prefix
        begun = Observation(self._mirror.target.clock)
        line = self._list_for_sweep(owner, lineage, prefix, begun.wall_ms + UNKNOWN_OWNER_SECONDS_MAX * 1000)
        self._copy_blobs(owner)
        for old in self._old_prefixes():
            self._copy_log(old)
        made = msgspec.structs.replace(
            self._record,
            name=self._name,
            incarnation=self._incarnations[self._record.prefix],
            owner=owner,
            lineage=lineage,
            revision=standing.revision + 1 if standing else 1,
        )
        if begun.age_seconds() > UNKNOWN_OWNER_SECONDS_MAX:
            raise LimitExceeded(
                "the restoration took too long", value=begun.age_seconds(), limit=UNKNOWN_OWNER_SECONDS_MAX
            )
        self._publish(made, line, None if standing else Absent())
        return made

    def _list_for_sweep(self, owner: str, lineage: tuple[Parent, ...], prefix: str, due_ms: int) -> Item:
        """List the copies for the sweep, before anything is copied, and return the line of the log itself.

        The commit of the name deletes this line. If there is no such commit, the sweep deletes the copies after
        ``due_ms``. The line comes before the pins, since only its sweep deletes them. The pins come before the lines of
        the ancestors, since they hold off the sweep of the ancestors.
        """
        organisation = organisation_put(self._record.organisation).item  # the sweep finds only listed organisations
        self._put(organisation)
        line = self._line(owner, lineage, prefix, due_ms)
        self._put(line)
        for parent in lineage:
            self._put(pin_put(parent.prefix, Pin(parent.version, prefix)).item)
        for parent in lineage:
            # Without pins of its own: the restored log pins all its ancestors.
            self._put(self._line(owner, (), parent.prefix, self._mirror.target.clock.wall_ms()))
        return line

    def _publish(self, made: NameRecord, line: Item, absent: Absent | None) -> None:
        """Commit the name and the members of the family. Before this commit the collector keeps the family's blobs."""
        organisation = made.organisation
        listed = Delete(line.partition, line.sort, Equals("m", line.attributes["m"]))
        writes: list[Write] = [
            name_put(made, absent),
            listed,
            name_line_put(organisation, self._name, made.kind),
            directory_put(organisation, LOGS, self._name, made.kind, made.created_ms),
            *(member_put(made.owner, prefix, depth) for prefix, depth in minimal_depths(made)),
        ]
        index = self._mirror.target.index

        def landed() -> bool:
            stored = read_name(index, organisation, self._name)
            # Compare only the incarnation: other processes may have changed the record since.
            return stored is not None and stored.incarnation == made.incarnation

        try:
            commit_once(self._mirror.target, writes, landed)
        except ConditionFailed as exc:
            if writes.index(listed) in exc.items:
                raise Conflict(
                    "the unfinished restoration was swept", organisation=organisation, log=made.name
                ) from exc
            raise Conflict("the name is in use", organisation=organisation, log=made.name) from exc

    def _old_prefixes(self) -> list[str]:
        return [*(parent.prefix for parent in self._record.lineage), self._record.prefix]

    def _new_prefix(self, prefix: str) -> str:
        """Return the prefix of a log's copy. An ancestor keeps its name, but no name record leads to its copy."""
        names = {parent.prefix: parent.name for parent in self._record.lineage}
        name = names.get(prefix, self._name)
        return log_prefix(self._record.organisation, name, self._incarnations[prefix])

    def _renamed(self, parent: Parent) -> Parent:
        return msgspec.structs.replace(parent, incarnation=self._incarnations[parent.prefix])

    def _line(self, owner: str, lineage: tuple[Parent, ...], prefix: str, gone_ms: int) -> Item:
        """Return the line that lists a log without a name for the sweep, as if it was deleted at ``gone_ms``."""
        ancestors = " ".join(f"{parent.prefix} {parent.version}" for parent in lineage)
        gone: dict[str, Attribute] = {"m": gone_ms, "o": owner, "l": ancestors, UNNAMED: 1}
        return Item(deleted_partition(self._record.organisation), prefix, gone)

    def _put(self, item: Item) -> None:
        self._mirror.put(item.partition, item.sort, item)

    def _copy_log(self, old: str) -> None:
        new = self._new_prefix(old)
        # Copy the segment records first: the sweep of an unfinished restoration finds the entries by these records.
        self._copy(segments_partition(old), segments_partition(new))
        for segment in self._source.query(segments_partition(old)):
            first = parse_number(segment.sort)
            self._copy(entries_partition(old, first), entries_partition(new, first))
        self._copy(snapshots_partition(old), snapshots_partition(new))

    def _copy(self, old: str, new: str) -> None:
        self._mirror.items(new, self._moved(old, new))

    def _moved(self, old: str, new: str) -> Iterator[ListedItem]:
        for item in self._source.query(old):
            yield ListedItem(item.sort, Item(new, item.sort, item.attributes))

    def _copy_blobs(self, owner: str) -> None:
        self._mirror.blobs(f"{self._record.owner}/", f"{owner}/")

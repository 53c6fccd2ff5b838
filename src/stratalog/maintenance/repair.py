"""Repair: restore damaged objects from intact objects. Repair deletes nothing and may run again.

A damaged chunk, value or archive is written again. Its bytes come from the state that an inspection rebuilt, from
another folder of the family, or from entries that are not freed yet. A damaged snapshot of a document is made anew from
the entries. Some other damaged items are restored from items that contain the same facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, pairwise

import msgspec

from stratalog.clock import new_id
from stratalog.codec import PLAIN, encode
from stratalog.documents.rebuild import Rebuild
from stratalog.documents.snapshots import tree_roots
from stratalog.errors import ConditionFailed, Corrupt, Invalid, NotFound, VersionForgotten
from stratalog.keys import (
    ORGANISATIONS_PARTITION,
    dead_letters_partition,
    directory_partition,
    entries_partition,
    failures_partition,
    family_partition,
    names_partition,
    number,
    parse_number,
    snapshots_partition,
)
from stratalog.log import Environment, Log, open_log
from stratalog.log.archive import write_archive
from stratalog.log.blob_batch import BlobBatch
from stratalog.log.directory import LOGS, RECORDS, directory_put, name_line_put, organisation_put
from stratalog.log.entries import SEAL
from stratalog.log.family_members import depth_of, member_put, minimal_depths
from stratalog.log.names import DOCUMENT_OR_LOG, name_check, read_name
from stratalog.log.pins import Pin, pin_put
from stratalog.log.segments import list_segments
from stratalog.maintenance.damage import StoredDamage, item_key
from stratalog.maintenance.inspection import inspect_history, inspect_store, look
from stratalog.maintenance.recording_ports import RecordingBlobs
from stratalog.maintenance.verification import HistoryName, is_deleted
from stratalog.ports.index import Absent, Attribute, Check, Equals, Item, Put, Write
from stratalog.records.versions import BEFORE_VERSIONS, Name
from stratalog.store import Store
from stratalog.tree.chunks import Chunks
from stratalog.tree.reach import addresses

__all__ = ["RepairReport", "RepairResults", "repair_histories", "repair_history", "repair_store"]

Fix = Callable[[], None]


class RepairReport(msgspec.Struct, frozen=True):
    """The damages that were repaired, and those that remain."""

    repaired: tuple[StoredDamage, ...] = ()
    """In a dry run: the damages that a run would repair."""

    remaining: tuple[StoredDamage, ...] = ()


def repair_history(store: Store, history: HistoryName, *, dry_run: bool = False) -> RepairReport:
    """Inspect one history, repair its damages and inspect it again.

    Raises NotFound, Unavailable, and VersionForgotten if the floor rose during each attempt to read the history. The
    objects already put then stay, and the next run repairs the others.
    """
    damages = inspect_history(store, history).damages
    if not damages:
        return RepairReport()
    fixed: list[StoredDamage] = []

    def fix(environment: Environment, building: RecordingBlobs) -> None:
        repair = _Repair(store, environment, building, history)
        for damage in damages:
            if (action := repair.fix(damage)) is not None:
                fixed.append(damage)
                if not dry_run:
                    action()

    look(store, history, then=fix)
    if dry_run:
        return RepairReport(tuple(fixed), tuple(damage for damage in damages if damage not in fixed))
    remaining = inspect_history(store, history).damages
    left = {(damage.kind, damage.key) for damage in remaining}
    return RepairReport(tuple(damage for damage in damages if (damage.kind, damage.key) not in left), remaining)


class RepairResults:
    """The results of a repair of several histories until now."""

    def __init__(self) -> None:
        self.repaired: list[StoredDamage] = []
        self.remaining: dict[HistoryName, tuple[StoredDamage, ...]] = {}
        """The damages that remain, by history."""

        self.unread: dict[HistoryName, VersionForgotten] = {}
        """The histories whose floor rose during each attempt to read them."""

    def report(self) -> RepairReport:
        """Return the damages of all histories."""
        return RepairReport(tuple(self.repaired), tuple(chain.from_iterable(self.remaining.values())))


def repair_histories(
    store: Store,
    histories: Iterable[HistoryName],
    results: RepairResults,
    *,
    dry_run: bool = False,
    of_store: bool = False,
) -> None:
    """Repair several histories. Then repair again the histories that still have damage or were not read.

    The repair of one log can make it possible to repair another log of the same family. A dry run omits the second
    repair. The function adds each result to ``results`` at once, so that a caller knows the results also after an
    error. With ``of_store`` the histories are those of the store, and a log that was deleted since it was listed is
    skipped. Else a history that does not exist raises NotFound.
    """

    def repair(history: HistoryName) -> None:
        try:
            report = repair_history(store, history, dry_run=dry_run)
        except VersionForgotten as exc:
            results.unread[history] = exc
            return
        except NotFound:
            if not of_store or not is_deleted(store, history):
                raise
            report = RepairReport()
        results.repaired += report.repaired
        results.remaining[history] = report.remaining
        results.unread.pop(history, None)

    for history in histories:
        repair(history)
    unfinished = {history for history, left in results.remaining.items() if left} | results.unread.keys()
    for history in [] if dry_run else sorted(unfinished):
        repair(history)


def repair_store(store: Store, *, dry_run: bool = False) -> RepairReport:
    """Repair the items outside logs and records: put missing organisation lines."""
    damages = inspect_store(store)
    fixed = [damage for damage in damages if damage.kind == "organisation line" and damage.fault == "missing"]
    if not dry_run:
        for damage in fixed:
            store.environment.index.commit([organisation_put(damage.key.removeprefix(f"{ORGANISATIONS_PARTITION} "))])
    return RepairReport(tuple(fixed), tuple(damage for damage in damages if damage not in fixed))


class _Repair:
    """Finds out how to restore the damaged objects of one history. ``environment`` only reads."""

    def __init__(self, store: Store, environment: Environment, building: RecordingBlobs, history: HistoryName) -> None:
        self._ports = store.environment
        self._environment = environment
        self._index = environment.index
        self._building = building
        self._history = history
        self._log = self._open()

    def _open(self) -> Log | None:
        try:
            if self._history.kind == "log":
                return open_log(self._environment, self._history.organisation, self._history.name, noun=DOCUMENT_OR_LOG)
        except (Corrupt, NotFound):
            pass
        return None

    def fix(self, damage: StoredDamage) -> Fix | None:
        """Return the action that restores the object; None if intact objects do not determine it."""
        if damage.kind == "snapshot":
            return self._snapshot(damage)
        if " " not in damage.key:
            return self._blob(damage.key)
        writes = self._writes(damage) if damage.derivable else None
        return None if writes is None else lambda: self._commit(writes)

    def _commit(self, writes: list[Write]) -> None:
        """Commit a repair. If another process changed its sources meanwhile, leave the damage to the next run."""
        try:
            self._ports.index.commit(writes)
        except ConditionFailed:
            self._ports.count("repair overtaken")

    def _blob(self, key: str) -> Fix | None:
        body = self._building.derive(key)
        if body is None:
            return self._archive(key)
        return lambda: self._ports.blobs.put(key, body)

    def _archive(self, key: str) -> Fix | None:
        """Write an archive again from entries that are not freed yet, if the new archive has the same bytes."""
        if self._log is None:
            return None
        record = self._log.record
        for segment in list_segments(self._index, record.prefix):
            if segment.archive is None or segment.freed or f"{record.owner}/archive/" not in key:
                continue
            scratch = Environment(self._index, self._building, self._ports.clock, self._ports.settings)
            batch = BlobBatch(scratch, held_bytes_max=0, blobs=self._building)
            try:
                ref = write_archive(scratch, record.prefix, record.owner, segment, segment.last, batch)
            except (Corrupt, NotFound, Invalid):
                continue
            body = self._building.scratch.find(key)
            if ref == segment.archive and body is not None:
                return lambda: self._ports.blobs.put(key, body)
        return None

    def _snapshot(self, damage: StoredDamage) -> Fix | None:
        """Rebuild a snapshot from the entries up to its version. The action puts its chunks, then its record."""
        partition, _, sort = damage.key.rpartition(" ")
        log = self._log
        if log is None or log.record.kind != "document" or partition != snapshots_partition(log.record.prefix):
            return None
        version = parse_number(sort)
        chunks = Chunks(self._building, log.record.owner)
        try:
            rebuild = Rebuild(log, chunks)
            if version <= rebuild.version:
                return None
            rebuild.advance(version)
        except (Corrupt, NotFound):
            return None
        if rebuild.state is None or rebuild.version != version:
            return None
        roots = tree_roots(rebuild.state)
        clock = self._ports.clock
        attributes: dict[str, Attribute] = {
            "c": clock.wall_ms(),
            "w": new_id(clock),
            PLAIN.tag: encode(roots),
            "h": rebuild.hash,
        }

        def put() -> None:
            for root in (roots.content, roots.clients, roots.tombstones):
                for address in addresses(chunks, root):
                    self._ports.blobs.put(chunks.key(address), chunks.read(address))
            # A process that raises the floor deletes the snapshots below the floor only once. So the commit checks that
            # the name record, and with it the floor, is unchanged.
            self._commit([Put(Item(partition, sort, attributes)), name_check(log.record)])

        return put

    def _writes(self, damage: StoredDamage) -> list[Write] | None:
        if self._history.kind == "record":
            return self._record_writes(damage)
        if self._log is None:
            return None
        record = self._log.record
        fence = name_check(record)
        partition, _, sort = damage.key.partition(" ")
        if partition == directory_partition(record.organisation, LOGS, 0):
            return self._line(sort)
        if partition == names_partition(record.name):
            return [name_line_put(record.organisation, record.name, record.kind), fence]
        if damage.kind == "family member":
            return [*self._members(self._log), fence]
        if damage.kind == "seal":
            return self._seal(self._log, partition, sort)
        for parent in record.lineage:
            put = pin_put(parent.prefix, Pin(parent.version, record.prefix))
            if (partition, sort) == (put.item.partition, put.item.sort):
                return [put, fence]
        return None

    def _line(self, name: str) -> list[Write] | None:
        """Return the writes that restore the directory line of a log of the family.

        Without this line, an inspection may not find the log.
        """
        log = read_name(self._index, self._history.organisation, name)
        if log is None or log.deleted_ms:
            return None
        return [directory_put(log.organisation, LOGS, name, log.kind, log.created_ms), name_check(log)]

    def _members(self, log: Log) -> Iterator[Write]:
        """Yield the puts of a log as a member of its family, and of ancestors whose stored depth is too great.

        The depths follow from the lineage, not from members that a later repair may change. A marking reads a log after
        its ancestors, and so after the logs whose references this log may have taken over.
        """
        record = log.record
        for prefix, depth in minimal_depths(record):
            member = self._index.get(family_partition(record.owner), prefix)
            # Leave a missing ancestor to the ancestor's own repair, which reports it.
            if prefix == record.prefix or (member is not None and depth_of(member) > depth):
                yield member_put(record.owner, prefix, depth)

    def _seal(self, log: Log, partition: str, sort: str) -> list[Write] | None:
        segments = list(list_segments(self._index, log.record.prefix))
        for segment, following in pairwise(segments):
            if (entries_partition(log.record.prefix, segment.first), number(following.first)) == (partition, sort):
                return [Put(Item(partition, sort, {"c": following.created_ms, "k": SEAL}))]
        return None

    def _record_writes(self, damage: StoredDamage) -> list[Write] | None:
        name = Name(self._history.organisation, self._history.name)
        if damage.kind == "directory line":
            oldest = next(self._index.query(name.partition, after=BEFORE_VERSIONS, limit=1), None)
            created_ms = int(oldest.attributes["c"]) if oldest is not None else 0
            put = directory_put(name.organisation, RECORDS, name.id, "record", created_ms)
            return [put] if oldest is not None and item_key(put.item.partition, put.item.sort) == damage.key else None
        failure = self._index.get(failures_partition(name.organisation), name.key)
        letter = self._index.get(dead_letters_partition(name.organisation), name.id)
        if damage.kind == "dead letter" and failure is not None and letter is None:
            put = Put(Item(dead_letters_partition(name.organisation), name.id, failure.attributes), Absent())
            return [put, Check(failure.partition, failure.sort, Equals("w", failure.attributes["w"]))]
        if damage.kind == "failures" and letter is not None:
            return [Put(Item(failures_partition(name.organisation), name.key, letter.attributes), Absent())]
        return None

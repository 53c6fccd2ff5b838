"""Reading an organisation's records for a backup while writers continue: each record up to its latest version."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from heapq import merge
from itertools import groupby, pairwise
from operator import attrgetter, itemgetter

from stratalog.backups.failures import FailuresBackup
from stratalog.backups.family import history_row
from stratalog.backups.format import BLOBS_ROW, ITEMS_ROW
from stratalog.backups.gaps import Gaps
from stratalog.backups.references import blobs_of_bodies
from stratalog.backups.repository import COPIES
from stratalog.backups.writer import BackupWriter, packed
from stratalog.errors import Conflict, Corrupt, StratalogError
from stratalog.keys import (
    directory_partition,
    escape,
    number,
    parse_number,
    record_key,
    record_owner,
    record_partition,
)
from stratalog.log.bodies import BodyRef, blob_addresses
from stratalog.log.directory import RECORDS, SHARDS, directory_put
from stratalog.log.environment import Environment
from stratalog.log.listed_items import ListedItem, list_items
from stratalog.maintenance.checkpoint import Checkpoint
from stratalog.maintenance.damage import item_key
from stratalog.maintenance.shapes import shape_fault
from stratalog.maintenance.verification import HistoryName
from stratalog.ports.index import Item, required
from stratalog.records.floor import FLOOR_SORT, Floor, floor_from_item
from stratalog.records.versions import BEFORE_VERSIONS, decode_ref, unchecked_latest_item

__all__ = ["RecordsBackup"]

ATTEMPTS_MAX = 8


class RecordsBackup:
    """Puts the records of one organisation, their failures and dead letters into a catalogue."""

    def __init__(
        self, environment: Environment, catalogue: BackupWriter, organisation: str, step: Callable[[], None]
    ) -> None:
        """``step`` is called after each record."""
        self._step = step
        self._index = environment.index
        self._catalogue = catalogue
        self._organisation = organisation
        self._failures = FailuresBackup(environment, catalogue, organisation)
        self.count = 0

    def read(self) -> None:
        """Read all records. A record that is damaged or keeps changing is a failure. Raises the errors of the ports."""
        self._failures.copy_bodies()
        for shard in range(SHARDS[RECORDS]):
            partition = directory_partition(self._organisation, RECORDS, shard)
            self._catalogue.put_items(partition, self._read_shard(partition))
        self._failures.put()

    def _read_shard(self, partition: str) -> Iterator[Item]:
        """Yield the lines of a directory shard. Put the record before its line, so every listed record exists."""
        for listed in self._list(partition):
            try:
                created_ms = self._read_record(listed.sort)
            except (Corrupt, Conflict) as exc:
                if not self._retain(listed.sort, exc):
                    continue
                created_ms = self._created_in_base(listed.sort)
            self.count += 1
            self._step()
            yield listed.item or self._line(partition, listed.sort, created_ms)

    def _list(self, partition: str) -> Iterator[ListedItem]:
        """Yield the lines of a directory shard, in order.

        No process deletes the line of a record. So if only the base has the line, and the store has versions of the
        record, the line is lost: yield it without its item, and note a failure.
        """
        listed = (
            (line.sort, False, line) for line in self._catalogue.list_sound(self._index, partition, is_made_anew=True)
        )
        base = ((line.sort, True, ListedItem(line.sort, None)) for line in self._catalogue.base.query(partition))
        for id, lines in groupby(merge(listed, base, key=itemgetter(0, 1)), itemgetter(0)):
            _, is_unlisted, line = next(lines)
            if is_unlisted:
                items = list_items(self._index, record_partition(self._organisation, record_key(id)), limit=1)
                # A line and the first version are committed together: a line found after the version is a new one.
                if next(items, None) is None or self._index.get(partition, id) is not None:
                    continue
                self._catalogue.fail(
                    item_key(partition, id),
                    Corrupt.code,
                    "the directory does not list a record with versions",
                    is_complete=True,
                )
            yield line

    def _line(self, partition: str, id: str, created_ms: int) -> Item:
        """Return the directory line of a record whose own line is damaged: the base's line, or a new one.

        The new line takes its time from ``created_ms``, since another read of the source may find the record lost.
        """
        standing = self._catalogue.base.get(partition, id)
        return standing or directory_put(self._organisation, RECORDS, id, "record", created_ms).item

    def _created_in_base(self, id: str) -> int:
        versions = _Versions(self._catalogue.base.query(record_partition(self._organisation, record_key(id)), limit=2))
        for _ in versions:
            pass
        return versions.created_ms

    def _read_record(self, id: str) -> int:
        """Put the rows of a record, and return the time of its oldest kept version. Raises Corrupt, Conflict."""
        key = record_key(id)
        partition = record_partition(self._organisation, key)
        owner = record_owner(self._organisation, key)
        blobs_row = f"{BLOBS_ROW}{owner}"
        gaps, complete = Gaps(), dict[str, Item]()
        for _ in range(ATTEMPTS_MAX):
            latest = unchecked_latest_item(self._index, partition)
            if latest is None:
                raise Corrupt("a listed record has no version", organisation=self._organisation, record=id)
            versions = _Versions(self._items(partition, latest, complete))
            row = self._catalogue.pack(partition, versions)
            if (gap := versions.missing(latest)) is not None:
                gaps.add(partition, gap)
                continue
            if in_base := {item.sort: item for item in self._complete_in_base(partition, row)}:
                complete |= in_base
                continue
            blobs = None
            if not versions.bodies and self._catalogue.base.row(blobs_row) is None:
                break
            # The source collects a body long after its item changed, so list the blobs again until the base's list has
            # no garbage.
            if self._is_as_in_base(partition, row) and not self._lists_garbage(owner, versions.bodies):
                break
            blobs = self._catalogue.copy_blobs(owner)
            # If the items are unchanged, they referred to the blobs all the time, so no blob was collected meanwhile.
            if packed(self._items(partition, latest, complete)) == row:
                break
        else:
            # No row was put, so the base's rows stay. A new list of blobs could lack blobs that the base's items need.
            raise Conflict("a record kept changing while it was read for a backup", record=id)
        history = HistoryName("record", self._organisation, id)
        hash = required(versions.last, "ch")
        if type(hash) is not bytes:
            raise Corrupt("the hash of a version is no bytes", partition=partition, sort=versions.last.sort)
        line = Checkpoint(history, versions.origin, parse_number(latest.sort), hash).line()
        for sort, fault in (dict.fromkeys(complete, "a version has lost attributes") | versions.faults).items():
            self._catalogue.fail(item_key(partition, sort), Corrupt.code, fault, is_complete=sort in complete)
        if blobs is not None:
            self._catalogue.put(blobs_row, self._with_lost(owner, blobs, versions.bodies, self._failures.bodies(key)))
        self._catalogue.put(f"{ITEMS_ROW}{partition}", row)
        history_key = history_row(history, f"{escape(self._organisation)}/{key}")
        if self._catalogue.is_shorter(history_key, line.encode()):
            self._catalogue.fail_shorter(f"{self._organisation}/{id}")
        self._catalogue.put(history_key, line.encode())
        return versions.created_ms

    def _items(self, partition: str, latest: Item, complete: Mapping[str, Item]) -> Iterator[Item]:
        """Yield the items of a record up to ``latest``, with the versions ``complete`` in place of the source's."""
        for item in self._index.query(partition, before=number(parse_number(latest.sort) + 1)):
            yield complete.get(item.sort, item)

    def _complete_in_base(self, partition: str, row: bytes) -> Iterator[Item]:
        """Yield each version of the base of which ``row`` has only some of the attributes.

        Only a redaction changes a version, and it changes other attributes too. So the source has lost attributes.
        """
        base = self._catalogue.base
        if base.row(f"{ITEMS_ROW}{partition}") not in (None, row):
            both = merge(*self._catalogue.unshared(partition, row), key=attrgetter("sort"))
            for item, known in pairwise(both):
                if BEFORE_VERSIONS < item.sort == known.sort and item.attributes.items() < known.attributes.items():
                    yield known

    def _with_lost(
        self, owner: str, blobs: bytes, bodies: Collection[BodyRef], of_failures: Collection[BodyRef]
    ) -> bytes:
        """Return the row ``blobs``, with those blobs of the bodies that only the base lists.

        If the parts of a large body are unknown, the row has all blobs of the base.

        Lost blobs of ``bodies`` are failures of the backup. Lost blobs of the record's failures are not, since a
        collection may have deleted these blobs meanwhile.
        """
        lost, are_known = self._lost(owner, blobs, bodies)
        self._catalogue.fail_lost(owner, lost)
        more, are_more_known = self._lost(owner, blobs, of_failures)
        lost |= more
        are_known = are_known and are_more_known
        if are_known and not lost:
            return blobs
        return self._catalogue.with_base(owner, blobs, lost if are_known else None)

    def _lost(self, owner: str, listed: bytes, bodies: Collection[BodyRef]) -> tuple[set[str], bool]:
        """Return the blobs of ``bodies`` that the row ``listed`` lacks, and whether these are all."""
        if self._catalogue.lists_all_of_base(owner, listed):
            known = {item.sort for item in self._catalogue.base_blobs(owner)}
            bodies = [body for body in bodies if f"bodies/{body.address.hex()}" not in known]
        needed, are_known = blobs_of_bodies(self._catalogue.readable, owner, bodies)
        return self._catalogue.unlisted(owner, listed, needed), are_known

    def _is_as_in_base(self, partition: str, row: bytes) -> bool:
        return self._catalogue.may_skip_blobs and self._catalogue.base.row(f"{ITEMS_ROW}{partition}") == row

    def _lists_garbage(self, owner: str, bodies: Collection[BodyRef]) -> bool:
        """Return whether the base lists blobs of a record that belong to none of its ``bodies``."""
        garbage = {item.sort.rpartition("/")[2] for item in self._catalogue.base_blobs(owner)}
        garbage -= {body.address.hex() for body in bodies}
        copies = f"{COPIES}/{owner}/bodies"
        try:
            for body in bodies:
                if garbage and body.digest is not None:
                    addresses = blob_addresses(self._catalogue.repository.blobs, copies, body)
                    garbage -= {address.hex() for address in addresses}
        except Corrupt:
            return True  # the copy of a large body's manifest is damaged, so the parts are unknown
        return bool(garbage)

    def _retain(self, id: str, error: StratalogError) -> bool:
        """Add a failure for a record. Return whether the base has the record. If so, the base's row stays."""
        self._catalogue.fail(f"{self._organisation}/{id}", error.code, str(error))
        partition = record_partition(self._organisation, record_key(id))
        return self._catalogue.base.row(f"{ITEMS_ROW}{partition}") is not None


class _Versions:
    """Yields the items of a record.

    Notes the origin, the time of the first version, the bodies in blobs, the damaged versions, the first missing
    version and the last version.
    """

    def __init__(self, items: Iterator[Item]) -> None:
        self._items = items
        self._floor = Floor()
        self._gap: int | None = None
        self._next = 0
        self.last = Item("", "", {})
        self.faults: dict[str, str] = {}
        """The faults of the damaged versions, by sort."""

        self.bodies: set[BodyRef] = set()
        self.origin = ""
        self.created_ms = 0

    def __iter__(self) -> Iterator[Item]:
        for item in self._items:
            if item.sort == FLOOR_SORT:
                self._floor = floor_from_item(item)
                self.origin = self._floor.origin
            elif item.sort > BEFORE_VERSIONS:
                self._note(item)
            yield item

    def missing(self, latest: Item) -> int | None:
        """Return the first version from the oldest retained to ``latest`` that was not yielded; None if there is none.

        Call it after the items.
        """
        if self._gap is None and self._next != parse_number(latest.sort) + 1:
            return self._expected()
        return self._gap

    def _expected(self) -> int:
        return self._next or self._floor.version

    def _note(self, item: Item) -> None:
        version, fault = parse_number(item.sort), shape_fault(item)
        self.created_ms = self.created_ms or (0 if fault else int(required(item, "c")))
        if version < self._floor.version:
            return
        if self._gap is None and version != self._expected():
            self._gap = self._expected()
        self._next = version + 1
        self.last = item
        if fault:
            self.faults[item.sort] = fault
        elif "x" in item.attributes:
            self.bodies.add(decode_ref(item.attributes["x"]))
        if version == 1:
            self.origin = str(item.attributes.get("og", ""))

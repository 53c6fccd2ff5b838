"""The blobs that copied items refer to, and the search for those that the copy lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property

from stratalog.errors import Corrupt
from stratalog.keys import entries_partition, family_partition, parse_number, segments_partition, snapshots_partition
from stratalog.limits import BACKUP_BLOBS_REMEMBERED_MAX
from stratalog.log.bodies import blob_addresses
from stratalog.log.environment import Environment
from stratalog.log.listed_items import ListedItem, get_listed, list_items
from stratalog.log.segments import segment_holding
from stratalog.maintenance.damage import item_key, item_kind
from stratalog.maintenance.marks import Marking, Reached
from stratalog.maintenance.mirror import Fail, Mirror, missing
from stratalog.ports.blobs import Blobs
from stratalog.ports.index import Item, Put, Write
from stratalog.records.floor import FLOOR_SORT, floor_from_item
from stratalog.records.versions import decode_ref

__all__ = ["CopiedReferences"]

Key = tuple[str, str]
"""The partition and sort key of an item."""

FOLDERS = ("archive", "bodies", "chunks")
"""The folders of blobs that refer to other blobs."""


class CopiedReferences:
    """Notes the blobs of one owner that copied items and blobs refer to. `end` names each item whose blob was lost.

    The copy gives each blob to `copied` while it has the blob's body, so no blob is read a second time. Only if a blob
    refers to a lost blob, `end` reads the items and blobs of the source again, to find the items above that blob: it
    may be garbage, and then the lost blob was collected.

    The blobs must be copied before `end`. Of the items that refer to the same lost blob, one is named.
    """

    def __init__(self, mirror: Mirror, owner: str, fail: Fail) -> None:
        self._mirror = mirror
        self._source = mirror.source
        self._target = mirror.target
        self._owner = owner
        self._fail = fail
        self._needed: dict[str, Key | None] = {}
        self._lost: dict[str, Key | None] = {}
        # An index with joint commits is on this machine or near it. Then its blobs are probably nearer than the others.
        self._nearer = self._target.blobs if self._target.index.joint_commits else self._source.blobs
        self._marked: set[str] = set()

    def copied_of_record(self, key: str, body: bytes) -> None:
        """Note that the target now has a blob of a record, which refers to no other blob."""
        self._needed.pop(key.removeprefix(f"{self._owner}/"), None)

    def copied(self, key: str, body: bytes) -> None:
        """Note the references of a blob that the target now has."""
        name = key.removeprefix(f"{self._owner}/")
        self._needed.pop(name, None)
        self._marked.clear()
        self._marking.mark_blob(name, body)
        self._need(self._marked, None)

    def read_target(self) -> None:
        """Note the references of all blobs that the target has."""
        for folder in FOLDERS:
            keys = (stat.key for stat in self._target.blobs.list(f"{self._owner}/{folder}/"))
            for key, body in self._mirror.bodies(self._nearer, keys):
                self.copied(key, body)

    def listed(self, items: Iterable[ListedItem]) -> Iterator[ListedItem]:
        """Yield the items, and note the references of each."""
        for listed in items:
            if listed.item is not None:
                self._note(listed.item)
            yield listed

    def written(self, writes: Sequence[Write]) -> None:
        """Note the references of the items that are put."""
        for write in writes:
            if isinstance(write, Put):
                self._note(write.item)

    def end(self) -> None:
        """Name each item that refers to a blob that neither store has, unless the item is forgotten meanwhile."""
        self._settle(self._target.blobs)
        below = set[str]()
        for name, key in self._lost.items():
            if self._source.blobs.stat(f"{self._owner}/{name}") is not None:
                continue
            item = get_listed(self._source.index, *key).item if key is not None else None
            if item is None or name not in self._references_in(item) or not self._name(name, item):
                below.add(name)
        if below:
            self._search(below)
        self._lost.clear()

    @cached_property
    def _marking(self) -> Marking:
        # The target may not have the manifest of a large body yet.
        return self._marks(self._source.blobs, self._marked.add, follows=False)

    def _note(self, item: Item) -> None:
        self._need(self._references_in(item), (item.partition, item.sort))

    def _references_in(self, item: Item) -> set[str]:
        """Return the blobs that an item itself refers to. The mirror names a damaged reference."""
        self._marked.clear()
        if item_kind(item) != "record version":
            self._marking.mark_item(item)
            return self._marked
        with suppress(Corrupt):
            ref = decode_ref(item.attributes["x"]) if "x" in item.attributes else None
            for address in blob_addresses(self._source.blobs, f"{self._owner}/bodies", ref) if ref else ():
                self._marked.add(f"bodies/{address.hex()}")
        return self._marked

    def _need(self, names: Iterable[str], key: Key | None) -> None:
        for name in names:
            # A later item is forgotten later. So take its key, if it has one.
            self._needed[name] = key or self._needed.get(name)
        if len(self._needed) >= BACKUP_BLOBS_REMEMBERED_MAX:
            self._settle(self._target.blobs, self._source.blobs)  # the target does not have all blobs yet

    def _settle(self, *listed: Blobs) -> None:
        """Move the needed blobs that none of these blobs list to the lost ones, and forget the others.

        The mirror names a damaged blob. A blob that was put after the listing of the blobs belongs to a later write of
        the source, or to the next copy.
        """
        names = sorted(self._needed)
        for blobs in listed:
            if names:
                names = list(missing(iter(names), self._names(blobs)))
        for name in names:
            self._lost[name] = self._needed[name] or self._lost.get(name)
        self._needed.clear()

    def _names(self, blobs: Blobs) -> Iterator[str]:
        return (stat.key.removeprefix(f"{self._owner}/") for stat in blobs.list(f"{self._owner}/"))

    def _search(self, lost: set[str]) -> None:
        """Name an item of the source that leads to each lost blob, if there is one."""

        def mark(name: str) -> None:
            if name in lost and self._name(name, item):
                lost.remove(name)

        marking = self._marks(self._nearer, mark, follows=True)
        for item in self._items():
            marking.mark_item(item)
            if not lost:
                return

    def _items(self) -> Iterator[Item]:
        """Yield the items of the source that may refer to blobs of the family."""
        for member in self._listed(family_partition(self._owner)):
            partitions = [snapshots_partition(member.sort), segments_partition(member.sort)]
            for segment in self._listed(segments_partition(member.sort)):
                partitions.append(entries_partition(member.sort, parse_number(segment.sort)))
            for partition in partitions:
                yield from (listed.item for listed in self._listed(partition) if listed.item is not None)

    def _listed(self, partition: str) -> Iterator[ListedItem]:
        return (listed for listed in list_items(self._source.index, partition) if listed.position is None)

    def _marks(self, blobs: Blobs, mark: Callable[[str], None], *, follows: bool) -> Marking:
        """Return a marking that skips blobs and items that cannot be read: the mirror names them."""
        readable = Environment(self._source.index, blobs, self._source.clock)
        return Marking(readable, self._owner, mark, Reached(), set(), lambda: None, lambda error: None, follows=follows)

    def _name(self, name: str, item: Item) -> bool:
        """Name an item whose blob was lost. Return whether the item still needs the blob."""
        key = f"{self._owner}/{name}"
        if not self._is_retained(item):
            return False
        self._fail(item_key(item.partition, item.sort), Corrupt("an item refers to a missing blob", key=key))
        return True

    def _is_retained(self, item: Item) -> bool:
        """Return whether the source still has the item, and has not forgotten its segment or version."""
        index, kind = self._source.index, item_kind(item)
        with suppress(Corrupt):  # the mirror names a damaged segment record or floor
            if kind == "entry":
                segment = segment_holding(index, item.partition.rpartition("/")[0], parse_number(item.sort))
                if segment is None or segment.is_forgotten:
                    return False
            elif kind == "record version":
                floor = floor_from_item(index.get(item.partition, FLOOR_SORT))
                if parse_number(item.sort) < floor.version:
                    return False
        return get_listed(index, item.partition, item.sort).item == item

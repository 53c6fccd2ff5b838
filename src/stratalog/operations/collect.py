"""Collecting blobs: those of a family of logs that nothing refers to, by marking from the roots.

The order makes it safe beside writers. Candidates are listed first, and only those older than any commit under way can
be: a writer puts a blob again whenever it refers to it, which makes it young. Then the references are read in the order
in which they move when history is forgotten: a log before its forks, its entries before its snapshots, and those in
ascending order; so what leaves a place that is still to be read has come to one that is read later. What is still
unmarked is looked at again and deleted by its stamp, which a put in between has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from stratalog.codec import decode, encode
from stratalog.documents.commits import COMMIT
from stratalog.documents.snapshots import roots_of
from stratalog.documents.values import as_reference
from stratalog.errors import Corrupt
from stratalog.keys import entries_partition, family_partition
from stratalog.limits import GRACE_SECONDS, OBSERVATION_SECONDS_MAX
from stratalog.log.archive import read_archive
from stratalog.log.bodies import BodyRef, blob_addresses
from stratalog.log.directory import LOGS, list_directory
from stratalog.log.entries import Entry, entry_from_item
from stratalog.log.names import read_name
from stratalog.log.place import Place
from stratalog.log.segments import Segment, list_segments, segment_holding
from stratalog.log.snapshots import list_snapshots
from stratalog.ports.blobs import BlobStat
from stratalog.ports.index import Item
from stratalog.tree.chunks import Chunks
from stratalog.tree.nodes import Leaf, Node, Root
from stratalog.tree.reach import addresses

__all__ = ["Collected", "collect_family", "owners"]


class Collected(msgspec.Struct, frozen=True):
    """What a collection found: ``garbage`` is what it deleted, or would have in a dry run."""

    owner: str
    kept: int
    young: int
    garbage: tuple[str, ...]
    garbage_bytes: int


def owners(place: Place, organisation: str) -> Iterator[str]:
    """The owners of blobs among an organisation's living logs, each once."""
    seen: set[str] = set()
    for listing in list_directory(place.index, organisation, LOGS):
        record = read_name(place.index, organisation, listing.id)
        if record is not None and record.owner not in seen:
            seen.add(record.owner)
            yield record.owner


def collect_family(place: Place, owner: str, *, dry_run: bool = False) -> Collected:
    """Delete the blobs under ``owner`` that no log of its family refers to. Restartable at any point.

    Raises Corrupt, and deletes nothing, for a log whose snapshots are another model's: what they refer to is not known.
    """
    now_ms = place.clock.wall_ms()
    stats = list(place.blobs.list(f"{owner}/"))
    old = [stat for stat in stats if now_ms - stat.modified_ms > (OBSERVATION_SECONDS_MAX + GRACE_SECONDS) * 1000]
    marked = _Marking(place, owner).run() if old else set()
    garbage = [stat for stat in old if stat.key not in marked]
    deleted = [stat for stat in garbage if dry_run or _delete(place, stat)]
    place.counters["collected blob"] += 0 if dry_run else len(deleted)
    return Collected(
        owner=owner,
        kept=len(old) - len(garbage),
        young=len(stats) - len(old),
        garbage=tuple(stat.key for stat in deleted),
        garbage_bytes=sum(stat.stored_bytes for stat in deleted),
    )


def _delete(place: Place, stat: BlobStat) -> bool:
    """Look again, and delete the generation that was looked at first."""
    again = place.blobs.stat(stat.key)
    return again is not None and again.stamp == stat.stamp and place.blobs.delete(stat.key, stat.stamp)


class _Marking:
    """Gathers the keys of every blob that the logs of a family refer to."""

    def __init__(self, place: Place, owner: str) -> None:
        self._place = place
        self._owner = owner
        self._chunks = Chunks(place.blobs, owner)
        self._seen: set[bytes] = set()
        self._marked: set[str] = set()

    def run(self) -> set[str]:
        members = list(self._place.index.query(family_partition(self._owner)))
        for member in sorted(members, key=_depth):
            self._mark_log(member.sort)
        return self._marked

    def _mark_log(self, prefix: str) -> None:
        for segment in list_segments(self._place.index, prefix):
            for item in self._items(prefix, segment):
                self._mark_entry(item)
        for snapshot in list_snapshots(self._place.index, prefix):
            roots = roots_of(snapshot)
            for root in (roots.content, roots.clients, roots.graves):
                self._mark_tree(root)

    def _items(self, prefix: str, segment: Segment) -> Iterable[Item]:
        """A segment's items. One that was marked while they were read is looked at again, since some may be gone."""
        if segment.archive:
            self._mark_archive(segment.archive)
            return read_archive(self._place, prefix, self._owner, segment)
        if segment.marked_ms:
            return ()
        items = list(self._place.index.query(entries_partition(prefix, segment.first)))
        again = segment_holding(self._place.index, prefix, segment.first)
        if again is None or again.first != segment.first:
            return ()
        return items if not again.marked_ms else self._items(prefix, again)

    def _mark_archive(self, archive: BodyRef) -> None:
        with suppress(Corrupt):  # it is made anew before its segment is freed
            self._mark_body("archive", archive)

    def _mark_entry(self, item: Item) -> None:
        if "k" in item.attributes:
            return
        external: Any = item.attributes.get("x")
        if external is not None:
            self._mark_body("bodies", _decode_ref(external))
        for stored in _stored_values(entry_from_item(item, self._place.blobs, self._owner)):
            self._mark_value(stored)

    def _mark_tree(self, root: Root) -> None:
        if root.inline is not None:
            self._mark_node(self._chunks.top(root))
        for address in addresses(self._chunks, root, self._seen):
            self._seen.add(address)
            self._marked.add(f"{self._owner}/chunks/{address.hex()}")
            self._mark_node(self._chunks.load(address))

    def _mark_node(self, node: Node) -> None:
        if isinstance(node, Leaf):
            for stored in node.values:
                self._mark_value(stored)

    def _mark_value(self, stored: bytes) -> None:
        reference = as_reference(stored) if stored else None
        if reference is not None:
            self._mark_body(reference.place, reference.body)

    def _mark_body(self, place: str, body: BodyRef) -> None:
        prefix = f"{self._owner}/{place}"
        if f"{prefix}/{body.address.hex()}" not in self._marked:
            self._marked.update(
                f"{prefix}/{address.hex()}" for address in blob_addresses(self._place.blobs, prefix, body)
            )


def _depth(member: Item) -> int:
    """How many ancestors a log of the family has."""
    return int(member.attributes["d"])


def _stored_values(entry: Entry) -> Iterator[bytes]:
    """What the slots and large arguments of a document's entry hold."""
    for event in entry.events:
        if event.type != COMMIT:
            continue
        mutations, patch, _, _ = event.data
        yield from (change[1] for change in patch if change[1] is not None)
        for recorded in mutations:
            if recorded[5] is not None:
                args = decode(recorded[3])
                yield from map(encode, args.values() if isinstance(args, dict) else [args])


_decode_ref = msgspec.msgpack.Decoder(BodyRef).decode

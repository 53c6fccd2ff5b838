"""Marking: find every blob that a family of logs refers to, by reading in the order in which references move.

When history is forgotten, a reference moves from a log to its forks, from entries to snapshots, or from a snapshot to a
newer snapshot (decision 0004). A marking reads these places in the same order. If a reference has left a place before
the marking reads that place, the reference is in a place that the marking reads later. So a marking finds every
reference, and may be interrupted and resumed after any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import NoReturn

import msgspec

from stratalog.codec import decode, encode
from stratalog.documents.commits import COMMIT, commit_of
from stratalog.documents.snapshots import roots_of
from stratalog.documents.values import ValueReference, as_reference
from stratalog.errors import Corrupt, NotFound, StratalogError, Unsupported
from stratalog.keys import entries_partition, family_partition, number, parse_number
from stratalog.limits import COLLECT_CHUNKS_SEEN_MAX
from stratalog.log.app_snapshots import Manifest, app_snapshot_addresses, manifest_of
from stratalog.log.archive import decode_archive, read_archive
from stratalog.log.bodies import BodyRef, blob_addresses, decode_body_ref
from stratalog.log.entries import Event, decode_events, entry_from_item
from stratalog.log.environment import Environment
from stratalog.log.family_members import depth_of
from stratalog.log.listed_items import list_items
from stratalog.log.names import read_name_of
from stratalog.log.segments import Segment, list_segments, segment_from_item, segment_holding
from stratalog.log.snapshots import Snapshot, list_snapshots, newest_snapshot, snapshot_from_item
from stratalog.maintenance.damage import item_kind
from stratalog.ports.index import Item
from stratalog.ports.stored_attributes import decode_attribute
from stratalog.tree.chunks import Chunks
from stratalog.tree.nodes import Leaf, Node, Root, decode_node

__all__ = ["Marking", "Reached", "references_in"]


class Reached(msgspec.Struct, array_like=True):
    """The progress of a marking: the logs that are done, and the position in the current log."""

    done: list[str] = []
    log: str = ""
    segment: int = 0
    """The current log's segments that begin below this version are done."""

    snapshot: int = -1
    """The current log's snapshots below this version are done; -1 while its segments are being read."""


def _raise(error: StratalogError) -> NoReturn:
    raise error


class Marking:
    """Calls ``mark`` with the key, relative to the owner, of each blob that a log of the family refers to.

    ``reached`` is the progress. ``seen`` is a set of chunks whose whole subtrees were walked; the marking clears it
    when it has too many. ``reached`` and ``seen`` change only after the work that they record, so another marking can
    resume from them at any moment. ``step`` is called between reads, and may raise an error to interrupt the marking.

    ``fail`` is called with the error of an entry, snapshot or blob that cannot be read, but not of an entry that is not
    above the floor. By default it raises the error. If it returns, the marking continues without the references in the
    unreadable object, and ``seen`` gets an unreadable chunk and the chunks above it. `run` may also raise the error of
    an unreadable archive.

    Without ``follows`` a marking reads no chunk, and no body or archive that is one blob: the caller gives it these
    blobs, by `mark_blob`.
    """

    def __init__(
        self,
        environment: Environment,
        owner: str,
        mark: Callable[[str], None],
        reached: Reached,
        seen: set[bytes],
        step: Callable[[], None],
        fail: Callable[[StratalogError], None] = _raise,
        references_of: Callable[[BodyRef], Sequence[ValueReference] | None] = lambda body: None,
        *,
        follows: bool = True,
    ) -> None:
        """``references_of`` returns the references in an entry's body if the caller knows them; else None."""
        self._follows = follows
        self.reached = reached
        self._environment = environment
        self._owner = owner
        self._mark = mark
        self._seen = seen
        self._step = step
        self._fail = fail
        self._references_of = references_of
        self._chunks = Chunks(environment.blobs, owner)
        self._manifests: set[tuple[str, bytes]] = set()

    def run(self) -> None:
        """Mark to the end. Raises Corrupt or NotFound for an unreadable reference, and the errors of the ports."""
        while unread := self._unread():
            for prefix in unread:
                self._mark_log(prefix)

    def mark_item(self, item: Item) -> None:
        """Mark what one item refers to: an entry, a snapshot, or the record of a segment with an archive."""
        kind, prefix = item_kind(item), item.partition.rpartition("/")[0]
        try:
            if kind == "entry":
                self._mark_entry(item)
            elif kind == "snapshot":
                self._mark_snapshot(snapshot_from_item(prefix, item))
            elif kind == "segment record" and "a" in item.attributes:
                for archived in self._items(prefix, segment_from_item(item)):
                    self._mark_entry(archived)
        except (Corrupt, NotFound, Unsupported) as exc:
            self._fail(exc)

    def mark_blob(self, name: str, body: bytes) -> None:
        """Mark what a chunk, the body of an entry or an archive refers to itself. Skip a blob that has another form."""
        folder = name.partition("/")[0]
        with suppress(StratalogError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if folder == "chunks":
                self._mark_below(decode_node(body))
            elif folder == "bodies":
                for reference in references_in(decode_events(body), 0):
                    self._mark_body(reference.folder, reference.body)
            elif folder == "archive":
                for version, attributes in decode_archive(body):
                    self._mark_entry(Item("", number(version), attributes))

    def _unread(self) -> list[str]:
        """Return the family's logs that are not read yet: the current log first, then parents before their forks.

        `run` calls this method until no log is left: a new fork may have taken over references that its parent has
        dropped.
        """
        done = set(self.reached.done)
        members = [
            item for item in self._environment.index.query(family_partition(self._owner)) if item.sort not in done
        ]
        return [item.sort for item in sorted(members, key=lambda item: (item.sort != self.reached.log, depth_of(item)))]

    def _mark_log(self, prefix: str) -> None:
        reached, index = self.reached, self._environment.index
        if reached.log != prefix:
            reached.log, reached.segment, reached.snapshot = prefix, 0, -1
        if reached.snapshot < 0:
            for segment in list_segments(index, prefix, first=reached.segment):
                self._mark_segment(prefix, segment)
                reached.segment = segment.first + 1
            reached.snapshot = 0
        # Query one snapshot at a time. A page that was read ahead could miss a newer snapshot which has taken over the
        # references of the current snapshot.
        while (snapshot := next(list_snapshots(index, prefix, first=reached.snapshot, limit=1), None)) is not None:
            self._mark_snapshot(snapshot)
            reached.snapshot = snapshot.version + 1
        assert reached.log == prefix, "a log is done after all of it was read"
        reached.done.append(prefix)

    def _mark_segment(self, prefix: str, segment: Segment) -> None:
        """Mark a segment's entries, and mark them again if the segment was archived or forgotten meanwhile."""
        failure: Exception | None = None
        while True:
            try:
                for item in self._items(prefix, segment):
                    self._mark_entry(item)
            except (Corrupt, NotFound) as exc:
                failure = exc
            again = segment_holding(self._environment.index, prefix, segment.first)
            if again is None or again.first != segment.first:
                return
            if again.marked_ms == segment.marked_ms:
                if failure is not None:
                    raise failure
                return
            segment, failure = again, None

    def _items(self, prefix: str, segment: Segment) -> Iterable[Item]:
        if segment.archive:
            self._mark_archive(segment.archive)
            if self._is_given(segment.archive):
                return ()
            return read_archive(self._environment, prefix, self._owner, segment)
        return () if segment.marked_ms else self._entries(prefix, segment)

    def _entries(self, prefix: str, segment: Segment) -> Iterator[Item]:
        partition = entries_partition(prefix, segment.first)
        for listed in list_items(self._environment.index, partition):
            if listed.item is not None:
                yield listed.item
            elif listed.position is not None or not self._is_forgotten(prefix, listed.sort):
                raise Corrupt(listed.fault, partition=partition, sort=listed.sort)

    def _is_forgotten(self, prefix: str, sort: str) -> bool:
        """Return whether a version is not above the floor, so that nothing needs its references."""
        with suppress(Corrupt):
            record = read_name_of(self._environment.index, prefix)
            return record is not None and parse_number(sort) <= record.floor
        return False

    def _is_given(self, body: BodyRef) -> bool:
        """Return whether `mark_blob` marks what a body or archive refers to."""
        return not self._follows and body.digest is None

    def _mark_archive(self, archive: BodyRef) -> None:
        with suppress(Corrupt):  # a damaged archive is written again before its segment is freed
            self._mark_body("archive", archive)

    def _mark_entry(self, item: Item) -> None:
        self._step()
        if "k" in item.attributes:
            return
        try:
            body = decode_attribute(item, "x", decode_body_ref, "an entry") if "x" in item.attributes else None
            if body is not None:
                self._mark_body("bodies", body)
            if body is not None and self._is_given(body):
                return
            known = None if body is None else self._references_of(body)
            for reference in self._references_in(item) if known is None else known:
                self._mark_body(reference.folder, reference.body)
        except (Corrupt, NotFound) as exc:
            if not self._is_forgotten(item.partition.rpartition("/")[0], item.sort):
                self._fail(exc)

    def _references_in(self, item: Item) -> list[ValueReference]:
        """Return the references in an entry.

        An event of an application may have the type of a document's commit, but other data. It has no references.
        """
        entry = entry_from_item(item, self._environment.blobs, self._owner)
        try:
            return list(references_in(entry.events, entry.version))
        except Corrupt:
            prefix = item.partition.rpartition("/")[0]
            record = read_name_of(self._environment.index, prefix)
            if record is not None and record.kind != "document":
                return []
            raise

    def _mark_snapshot(self, snapshot: Snapshot) -> None:
        try:
            if (manifest := manifest_of(snapshot)) is not None:
                self._mark_parts(snapshot, manifest)
                return
            roots = roots_of(snapshot)
            for root in (roots.content, roots.clients, roots.tombstones):
                self._mark_tree(root)
        except (Corrupt, NotFound) as exc:
            again = newest_snapshot(self._environment.index, snapshot.prefix, snapshot.version)
            if again is not None and again.id == snapshot.id:
                self._fail(exc)

    def _mark_parts(self, snapshot: Snapshot, manifest: Manifest) -> None:
        """Mark the parts of an app snapshot, and the list of parts if it is a body."""
        if manifest.body is not None:
            self._mark_body("app-snapshots", manifest.body)
        for address in app_snapshot_addresses(self._environment.blobs, self._owner, snapshot):
            self._mark(f"app-snapshots/{address.hex()}")

    def _mark_tree(self, root: Root) -> None:
        if root.inline is not None:
            self._mark_below(self._chunks.top(root))
        elif root.address not in self._seen:
            self._mark_subtree(root.address, lambda: self._chunks.top(root))

    def _mark_below(self, node: Node) -> None:
        self._step()
        if isinstance(node, Leaf):
            for stored in node.values:
                self._mark_value(stored)
            return
        for position, address in enumerate(node.addresses):
            if address not in self._seen:
                self._mark_subtree(address, partial(self._chunks.child, node, position))

    def _mark_subtree(self, address: bytes, load: Callable[[], Node]) -> None:
        if not self._follows:
            self._mark(f"chunks/{address.hex()}")
            return
        try:
            self._mark_below(load())
        except (Corrupt, NotFound) as exc:
            self._fail(exc)
        self._mark_chunk(address)

    def _mark_chunk(self, address: bytes) -> None:
        """Mark a chunk after all its children, so that ``seen`` has no chunk whose subtree is still to be walked."""
        self._mark(f"chunks/{address.hex()}")
        if len(self._seen) >= COLLECT_CHUNKS_SEEN_MAX:
            self._seen.clear()
        self._seen.add(address)

    def _mark_value(self, stored: bytes) -> None:
        if (reference := _reference(stored)) is not None:
            self._mark_body(reference.folder, reference.body)

    def _mark_body(self, folder: str, body: BodyRef) -> None:
        if body.digest is None:
            self._mark(f"{folder}/{body.address.hex()}")
        elif (folder, body.address) not in self._manifests:
            try:
                for address in blob_addresses(self._environment.blobs, f"{self._owner}/{folder}", body):
                    self._mark(f"{folder}/{address.hex()}")
            except Corrupt as exc:
                self._fail(exc)
            self._manifests.add((folder, body.address))


def _reference(stored: bytes) -> ValueReference | None:
    return as_reference(stored) if stored else None


def references_in(events: Iterable[Event], version: int) -> Iterator[ValueReference]:
    """Yield the references in the events of entry ``version``. Raises Corrupt for a commit of another form."""
    return (reference for stored in stored_values(events, version) if (reference := _reference(stored)) is not None)


def stored_values(events: Iterable[Event], version: int) -> Iterator[bytes]:
    """Yield the stored values in a document's entry: the patch's values, and the large arguments of the mutations.

    Raises Corrupt for a commit of another form.
    """
    for event in events:
        if event.type != COMMIT:
            continue
        commit = commit_of(event, version)
        yield from (change.value for change in commit.patch if change.value is not None)
        for recorded in commit.mutations:
            if recorded.payload is not None:
                try:
                    args = decode(recorded.args)
                except Corrupt as exc:
                    raise Corrupt(exc.message, version=version, **exc.details) from exc
                yield from map(encode, args.values() if isinstance(args, dict) else [args])

"""State: a document at one version. Immutable and shared between threads; a commit makes the next one.

It is the three trees of a snapshot, and over each the changes of the entries since: a *view* of the log.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, takewhile

import msgspec

from stratalog.documents.fold import BINDING, COLLECTION, GONE, GROUP, RESUMED, Fold, members_prefix
from stratalog.errors import NotFound, Unavailable
from stratalog.log import Entry
from stratalog.protocol.keys import collection_of
from stratalog.tree.chunks import Chunks
from stratalog.tree.lookup import leaf_of, scan
from stratalog.tree.nodes import EMPTY, Leaf, Root, Slot

__all__ = ["EMPTY_ROOTS", "ClientState", "Layer", "Roots", "State"]

# Of numbers (above, up to), in order.
Ranges = tuple[tuple[int, int], ...]
_UNKNOWN = Slot(GONE, 0)
_NONE: Mapping[str, Slot] = {}
RECENT_MIN = 64
RECENT_PART = 16
KNOWN_MAX = 1024
NEAR_MAX = 32


class Roots(msgspec.Struct, frozen=True, array_like=True):
    """What a snapshot holds: three trees, and numbers that would need a walk to find."""

    content: Root
    clients: Root
    tombstones: Root
    fields_bytes: int = 0
    floor: int = 0
    orders: tuple[int, int] = (0, 0)
    """How far the orders of cookies are ahead of versions, and the first order since that is so; see `resumption`."""


EMPTY_ROOTS = Roots(EMPTY, EMPTY, EMPTY)


class ClientState(msgspec.Struct, frozen=True, array_like=True):
    """The newest mutation of a client, applied or rejected."""

    id: int
    payload: bytes
    merged: tuple[int, bytes] | None = None
    """Of a merge: the fork's version that holds the mutation, and the fork's hash there; see `Merged`."""


class Layer:
    """One tree with changes over it. Adding changes makes another layer and leaves this one as it is."""

    __slots__ = ("_known", "_near", "_old", "_order", "_recent", "_root")

    def __init__(
        self,
        root: Root,
        old: Mapping[str, Slot] = _NONE,
        recent: Mapping[str, Slot] = _NONE,
        known: dict[str, Slot | None] | None = None,
        order: _Order | None = None,
        near: _Near | None = None,
    ) -> None:
        self._root = root
        self._old = old
        self._recent = recent
        self._known = {} if known is None else known
        self._order = order or _Order()
        self._near = near or _Near()

    def changed(self, changes: Mapping[str, Slot]) -> Layer:
        """The layer after ``changes``. Most are copied into a small map; now and then that one into the large one."""
        if not changes:
            return self
        old = self._old
        recent = {**self._recent, **changes}
        if len(recent) <= RECENT_MIN or len(recent) <= len(old) // RECENT_PART:
            return Layer(self._root, old, recent, self._known, self._order, self._near)
        return Layer(self._root, {**old, **recent}, _NONE, self._known, None, self._near)

    def changes(self, after: int = 0) -> dict[str, Slot]:
        """The changes over the tree by versions above ``after``; a deleted key has the value `GONE`."""
        return {key: slot for key, slot in {**self._old, **self._recent}.items() if slot.version > after}

    def get(self, chunks: Chunks, key: str) -> Slot | None:
        """The slot of ``key``."""
        slot = self._recent.get(key) or self._old.get(key)
        if slot is not None:
            return slot if slot.value else None
        return self._in_tree(chunks, key) if self._root.count else None

    def scan(self, chunks: Chunks, prefix: str, after: str | None = None) -> Iterator[tuple[str, Slot]]:
        """Keys that start with ``prefix`` and come after ``after``, in order, with their slots."""
        recent = sorted((key, 0, slot) for key, slot in self._recent.items() if _is_in(key, prefix, after))
        old = ((key, 1, self._old[key]) for key in self._order.keys(self._old, prefix, after))
        below = ((key, 2, slot) for key, slot in scan(chunks, self._root, prefix=prefix, after=after))
        last = None
        for key, _, slot in heapq.merge(recent, old, below):
            if key != last and slot.value:
                yield key, slot
            last = key

    def _in_tree(self, chunks: Chunks, key: str) -> Slot | None:
        """What the tree says, remembered for all layers over it: readers ask for the same keys several times."""
        known = self._known.get(key, _UNKNOWN)
        if known is not _UNKNOWN:
            return known
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        slot = self._known[key] = self._near.get(chunks, self._root, key)
        return slot


class _Order:
    """The order of a layer's old changes, found at the first scan and kept for all layers that share them."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: list[str] | None = None

    def keys(self, changes: Mapping[str, Slot], prefix: str, after: str | None) -> Iterator[str]:
        """The keys that start with ``prefix`` and come after ``after``, in order."""
        if self._keys is None:
            self._keys = sorted(changes)
        start = bisect_left(self._keys, prefix)
        if after is not None:
            start = max(start, bisect_right(self._keys, after))
        return takewhile(lambda key: key.startswith(prefix), islice(self._keys, start, None))


class _Near:
    """The leaf last looked at in each collection: keys are often asked for in their order."""

    __slots__ = ("_leaves",)

    def __init__(self) -> None:
        self._leaves: dict[str, tuple[str, Leaf]] = {}

    def get(self, chunks: Chunks, root: Root, key: str) -> Slot | None:
        """What the tree holds under ``key``."""
        collection = collection_of(key)
        near = self._leaves.get(collection)
        if near is not None and near[0] < key <= near[1].keys[-1]:
            return near[1].slot(key)
        near = leaf_of(chunks, root, key)
        if near is None:
            return None
        if len(self._leaves) >= NEAR_MAX:
            self._leaves.clear()
        if near[1].keys:
            self._leaves[collection] = near
        return near[1].slot(key)


class State:
    """A document at ``version``: content, clients and tombstones."""

    __slots__ = (
        "chunks",
        "clients",
        "content",
        "fields_bytes",
        "floor",
        "hash",
        "orders",
        "roots",
        "snapshot_version",
        "stale",
        "tombstones",
        "version",
    )

    def __init__(
        self,
        chunks: Chunks,
        version: int,
        hash: bytes,
        snapshot_version: int,
        roots: Roots,
        layers: tuple[Layer, Layer, Layer],
    ) -> None:
        self.chunks = chunks
        self.version = version
        self.hash = hash
        """Names the history up to the version."""

        self.snapshot_version = snapshot_version
        self.roots = roots
        self.content, self.clients, self.tombstones = layers
        self.fields_bytes = roots.fields_bytes
        self.floor = roots.floor
        self.orders = roots.orders
        self.stale = False
        """Whether a chunk beneath was found to be gone: who keeps the state lets go of it."""

    @classmethod
    def at_snapshot(cls, chunks: Chunks, version: int, hash: bytes, roots: Roots) -> State:
        """The state that a snapshot holds."""
        layers = (Layer(roots.content), Layer(roots.clients), Layer(roots.tombstones))
        return cls(chunks, version, hash, version, roots, layers)

    @property
    def order(self) -> int:
        """The order of a cookie of this version: it grows with each version, and passes what a lost branch gave out."""
        return self.version + self.orders[0]

    def slot(self, key: str) -> Slot | None:
        """What stands under a key of the content."""
        try:
            return self.content.get(self.chunks, key)
        except NotFound as exc:
            raise self._gone() from exc

    def scan(self, prefix: str = "", after: str | None = None) -> Iterator[tuple[str, Slot]]:
        """The content's keys that start with ``prefix``, in order."""
        try:
            yield from self.content.scan(self.chunks, prefix, after)
        except NotFound as exc:
            raise self._gone() from exc

    def changed_in(self, key: str, slot: Slot | None = _UNKNOWN) -> int:
        """The version that changed ``key`` last; negative where it deleted it; 0 where none is known.

        ``slot`` spares a caller who knows what stands there that look.
        """
        if slot is _UNKNOWN:
            slot = self.slot(key)
        if slot is not None:
            return slot.version
        tombstone = self._reading(self.tombstones, key)
        return -tombstone.version if tombstone and tombstone.version > self.floor else 0

    def collection_version(self, collection: str) -> int:
        """The newest version that changed a collection, deletions included; 0 for one never used."""
        slot = self._reading(self.tombstones, COLLECTION + collection)
        return slot.version if slot else 0

    def client(self, client: str) -> ClientState | None:
        """The newest mutation of a client."""
        slot = self._reading(self.clients, client)
        return _decode_client(slot.value) if slot else None

    def binding(self, client: str) -> tuple[str, str] | None:
        """The group and owner that a client was bound to at first sight."""
        slot = self._reading(self.clients, BINDING + client)
        return _decode_binding(slot.value) if slot else None

    def lost(self, client: str) -> Ranges:
        """The numbers of a client's mutations that were confirmed, and went with lost branches."""
        slot = self._reading(self.clients, RESUMED + client)
        return _decode_lost(slot.value) if slot else ()

    def members(self, group: str) -> Iterator[str]:
        """The clients of a group, in order. Those without a group are nobody's members."""
        prefix = members_prefix(group)
        try:
            for key, _ in self.clients.scan(self.chunks, prefix):
                yield key.removeprefix(prefix)
        except NotFound as exc:
            raise self._gone() from exc

    def group_owner(self, group: str) -> str | None:
        """Who owns a group: the owner of its clients, since nobody else may join. None for one without clients."""
        first = next(self.members(group), None)
        binding = None if first is None else self.binding(first)
        return binding[1] if binding else None

    def group_collected(self, group: str) -> bool:
        """Whether the clients of a group were collected."""
        return self._reading(self.clients, GROUP + group) is not None

    def client_ids(self) -> Iterator[tuple[str, int]]:
        """Every client with the number of its newest mutation."""
        for key, slot in self.clients.scan(self.chunks, ""):
            if not key.startswith("\0"):
                yield key, _decode_client(slot.value).id

    def after(self, entries: Iterable[Entry], *, clients: bool = True) -> State:
        """The state after ``entries``, which follow this version; ``clients=False`` leaves theirs out, as in a fork."""
        fold = Fold(self.version, self.hash, self.fields_bytes, self.floor, self.orders)
        for entry in entries:
            fold.add(entry)
        content, tombstones = self.content.changed(fold.content), self.tombstones.changed(fold.tombstones)
        bookkeeping = self.clients.changed(fold.client_slots()) if clients else self.clients
        layers = (content, bookkeeping, tombstones)
        after = State(self.chunks, fold.version, fold.hash, self.snapshot_version, self.roots, layers)
        after.fields_bytes, after.floor, after.orders = fold.fields_bytes, fold.floor, fold.orders
        return after

    def onto(self, snapshot_version: int, roots: Roots) -> State:
        """The same state over a newer snapshot: only changes after it are kept over its trees."""
        layers = tuple(
            Layer(root, layer.changes(snapshot_version))
            for root, layer in zip((roots.content, roots.clients, roots.tombstones), self._layers(), strict=True)
        )
        moved = State(self.chunks, self.version, self.hash, snapshot_version, roots, (layers[0], layers[1], layers[2]))
        moved.fields_bytes, moved.floor, moved.orders = self.fields_bytes, self.floor, self.orders
        return moved

    def _layers(self) -> tuple[Layer, Layer, Layer]:
        return self.content, self.clients, self.tombstones

    def _reading(self, layer: Layer, key: str) -> Slot | None:
        try:
            return layer.get(self.chunks, key)
        except NotFound as exc:
            raise self._gone() from exc

    def _gone(self) -> Unavailable:
        self.stale = True
        return Unavailable("a chunk of the snapshot in use was collected; read the document again")


_decode_client = msgspec.msgpack.Decoder(ClientState).decode
_decode_binding = msgspec.msgpack.Decoder(tuple[str, str]).decode
_decode_lost = msgspec.msgpack.Decoder(tuple[tuple[int, int], ...]).decode


def _is_in(key: str, prefix: str, after: str | None) -> bool:
    return key.startswith(prefix) and (after is None or key > after)

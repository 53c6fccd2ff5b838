"""State: a document at one version. Immutable and shared between threads; each commit makes a new state.

A state holds the three trees of a snapshot, and for each tree the changes of later entries.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from stratalog.documents.fold import BINDING, COLLECTION, GONE, GROUP, MEMBER, RESUMED, Fold, members_prefix
from stratalog.errors import NotFound, Unavailable
from stratalog.log import Entry
from stratalog.protocol.keys import collection_of
from stratalog.tree.chunks import Chunks
from stratalog.tree.lookup import count, leaf_of, scan
from stratalog.tree.nodes import EMPTY, Leaf, Root, Slot

__all__ = ["EMPTY_ROOTS", "ClientState", "Layer", "Roots", "State"]

# Ranges of numbers (above, up to), in order.
Ranges = tuple[tuple[int, int], ...]
_UNKNOWN = Slot(GONE, 0)
# The prefix of all rows of the clients tree, except the rows of the clients themselves.
BOOKKEEPING = "\0"
RUN_MIN = 64
RUN_GROWTH = 8
KNOWN_MAX = 1024
NEAR_MAX = 32


class Roots(msgspec.Struct, frozen=True, array_like=True):
    """The content of a snapshot: three trees, and numbers that could be computed only by a walk of the trees."""

    content: Root
    clients: Root
    tombstones: Root
    fields_bytes: int = 0
    floor: int = 0
    orders: tuple[int, int] = (0, 0)
    """The lead of cookies' orders over versions, and the first order with this lead; see `resumption`."""


EMPTY_ROOTS = Roots(EMPTY, EMPTY, EMPTY)


class ClientState(msgspec.Struct, frozen=True, array_like=True):
    """The newest mutation of a client, applied or rejected.

    After a ``resume`` event, ``id`` is the number that a lost branch reported.
    """

    id: int
    payload: bytes
    merged: tuple[int, bytes] | None = None
    """After a merge: the fork's version that has the mutation, and the fork's hash at that version; see `Merged`."""


class Layer:
    """One tree and later changes. Adding changes makes another layer and leaves this layer unchanged.

    The changes are stored in runs, the newest run first. Each run has the changes of consecutive versions. A run is at
    least `RUN_GROWTH` times as large as the next newer run. So runs are few, and each change is copied a bounded number
    of times per run. On average a commit costs about the same after a million changes as after a hundred. So a late
    snapshot hardly delays commits.
    """

    __slots__ = ("_known", "_near", "_root", "_runs")

    def __init__(
        self,
        root: Root,
        runs: tuple[_Run, ...] = (),
        known: dict[str, Slot | None] | None = None,
        near: _Near | None = None,
    ) -> None:
        self._root = root
        self._runs = runs
        self._known = {} if known is None else known
        self._near = near or _Near()

    def changed(self, changes: Mapping[str, Slot]) -> Layer:
        """Return the layer after ``changes``."""
        if not changes:
            return self
        return Layer(self._root, _with_run(self._runs, changes), self._known, self._near)

    def over(self, root: Root, after: int) -> Layer:
        """Return a layer of another tree, with only the changes by versions above ``after``."""
        return Layer(root).changed(self.changes(after))

    def changes(self, after: int = 0) -> dict[str, Slot]:
        """Return the changes by versions above ``after``. A deleted key has the value `GONE`."""
        changes: dict[str, Slot] = {}
        for run in reversed(self._runs):
            changes.update(run.slots)
        return {key: slot for key, slot in changes.items() if slot.version > after} if after else changes

    def get(self, chunks: Chunks, key: str) -> Slot | None:
        """Return the slot of ``key``; None if it is absent."""
        for run in self._runs:
            if (slot := run.slots.get(key)) is not None:
                return slot if slot.value else None
        return self._in_tree(chunks, key) if self._root.count else None

    def scan(self, chunks: Chunks, prefix: str, after: str | None = None) -> Iterator[tuple[str, Slot]]:
        """Yield keys that start with ``prefix`` and come after ``after``, in order, with their slots."""
        rows = [run.rows(age, prefix, after) for age, run in enumerate(self._runs)]
        below = ((key, len(rows), slot) for key, slot in scan(chunks, self._root, prefix=prefix, after=after))
        last = None
        for key, _, slot in heapq.merge(*rows, below):
            # Of rows with one key, the row of the newest run comes first. Only this row counts; it may be a deletion.
            if key != last and slot.value:
                yield key, slot
            last = key

    def count(self, chunks: Chunks, prefix: str = "") -> int:
        """Return how many keys start with ``prefix``. Reads two nodes per tree level, and looks up each change."""
        total = count(chunks, self._root, prefix=prefix) if self._root.count else 0
        for key, slot in self.changes().items():
            if key.startswith(prefix):
                stood = bool(self._root.count) and self._in_tree(chunks, key) is not None
                total += bool(slot.value) - stood
        return total

    def unread(self, keys: Iterable[str]) -> tuple[Root, list[str]]:
        """Return the tree, and those of ``keys`` whose lookup will read the tree."""
        known = (*(run.slots for run in self._runs), self._known)
        return self._root, [key for key in keys if not any(key in slots for slots in known)]

    def _in_tree(self, chunks: Chunks, key: str) -> Slot | None:
        """Return the tree's slot of ``key``. All layers of the tree remember it, since reads often repeat a key."""
        known = self._known.get(key, _UNKNOWN)
        if known is not _UNKNOWN:
            return known
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        slot = self._known[key] = self._near.get(chunks, self._root, key)
        return slot


class _Run:
    """Changes of consecutive versions. Its keys are sorted at the first scan, for all layers that share it."""

    __slots__ = ("_keys", "slots")

    def __init__(self, slots: Mapping[str, Slot]) -> None:
        self.slots = slots
        self._keys: list[str] | None = None

    def rows(self, age: int, prefix: str, after: str | None) -> Iterator[tuple[str, int, Slot]]:
        """Yield the changes of keys that start with ``prefix`` and come after ``after``, in order, with ``age``."""
        if self._keys is None:
            self._keys = sorted(self.slots)
        start = bisect_left(self._keys, prefix)
        if after is not None:
            start = max(start, bisect_right(self._keys, after))
        for position in range(start, len(self._keys)):
            key = self._keys[position]
            if not key.startswith(prefix):
                return
            yield key, age, self.slots[key]


def _with_run(runs: tuple[_Run, ...], changes: Mapping[str, Slot]) -> tuple[_Run, ...]:
    """Return the runs after ``changes``. The new run absorbs each next run that is small, or not much larger."""
    newest, rest = dict(changes), runs
    while rest and len(rest[0].slots) < max(RUN_MIN, RUN_GROWTH * len(newest)):
        newest, rest = {**rest[0].slots, **newest}, rest[1:]
    return (_Run(newest), *rest)


class _Near:
    """The leaf last read in each collection, since keys are often read in their order."""

    __slots__ = ("_leaves",)

    def __init__(self) -> None:
        self._leaves: dict[str, tuple[str, Leaf]] = {}

    def get(self, chunks: Chunks, root: Root, key: str) -> Slot | None:
        """Return the tree's slot of ``key``."""
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
        self.chunks: Chunks = chunks
        self.version: int = version
        self.hash: bytes = hash
        """The hash that names the history up to the version."""

        self.snapshot_version: int = snapshot_version
        self.roots: Roots = roots
        self.content: Layer = layers[0]
        self.clients: Layer = layers[1]
        self.tombstones: Layer = layers[2]
        self.fields_bytes: int = roots.fields_bytes
        self.floor: int = roots.floor
        self.orders: tuple[int, int] = roots.orders
        self.stale: bool = False
        """Whether a read found a chunk of the state's snapshot missing. A cache then drops the state."""

    @classmethod
    def at_snapshot(cls, chunks: Chunks, version: int, hash: bytes, roots: Roots) -> State:
        """Return the state of a snapshot."""
        layers = (Layer(roots.content), Layer(roots.clients), Layer(roots.tombstones))
        return cls(chunks, version, hash, version, roots, layers)

    @property
    def order(self) -> int:
        """The order of a cookie of this version. It grows with each version, above all orders of lost branches."""
        return self.version + self.orders[0]

    def slot(self, key: str) -> Slot | None:
        """Return the slot of a key of the content; None if it is absent."""
        try:
            return self.content.get(self.chunks, key)
        except NotFound as exc:
            raise self._gone() from exc

    def scan(self, prefix: str = "", after: str | None = None) -> Iterator[tuple[str, Slot]]:
        """Yield the content's keys that start with ``prefix``, in order, with their slots."""
        try:
            yield from self.content.scan(self.chunks, prefix, after)
        except NotFound as exc:
            raise self._gone() from exc

    def count(self) -> int:
        """Return the number of keys of the content. Reads a few nodes, and a leaf for each key that changed lately."""
        try:
            return self.content.count(self.chunks)
        except NotFound as exc:
            raise self._gone() from exc

    def changed_in(self, key: str, slot: Slot | None = _UNKNOWN) -> int:
        """Return the version that changed ``key`` last; negative if it deleted the key; 0 if no such version is known.

        A caller that has read the key's slot passes it as ``slot``, which saves a lookup.
        """
        if slot is _UNKNOWN:
            slot = self.slot(key)
        if slot is not None:
            return slot.version
        tombstone = self._reading(self.tombstones, key)
        return -tombstone.version if tombstone and tombstone.version > self.floor else 0

    def collection_version(self, collection: str) -> int:
        """Return the newest version that changed a collection, deletions included; 0 for an unused collection."""
        slot = self._reading(self.tombstones, COLLECTION + collection)
        return slot.version if slot else 0

    def client(self, client: str) -> ClientState | None:
        """Return the newest mutation of a client; None for an unknown client."""
        slot = self._reading(self.clients, client)
        return _decode_client(slot.value) if slot else None

    def binding(self, client: str) -> tuple[str, str] | None:
        """Return the group and owner that a client was bound to when first seen; None for an unknown client."""
        slot = self._reading(self.clients, BINDING + client)
        return _decode_binding(slot.value) if slot else None

    def lost(self, client: str) -> Ranges:
        """Return the numbers of a client's mutations that were confirmed and then lost with branches."""
        slot = self._reading(self.clients, RESUMED + client)
        return _decode_lost(slot.value) if slot else ()

    def members(self, group: str) -> Iterator[str]:
        """Yield the clients of a group, in order. The group ``""`` has no members."""
        prefix = members_prefix(group)
        try:
            for key, _ in self.clients.scan(self.chunks, prefix):
                yield key.removeprefix(prefix)
        except NotFound as exc:
            raise self._gone() from exc

    def member_rows(self, after: str = "") -> Iterator[str]:
        """Yield the rows, after the row ``after``, of all clients that are in a group, in order."""
        try:
            for key, _ in self.clients.scan(self.chunks, MEMBER, after or None):
                yield key
        except NotFound as exc:
            raise self._gone() from exc

    def client_version(self, client: str) -> int:
        """Return the version that committed a client's newest mutation; 0 for an unknown client."""
        slot = self._reading(self.clients, client)
        return slot.version if slot else 0

    def group_owner(self, group: str) -> str | None:
        """Return the owner of a group; None for a group without clients.

        All clients of a group have one owner, since no client of another owner may join.
        """
        first = next(self.members(group), None)
        binding = None if first is None else self.binding(first)
        return binding[1] if binding else None

    def group_collected(self, group: str) -> bool:
        """Return whether the clients of a group were collected."""
        return self._reading(self.clients, GROUP + group) is not None

    def count_clients(self) -> int:
        """Return the number of clients. Reads a few nodes, and a leaf for each row changed since the snapshot."""
        try:
            return self.clients.count(self.chunks) - self.clients.count(self.chunks, BOOKKEEPING)
        except NotFound as exc:
            raise self._gone() from exc

    def client_ids(self) -> Iterator[tuple[str, int]]:
        """Yield every client with the number of its newest mutation."""
        for key, slot in self.clients.scan(self.chunks, ""):
            if not key.startswith("\0"):
                yield key, _decode_client(slot.value).id

    def after(self, entries: Iterable[Entry], *, clients: bool = True) -> State:
        """Return the state after ``entries``, which follow this version.

        ``clients=False`` leaves out the entries' clients: a fork begins without clients.
        """
        fold = Fold(self.version, self.hash, self.fields_bytes, self.floor, self.orders)
        for entry in entries:
            fold.add(entry)
        assert fold.version >= self.version, "a state only moves forward"
        content, tombstones = self.content.changed(fold.content), self.tombstones.changed(fold.tombstones)
        bookkeeping = self.clients.changed(fold.client_slots()) if clients else self.clients
        layers = (content, bookkeeping, tombstones)
        after = State(self.chunks, fold.version, fold.hash, self.snapshot_version, self.roots, layers)
        after.fields_bytes, after.floor, after.orders = fold.fields_bytes, fold.floor, fold.orders
        return after

    def onto(self, snapshot_version: int, roots: Roots) -> State:
        """Return the same state over a newer snapshot, with only the changes after that snapshot."""
        # The trees of a later version would show content that this state does not have.
        assert snapshot_version <= self.version, "a state's snapshot is never newer than the state"
        layers = tuple(
            layer.over(root, snapshot_version)
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

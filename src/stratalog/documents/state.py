"""State: a document at one version. Its content never changes, so threads share it. Each commit makes a new state.

A state holds the three trees of a snapshot, and for each tree the changes of later entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import msgspec

from stratalog.documents.fold import BINDING, COLLECTION, GROUP, MEMBER, RESUMED, Fold, members_prefix
from stratalog.documents.layer import UNKNOWN, Layer
from stratalog.documents.values import Values
from stratalog.errors import Corrupt, NotFound, Unavailable
from stratalog.log import Entry
from stratalog.tree.chunks import Chunks
from stratalog.tree.nodes import EMPTY, Root, Slot

__all__ = ["EMPTY_ROOTS", "ClientState", "Roots", "State", "reading_chunks"]

# Ranges of mutation numbers, in order. The range (a, b) has the numbers from a + 1 to b.
Ranges = tuple[tuple[int, int], ...]
# The prefix of all rows of the clients tree, except the rows of the clients themselves.
BOOKKEEPING = "\0"


def _always(version: int, snapshot_version: int) -> bool:
    return True


class Roots(msgspec.Struct, frozen=True, array_like=True):
    """The content of a snapshot: three trees, and numbers that are not stored in the trees."""

    content: Root
    clients: Root
    tombstones: Root
    fields_bytes: int = 0
    floor: int = 0
    orders: tuple[int, int] = (0, 0)
    """The number that a cookie's order adds to its version, called lead, and the first such order; see `resumption`."""


EMPTY_ROOTS = Roots(EMPTY, EMPTY, EMPTY)


class ClientState(msgspec.Struct, frozen=True, array_like=True):
    """The newest mutation of a client, applied or rejected.

    After a ``resume`` event, ``id`` is the number that a lost branch reported.
    """

    id: int
    payload: bytes
    merged: tuple[int, bytes] | None = None
    """After a merge: the fork's version that has the mutation, and the fork's hash at that version; see `Merged`."""


class State:
    """A document at ``version``: content, clients and tombstones."""

    __slots__ = (
        "changes",
        "chunks",
        "clients",
        "content",
        "fields_bytes",
        "floor",
        "hash",
        "is_retained",
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
        is_retained: Callable[[int, int], bool] = _always,
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
        self.is_retained: Callable[[int, int], bool] = is_retained
        """Returns whether the log retains a version, and the snapshot whose version is the second argument."""

        self.changes: int = 0
        """The sum over the entries since the snapshot: of each entry its mutations or its changed keys, if more."""

        self.stale: bool = False
        """Whether a chunk was missing, or a value that the collector may have deleted. A cache then drops the state."""

    @classmethod
    def at_snapshot(
        cls, chunks: Chunks, version: int, hash: bytes, roots: Roots, is_retained: Callable[[int, int], bool] = _always
    ) -> State:
        """Return the state of a snapshot. Without ``is_retained``, no process may delete its blobs while it is used."""
        layers = (Layer(roots.content), Layer(roots.clients), Layer(roots.tombstones))
        return cls(chunks, version, hash, version, roots, layers, is_retained)

    @property
    def order(self) -> int:
        """The order of a cookie of this version: it grows with each version.

        A ``resume`` event may raise it above the orders of a lost branch; see `resumption`.
        """
        return self.version + self.orders[0]

    def slot(self, key: str) -> Slot | None:
        """Return the slot of a key of the content; None if it is absent."""
        return self._reading(self.content, key)

    def value(self, slot: Slot, values: Values) -> bytes:
        """Return the canonical bytes of the value in a slot of this state.

        Raises Corrupt if the value is damaged or missing. Raises Unavailable instead if the collector may have deleted
        the value, since the log has forgotten the version or deleted the state's snapshot.
        """
        try:
            return values.load(slot.value)
        except Corrupt as exc:
            if self.is_retained(self.version, self.snapshot_version):
                raise
            self.stale = True
            raise Unavailable("a value of the version in use was collected; read the document again") from exc

    def scan(self, prefix: str = "", after: str | None = None) -> Iterator[tuple[str, Slot]]:
        """Yield the content's keys that start with ``prefix``, in order, with their slots."""
        with reading_chunks(self):
            yield from self.content.scan(self.chunks, prefix, after)

    def count(self) -> int:
        """Return the number of keys. Reads a few nodes, and a leaf for each key changed since the snapshot."""
        with reading_chunks(self):
            return self.content.count(self.chunks)

    def changed_in(self, key: str, slot: Slot | None = UNKNOWN) -> int:
        """Return the version that changed ``key`` last; negative if it deleted the key; 0 if no such version is known.

        A caller that has read the key's slot passes it as ``slot``, which saves a lookup.
        """
        if slot is UNKNOWN:
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

    def began_in(self, client: str) -> int:
        """Return the version that committed the client's first mutation since it was last collected.

        Return 0 for an unknown client, and for a client whose number a `resume` raised: no row has its first version.
        """
        slot = self._reading(self.clients, BINDING + client)
        is_resumed = self._reading(self.clients, RESUMED + client) is not None
        return slot.version if slot is not None and not is_resumed else 0

    def lost(self, client: str) -> Ranges:
        """Return the numbers of a client's mutations that were confirmed to it but are not in this history.

        A server confirmed them on a branch that was lost, as after a restore of an older backup. Or the client has a
        weekly group, and a worker passed over a missing message.
        """
        slot = self._reading(self.clients, RESUMED + client)
        return _decode_lost(slot.value) if slot else ()

    def members(self, group: str) -> Iterator[str]:
        """Yield the clients of a group, in order. The group ``""`` has no members."""
        prefix = members_prefix(group)
        with reading_chunks(self):
            for key, _ in self.clients.scan(self.chunks, prefix):
                yield key.removeprefix(prefix)

    def member_rows(self, after: str = "") -> Iterator[str]:
        """Yield the keys after ``after`` that each name a group and one of its clients, in order.

        `member_of_row` returns the group and the client of a key.
        """
        with reading_chunks(self):
            for key, _ in self.clients.scan(self.chunks, MEMBER, after or None):
                yield key

    def client_version(self, client: str) -> int:
        """Return the version that committed a client's newest mutation, or raised its number after a lost branch.

        Return 0 for an unknown client.
        """
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
        with reading_chunks(self):
            return self.clients.count(self.chunks) - self.clients.count(self.chunks, BOOKKEEPING)

    def client_ids(self) -> Iterator[tuple[str, int]]:
        """Yield every client with the number of its newest mutation."""
        with reading_chunks(self):
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
        after = State(self.chunks, fold.version, fold.hash, self.snapshot_version, self.roots, layers, self.is_retained)
        after.fields_bytes, after.floor, after.orders = fold.fields_bytes, fold.floor, fold.orders
        after.changes = self.changes + fold.changes
        return after

    def onto(self, snapshot_version: int, roots: Roots) -> State:
        """Return the same state over a newer snapshot, with only the changes after that snapshot.

        The mutations after the snapshot are unknown, so the result counts the changed keys as its `changes`.
        """
        # The trees of a later version would show content that this state does not have.
        assert snapshot_version <= self.version, "a state's snapshot is never newer than the state"
        layers = (
            self.content.over(roots.content, snapshot_version),
            self.clients.over(roots.clients, snapshot_version),
            self.tombstones.over(roots.tombstones, snapshot_version),
        )
        moved = State(self.chunks, self.version, self.hash, snapshot_version, roots, layers, self.is_retained)
        moved.fields_bytes, moved.floor, moved.orders = self.fields_bytes, self.floor, self.orders
        moved.changes = len(moved.content.changes())
        return moved

    def _reading(self, layer: Layer, key: str) -> Slot | None:
        try:
            return layer.get(self.chunks, key)
        except NotFound as exc:
            raise _missing_chunk(exc, self) from exc


@contextmanager
def reading_chunks(*states: State) -> Iterator[None]:
    """Raise Unavailable or Corrupt, as `_missing_chunk` decides, if the block finds a chunk of ``states`` missing."""
    try:
        yield
    except NotFound as exc:
        raise _missing_chunk(exc, *states) from exc


def _missing_chunk(exc: NotFound, *states: State) -> Corrupt | Unavailable:
    """Return the error for a chunk of the snapshots of ``states`` that is missing, and mark the states as stale.

    The collector deletes a chunk only if no snapshot names it. So look for the snapshots now, after the read: while all
    of them exist, the missing chunk is damage, and another read would fail too.
    """
    for state in states:
        state.stale = True
    if all(state.is_retained(state.version, state.snapshot_version) for state in states):
        return Corrupt("a chunk of a snapshot is missing", **exc.details)
    return Unavailable("a chunk of the snapshot in use was collected; read the document again")


_decode_client = msgspec.msgpack.Decoder(ClientState).decode
_decode_binding = msgspec.msgpack.Decoder(tuple[str, str]).decode
_decode_lost = msgspec.msgpack.Decoder(tuple[tuple[int, int], ...]).decode

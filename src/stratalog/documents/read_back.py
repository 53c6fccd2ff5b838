"""Reading a state back: every chunk of its three trees and every value it names, from storage, past every cache.

It decides nothing. Who forgets history stops at the first damage; who verifies names each one and goes on.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from stratalog.documents.state import Roots
from stratalog.documents.values import Values, as_reference
from stratalog.ports.read_back import BlobDamage, BlobReading, require_intact
from stratalog.tree.chunks import Chunks
from stratalog.tree.nodes import Leaf
from stratalog.tree.reach import read_tree_back

__all__ = ["StatePosition", "StateReading", "read_state_back", "require_state"]

VALUES_REMEMBERED_MAX = 10_000


class StatePosition(msgspec.Struct, frozen=True, array_like=True):
    """How far a reading came. What is at or before ``key`` in the tree of number ``tree`` was read."""

    tree: int = 0
    """0 content, 1 clients, 2 tombstones."""

    key: str | None = None
    """None at the start of the tree."""


class StateReading(msgspec.Struct, frozen=True):
    """One chunk, with the large values that it names."""

    position: StatePosition
    """Where a reading that is broken off behind this one may go on."""

    blobs: tuple[BlobReading, ...]
    """What was read, damaged or not; an inline root has an empty key."""

    @property
    def damages(self) -> tuple[BlobDamage, ...]:
        """What is wrong with it."""
        return tuple(blob.damage for blob in self.blobs if blob.damage is not None)


def read_state_back(
    chunks: Chunks,
    values: Values,
    roots: Roots,
    start: StatePosition | None = None,
    seen: set[bytes] | None = None,
) -> Iterator[StateReading]:
    """Read all chunks of the three trees, and all values that they name, from ``start`` on.

    In order, in bounded memory: one path of a tree, one part of a value, and the last thousands of values read, since
    one value may stand under many keys. ``chunks`` and ``values`` are of the log's owner. ``seen`` are chunks that
    were read before with all below them; see `read_tree_back`. Raises Unavailable.
    """
    position = start or StatePosition()
    trees = (roots.content, roots.clients, roots.tombstones)
    for tree in range(position.tree, len(trees)):
        read: set[tuple[str, bytes]] = set()
        key = position.key if tree == position.tree else None
        for chunk in read_tree_back(chunks, trees[tree], key, seen):
            blobs = [BlobReading(chunk.key, chunk.size, chunk.damage)]
            if isinstance(chunk.node, Leaf):
                blobs += _read_values(values, chunk.node, read, key)
                key = chunk.node.keys[-1] if chunk.node.keys else key
            yield StateReading(StatePosition(tree, key), tuple(blobs))


def require_state(chunks: Chunks, values: Values, roots: Roots) -> None:
    """Read a state back to its end. Raises Corrupt at the first damage, Unavailable."""
    for reading in read_state_back(chunks, values, roots):
        require_intact(reading.damages)


def _read_values(values: Values, leaf: Leaf, read: set[tuple[str, bytes]], after: str | None) -> Iterator[BlobReading]:
    for key, stored in zip(leaf.keys, leaf.values, strict=True):
        if after is not None and key <= after:
            continue
        reference = as_reference(stored) if stored else None
        if reference is None:
            continue
        blob = (reference.folder, reference.body.address)  # the same content in another folder is another blob
        if blob in read:
            continue
        if len(read) >= VALUES_REMEMBERED_MAX:
            read.clear()
        read.add(blob)
        yield from values.read_back(stored)

"""Reading a state back from storage without any cache: each chunk of its three trees, and each value in the trees.

This module only reads, and leaves the reaction to damage to its callers. Code that forgets history stops at the first
damage; verification lists each damage and continues.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Protocol

from stratalog.documents.scrubbed_values import ScrubbedValues
from stratalog.documents.state import Roots
from stratalog.documents.values import Values, as_reference
from stratalog.ports.blobs import Blobs
from stratalog.ports.read_back import BlobReading, require_intact
from stratalog.tree.chunks import Chunks
from stratalog.tree.nodes import Leaf
from stratalog.tree.reach import read_tree_back

__all__ = ["read_state_back", "require_scrubbed_state", "require_state"]

VALUES_REMEMBERED_MAX = 10_000


class _Values(Protocol):
    """The part of `Values` that reads large values."""

    def read_back(self, stored: bytes) -> Iterator[BlobReading]: ...


def read_state_back(
    chunks: Chunks, values: _Values, roots: Roots, seen: set[bytes] | None = None
) -> Iterator[BlobReading]:
    """Read all chunks of the three trees, and all values that they name. Yield each, damaged or not.

    Reads in order of the keys. An inline root has an empty key. The memory is bounded: one path of a tree, one part of
    a value, and at most `VALUES_REMEMBERED_MAX` references. If several keys have the same value, the value is read
    once, as long as its reference is remembered. ``chunks`` and ``values`` belong to the log's owner. The function
    skips the chunks in ``seen`` with all chunks below them, and adds each chunk that it reads; see `read_tree_back`.
    The caller bounds ``seen``. Raises Unavailable, Unsupported.
    """
    for root in (roots.content, roots.clients, roots.tombstones):
        read: set[tuple[str, bytes]] = set()
        for chunk in read_tree_back(chunks, root, seen):
            yield BlobReading(chunk.key, chunk.size, chunk.damage)
            if isinstance(chunk.node, Leaf):
                yield from _read_values(values, chunk.node, read)


def require_state(chunks: Chunks, values: Values, roots: Roots) -> None:
    """Read a whole state back. Raises Corrupt at the first damage, Unavailable, Unsupported."""
    require_intact(reading.damage for reading in read_state_back(chunks, values, roots))


def require_scrubbed_state(chunks: Chunks, values: Values, roots: Roots, blobs: Blobs, before_ms: int) -> None:
    """Read a state back as `require_state` does, but only look up values whose blobs were stored before ``before_ms``.

    ``before_ms`` is the result of `scrubbed_before_ms`; if it is 0, everything is read. Memory is bounded: the
    references go to a temporary file. The check does not find a blob that was damaged after the scrub and still exists.
    """
    if not before_ms:
        require_state(chunks, values, roots)
        return
    with closing(ScrubbedValues(values, blobs, before_ms)) as scrubbed:
        require_intact(reading.damage for reading in read_state_back(chunks, scrubbed, roots))
        require_intact(reading.damage for reading in scrubbed.read_rest())


def _read_values(values: _Values, leaf: Leaf, read: set[tuple[str, bytes]]) -> Iterator[BlobReading]:
    for stored in leaf.values:
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

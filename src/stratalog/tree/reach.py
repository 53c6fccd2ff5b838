"""Every chunk of a tree: the addresses of the chunks, and a check that each chunk is intact."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from functools import partial

import msgspec

from stratalog.errors import Corrupt
from stratalog.ports.read_back import BlobDamage, require_intact
from stratalog.tree.chunks import Chunks
from stratalog.tree.nodes import Chunk, Inner, Node, Root, Row, chunk_of, decode_node, ends_chunk, root_of, rows_of

__all__ = ["ChunkReading", "addresses", "read_tree_back", "verify"]


class ChunkReading(msgspec.Struct, frozen=True):
    """The result of reading one chunk from storage."""

    key: str
    """The key of the chunk's blob; empty for an inline root."""

    size: int
    """The number of bytes; 0 if the bytes could not be read."""

    node: Node | None
    """The decoded node; None if the chunk is damaged. The chunks below a damaged chunk are not read."""

    damage: BlobDamage | None = None
    """The damage. The key in it is empty for an inline chunk, and for an intact chunk that contradicts the root."""


def addresses(chunks: Chunks, root: Root, seen: Container[bytes] = ()) -> Iterator[bytes]:
    """Yield the addresses of the chunks stored as blobs, parents first. An inline topmost chunk is not a blob.

    Reads the topmost chunk and inner chunks, but no other leaf. A chunk in ``seen`` is skipped with all chunks below
    it. If the caller adds each yielded address to ``seen``, it gets each address of many trees only once.
    """
    if root.inline is None:
        if root.address in seen:
            return
        yield root.address
    yield from _below(chunks, chunks.top(root), seen)


def read_tree_back(chunks: Chunks, root: Root, seen: set[bytes] | None = None) -> Iterator[ChunkReading]:
    """Read every chunk of a tree from storage, not the cache, in the order of keys, a parent before its children.

    The walk checks bytes, order, ends, counts and digests. It yields damage instead of raising an error, and continues
    with the next chunk. ``seen`` is for callers that read many trees. The walk skips a chunk
    in ``seen`` with all chunks below it, and adds each chunk that it reads from a blob to ``seen``. One path
    of the tree is in memory at a time. Raises Unavailable, Unsupported.
    """
    if seen is not None and root.inline is None:
        if root.address in seen:
            return
        seen.add(root.address)
    top = _read(chunks, root.address, root.inline, _check_top)
    if top.node is not None and _facts(root_of(chunk_of(top.node))) != _facts(root):
        # The chunk matches its address, so the root is wrong, not the chunk.
        top = ChunkReading(top.key, top.size, None, BlobDamage("", False, "a root contradicts its chunk"))
    yield top
    if top.node is not None:
        yield from _read_below(chunks, top.node, seen, last=True, before=None)


def verify(chunks: Chunks, root: Root) -> None:
    """Read every chunk again from storage, not the cache, and check the tree. Raises Corrupt with the first damage."""
    require_intact(reading.damage for reading in read_tree_back(chunks, root))


def _below(chunks: Chunks, node: Node, seen: Container[bytes]) -> Iterator[bytes]:
    if not isinstance(node, Inner):
        return
    for position, address in enumerate(node.addresses):
        if address in seen:
            continue
        yield address
        if node.level > 1:
            yield from _below(chunks, chunks.child(node, position), seen)


def _read_below(
    chunks: Chunks, node: Node, seen: set[bytes] | None, *, last: bool, before: str | None
) -> Iterator[ChunkReading]:
    """Read the chunks below ``node``.

    ``last`` is True for the last node of its level. ``before`` is the key before the node's first key.
    """
    if not isinstance(node, Inner):
        return
    for position, row in enumerate(rows_of(node)):
        ends_level = last and position + 1 == len(node.keys)
        if seen is None or row[1] not in seen:
            if seen is not None:
                seen.add(row[1])
            reading = _read(chunks, row[1], None, partial(_check_child, node, row, last=ends_level, before=before))
            yield reading
            if reading.node is not None:
                yield from _read_below(chunks, reading.node, seen, last=ends_level, before=before)
        before = row[0]


def _read(chunks: Chunks, address: bytes, inline: bytes | None, check: Callable[[Chunk], None]) -> ChunkReading:
    key = chunks.key(address) if inline is None else ""
    body = chunks.read_back(address) if inline is None else inline
    if isinstance(body, BlobDamage):
        return ChunkReading(key, 0, None, body)
    try:
        chunk = _checked(body, address)
        check(chunk)
    except Corrupt as exc:
        return ChunkReading(key, len(body), None, BlobDamage(key, False, str(exc)))
    return ChunkReading(key, len(body), chunk.node)


def _facts(root: Root) -> tuple[bytes, bytes, int]:
    """Return the fields that two roots of one tree share. A root of an older store may have no inline chunk."""
    return root.address, root.digest, root.count


def _check_top(chunk: Chunk) -> None:
    if isinstance(chunk.node, Inner) and len(chunk.node.keys) == 1:
        raise Corrupt("a topmost chunk has a single child", address=chunk.address.hex())
    _verify_order(chunk.node, None)
    _verify_ends(chunk.node, True)


def _check_child(parent: Inner, row: Row, child: Chunk, *, last: bool, before: str | None) -> None:
    if child.node.level != parent.level - 1 or not child.node.keys or child.row != row:
        raise Corrupt("a chunk contradicts its parent", address=row[1].hex(), last_key=row[0])
    _verify_order(child.node, before)
    _verify_ends(child.node, last)


def _checked(body: bytes, address: bytes) -> Chunk:
    chunk = chunk_of(decode_node(body))
    if chunk.body != body or chunk.address != address:
        raise Corrupt("a chunk's bytes are not canonical, or do not have its hash", address=address.hex())
    return chunk


def _verify_order(node: Node, after: str | None) -> None:
    for key in node.keys:
        if after is not None and key <= after:
            raise Corrupt("keys are out of order", key=key, after=after, level=node.level)
        after = key


def _verify_ends(node: Node, last: bool) -> None:
    for rows, key in enumerate(node.keys, 1):
        ends = rows == len(node.keys)
        if ends_chunk(key, node.level, rows) != ends and not (ends and last):
            raise Corrupt("a chunk does not end at a boundary", key=key, rows=rows, level=node.level)

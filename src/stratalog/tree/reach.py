"""Every chunk of a tree: which there are, and whether each is what it should be."""

from __future__ import annotations

from collections.abc import Container, Iterator

from stratalog.errors import Corrupt
from stratalog.tree.chunks import Chunks
from stratalog.tree.nodes import Chunk, Inner, Node, Root, chunk_of, decode_node, ends_chunk, root_of

__all__ = ["addresses", "verify"]


def addresses(chunks: Chunks, root: Root, seen: Container[bytes] = ()) -> Iterator[bytes]:
    """The addresses of the chunks that stand as blobs, parents first; an inline root has none. Reads no leaf.

    A chunk in ``seen`` is left out with all below it. It is asked as the walk goes, so a caller who adds each answer
    to it gets every address of many trees once.
    """
    if root.inline is None and root.address not in seen:
        yield root.address
        yield from _below(chunks, chunks.top(root), seen)


def verify(chunks: Chunks, root: Root) -> None:
    """Read every chunk again and check bytes, order, ends, counts and digests. Raises Corrupt with what is wrong."""
    body = root.inline if root.inline is not None else chunks.read(root.address)
    top = _checked(body, root.address)
    if root_of(top) != root:
        raise Corrupt("a root does not say what its chunk does", address=root.address.hex())
    if isinstance(top.node, Inner) and len(top.node.keys) == 1:
        raise Corrupt("a topmost chunk has a single child", address=root.address.hex())
    _verify_below(chunks, top.node, last=True)


def _below(chunks: Chunks, node: Node, seen: Container[bytes]) -> Iterator[bytes]:
    if not isinstance(node, Inner):
        return
    for position, address in enumerate(node.addresses):
        if address in seen:
            continue
        yield address
        if node.level > 1:
            yield from _below(chunks, chunks.child(node, position), seen)


def _verify_below(chunks: Chunks, node: Node, *, last: bool, after: str | None = None) -> None:
    """Check ``node`` and all below it; ``last`` where no node of its level follows, ``after`` is the key before it."""
    _verify_order(node, after)
    _verify_ends(node, last)
    if not isinstance(node, Inner):
        return
    for position, row in enumerate(zip(node.keys, node.addresses, node.digests, node.counts, strict=True)):
        child = _checked(chunks.read(row[1]), row[1])
        if child.node.level != node.level - 1 or not child.node.keys or child.row != row:
            raise Corrupt("a chunk is not what its parent says", address=row[1].hex(), last_key=row[0])
        _verify_below(chunks, child.node, last=last and position + 1 == len(node.keys), after=after)
        after = row[0]


def _checked(body: bytes, address: bytes) -> Chunk:
    chunk = chunk_of(decode_node(body))
    if chunk.body != body or chunk.address != address:
        raise Corrupt("a chunk's bytes are not canonical or not its own", address=address.hex())
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
            raise Corrupt("a chunk does not end where the rule says", key=key, rows=rows, level=node.level)

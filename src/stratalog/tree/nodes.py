"""The parts of a tree: slots, nodes and roots, their bytes, and the rule for the end of a chunk.

The constants are part of the format: programs with different constants compute different roots of the same content.
`formats/tree.md` describes the bytes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from stratalog.codec import encode, sha256
from stratalog.errors import Corrupt, Invalid, LimitExceeded, Unsupported
from stratalog.limits import KEY_BYTES_MAX, VERSION_MAX

__all__ = [
    "CHUNK_ROWS_MAX",
    "EMPTY",
    "FORMAT",
    "SLOT_BYTES_MAX",
    "TREE_INLINE_BYTES_MAX",
    "Chunk",
    "Inner",
    "Leaf",
    "Node",
    "Root",
    "Row",
    "Slot",
    "chunk_of",
    "decode_node",
    "ends_chunk",
    "key_level",
    "root_of",
    "row_of",
    "rows_of",
    "seal",
]

FORMAT = 1

# A key ends a chunk of level n if its hash starts with n + 1 times this many zero bits. So chunks average 64 rows.
LEVEL_BITS = 6
# The limit is four times the average. About one chunk in 56 reaches the limit without an ending key, and then ends.
CHUNK_ROWS_MAX = 256
# A put of a blob costs as much as a write of 8 KB to a hosted index. One snapshot record contains three roots.
TREE_INLINE_BYTES_MAX = 4096
# A full chunk of the longest keys and values stays below the size limit of a blob.
SLOT_BYTES_MAX = 32 * 1024


class Slot(msgspec.Struct, frozen=True, gc=False):
    """The content of a key: the bytes that the caller stores as the value, and the version that last changed it."""

    value: bytes
    version: int


class Leaf(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """A chunk of level 0: keys in order, each with its slot. A leaf is stored in columns, which are faster to read."""

    format: int
    level: int
    keys: tuple[str, ...]
    values: tuple[bytes, ...]
    versions: tuple[int, ...]

    def slot(self, key: str) -> Slot | None:
        """Return the slot of ``key`` in this leaf, or None."""
        position = bisect_left(self.keys, key)
        if position == len(self.keys) or self.keys[position] != key:
            return None
        return Slot(self.values[position], self.versions[position])


class Inner(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """A chunk of a higher level: for each child its last key, address, content digest and number of keys."""

    format: int
    level: int
    keys: tuple[str, ...]
    addresses: tuple[bytes, ...]
    digests: tuple[bytes, ...]
    counts: tuple[int, ...]


Node: TypeAlias = Leaf | Inner
Row: TypeAlias = tuple[Any, ...]
"""One row of a node, its key first: (key, value, version) or (last key, address, digest, count)."""


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """A node with its bytes and the fields that its parent stores."""

    node: Node
    body: bytes
    address: bytes
    digest: bytes
    count: int

    @property
    def row(self) -> Row:
        """The row of this chunk in its parent."""
        return self.node.keys[-1], self.address, self.digest, self.count


class Root(msgspec.Struct, frozen=True, gc=False):
    """A tree. Roots with equal addresses are the same tree.

    ``address`` is the SHA-256 of the topmost chunk. ``digest`` is the hash of the content without versions. ``count``
    is the number of keys. ``inline`` is the topmost chunk itself if it has at most `TREE_INLINE_BYTES_MAX` bytes. An
    inline chunk need not be stored as a blob. An older store may have a topmost inner chunk only as a blob.
    """

    address: bytes
    digest: bytes
    count: int
    inline: bytes | None


def key_level(key: str) -> int:
    """Return how many levels of chunks end at ``key``, 0 to 10.

    The level depends only on a hash of the key, so a tree's shape does not depend on its history.
    """
    head = sha256(key.encode())[:8]
    if head[0] >> 8 - LEVEL_BITS:
        return 0
    return (64 - int.from_bytes(head, "big").bit_length()) // LEVEL_BITS


def ends_chunk(key: str, level: int, rows: int) -> bool:
    """Return whether a chunk of ``level`` ends with ``key`` as its ``rows``-th row."""
    return rows >= CHUNK_ROWS_MAX or key_level(key) > level


def ending(rows: Iterable[Row], level: int) -> list[Row]:
    """Return the rows of a level whose keys end a chunk by their hash. The hash's first byte excludes most keys."""
    return [row for row in rows if not sha256(row[0].encode())[0] >> 8 - LEVEL_BITS and key_level(row[0]) > level]


def check_slots(slots: Mapping[str, Slot | None]) -> None:
    """Raise Invalid or LimitExceeded for slots or keys that a tree cannot store."""
    if not all(map(str.isascii, slots)) or max(map(len, slots), default=0) > KEY_BYTES_MAX:
        for key in slots:
            check_key(key)
    for key, slot in slots.items():
        if slot is not None and not (len(slot.value) <= SLOT_BYTES_MAX and 0 <= slot.version <= VERSION_MAX):
            row_of(key, slot)


def row_of(key: str, slot: Slot) -> Row:
    """Return the leaf row of a key and its slot. Raises Invalid or LimitExceeded if a tree cannot store them."""
    check_key(key)
    if len(slot.value) > SLOT_BYTES_MAX:
        raise LimitExceeded("a slot's value is too large", value=len(slot.value), limit=SLOT_BYTES_MAX, key=key)
    if not 0 <= slot.version <= VERSION_MAX:
        raise Invalid("a slot's version is out of range", value=slot.version, limit=VERSION_MAX, key=key)
    return key, slot.value, slot.version


def check_key(key: str) -> None:
    """Raise Invalid for a key with a lone surrogate and LimitExceeded for a key that is too long."""
    if len(key) <= KEY_BYTES_MAX and key.isascii():
        return
    try:
        size = len(key.encode())
    except UnicodeEncodeError as exc:
        raise Invalid("a key holds a lone surrogate", key=key.encode(errors="backslashreplace")) from exc
    if size > KEY_BYTES_MAX:
        raise LimitExceeded("a key is too long", value=size, limit=KEY_BYTES_MAX, key=key)


def rows_of(node: Node) -> list[Row]:
    """Return the rows of a node."""
    if isinstance(node, Leaf):
        return list(zip(node.keys, node.values, node.versions, strict=True))
    return list(zip(node.keys, node.addresses, node.digests, node.counts, strict=True))


def seal(level: int, rows: Sequence[Row]) -> Chunk:
    """Return the chunk of ``level`` with ``rows``, at least one row."""
    columns = zip(*rows, strict=True)
    return chunk_of(Inner(FORMAT, level, *columns) if level else Leaf(FORMAT, level, *columns))


def chunk_of(node: Node) -> Chunk:
    """Return the node with its bytes, address, digest and count."""
    body = encode(node)
    if isinstance(node, Leaf):
        return Chunk(node, body, sha256(body), sha256(encode((node.keys, node.values))), len(node.keys))
    return Chunk(node, body, sha256(body), sha256(encode((node.level, node.digests))), sum(node.counts))


def root_of(chunk: Chunk) -> Root:
    """Return the root of the tree whose topmost chunk is ``chunk``."""
    small = len(chunk.body) <= TREE_INLINE_BYTES_MAX
    return Root(chunk.address, chunk.digest, chunk.count, chunk.body if small else None)


def decode_node(body: bytes) -> Node:
    """Return the node that a chunk's bytes encode. Raises Unsupported for a newer format, Corrupt for another shape.

    Only the shape is checked; `stratalog.tree.reach.verify` checks the rest.
    """
    if len(body) > 1 and body[0] & 0xF0 == _ARRAY_HEAD and FORMAT < body[1] < _FIXED_INTEGER_END:
        raise Unsupported("a chunk has a newer format than this program supports", value=body[1], known=FORMAT)
    try:
        node: Node = _inner.decode(body) if body[:1] == _INNER_HEAD else _leaf.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise Corrupt("a chunk cannot be decoded", reason=str(exc)) from exc
    if node.format != FORMAT or not _is_even(node):
        raise Corrupt("a chunk has the wrong shape", format=node.format, level=node.level, keys=len(node.keys))
    return node


def _is_even(node: Node) -> bool:
    rows = len(node.keys)
    if isinstance(node, Leaf):
        return node.level == 0 and rows == len(node.values) == len(node.versions)
    return node.level > 0 and 0 < rows == len(node.addresses) == len(node.digests) == len(node.counts)


_ARRAY_HEAD = 0x90
_FIXED_INTEGER_END = 0x80
_INNER_HEAD = b"\x96"
_leaf = msgspec.msgpack.Decoder(Leaf)
_inner = msgspec.msgpack.Decoder(Inner)

EMPTY = root_of(chunk_of(Leaf(FORMAT, 0, (), (), ())))
"""The tree without keys."""

"""Helpers of the tree's tests: trees in memory, and keys of a chosen level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stratalog.backends.memory import MemoryBlobs
from stratalog.cache import ByteCache
from stratalog.clock import SystemClock
from stratalog.codec import encode
from stratalog.tree.chunks import Chunks
from stratalog.tree.nodes import Root, Slot, key_level
from stratalog.tree.update import build

OWNER = "acme/plan@abc"


def new_chunks(cache_bytes: int = 1 << 20) -> Chunks:
    return Chunks(MemoryBlobs(SystemClock()), OWNER, ByteCache(cache_bytes))


def cold(chunks: Chunks) -> Chunks:
    """The same blobs with an empty cache and counters at zero."""
    return Chunks(chunks._blobs, OWNER)


def slot(value: object = 1, version: int = 1) -> Slot:
    return Slot(encode(value), version)


def items(count: int) -> Iterator[tuple[str, Slot]]:
    return ((f"item/{number:08d}", slot({"n": number}, number + 1)) for number in range(count))


def build_from(chunks: Chunks, content: Mapping[str, Slot]) -> Root:
    return build(chunks, sorted(content.items()))


def keys_of_level(level: int, count: int, stem: str = "k") -> list[str]:
    """``count`` keys in ascending order. Each key ends a chunk at exactly ``level`` levels of the tree."""
    keys: list[str] = []
    number = 0
    while len(keys) < count:
        key = f"{stem}{number:09d}"
        if key_level(key) == level:
            keys.append(key)
        number += 1
    return keys

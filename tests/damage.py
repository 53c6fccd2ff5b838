"""Damages a blob in the memory backend: flips a bit, cuts off the last byte, or removes the blob."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stratalog.backends.memory import MemoryBlobs

__all__ = ["CUT", "DAMAGES", "FLIP", "LOSE", "damage_blob", "damaged_blob"]

FLIP, CUT, LOSE = "flip", "cut", "lose"
DAMAGES = (FLIP, CUT, LOSE)


def damage_blob(blobs: MemoryBlobs, key: str, how: str) -> None:
    """Damage the blob with the key ``key``. The blob's stored stat stays unchanged, unless ``how`` is `LOSE`."""
    body = blobs._bodies[key]
    if how == LOSE:
        del blobs._bodies[key], blobs._stats[key]
    else:
        blobs._bodies[key] = body[:-1] if how == CUT else bytes([body[0] ^ 1]) + body[1:]


@contextmanager
def damaged_blob(blobs: MemoryBlobs, key: str, how: str) -> Iterator[None]:
    """Damage the blob inside the block, and restore it afterwards."""
    body, stat = blobs._bodies[key], blobs._stats[key]
    damage_blob(blobs, key, how)
    try:
        yield
    finally:
        blobs._bodies[key], blobs._stats[key] = body, stat

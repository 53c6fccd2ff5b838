"""Damage at rest, planted past the store: a blob in memory with one bit flipped, cut short, or lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stratalog.backends.memory import MemoryBlobs

__all__ = ["CUT", "DAMAGES", "FLIP", "LOSE", "damage_blob", "damaged_blob"]

FLIP, CUT, LOSE = "flip", "cut", "lose"
DAMAGES = (FLIP, CUT, LOSE)


def damage_blob(blobs: MemoryBlobs, key: str, how: str) -> None:
    """Damage the blob of that key. Its stat, where it is not lost, stays what it was."""
    body = blobs._bodies[key]
    if how == LOSE:
        del blobs._bodies[key], blobs._stats[key]
    else:
        blobs._bodies[key] = body[:-1] if how == CUT else bytes([body[0] ^ 1]) + body[1:]


@contextmanager
def damaged_blob(blobs: MemoryBlobs, key: str, how: str) -> Iterator[None]:
    """The blob is damaged inside the block, and as it was after it."""
    body, stat = blobs._bodies[key], blobs._stats[key]
    damage_blob(blobs, key, how)
    yield
    blobs._bodies[key], blobs._stats[key] = body, stat

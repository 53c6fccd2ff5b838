"""Damages a stored blob: flips a bit, cuts off the last byte, or removes the blob."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stratalog.ports.blobs import Blobs
from tests.stored import StoredBlob

__all__ = ["CUT", "DAMAGES", "FLIP", "LOSE", "damage_blob", "damaged_blob"]

FLIP, CUT, LOSE = "flip", "cut", "lose"
DAMAGES = (FLIP, CUT, LOSE)


def damage_blob(blobs: Blobs, key: str, how: str) -> None:
    """Damage the blob with the key ``key``. The blob's stored stat stays unchanged, unless ``how`` is `LOSE`."""
    _damage(StoredBlob(blobs, key), how)


@contextmanager
def damaged_blob(blobs: Blobs, key: str, how: str) -> Iterator[None]:
    """Damage the blob inside the block, and restore it afterwards."""
    stored = StoredBlob(blobs, key)
    _damage(stored, how)
    try:
        yield
    finally:
        stored.replace(stored.body)


def _damage(stored: StoredBlob, how: str) -> None:
    body = stored.body
    stored.replace(None if how == LOSE else body[:-1] if how == CUT else bytes([body[0] ^ 1]) + body[1:])

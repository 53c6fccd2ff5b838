"""Reads blobs back from storage to check them. `read_blob_back` returns damage as a value, and raises no error for it.

So a caller that reads many blobs can continue after a damaged blob. If the whole storage fails, `read_blob_back` raises
the error, because such an error does not prove that a blob is damaged.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from stratalog.errors import Corrupt, NotFound
from stratalog.ports.blobs import Blobs

__all__ = ["BlobDamage", "BlobReading", "read_blob_back", "require_intact"]


class BlobDamage(msgspec.Struct, frozen=True):
    """The damage of a blob. The blob is missing, or its content contradicts its key or the object that refers to it."""

    key: str
    """The key of the blob; empty if no single blob is damaged, e.g. if a snapshot record contains a damaged chunk."""

    is_missing: bool
    reason: str


class BlobReading(msgspec.Struct, frozen=True):
    """The result of reading one blob from storage."""

    key: str
    size: int
    """The number of bytes of the content; 0 if the content could not be read."""

    damage: BlobDamage | None = None


def read_blob_back(blobs: Blobs, key: str) -> bytes | BlobDamage:
    """Return the verified content, or the blob's damage. Raises Unavailable, Closed, Unsupported."""
    try:
        return blobs.get(key)
    except NotFound:
        return BlobDamage(key, True, "the blob is missing")
    except Corrupt as exc:
        return BlobDamage(key, False, exc.message)


def require_intact(damages: Iterable[BlobDamage | None]) -> None:
    """Raise Corrupt for the first damage in ``damages``. The details of the error have the key of the blob."""
    for damage in damages:
        if damage is not None:
            raise Corrupt(damage.reason, key=damage.key)

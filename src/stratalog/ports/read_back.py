"""Reading back: a blob from storage itself, and what is wrong with it named instead of raised.

What a caller wants to know of many blobs is which of them are damaged, so damage is a value here. Errors of the storage
as a whole are raised, since they say nothing of a blob.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from stratalog.errors import Corrupt, NotFound
from stratalog.ports.blobs import Blobs

__all__ = ["BlobDamage", "BlobReading", "read_blob_back", "require_intact"]


class BlobDamage(msgspec.Struct, frozen=True):
    """A blob that is missing, or that is not what its key or its parent says."""

    key: str
    """Its key. Empty for a chunk that a snapshot record holds inline."""

    is_missing: bool
    reason: str


class BlobReading(msgspec.Struct, frozen=True):
    """One blob as storage gave it just now."""

    key: str
    size: int
    """Bytes of its content; 0 where it could not be read."""

    damage: BlobDamage | None = None


def read_blob_back(blobs: Blobs, key: str) -> bytes | BlobDamage:
    """The verified content, or what is wrong with the blob. Raises Unavailable, Closed."""
    try:
        return blobs.get(key)
    except NotFound:
        return BlobDamage(key, True, "the blob is missing")
    except Corrupt as exc:
        return BlobDamage(key, False, exc.message)


def require_intact(damages: Iterable[BlobDamage | None]) -> None:
    """Go through readings to the end. Raises Corrupt at the first damage, whose key is in the details."""
    for damage in damages:
        if damage is not None:
            raise Corrupt(damage.reason, key=damage.key)

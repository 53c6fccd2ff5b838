"""Reading back: a blob's content from storage, or its damage as a value instead of an error.

A caller that reads many blobs must learn which of them are damaged, and continue. Errors of the whole storage are
raised, since they prove nothing about a blob.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from stratalog.errors import Corrupt, NotFound
from stratalog.ports.blobs import Blobs

__all__ = ["BlobDamage", "BlobReading", "read_blob_back", "require_intact"]


class BlobDamage(msgspec.Struct, frozen=True):
    """A blob that is missing, or whose content contradicts its key or its parent."""

    key: str
    """The key of the blob; empty for a chunk that is part of a snapshot record."""

    is_missing: bool
    reason: str


class BlobReading(msgspec.Struct, frozen=True):
    """The result of reading one blob from storage."""

    key: str
    size: int
    """The number of bytes of the content; 0 if the content could not be read."""

    damage: BlobDamage | None = None


def read_blob_back(blobs: Blobs, key: str) -> bytes | BlobDamage:
    """Return the verified content, or the blob's damage. Raises Unavailable, Closed."""
    try:
        return blobs.get(key)
    except NotFound:
        return BlobDamage(key, True, "the blob is missing")
    except Corrupt as exc:
        return BlobDamage(key, False, exc.message)


def require_intact(damages: Iterable[BlobDamage | None]) -> None:
    """Read ``damages`` up to the first damage. Raises Corrupt for the damage, with its key in the details."""
    for damage in damages:
        if damage is not None:
            raise Corrupt(damage.reason, key=damage.key)

"""The source from which blobs are loaded: the blobs, perhaps behind a cache, and the number of gets at a time."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from stratalog.ports.blobs import Blobs

__all__ = ["BlobSource"]


def _nothing_near(key: str) -> bool:
    return False


class BlobSource(msgspec.Struct, frozen=True):
    """The source of loads that need no proof of storage. A read that proves storage calls the store's blobs instead."""

    blobs: Blobs
    gets_max: int = 1
    """The number of gets that may run at the same time. With 1 no thread starts."""

    is_near: Callable[[str], bool] = _nothing_near
    """Returns whether a cache on this machine probably has the blob. The blob's get is then faster without a thread."""

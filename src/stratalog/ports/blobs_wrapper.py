"""The base class of wrappers of a `Blobs`."""

from __future__ import annotations

from collections.abc import Iterator

from stratalog.ports.blobs import Blobs, BlobStat, Damaged, ignore

__all__ = ["BlobsWrapper"]


class BlobsWrapper:
    """Passes each call to ``blobs``. A subclass overrides the calls that it changes."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    def put(self, key: str, body: bytes) -> None:
        self._blobs.put(key, body)

    def get(self, key: str) -> bytes:
        return self._blobs.get(key)

    def stat(self, key: str) -> BlobStat | None:
        return self._blobs.stat(key)

    def list(self, prefix: str, *, after: str = "", damaged: Damaged = ignore) -> Iterator[BlobStat]:
        return self._blobs.list(prefix, after=after, damaged=damaged)

    def delete(self, key: str, stamp: str) -> bool:
        return self._blobs.delete(key, stamp)

    def close(self) -> None:
        self._blobs.close()

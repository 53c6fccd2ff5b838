"""The metadata of many blobs of one folder, read from a listing in pages, or blob by blob if single reads cost less."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from stratalog.ports.blobs import Blobs, BlobStat

__all__ = ["stats_of"]

T = TypeVar("T")

PAGE_BLOBS = 1000
"""The number of blobs that an object store lists in one request."""

PAGE_WANTED_MIN = 10
"""A page costs as much as about this many single reads. If it contains fewer wanted blobs, single reads cost less."""


def stats_of(blobs: Blobs, folder: str, wanted: Iterator[tuple[str, T]]) -> Iterator[tuple[T, BlobStat | None]]:
    """Yield (the caller's value, the blob's metadata) for each wanted blob, with None for a blob that is not stored.

    ``wanted`` yields (key of a blob in ``folder``, the caller's value) in order of key. Raises Unavailable.
    """
    row = next(wanted, None)
    matched = 0
    # ``after`` is exclusive. A key without its last character is below the key, so the listing includes the key.
    listing = blobs.list(f"{folder}/", after=row[0][:-1] if row else "")
    for listed, stat in enumerate(listing, 1):
        while row is not None and row[0] < stat.key:
            yield row[1], None
            row = next(wanted, None)
        if row is None:
            return
        if row[0] == stat.key:
            yield row[1], stat
            row, matched = next(wanted, None), matched + 1
        if listed % PAGE_BLOBS == 0:
            # Keys end in hashes, so the next pages will match about as many blobs as this page. If a page matches few
            # blobs, read the metadata of each remaining blob by one request.
            if matched < PAGE_WANTED_MIN:
                break
            matched = 0
    while row is not None:
        yield row[1], blobs.stat(row[0])
        row = next(wanted, None)

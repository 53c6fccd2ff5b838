"""Blobs: small bodies are rows in the database of the index, and larger bodies are in another blob store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import merge
from operator import attrgetter
from typing import Protocol

from stratalog.clock import Clock
from stratalog.codec import codec_named, compress_quickly, sha256, unpack
from stratalog.errors import Closed, Corrupt, LimitExceeded, NotFound
from stratalog.limits import BLOB_BYTES_MAX
from stratalog.ports.blobs import Blobs, BlobStat, Damaged, check_put, ignore, key_hash, sound_keys, unpacked
from stratalog.ports.damaged_keys import readable_key

__all__ = ["BlobRow", "BlobTable", "RowBlobs", "StatRow", "blob_rows", "is_intact", "rows_bytes", "text_rows"]

PAGE_ROWS = 256
STAMP_BYTES = 7

BlobRow = tuple[bytes, str, int, int, int]
"""A blob's frame (its compressed body), key, stored size in bytes, time in milliseconds and stamp."""


StatRow = tuple[str, int, int, int]
"""A blob's key, stored size in bytes, time in milliseconds and stamp."""


class BlobTable(Protocol):
    """The rows of a database's blobs. All methods raise the errors of `Blobs`."""

    def body(self, key: str) -> tuple[bytes | None, str] | None:
        """Return the blob's frame and its codec's tag; None if there is no row. The frame is None if it is missing."""
        ...

    def stat(self, key: str) -> tuple[int, int, int] | None:
        """Return the blob's stored size in bytes, time in milliseconds and stamp; None if there is no row."""
        ...

    def page(self, prefix: str, after: str, rows_max: int, damaged: Damaged) -> Sequence[StatRow]:
        """Return up to ``rows_max`` keys at or above ``prefix`` and above ``after``, in order, each with its stat.

        A key that is no text in UTF-8 is left out. Calls ``damaged`` with it if it starts with ``prefix``. If ``after``
        is empty, the keys of other types than text are among these.
        """
        ...

    def put(self, rows: Sequence[BlobRow]) -> None:
        """Store all blobs in one transaction. Renew the time and stamp of a stored blob, and replace a damaged body."""
        ...

    def delete(self, key: str, stamp: int) -> bool:
        """Delete the generation of a blob that ``stamp`` names. Return False if this generation is not stored."""
        ...


class RowBlobs:
    """Blobs of up to ``row_bytes_max`` bytes as rows of ``table``, and larger blobs in ``larger``.

    A put of a larger blob that is already a row renews the row. Without ``larger``, any other put of a larger blob
    raises LimitExceeded. A blob may be a row and also be in ``larger``, as in a folder of the older format. The row
    then takes precedence, and a delete of the blob deletes both copies.
    """

    def __init__(self, table: BlobTable, clock: Clock, larger: Blobs | None, row_bytes_max: int) -> None:
        self._table = table
        self._clock = clock
        self._larger = larger or _NoBlobs(row_bytes_max)
        self._row_bytes_max = row_bytes_max
        self._closed = False

    def put(self, key: str, body: bytes) -> None:
        self._check_open()
        if len(body) > self._row_bytes_max and self._stat_row(key) is None:
            self._larger.put(key, body)
            return
        check_put(key, body)
        self._table.put(blob_rows({key: body}, self._clock))

    def get(self, key: str) -> bytes:
        self._check_open()
        key_hash(key)
        row = self._table.body(key)
        if row is None:
            return self._larger.get(key)
        body, tag = row
        if body is None:
            raise Corrupt("a blob's body is missing in the database", key=key)
        return unpacked(key, codec_named(tag, key), body)

    def stat(self, key: str) -> BlobStat | None:
        self._check_open()
        return self._stat_row(key) or self._larger.stat(key)

    def list(self, prefix: str, *, after: str = "", damaged: Damaged = ignore) -> Iterator[BlobStat]:
        self._check_open()
        last = None
        rows = sound_keys(self._list_rows(prefix, after, damaged), damaged)
        # `merge` is stable: of two stats with the same key, the stat of the row comes first.
        for stat in merge(rows, self._larger.list(prefix, after=after, damaged=damaged), key=_key_of):
            if stat.key != last:
                yield stat
            last = stat.key

    def delete(self, key: str, stamp: str) -> bool:
        self._check_open()
        key_hash(key)
        row = self._stat_row(key)
        if row is None:
            return self._larger.delete(key, stamp)
        # Read the stamp in the other store before deleting the row. While the row exists, a put renews the row and does
        # not change the other store.
        below = self._larger.stat(key)
        if row.stamp != stamp:
            return False
        if not self._table.delete(key, _parsed(stamp)):
            # Since the row was read, another process has deleted or renewed it, or an earlier try of this delete had
            # its effect. Leave the copy in the other store: without the row, a put may have renewed that copy.
            return self.stat(key) is None
        return below is None or self._larger.delete(key, below.stamp)

    def close(self) -> None:
        """Close the other store. The caller that opened the table closes the table."""
        self._closed = True
        self._larger.close()

    def _stat_row(self, key: str) -> BlobStat | None:
        row = self._table.stat(key)
        return None if row is None else _stat(key, *row)

    def _list_rows(self, prefix: str, after: str, damaged: Damaged) -> Iterator[BlobStat]:
        while True:
            self._check_open()
            rows = self._table.page(prefix, after, PAGE_ROWS, damaged)
            for row in rows:
                if not row[0].startswith(prefix):
                    return
                yield _stat(*row)
            if len(rows) < PAGE_ROWS:
                return
            after = rows[-1][0]

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the blobs are closed")


class _NoBlobs:
    """A blob store that is always empty: a put raises LimitExceeded with the limit of a row, ``row_bytes_max``."""

    def __init__(self, row_bytes_max: int) -> None:
        self._row_bytes_max = row_bytes_max

    def put(self, key: str, body: bytes) -> None:
        check_put(key, body)
        raise LimitExceeded("a blob is too large for a row", value=len(body), limit=self._row_bytes_max, key=key)

    def get(self, key: str) -> bytes:
        raise NotFound("the blob does not exist", key=key)

    def stat(self, key: str) -> BlobStat | None:
        return None

    def list(self, prefix: str, *, after: str = "", damaged: Damaged = ignore) -> Iterator[BlobStat]:
        return iter(())

    def delete(self, key: str, stamp: str) -> bool:
        return True

    def close(self) -> None:
        pass


def text_rows(
    read: Callable[[int], Sequence[tuple[bytes, int, int, int]]], rows_max: int, prefix: str, damaged: Damaged
) -> list[StatRow]:
    """Return up to ``rows_max`` rows whose key is UTF-8. Call ``damaged`` with each other key that has the prefix.

    ``read(skipped)`` returns up to ``rows_max`` rows after the first ``skipped`` rows.
    """
    sound: list[StatRow] = []
    skipped = 0
    while len(sound) < rows_max:
        rows = read(skipped)
        skipped += len(rows)
        for key, stored_bytes, modified_ms, stamp in rows:
            try:
                sound.append((key.decode(), stored_bytes, modified_ms, stamp))
            except UnicodeDecodeError:
                if key.startswith(prefix.encode()):
                    damaged(readable_key(key))
        if len(rows) < rows_max:
            break
    return sound


def blob_rows(blobs: Mapping[str, bytes], clock: Clock) -> list[BlobRow]:
    """Return the rows of ``blobs``, each with a new stamp and the present time."""
    now_ms = clock.wall_ms()
    rows: list[BlobRow] = []
    for key, body in blobs.items():
        frame = compress_quickly(body)
        stamp = int.from_bytes(clock.random_bytes(STAMP_BYTES), "big")
        rows.append((frame, key, len(frame), now_ms, stamp))
    return rows


def rows_bytes(rows: Sequence[BlobRow]) -> int:
    """Return the stored size of the bodies of ``rows``, in bytes."""
    return sum(row[2] for row in rows)


def is_intact(key: str, body: bytes | None, tag: str) -> bool:
    """Return whether a stored body is intact. Raises Unsupported for a codec that this program lacks."""
    try:
        return body is not None and sha256(unpack(codec_named(tag, key), body, BLOB_BYTES_MAX)) == key_hash(key)
    except Corrupt:
        return False


def _stat(key: str, stored_bytes: int, modified_ms: int, stamp: int) -> BlobStat:
    return BlobStat(key, stored_bytes, modified_ms, f"row-{stamp:x}")


def _parsed(stamp: str) -> int:
    return int(stamp.removeprefix("row-"), 16)


_key_of = attrgetter("key")

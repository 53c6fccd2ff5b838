"""Blobs of a folder: small ones are rows of the index's own database, larger ones are stored in another blob store.

Bodies are rows of one table. Key, size, time and stamp are rows of another, so that putting a blob again writes a short
row instead of its body.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from heapq import merge
from operator import attrgetter
from typing import Any

import apsw

from stratalog.backends.sqlite_file import SqliteFile
from stratalog.backends.sqlite_tables import BLOB_INSERTS, BlobRow
from stratalog.clock import Clock
from stratalog.codec import codec_named, compress_quickly, sha256, unpack
from stratalog.errors import Closed, Corrupt
from stratalog.limits import BLOB_BYTES_MAX
from stratalog.ports.blobs import Blobs, BlobStat, check_put, key_hash, verified

__all__ = ["SqliteBlobs", "blob_rows", "rows_bytes", "store_blobs"]

PAGE_ROWS = 256
STAMP_BYTES = 7

GET = "SELECT body, codec FROM blobs LEFT JOIN blob_bodies USING (id) WHERE key = ?"
STAT = "SELECT bytes, modified_ms, stamp FROM blobs WHERE key = ?"
PAGE = "SELECT key, bytes, modified_ms, stamp FROM blobs WHERE key >= ? AND key > ? ORDER BY key LIMIT ?"
STANDING = "SELECT id, body, codec FROM blobs LEFT JOIN blob_bodies USING (id) WHERE key = ?"
RENEW = "UPDATE blobs SET modified_ms = ?, stamp = ? WHERE key = ?"
REPAIR = "INSERT OR REPLACE INTO blob_bodies(id, body) VALUES (?, ?)"
FORGET = "DELETE FROM blobs WHERE key = ? AND stamp = ? RETURNING id"
FREE = "DELETE FROM blob_bodies WHERE id = ?"


class SqliteBlobs:
    """Blobs of up to ``row_bytes_max`` bytes as rows of ``file``, and larger ones in ``files``.

    A blob may be in both, as in a folder of the older format. Its row then takes precedence, and deleting the blob
    deletes both.
    """

    def __init__(self, file: SqliteFile, clock: Clock, files: Blobs, row_bytes_max: int) -> None:
        self._file = file
        self._clock = clock
        self._files = files
        self._row_bytes_max = row_bytes_max
        self._closed = False

    def put(self, key: str, body: bytes) -> None:
        self._check_open()
        if len(body) > self._row_bytes_max and self._stat_row(key) is None:
            self._files.put(key, body)
            return
        check_put(key, body)
        rows = blob_rows({key: body}, self._clock)
        self._file.write(partial(store_blobs, rows, self._clock), blobs=rows, blob_bytes=rows_bytes(rows))

    def get(self, key: str) -> bytes:
        self._check_open()
        key_hash(key)
        rows = self._file.read(GET, (key,))
        if not rows:
            return self._files.get(key)
        body, tag = rows[0]
        if body is None:
            raise Corrupt("a blob's body is missing in the database", key=key)
        return verified(key, unpack(codec_named(tag, key), body, BLOB_BYTES_MAX))

    def stat(self, key: str) -> BlobStat | None:
        self._check_open()
        return self._stat_row(key) or self._files.stat(key)

    def list(self, prefix: str, *, after: str = "") -> Iterator[BlobStat]:
        self._check_open()
        last = None
        # `merge` is stable: of two stats with the same key the row's comes first.
        for stat in merge(self._list_rows(prefix, after), self._files.list(prefix, after=after), key=_key_of):
            if stat.key != last:
                yield stat
            last = stat.key

    def delete(self, key: str, stamp: str) -> bool:
        self._check_open()
        key_hash(key)
        row = self._stat_row(key)
        if row is None:
            return self._files.delete(key, stamp)
        # Read the file's stamp before the row is deleted: a put in between writes a row and does not touch the file.
        below = self._files.stat(key)
        if row.stamp != stamp or not self._file.write(partial(_delete, key, _parsed(stamp))):
            return False
        return below is None or self._files.delete(key, below.stamp)

    def close(self) -> None:
        """Close the other store. The caller that opened the SQLite file closes it."""
        self._closed = True
        self._files.close()

    def _stat_row(self, key: str) -> BlobStat | None:
        rows = self._file.read(STAT, (key,))
        return _stat(key, *rows[0]) if rows else None

    def _list_rows(self, prefix: str, after: str) -> Iterator[BlobStat]:
        while True:
            self._check_open()
            rows = self._file.read(PAGE, (prefix, after, PAGE_ROWS))
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


def store_blobs(rows: Sequence[BlobRow], clock: Clock, connection: apsw.Connection) -> None:
    """Store each blob inside a transaction. An existing blob is renewed, and its body replaced if damaged.

    A renewal reads the clock here and does not use the row's time. Otherwise a writer that was suspended after it made
    the row could replace the stored time by an older time.
    """
    for row in rows:
        frame, key, _, _, stamp = row
        standing: list[Any] = connection.execute(STANDING, (key,)).fetchall()
        if not standing:
            connection.execute(BLOB_INSERTS, row)
            continue
        id, body, tag = standing[0]
        if body != frame and not _is_intact(key, body, tag):
            connection.execute(REPAIR, (id, frame))
        connection.execute(RENEW, (clock.wall_ms(), stamp, key))


def _is_intact(key: str, body: bytes | None, tag: str) -> bool:
    """Return whether a stored body is intact. Raises Unsupported for a codec that this program does not know."""
    try:
        return body is not None and sha256(unpack(codec_named(tag, key), body, BLOB_BYTES_MAX)) == key_hash(key)
    except Corrupt:
        return False


def _delete(key: str, stamp: int, connection: apsw.Connection) -> bool:
    """Delete one generation of a blob. False if this generation is not stored."""
    rows: list[Any] = connection.execute(FORGET, (key, stamp)).fetchall()
    for row in rows:
        connection.execute(FREE, row)
    return bool(rows)


def _stat(key: str, stored_bytes: int, modified_ms: int, stamp: int) -> BlobStat:
    return BlobStat(key, stored_bytes, modified_ms, f"row-{stamp:x}")


def _parsed(stamp: str) -> int:
    return int(stamp.removeprefix("row-"), 16)


_key_of = attrgetter("key")

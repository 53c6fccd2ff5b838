"""Blobs as rows of the SQLite file. `RowBlobs` makes a blob store of these rows.

Bodies are rows of one table. Keys, sizes, times and stamps are rows of another table. So a repeated put of a blob
writes a short row instead of the body.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import apsw

from stratalog.backends.row_blobs import BlobRow, StatRow, is_intact, rows_bytes, text_rows
from stratalog.backends.sqlite_file import SqliteFile
from stratalog.backends.sqlite_read_only import ReadOnlyFile
from stratalog.backends.sqlite_tables import BLOB_INSERTS
from stratalog.clock import Clock
from stratalog.errors import Corrupt
from stratalog.ports.blobs import Damaged, ignore
from stratalog.ports.damaged_keys import readable_key

__all__ = ["SqliteBlobTable", "store_blobs"]

BODY_BYTES = "CASE typeof(body) WHEN 'blob' THEN body END"
"""The SQL of a body, or NULL for a damaged body of another type than bytes. SQLite stores any type in any column."""

GET = f"SELECT {BODY_BYTES}, codec FROM blobs LEFT JOIN blob_bodies USING (id) WHERE key = ?"
STAT = "SELECT bytes, modified_ms, stamp FROM blobs WHERE key = ?"
# SQLite stores any type in any column, and orders numbers before all text, and bytes after all text.
PAGE = "SELECT key, bytes, modified_ms, stamp FROM blobs WHERE key >= ? AND key > ? AND key < x'' ORDER BY key LIMIT ?"
PAGE_OF_DAMAGED = PAGE.replace("SELECT key", "SELECT CAST(key AS BLOB)") + " OFFSET ?"
OTHER_TYPES = "SELECT CAST(key AS BLOB) FROM blobs WHERE key < '' OR key >= x''"
STANDING = f"SELECT id, {BODY_BYTES}, codec FROM blobs LEFT JOIN blob_bodies USING (id) WHERE key = ?"
RENEW = "UPDATE blobs SET modified_ms = ?, stamp = ? WHERE key = ?"
REPAIR = "INSERT OR REPLACE INTO blob_bodies(id, body) VALUES (?, ?)"
RESIZE = "UPDATE blobs SET bytes = ? WHERE key = ?"
FORGET = "DELETE FROM blobs WHERE key = ? AND stamp = ? RETURNING id"
FREE = "DELETE FROM blob_bodies WHERE id = ?"


class SqliteBlobTable:
    """The blobs of a SQLite file; see `BlobTable`."""

    def __init__(self, file: SqliteFile | ReadOnlyFile, clock: Clock) -> None:
        self._file = file
        self._clock = clock

    def body(self, key: str) -> tuple[bytes | None, str] | None:
        rows = self._file.read(GET, (key,))
        return rows[0] if rows else None

    def stat(self, key: str) -> tuple[int, int, int] | None:
        rows = self._file.read(STAT, (key,))
        return rows[0] if rows else None

    def page(self, prefix: str, after: str, rows_max: int, damaged: Damaged) -> Sequence[StatRow]:
        if damaged is not ignore and not after:
            for (key,) in self._file.read(OTHER_TYPES, ()):
                if key.startswith(prefix.encode()):
                    damaged(readable_key(key))
        try:
            return self._file.read(PAGE, (prefix, after, rows_max))
        except Corrupt:
            read = partial(self._read_damaged, prefix, after, rows_max)
            return text_rows(read, rows_max, prefix, damaged)

    def _read_damaged(self, prefix: str, after: str, rows_max: int, skipped: int) -> list[tuple[bytes, int, int, int]]:
        return self._file.read(PAGE_OF_DAMAGED, (prefix, after, rows_max, skipped))

    def put(self, rows: Sequence[BlobRow]) -> None:
        self._file.write(partial(store_blobs, rows, self._clock), blobs=rows, blob_bytes=rows_bytes(rows))

    def delete(self, key: str, stamp: int) -> bool:
        return self._file.write(partial(_delete, key, stamp))


def store_blobs(rows: Sequence[BlobRow], clock: Clock, connection: apsw.Connection) -> None:
    """Store each blob inside a transaction. Renew an existing blob, and replace its body if the body is damaged.

    A renewal reads the clock here and does not use the row's time. Otherwise a writer that was suspended after it made
    the row could replace the stored time by an older time.
    """
    for row in rows:
        frame, key, stored_bytes, _, stamp = row
        standing: list[Any] = connection.execute(STANDING, (key,)).fetchall()
        if not standing:
            connection.execute(BLOB_INSERTS, row)
            continue
        id, body, tag = standing[0]
        if body != frame and not is_intact(key, body, tag):
            connection.execute(REPAIR, (id, frame))
            connection.execute(RESIZE, (stored_bytes, key))
        connection.execute(RENEW, (clock.wall_ms(), stamp, key))


def _delete(key: str, stamp: int, connection: apsw.Connection) -> bool:
    """Delete one generation of a blob. Return False if this generation is not stored."""
    rows: list[Any] = connection.execute(FORGET, (key, stamp)).fetchall()
    for row in rows:
        connection.execute(FREE, row)
    return bool(rows)

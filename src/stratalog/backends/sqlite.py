"""The index, small blobs and the queue in one SQLite file, through apsw, which includes a current SQLite."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import apsw

from stratalog.backends.item_rows import bounds_of, encoded_commit, item_of, key_of, page_statements, pages, text_of
from stratalog.backends.row_blobs import BlobRow, RowBlobs, blob_rows, rows_bytes
from stratalog.backends.sqlite_blobs import SqliteBlobTable, store_blobs
from stratalog.backends.sqlite_file import LOG_BYTES, SqliteFile
from stratalog.backends.sqlite_queue import SqliteQueue
from stratalog.backends.sqlite_read_only import ReadOnlyFile, is_unwritable
from stratalog.clock import Clock
from stratalog.errors import ConditionFailed, Corrupt, Unavailable
from stratalog.folders import absolute_path
from stratalog.limits import BLOB_ROW_BYTES_MAX
from stratalog.ports.blobs import Blobs
from stratalog.ports.damaged_keys import KeyPosition
from stratalog.ports.index import NO_BLOBS, Delete, Item, Put, Write, holds

__all__ = ["SqliteDatabase", "SqliteIndex"]

GET = "SELECT body FROM items WHERE partition = ? AND sort = ?"
REPLACE = "INSERT OR REPLACE INTO items VALUES (?, ?, ?)"
DELETE = "DELETE FROM items WHERE partition = ? AND sort = ?"
PAGES = page_statements("?")

# A damaged body or sort key may be text that is not UTF-8, which cannot be read. These statements read the type of a
# damaged body in its place, so the item does not decode, and the bytes of a sort key. They are slower. The last
# parameter of a page is the number of rows to skip.
BODY_OR_TYPE = "CASE typeof(body) WHEN 'blob' THEN body ELSE typeof(body) END"
GET_OF_DAMAGED = GET.replace("body", BODY_OR_TYPE)
PAGES_OF_DAMAGED = {
    case: statement.replace("SELECT sort, body", f"SELECT CAST(sort AS BLOB), typeof(sort), {BODY_OR_TYPE}")
    + " OFFSET ?"
    for case, statement in PAGES.items()
}


class SqliteDatabase:
    """One file with an ``index``, a ``queue`` and small `blobs`. Safe for threads and for several processes.

    Blobs of up to ``blob_bytes_max`` bytes are rows of the file. The index can commit them in one transaction with its
    items.

    ``synchronous`` is SQLite's own setting. With a value below ``FULL`` a power failure may undo acknowledged commits.
    ``file_bytes_max`` limits the file: a write over the limit raises StorageFull. ``vfs`` names a VFS that is
    registered with SQLite; the simulation registers its own VFS. A connection that commits often grows SQLite's
    write-ahead log to ``log_bytes`` ahead of time. In a forked child every read and write raises Closed, so the child
    must open the file again. With ``allow_read_only``, a file whose folder this process may not write is opened for
    reads, and each write raises Unavailable.

    The constructor raises Corrupt (the file is not an intact SQLite database), Unsupported (a newer format), Invalid
    (another program's database), StorageFull, Unavailable (for example, the folder is missing, or another process keeps
    opening the file).
    """

    def __init__(
        self,
        path: str | Path,
        clock: Clock,
        *,
        synchronous: str = "FULL",
        receives_max: int = 10,
        file_bytes_max: int | None = None,
        vfs: str | None = None,
        log_bytes: int = LOG_BYTES,
        blob_bytes_max: int = BLOB_ROW_BYTES_MAX,
        allow_read_only: bool = False,
    ) -> None:
        self.path = absolute_path(path)
        self._clock = clock
        try:
            self._file: SqliteFile | ReadOnlyFile = SqliteFile(
                self.path, clock, synchronous, file_bytes_max, vfs, log_bytes
            )
        except Unavailable as exc:
            if not (allow_read_only and is_unwritable(exc)):
                raise
            self._file = ReadOnlyFile(self.path, exc)
        self._blob_bytes_max = blob_bytes_max
        self.index = SqliteIndex(self._file, clock)
        self.queue = SqliteQueue(self._file, clock, receives_max)

    def blobs(self, files: Blobs) -> RowBlobs:
        """Return the blobs of the file and the larger blobs in ``files`` as one store.

        The index accepts blobs in a commit only after this call, because only the returned object reads the blobs in
        the file.
        """
        self.index.blob_bytes_max = self._blob_bytes_max
        return RowBlobs(SqliteBlobTable(self._file, self._clock), self._clock, files, self._blob_bytes_max)

    def close(self) -> None:
        """Wait for writes in flight, then close all files. Closing twice is fine."""
        self._file.close()


class SqliteIndex:
    """An index in the table ``items``. An item's attributes are one MessagePack map."""

    joint_commits = True
    blob_bytes_max = 0

    def __init__(self, file: SqliteFile | ReadOnlyFile, clock: Clock) -> None:
        self._file = file
        self._clock = clock

    def get(self, partition: str, sort: str, *, consistent: bool = True) -> Item | None:
        try:
            rows = self._file.read(GET, (partition, sort))
        except Corrupt:
            rows = self._file.read(GET_OF_DAMAGED, (partition, sort))
        return item_of(partition, sort, rows[0][0]) if rows else None

    def query(
        self,
        partition: str,
        *,
        after: str | None = None,
        before: str | None = None,
        reverse: bool = False,
        limit: int | None = None,
        consistent: bool = True,
    ) -> Iterator[Item]:
        def read(after: str | None, before: str | None, rows_max: int) -> list[Any]:
            if isinstance(before if reverse else after, KeyPosition):
                return self._read_damaged(partition, after, before, reverse, rows_max)
            bounds = [bound for bound in (after, before) if bound is not None]
            case = (after is not None, before is not None, reverse)
            try:
                return self._file.read(PAGES[case], (partition, *bounds, rows_max))
            except Corrupt:
                return self._read_damaged(partition, after, before, reverse, rows_max)

        return chain.from_iterable(pages(read, partition, after, before, reverse, limit))

    def _read_damaged(
        self, partition: str, after: str | None, before: str | None, reverse: bool, rows_max: int
    ) -> list[tuple[Any, Any]]:
        """Return a page with the bytes of each sort key that is not text in UTF-8, and with no body beside them."""
        has_after, has_before, bounds, skipped = bounds_of(after, before, reverse)
        statement = PAGES_OF_DAMAGED[has_after, has_before, reverse]
        rows = self._file.read(statement, (partition, *bounds, rows_max, skipped))
        keys = [text_of(sort) if kind == "text" else sort for sort, kind, _ in rows]
        return [(key, row[2] if type(key) is str else b"") for key, row in zip(keys, rows, strict=True)]

    def commit(self, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        bodies, rows = encoded_commit(writes, blobs, self.blob_bytes_max)
        if not blobs:
            return self._file.write(partial(_write_all, writes, bodies), rows)
        stored = blob_rows(blobs, self._clock)
        job = partial(_write_with_blobs, writes, bodies, stored, self._clock)
        inserted = stored if rows or not writes else ()
        return self._file.write(job, rows, inserted, rows_bytes(stored))

    def turn(self, partition: str) -> AbstractContextManager[bool]:
        """Make all writers in other processes wait, since all partitions share the file. See `Index.turn`."""
        return self._file.turn()

    def close(self) -> None:
        self._file.close()


def _write_all(writes: Sequence[Write], bodies: Sequence[bytes], connection: apsw.Connection) -> None:
    """Make a commit inside a transaction, or raise ConditionFailed.

    The function evaluates all conditions before the first write. So a commit that fails has written nothing, and a
    transaction of several commits needs no savepoint.
    """
    failed = {}
    for position, write in enumerate(writes):
        if write.condition is not None:
            item = _get(connection, *key_of(write))
            if not holds(write.condition, item):
                failed[position] = item
    if failed:
        raise ConditionFailed(failed)
    for write, body in zip(writes, bodies, strict=True):
        if isinstance(write, Put):
            connection.execute(REPLACE, (*key_of(write), body))
        elif isinstance(write, Delete):
            connection.execute(DELETE, key_of(write))


def _write_with_blobs(
    writes: Sequence[Write],
    bodies: Sequence[bytes],
    blobs: Sequence[BlobRow],
    clock: Clock,
    connection: apsw.Connection,
) -> None:
    _write_all(writes, bodies, connection)
    store_blobs(blobs, clock, connection)


def _get(connection: apsw.Connection, partition: str, sort: str) -> Item | None:
    try:
        rows: list[Any] = connection.execute(GET, (partition, sort)).fetchall()
    except UnicodeDecodeError:
        rows = connection.execute(GET_OF_DAMAGED, (partition, sort)).fetchall()
    return item_of(partition, sort, rows[0][0]) if rows else None

"""The index, small blobs and the queue in one SQLite file, through apsw, which includes a current SQLite."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import apsw
import msgspec

from stratalog.backends.sqlite_blobs import SqliteBlobs, blob_rows, rows_bytes, store_blobs
from stratalog.backends.sqlite_file import LOG_BYTES, SqliteFile
from stratalog.backends.sqlite_queue import SqliteQueue
from stratalog.backends.sqlite_tables import CHECKED_PAIR_BYTES, BlobRow, Row
from stratalog.clock import Clock
from stratalog.errors import ConditionFailed, Corrupt, Invalid
from stratalog.limits import BLOB_ROW_BYTES_MAX
from stratalog.ports.blobs import Blobs
from stratalog.ports.index import (
    NO_BLOBS,
    Absent,
    Check,
    Delete,
    Equals,
    Item,
    Put,
    Write,
    check_blobs,
    check_commit,
    holds,
    small_bytes,
)

__all__ = ["SqliteDatabase", "SqliteIndex"]

QUERY_ROWS_FIRST = 128
QUERY_ROWS_MAX = 1024
QUERY_BYTES_MAX = 4 * 1024 * 1024

GET = "SELECT body FROM items WHERE partition = ? AND sort = ?"
REPLACE = "INSERT OR REPLACE INTO items VALUES (?, ?, ?)"
DELETE = "DELETE FROM items WHERE partition = ? AND sort = ?"
PAGES = {
    (after, before, reverse): (
        "SELECT sort, body FROM items WHERE partition = ?"
        + (" AND sort > ?" if after else "")
        + (" AND sort < ?" if before else "")
        + f" ORDER BY sort {'DESC' if reverse else 'ASC'} LIMIT ?"
    )
    for after in (False, True)
    for before in (False, True)
    for reverse in (False, True)
}


class SqliteDatabase:
    """One file with an ``index``, a ``queue`` and small `blobs`. Safe for threads and for several processes.

    Blobs of up to ``blob_bytes_max`` bytes are rows of the file, which the index commits with its items.

    ``synchronous`` is SQLite's own setting; with anything below ``FULL`` a power failure may undo acknowledged commits.
    ``file_bytes_max`` limits the file: a write over it raises StorageFull. ``vfs`` names a VFS that is registered with
    SQLite; the simulation has one. A connection that commits often grows SQLite's write-ahead log to ``log_bytes``
    ahead of time. In a forked child every call raises Closed; open the file again there.

    Raises Corrupt (the file is no intact SQLite database), Unsupported (a newer format), Invalid (another program's
    database), Unavailable.
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
    ) -> None:
        self.path = os.fspath(path)
        self._clock = clock
        self._file = SqliteFile(self.path, clock, synchronous, file_bytes_max, vfs, log_bytes)
        self._blob_bytes_max = blob_bytes_max
        self.index = SqliteIndex(self._file, clock)
        self.queue = SqliteQueue(self._file, clock, receives_max)

    def blobs(self, files: Blobs) -> SqliteBlobs:
        """Return the blobs of the file and the larger ones in ``files`` as one store.

        The index accepts blobs in a commit only after this call. Without this call, the store has its blobs elsewhere
        and would not find the blobs in the file.
        """
        self.index.blob_bytes_max = self._blob_bytes_max
        return SqliteBlobs(self._file, self._clock, files, self._blob_bytes_max)

    def close(self) -> None:
        """Wait for writes in flight, then close all files. Closing twice is fine."""
        self._file.close()


class SqliteIndex:
    """An index in the table ``items``. An item's attributes are one MessagePack map."""

    joint_commits = True
    blob_bytes_max = 0

    def __init__(self, file: SqliteFile, clock: Clock) -> None:
        self._file = file
        self._clock = clock

    def get(self, partition: str, sort: str, *, consistent: bool = True) -> Item | None:
        rows = self._file.read(GET, (partition, sort))
        return _item(partition, sort, rows[0][0]) if rows else None

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
        return chain.from_iterable(self._pages(partition, after, before, reverse, limit))

    def _pages(
        self, partition: str, after: str | None, before: str | None, reverse: bool, limit: int | None
    ) -> Iterator[list[Item]]:
        left = limit
        rows_max = QUERY_ROWS_FIRST
        while left is None or left > 0:
            wanted = rows_max if left is None else min(left, rows_max)
            bounds = [bound for bound in (after, before) if bound is not None]
            statement = PAGES[after is not None, before is not None, reverse]
            rows = self._file.read(statement, (partition, *bounds, wanted))
            yield from _decoded(partition, rows)
            if len(rows) < wanted:
                return
            after, before = (after, rows[-1][0]) if reverse else (rows[-1][0], before)
            left = None if left is None else left - len(rows)
            rows_max = _next_rows_max(rows)

    def commit(self, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        bodies: Sequence[bytes]
        rows: Sequence[Row]
        if row := _append_row(writes):
            bodies, rows = (row[2], b""), (row,)
            if blobs:
                check_blobs(blobs, self.blob_bytes_max)
        else:
            bodies = [_body(write.item) if type(write) is Put else b"" for write in writes]
            check_commit(writes, blobs, self.blob_bytes_max, bodies)
            rows = _rows_if_absent(writes, bodies)
        if not blobs:
            return self._file.write(partial(_write_all, writes, bodies), rows)
        stored = blob_rows(blobs, self._clock)
        job = partial(_write_with_blobs, writes, bodies, stored, self._clock)
        inserted = stored if rows or not writes else ()
        return self._file.write(job, rows, inserted, rows_bytes(stored))

    def turn(self, partition: str) -> AbstractContextManager[bool]:
        """Hold off writers of all partitions in other processes, since they share the file. See `Index.turn`."""
        return self._file.turn()

    def close(self) -> None:
        self._file.close()


def _rows_if_absent(writes: Sequence[Write], bodies: Sequence[bytes]) -> list[Row]:
    """Return the rows of a commit whose puts all have the condition `Absent`; [] for any other commit.

    Such a commit is one INSERT, and the primary key is its condition. The last write of the commit may be a check for a
    hash, as in an append. The first row then carries the check. The statement compares only the first attribute of the
    checked item. If the hash is another attribute, the statement fails, and `_write_all` makes the commit.
    """
    rows: list[Row] = []
    check = writes[-1] if writes and type(writes[-1]) is Check else None
    for write, body in zip(writes[:-1] if check else writes, bodies, strict=False):
        if type(write) is not Put or type(write.condition) is not Absent:
            return []
        rows.append((write.item.partition, write.item.sort, body))
    if check and rows:
        pair = _hash_pair(check)
        if not pair:
            return []
        rows[0] += (check.partition, check.sort, pair)
    return rows


def _append_row(writes: Sequence[Write]) -> Row | None:
    """Return the row of an append of one entry; None for any other commit, and for an item that may be too large.

    Most commits append one entry. Leaving out the general checks saves 3 of 30 µs.
    """
    if len(writes) != 2:
        return None
    put, check = writes
    if type(put) is not Put or type(check) is not Check or type(put.condition) is not Absent:
        return None
    item, pair = put.item, _hash_pair(check)
    partition, sort = item.partition, item.sort
    if not pair or (sort == check.sort and partition == check.partition):
        return None
    body = _body(item)
    return (partition, sort, body, check.partition, check.sort, pair) if small_bytes(item, body) else None


def _hash_pair(check: Check) -> bytes:
    """Return the encoded name and value that a check for a hash expects; empty for any other check."""
    condition = check.condition
    pair = _encode({condition.name: condition.value})[1:] if type(condition) is Equals else b""
    return pair if len(pair) == CHECKED_PAIR_BYTES else b""


def _write_all(writes: Sequence[Write], bodies: Sequence[bytes], connection: apsw.Connection) -> None:
    """Make a commit inside a transaction, or raise ConditionFailed.

    All conditions are evaluated before the first write. So a commit that fails has written nothing, and a transaction
    of several commits needs no savepoint.
    """
    failed = {}
    for position, write in enumerate(writes):
        if write.condition is not None:
            item = _get(connection, *_key(write))
            if not holds(write.condition, item):
                failed[position] = item
    if failed:
        raise ConditionFailed(failed)
    for write, body in zip(writes, bodies, strict=True):
        if isinstance(write, Put):
            connection.execute(REPLACE, (*_key(write), body))
        elif isinstance(write, Delete):
            connection.execute(DELETE, _key(write))


def _write_with_blobs(
    writes: Sequence[Write],
    bodies: Sequence[bytes],
    blobs: Sequence[BlobRow],
    clock: Clock,
    connection: apsw.Connection,
) -> None:
    _write_all(writes, bodies, connection)
    store_blobs(blobs, clock, connection)


def _decoded(partition: str, rows: Sequence[tuple[str, bytes]]) -> Iterator[list[Item]]:
    """Yield the items of a page. If an item does not decode, yield the items before it, then raise Corrupt."""
    try:
        yield [Item(partition, sort, _decode_attributes(body)) for sort, body in rows]
        return
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    for sort, body in rows:
        yield [_item(partition, sort, body)]


def _item(partition: str, sort: str, body: bytes) -> Item:
    try:
        return Item(partition, sort, _decode_attributes(body))
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise Corrupt("an item cannot be decoded", partition=partition, sort=sort, reason=str(exc)) from exc


def _get(connection: apsw.Connection, partition: str, sort: str) -> Item | None:
    rows: list[Any] = connection.execute(GET, (partition, sort)).fetchall()
    return _item(partition, sort, rows[0][0]) if rows else None


def _key(write: Write) -> tuple[str, str]:
    return (write.item.partition, write.item.sort) if isinstance(write, Put) else (write.partition, write.sort)


def _body(item: Item) -> bytes:
    attributes = item.attributes
    try:
        return _encode(attributes if type(attributes) is dict else dict(attributes))
    except (TypeError, OverflowError) as exc:
        raise Invalid("an attribute must be text, bytes or an integer of 64 bits", reason=str(exc)) from exc


_decode_attributes = msgspec.msgpack.Decoder(dict[str, Any]).decode
_encode = msgspec.msgpack.Encoder().encode
"""Keeps attributes in the caller's order. Sorting takes time, and `_rows_if_absent` relies on the first attribute."""


def _next_rows_max(rows: Sequence[tuple[str, bytes]]) -> int:
    """Return the number of rows for the next page: twice as many, but at most `QUERY_ROWS_MAX` or `QUERY_BYTES_MAX`."""
    row_bytes = sum(len(body) for _, body in rows) // len(rows) + 1
    return max(1, min(2 * len(rows), QUERY_ROWS_MAX, QUERY_BYTES_MAX // row_bytes))

"""Opens and closes connections to a SQLite file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock
from functools import partial

import apsw

from stratalog.backends.sqlite_tables import PAGE_BYTES, create_tables, prepare
from stratalog.backends.turnstile import open_lock_file
from stratalog.clock import Clock
from stratalog.errors import Corrupt, StorageFull, StratalogError, Unavailable
from stratalog.limits import OPENING_WAIT_MS_MAX
from stratalog.process_fork import check_fork, delay_forks
from stratalog.sqlite_files import OpenFile, create_file, sync_commits

__all__ = ["close_inherited", "open_reader", "open_writer", "translated_error"]

BUSY_MS = 2000
POLL_MS = 1


def open_writer(
    path: str, clock: Clock, synchronous: str, file_bytes_max: int | None, vfs: str | None
) -> tuple[apsw.Connection, OpenFile]:
    """Return a connection for writes, and the file that it opened. Create a missing file, and missing tables.

    Raises Corrupt, Unsupported, Invalid, StorageFull, Unavailable.
    """
    check_fork()
    with delay_forks(), _opening(path, clock):
        create_file(path, partial(create_tables, vfs=vfs))
        connection = apsw.Connection(path, vfs=vfs)
        try:
            _prepare(connection, synchronous, file_bytes_max)
        except BaseException:
            connection.close()
            raise
        return connection, OpenFile(path)


def open_reader(path: str, vfs: str | None) -> apsw.Connection:
    """Return a connection for reads. Raises the errors of apsw."""
    reader = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs)
    reader.set_busy_timeout(BUSY_MS)
    reader.pragma("query_only", 1)
    sync_commits(reader)  # the last connection to close makes a checkpoint, and may be a reader
    return reader


def close_inherited(connections: Iterable[apsw.Connection]) -> None:
    """In a forked child, close those connections of the parent that are open. None of them may have a transaction.

    SQLite remembers for each process which locks of a file it has. The child inherits this memory, but not the locks.
    If the child kept one connection, SQLite would take no lock for a new one. The parent could then delete the
    write-ahead log under the child's commits.

    The child does not use the file: SQLite would otherwise check whether this is the last connection of all processes.
    """
    for connection in connections:
        with suppress(apsw.ConnectionClosedError):
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            connection.close()


def translated_error(exc: apsw.Error) -> StratalogError:
    """Return Stratalog's error for an error of SQLite after which certainly nothing was written."""
    if isinstance(exc, apsw.FullError):
        return StorageFull("no disk space for the transaction", reason=str(exc))
    if isinstance(exc, apsw.CorruptError | apsw.NotADBError):
        return Corrupt("the file is not an intact database", reason=str(exc))
    return Unavailable("the database could not execute the request", reason=str(exc))


def _prepare(connection: apsw.Connection, synchronous: str, file_bytes_max: int | None) -> None:
    """Set up the writing connection and make missing tables.

    A process that was killed during a commit may have left that commit unsynced in the write-ahead log. The checkpoint
    syncs this commit before any reader sees it: SQLite syncs the log before it grows the database. So on a full disk
    the store can still be read.
    """
    connection.set_busy_timeout(BUSY_MS)
    sync_commits(connection, synchronous)
    if file_bytes_max is not None:
        connection.pragma("max_page_count", max(1, file_bytes_max // PAGE_BYTES))
    prepare(connection)
    connection.pragma("journal_mode", "wal")
    with suppress(apsw.FullError):
        connection.pragma("wal_checkpoint")


@contextmanager
def _opening(path: str, clock: Clock) -> Iterator[None]:
    """Let one process at a time open the file, since the open may create the file. Translates SQLite's errors."""
    lock_file = open_lock_file(path + ".lock")
    try:
        _lock(lock_file, path, clock)
        yield
    except apsw.Error as exc:
        raise translated_error(exc) from exc
    finally:
        # Closing alone would not unlock the file: a child that was forked meanwhile still has the lock file open.
        flock(lock_file, LOCK_UN)
        os.close(lock_file)


def _lock(lock_file: int, path: str, clock: Clock) -> None:
    """Lock the file. Raises Unavailable after `OPENING_WAIT_MS_MAX`: a stopped process may have the lock."""
    for _ in range(OPENING_WAIT_MS_MAX // POLL_MS):
        try:
            return flock(lock_file, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            clock.sleep(POLL_MS / 1000)
    raise Unavailable("another process keeps opening the database", path=path, limit_ms=OPENING_WAIT_MS_MAX)

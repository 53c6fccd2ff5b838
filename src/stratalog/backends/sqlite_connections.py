"""Opens and closes connections to a SQLite file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock

import apsw

from stratalog.backends.sqlite_tables import PAGE_BYTES, prepare
from stratalog.backends.turnstile import open_lock_file
from stratalog.clock import Clock
from stratalog.errors import StorageFull, Unavailable
from stratalog.folders import OpenPath
from stratalog.limits import OPENING_WAIT_MS_MAX
from stratalog.process_fork import check_fork, delay_forks
from stratalog.sqlite_files import connected, create_file, sync_commits, sync_log, translated_error

__all__ = ["open_alone", "open_reader", "open_writer"]

BUSY_MS = 2000
POLL_MS = 1


def open_writer(
    path: str, clock: Clock, synchronous: str, file_bytes_max: int | None, vfs: str | None
) -> tuple[apsw.Connection | None, OpenPath]:
    """Return a connection for writes, and the file that it opened. Create a missing file, and missing tables.

    If the disk has no room for the connection's shared memory, but the file can be read, return None and the file.
    Raises Corrupt, Unsupported, Invalid, StorageFull, Unavailable.
    """
    check_fork()
    with delay_forks(), _opening(path, clock):
        create_file(path, _create_tables, vfs)
        opened = OpenPath(path, "the database's file")
        try:
            with connected(opened, vfs) as connection:
                _prepare(connection, synchronous, file_bytes_max)
        except StorageFull:
            open_alone(opened, vfs).close()
            return None, opened
        return connection, opened


def open_reader(opened: OpenPath, vfs: str | None) -> apsw.Connection:
    """Return a connection for reads of the file. Raises as `connected` does."""
    with connected(opened, vfs) as reader:
        reader.set_busy_timeout(BUSY_MS)
        reader.pragma("query_only", 1)
        sync_commits(reader)  # the last connection to close makes a checkpoint, and may be a reader
    return reader


def open_alone(opened: OpenPath, vfs: str | None) -> apsw.Connection:
    """Return a connection for reads that locks out all others until it is closed. So it needs no shared memory.

    SQLite's shared memory is a file beside the database, which the first connection makes. On a full disk it cannot be
    made. Raises as `connected` does.
    """
    with connected(opened, vfs) as connection:
        connection.set_busy_timeout(BUSY_MS)
        connection.pragma("locking_mode", "exclusive")
        sync_commits(connection)
        prepare(connection)
        sync_log(connection)
    return connection


def _create_tables(connection: apsw.Connection) -> None:
    sync_commits(connection)
    prepare(connection)


def _prepare(connection: apsw.Connection, synchronous: str, file_bytes_max: int | None) -> None:
    """Set up the writing connection and make missing tables."""
    connection.set_busy_timeout(BUSY_MS)
    sync_commits(connection, synchronous)
    if file_bytes_max is not None:
        connection.pragma("max_page_count", max(1, file_bytes_max // PAGE_BYTES))
    prepare(connection)
    connection.pragma("journal_mode", "wal")
    sync_log(connection)


@contextmanager
def _opening(path: str, clock: Clock) -> Iterator[None]:
    """Let one process at a time open the file, since the open may create the file. Translates SQLite's errors."""
    lock_file = open_lock_file(path + ".lock")
    try:
        _lock(lock_file, path, clock)
        yield
    except apsw.Error as exc:
        raise translated_error(exc, path=path) from exc
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

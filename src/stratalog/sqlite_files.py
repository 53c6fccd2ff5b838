"""SQLite files whose commits survive a power failure. A new file appears complete or not at all.

Stores and clients open their own connections with apsw, and share these functions.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress

import apsw

from stratalog.codec import escaped
from stratalog.errors import Corrupt, Invalid, OutcomeUnknown, StorageFull, StratalogError, Unavailable
from stratalog.folders import NO_ROOM, OpenPath, file_errors, sync_path

__all__ = [
    "MEMORY",
    "check_path",
    "close_inherited",
    "commit_error",
    "connected",
    "create_file",
    "execute_schema",
    "roll_back",
    "sync_commits",
    "sync_log",
    "translated_error",
]

MEMORY = ":memory:"
UNFINISHED = ".new"
# SQLite applies the file NAME-wal to the database NAME, even if another database wrote the file. The same is true of a
# file with one of the other suffixes.
SUFFIXES = ("-journal", "-wal", "-shm")
LOG_HEADER_BYTES = 32


def check_path(path: str) -> None:
    """Raise Invalid for a path at which SQLite cannot open a file. SQLite's paths are UTF-8 without a NUL.

    This includes the folders above the file and the targets of symbolic links.
    """
    try:
        if "\0" not in path:
            os.path.realpath(path).encode()
            return
    except UnicodeEncodeError:
        pass  # Python represents a byte that is not UTF-8 as a lone surrogate
    raise Invalid("SQLite needs a path in UTF-8 without a NUL", path=escaped(os.path.abspath(path)))


def create_file(path: str, create: Callable[[apsw.Connection], None], vfs: str | None = None) -> None:
    """Create the file at ``path`` if it is missing or empty. Only one process at a time may call this for a path.

    ``create`` fills a database at a temporary path. Then this function renames the file. A database that is made
    under its final name can be lost. SQLite undoes the first transaction of a new file by truncating the file. If the
    sync after the truncation fails, and then the power fails during the next try, the file may keep sectors of zeros.
    A file with such sectors is not a database.

    Raises the errors of ``create``, StorageFull, Unavailable. After an error no temporary file remains. Raises Corrupt
    if the file was moved away or emptied and its write-ahead log is still there: the log may have the last commits.
    """
    path = os.path.realpath(path)
    if os.path.exists(path) and os.path.getsize(path):
        return
    log = path + "-wal"
    if os.path.exists(log) and os.path.getsize(log) > LOG_HEADER_BYTES:
        raise Corrupt(
            "the database is missing or empty, but its write-ahead log has commits: put it back, or delete the log",
            log=log,
        )
    unfinished = path + UNFINISHED
    with file_errors():
        _remove(unfinished, *_companions(unfinished), *_companions(path))
    try:
        with closing(apsw.Connection(unfinished, vfs=vfs)) as connection, _translated(connection):
            create(connection)
        with file_errors():
            os.replace(unfinished, path)
            sync_path(os.path.dirname(path))
    except BaseException:
        with suppress(OSError):
            _remove(unfinished, *_companions(unfinished))
        raise


def execute_schema(connection: apsw.Connection, schema: str, application_id: int, version: int) -> None:
    """Create tables and set the file's format in one transaction, so that a crash meanwhile leaves the file unchanged.

    After an error of SQLite, apsw's own context manager would raise the error of its rollback in place of that error.
    """
    number = f"PRAGMA application_id = {application_id}; PRAGMA user_version = {version};"
    try:
        connection.execute(f"BEGIN; {schema} {number} COMMIT")
    except BaseException:
        roll_back(connection)
        raise


def _companions(path: str) -> Iterator[str]:
    return (path + suffix for suffix in SUFFIXES)


def _remove(*paths: str) -> None:
    for path in paths:
        if os.path.exists(path):
            os.unlink(path)


@contextmanager
def _translated(connection: apsw.Connection) -> Iterator[None]:
    try:
        yield
    except apsw.Error as exc:
        raise translated_error(exc, connection, path=connection.filename) from exc


@contextmanager
def connected(opened: OpenPath | None, vfs: str | None = None) -> Iterator[apsw.Connection]:
    """Connect to the file, and run the block, which sets up the connection. After an error the connection is closed.

    Without ``opened``, connect to a database in memory. Raises Unavailable if the file was moved, deleted or replaced,
    `translated_error` for an apsw error of the block, and apsw's errors of the connection itself. Without the
    flag to create a file, SQLite makes no empty file in place of one that was moved meanwhile.
    """
    path = MEMORY if opened is None else opened.path
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs)
    try:
        if opened is not None:
            opened.check()
        with _translated(connection):
            yield connection
    except BaseException:
        connection.close()
        raise


def sync_commits(connection: apsw.Connection, synchronous: str = "full") -> None:
    """Make the commits and checkpoints of ``connection`` durable.

    On macOS a usual sync of SQLite leaves bytes in the drive's cache, since it is an `fsync`. With ``fullfsync`` SQLite
    uses `F_FULLFSYNC`, as `stratalog.folders.sync_descriptor` does. On other systems the setting changes nothing.
    """
    connection.pragma("synchronous", synchronous)
    connection.pragma("fullfsync", 1)


def sync_log(connection: apsw.Connection) -> None:
    """Make the commits in the write-ahead log durable, before a reader sees them.

    A process that was killed during a commit may have left the commit unsynced in the log. A checkpoint syncs the log
    before it grows the database. So on a full disk the commits can still be read.
    """
    try:
        connection.pragma("wal_checkpoint")
    except apsw.Error as exc:
        if not isinstance(translated_error(exc, connection), StorageFull):
            raise


def roll_back(connection: apsw.Connection) -> None:
    """Roll back the open transaction, if there is one. After an error of SQLite the transaction may still be open."""
    with suppress(apsw.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def close_inherited(connections: Iterable[apsw.Connection]) -> None:
    """In a forked child, close those connections of the parent that are open. None of them may have a transaction.

    SQLite remembers for each process which locks of a file it has. The child inherits this memory, but not the locks.
    If the child kept one connection, SQLite would take no lock for a new one. The parent could then delete the
    write-ahead log under the child's commits.

    The child closes without a checkpoint, and so does not use the file. Otherwise SQLite would try to lock the file, to
    see whether this is the last connection of all processes.
    """
    for connection in connections:
        with suppress(apsw.ConnectionClosedError):
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            connection.close()


def commit_error(exc: apsw.Error, connection: apsw.Connection) -> StratalogError:
    """Return Stratalog's error for an error of SQLite during a commit of ``connection``.

    SQLite reports a busy or read-only file before it writes anything, and a lack of room before the commit frame is
    complete: nothing was written. After any other error the commit may be stored.
    """
    refused = isinstance(exc, apsw.BusyError | apsw.FullError | apsw.ReadOnlyError)
    if refused or _write_errno(exc, connection) in (*NO_ROOM, errno.EROFS):
        return translated_error(exc, connection)
    return OutcomeUnknown("the transaction's commit failed", reason=str(exc))


def translated_error(exc: apsw.Error, connection: apsw.Connection | None = None, path: str = "") -> StratalogError:
    """Return Stratalog's error for an error of SQLite after which certainly nothing was written.

    The error names ``path`` if it is given.

    Of all reasons for a lack of room, SQLite reports only ENOSPC as full, and not for the file that ends in ``-shm``.
    """
    details = {"path": path} if path else {}
    no_room = isinstance(exc, apsw.FullError) or _code(exc) == apsw.SQLITE_IOERR_SHMSIZE
    if no_room or _write_errno(exc, connection) in NO_ROOM:
        return StorageFull("no disk space for the transaction", **details, reason=str(exc))
    if isinstance(exc, apsw.CorruptError | apsw.NotADBError):
        return Corrupt("the file is not an intact database", **details, reason=str(exc))
    return Unavailable("the database could not execute the request", **details, reason=str(exc))


def _write_errno(exc: apsw.Error, connection: apsw.Connection | None) -> int:
    """Return the system's number of an error that ended a write of ``connection`` to a file; 0 for another error."""
    return connection.system_errno if connection is not None and _code(exc) == apsw.SQLITE_IOERR_WRITE else 0


def _code(exc: apsw.Error) -> int:
    """Return SQLite's extended code of an error; 0 for an error that SQLite did not report."""
    return getattr(exc, "extendedresult", 0)

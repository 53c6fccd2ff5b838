"""SQLite files whose commits survive a power failure. A new file appears complete or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol

from stratalog.codec import escaped
from stratalog.errors import Corrupt, Invalid, Unavailable
from stratalog.folders import file_errors, sync_path

__all__ = ["OpenFile", "check_path", "create_file", "sync_commits"]

UNFINISHED = ".new"
# SQLite applies the file NAME-wal to the database NAME, even if another database wrote the file. The same is true of a
# file with one of the other suffixes.
SUFFIXES = ("-journal", "-wal", "-shm")
LOG_HEADER_BYTES = 32


class _Connection(Protocol):
    """A connection of `apsw`."""

    def pragma(self, name: str, value: int | str) -> Any: ...


class OpenFile:
    """The file that ``path`` names when the object is made.

    SQLite continues to use a file that was moved, deleted or replaced, for example by a restoration. Its commits would
    be lost.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._identity = _identity_of(path)

    def check(self) -> None:
        """Raise Unavailable if the path names another file, or none."""
        if _identity_of(self._path) != self._identity:
            raise Unavailable("the database's file was moved, deleted or replaced: open it again", path=self._path)


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


def create_file(path: str, create: Callable[[str], None]) -> None:
    """Create the file at ``path`` if it is missing or empty. Only one process at a time may call this for a path.

    ``create`` writes a whole database to a temporary path. Then this function renames the file. A database that is made
    under its final name can be lost. SQLite undoes the first transaction of a new file by truncating the file. If the
    sync after the truncation fails, and then the power fails during the next try, the file may keep sectors of zeros.
    A file with such sectors is not a database.

    Raises the errors of ``create``, StorageFull, Unavailable. After an error the next call creates the file. Raises
    Corrupt if the file was moved away or emptied and its write-ahead log is still there: the log may have the last
    commits.
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
        for left in (unfinished, *(name + suffix for name in (unfinished, path) for suffix in SUFFIXES)):
            if os.path.exists(left):
                os.unlink(left)
    create(unfinished)
    with file_errors():
        os.replace(unfinished, path)
        sync_path(os.path.dirname(path))


def sync_commits(connection: _Connection, synchronous: str = "full") -> None:
    """Make the commits and checkpoints of ``connection`` durable.

    On macOS a usual sync of SQLite leaves bytes in the drive's cache, since it is an `fsync`. With ``fullfsync`` SQLite
    uses `F_FULLFSYNC`, as `stratalog.folders.sync_descriptor` does. On other systems the setting changes nothing.
    """
    connection.pragma("synchronous", synchronous)
    connection.pragma("fullfsync", 1)


def _identity_of(path: str) -> tuple[int, int]:
    """Return the device and the inode number of the file at ``path``; zeros if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0
    return status.st_dev, status.st_ino

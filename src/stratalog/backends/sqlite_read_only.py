"""A SQLite file in a folder that this process may not write, such as a read-only mount.

Another process may write the file meanwhile, for example if the same folder is mounted twice. SQLite shares such a file
through its write-ahead log and the shared memory, two files beside the database. If both exist, SQLite reads the file
as usual. If there is none, as in a store that was closed, SQLite can read the file only as immutable, and takes no
lock. Such a read is repeated if the file has changed or got a log meanwhile. SQLite cannot read a log without the
shared memory, as in a copy of a store in use, unless it may write the folder.
"""

from __future__ import annotations

import errno
import os
from contextlib import AbstractContextManager, closing, suppress
from typing import Any, NoReturn
from urllib.parse import quote

import apsw

from stratalog.backends.sqlite_connections import BUSY_MS
from stratalog.backends.sqlite_tables import FORMAT, check_format
from stratalog.errors import Closed, Corrupt, Unavailable
from stratalog.folders import OpenPath, file_errors
from stratalog.ports.index import no_turn
from stratalog.process_fork import check_fork, delay_forks, leave_in_child
from stratalog.sqlite_files import close_inherited, translated_error

__all__ = ["ReadOnlyFile", "is_unwritable"]

READ_TRIES_MAX = 100
State = tuple[int, ...]


def is_unwritable(error: Unavailable) -> bool:
    """Return whether ``error`` was raised because this process may not write a folder or file."""
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in (errno.EROFS, errno.EACCES, errno.EPERM)


class ReadOnlyFile:
    """The file at ``path``, for reads. Each write raises ``reason``.

    The constructor raises ``reason`` if the file cannot be read or has an older format, and the errors of `read` and
    `check_format`.
    """

    def __init__(self, path: str, reason: Unavailable) -> None:
        check_fork()
        if not os.access(path, os.R_OK):
            raise reason
        self._reason = reason
        self._opened = OpenPath(path, "the database's file")
        self._path = os.path.realpath(path)
        self._readers: list[tuple[apsw.Connection, State]] = []
        """The idle connections that take no locks, each with the state in which it found the file."""

        self._closed = False
        leave_in_child(self)
        self.read("SELECT 1 FROM sqlite_schema LIMIT 1", ())

    def write(self, *_: object, **__: object) -> NoReturn:
        """Raise Unavailable: nothing was written. Raises Closed."""
        self.check_open()
        raise self._reason.copy() from self._reason.__cause__

    def read(self, statement: str, parameters: tuple[Any, ...]) -> list[Any]:
        """Return all rows of ``statement``, read in one snapshot. Raises Unavailable, Corrupt, Closed."""
        self.check_open()
        self._opened.check()
        try:
            with delay_forks():
                for _ in range(READ_TRIES_MAX):
                    rows = self._read(statement, parameters)
                    if rows is not None:
                        return rows
        except apsw.Error as exc:
            raise translated_error(exc) from exc
        except UnicodeDecodeError as exc:
            raise Corrupt("a text in the database is not UTF-8", reason=str(exc)) from exc
        if self._state() is None:
            reason = "the store has commits in a write-ahead log, and the folder cannot be written: open a copy of it"
            raise Unavailable(reason, log=f"{self._path}-wal")
        raise Unavailable("another process keeps changing a file that this process may only read", path=self._path)

    def turn(self) -> AbstractContextManager[bool]:
        """Return a turn that nobody has: no commit can follow. Raises Closed."""
        self.check_open()
        return no_turn()

    def check_open(self) -> None:
        """Raise Closed after `close` and in a forked child."""
        if self._closed:
            raise Closed("the database is closed, or was opened before a fork")

    def close(self) -> None:
        """Close the connections. Closing twice is fine."""
        self._closed = True
        with delay_forks(), suppress(IndexError):
            while True:
                self._readers.pop()[0].close()

    def leave_to_parent(self, clean: bool) -> None:
        """For a forked child. After a clean fork, also close the connections; see `close_inherited`."""
        self._closed = True
        if clean:
            close_inherited(connection for connection, _ in self._readers)

    def _read(self, statement: str, parameters: tuple[Any, ...]) -> list[Any] | None:
        """Return the rows; None if SQLite cannot read the log, or the file changed during a read without locks."""
        state = self._state()
        if state is None:
            try:
                with closing(self._connect("mode=ro")) as connection:
                    return connection.execute(statement, parameters).fetchall()
            except apsw.CantOpenError:
                return None
        connection = self._take(state) or self._connect("immutable=1")
        try:
            rows = connection.execute(statement, parameters).fetchall()
        except BaseException:
            connection.close()
            if self._state() != state:
                return None
            raise
        if self._state() != state:
            connection.close()
            return None
        self._readers.append((connection, state))
        if self._closed:  # tested after the append, since `close` may have emptied the list just before
            self.close()
        return rows

    def _take(self, state: State) -> apsw.Connection | None:
        """Return an idle connection for a file in this state. Close those for another state."""
        with suppress(IndexError):
            while True:
                connection, earlier = self._readers.pop()
                if earlier == state:
                    return connection
                connection.close()
        return None

    def _connect(self, how: str) -> apsw.Connection:
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        connection = apsw.Connection(f"file:{quote(self._path)}?{how}", flags=flags)
        try:
            self._opened.check()
            connection.set_busy_timeout(BUSY_MS)
            if check_format(connection) < FORMAT:
                raise self._reason.copy() from self._reason.__cause__  # an older format needs new tables
        except BaseException:
            connection.close()
            raise
        return connection

    def _state(self) -> State | None:
        """Return what changes with each change of the file. None if another process uses it, or it has a log."""
        with file_errors():
            with suppress(FileNotFoundError):
                if os.path.exists(f"{self._path}-shm") or os.path.getsize(f"{self._path}-wal"):
                    return None
            status = os.stat(self._path)
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns

"""The SQLite file of a client. One process at a time uses the file. A transaction is durable after its commit."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apsw

from stratalog.errors import Closed, Corrupt, Invalid, Unavailable, Unsupported
from stratalog.folders import OpenPath, absolute_path, file_error
from stratalog.process_fork import check_fork, delay_forks, leave_in_child
from stratalog.sqlite_files import (
    MEMORY,
    check_path,
    close_inherited,
    commit_error,
    connected,
    create_file,
    execute_schema,
    roll_back,
    sync_commits,
    sync_log,
    translated_error,
)

__all__ = ["MEMORY", "ClientFile"]

FORMAT = 1
SYNCHRONOUS = "full"
APPLICATION_ID = 0x53544C43
SCHEMA = """
CREATE TABLE facts(name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE items(key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE pending(
    sequence INTEGER PRIMARY KEY AUTOINCREMENT, id INTEGER NOT NULL, name TEXT NOT NULL, args BLOB NOT NULL,
    sent INTEGER NOT NULL DEFAULT 0, answer TEXT NOT NULL DEFAULT '', reason TEXT
);
CREATE TABLE confirmed(sequence INTEGER PRIMARY KEY, id INTEGER NOT NULL, name TEXT NOT NULL, args BLOB NOT NULL);
CREATE TABLE failures(
    sequence INTEGER PRIMARY KEY, name TEXT NOT NULL, args BLOB NOT NULL, status TEXT NOT NULL, reason TEXT NOT NULL
);
"""


class ClientFile:
    """A connection to the file at ``path``. Only the process that opened the file may use it, one thread at a time.

    Raises Unavailable if another client has the file open: two clients with one client id would use the same numbers
    for different mutations. Raises Invalid for the file of another program and for a path that is no text in UTF-8,
    Unsupported for the file of a newer Stratalog, and Corrupt for a damaged file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        check_fork()
        self._closed = False
        path = _text_of(path)
        if path != MEMORY:
            check_path(path)
        with delay_forks():
            self._lock_file = None if path == MEMORY else _lock(os.path.realpath(path) + ".lock")
            try:
                with _translated(path):
                    self._opened = _opened_path(path)
                    self._connection = _open(path, self._opened)
            except BaseException:
                self._unlock()
                raise
            leave_in_child(self)

    def read(self, statement: str, *parameters: Any) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of ``statement``. Raises Unavailable, Corrupt, Closed."""
        self.check_usable()
        with _translated():
            rows = self._connection.cursor()
            with delay_forks():
                rows.execute(statement, parameters)
            while True:
                with delay_forks():
                    row = next(rows, None)
                if row is None:
                    return
                yield row

    def first(self, statement: str, *parameters: Any) -> Any:
        """Return the first column of the first row, or None without a row. Raises the errors of `read`."""
        return next(self.read(statement, *parameters), (None,))[0]

    @contextmanager
    def transaction(self) -> Iterator[apsw.Connection]:
        """Run the block in a transaction, which is durable after the block.

        An exception in the block undoes all writes.

        After StorageFull, Unavailable, Corrupt or Closed, nothing was written. After OutcomeUnknown the file has either
        all writes of the block or none of them.
        """
        self.check_usable()
        with delay_forks():
            try:
                with _translated():
                    self._connection.execute("BEGIN IMMEDIATE")
                    yield self._connection
                try:
                    self._connection.execute("COMMIT")
                except apsw.Error as exc:
                    raise commit_error(exc, self._connection) from exc
            except BaseException:
                roll_back(self._connection)
                raise

    def check_usable(self) -> None:
        """Raise Closed after `close`, and in a forked child."""
        if self._closed:
            raise Closed("the client is closed, or was opened before a fork")

    def check_file(self) -> None:
        """Raise Unavailable if the file was moved, deleted or replaced, and the errors of `check_usable`.

        The next client of the path would lack the mutations that this client writes now. Transactions still write to
        the opened file, so that this client can send the mutations that the file already has.
        """
        self.check_usable()
        if self._opened is not None:
            self._opened.check()

    def close(self) -> None:
        """Close and unlock the file. Closing twice is fine."""
        with delay_forks():
            if not self._closed:
                self._closed = True
                self._connection.close()
                self._unlock()

    def leave_to_parent(self, clean: bool) -> None:
        """In a forked child, close the lock file without unlocking it, and after a clean fork the connection too.

        If the child kept the lock file open, the client's file would stay locked until the child ends.
        """
        if not self._closed:
            self._closed = True
            if self._lock_file is not None:
                os.close(self._lock_file)
            if clean:
                close_inherited([self._connection])

    def _unlock(self) -> None:
        """Unlock and close the lock file.

        Closing alone would not unlock the file: a child that was just forked, and has not run yet, still has the lock
        file open.
        """
        if self._lock_file is not None:
            fcntl.flock(self._lock_file, fcntl.LOCK_UN)
            os.close(self._lock_file)


def _text_of(path: object) -> str:
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str):
        raise Invalid("a client's path must be a text or a Path", value=f"{path!r:.100}")
    return text


def _lock(path: str) -> int:
    """Open and lock the lock file. The lock ends with `_unlock` or with the process.

    Raises Unavailable, StorageFull.
    """
    try:
        lock_file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise file_error(exc, "the client's folder cannot be written", path) from exc
    try:
        fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        os.close(lock_file)
        raise Unavailable("another client has the file open; give each client its own file", path=path) from exc
    return lock_file


def _opened_path(path: str) -> OpenPath | None:
    """Return the file to open, which is created if it is missing; None for a client in memory."""
    if path == MEMORY:
        return None
    create_file(path, _create_tables)
    return OpenPath(absolute_path(path), "the client's file")


def _open(path: str, opened: OpenPath | None) -> apsw.Connection:
    with connected(opened) as connection:
        sync_commits(connection, SYNCHRONOUS)
        application_id, version = connection.pragma("application_id"), connection.pragma("user_version")
        if version == 0 and not connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall():
            execute_schema(connection, SCHEMA, APPLICATION_ID, FORMAT)
        elif application_id != APPLICATION_ID:
            raise Invalid("the file is another program's database", path=path)
        elif version > FORMAT:
            raise Unsupported("the file was written by a newer version of Stratalog", value=version, known=FORMAT)
        connection.pragma("journal_mode", "wal")
        # Rows of a damaged page may have null in columns that are never null.
        if (problem := connection.pragma("quick_check", 1)) != "ok":
            raise Corrupt("the file is not an intact database", path=path, reason=str(problem))
        sync_log(connection)
    return connection


def _create_tables(connection: apsw.Connection) -> None:
    sync_commits(connection, SYNCHRONOUS)
    execute_schema(connection, SCHEMA, APPLICATION_ID, FORMAT)


@contextmanager
def _translated(path: str = "") -> Iterator[None]:
    try:
        yield
    except apsw.Error as exc:
        raise translated_error(exc, path=path) from exc
    except UnicodeDecodeError as exc:
        raise Corrupt("a text in the file is not UTF-8", reason=str(exc)) from exc

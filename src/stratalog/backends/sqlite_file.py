"""A SQLite file that many threads and processes write: group commit, turns of processes, readers of their own."""

from __future__ import annotations

import fcntl
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import apsw

from stratalog.backends.sqlite_tables import (
    INSERT_BLOBS_MAX,
    INSERT_ITEM,
    INSERT_ROWS_MAX,
    PAGE_BYTES,
    BlobRow,
    Row,
    insert_all,
    insert_items,
    prepare,
)
from stratalog.backends.turnstile import Turnstile, open_lock_file
from stratalog.clock import Clock
from stratalog.errors import (
    Closed,
    ConditionFailed,
    Corrupt,
    OutcomeUnknown,
    StorageFull,
    StratalogError,
    Unavailable,
)
from stratalog.group_commit import GroupCommit, PendingCommit
from stratalog.limits import BLOB_SLICE_BYTES

__all__ = ["LOG_BYTES", "Job", "SqliteFile"]

BUSY_MS = 2000
READERS_IDLE_MAX = 16

# A connection that has committed so often is likely to fill SQLite's log up to its first checkpoint.
COMMITS_BEFORE_GROWTH = 16
LOG_BYTES = 4 * 1024 * 1024
SPILLING_PAGES = 10

Result = TypeVar("Result")
Job = Callable[[apsw.Connection], Result]


class SqliteFile:
    """Writes run as jobs inside transactions on the one writing connection; reads have connections of their own.

    Jobs that wait at the same moment share a transaction and its fsync. Processes that share the file take turns at a
    turnstile beside it, since SQLite's own busy handler starves some of them.
    """

    def __init__(
        self,
        path: str,
        clock: Clock,
        synchronous: str,
        file_bytes_max: int | None,
        vfs: str | None = None,
        log_bytes: int = LOG_BYTES,
    ) -> None:
        self._path = path
        self._vfs = vfs
        self._readers: list[apsw.Connection] = []
        self._closed = False
        with _opening(path):
            writer = _open_writer(path, synchronous, file_bytes_max, vfs)
        self._turnstile = Turnstile(path, clock)
        self._writer = _GroupWriter(writer, self._turnstile, log_bytes)
        os.register_at_fork(after_in_child=partial(_leave_to_parent, weakref.ref(self)))

    def write(
        self, job: Job[Result], rows: Sequence[Row] = (), blobs: Sequence[BlobRow] = (), blob_bytes: int = 0
    ) -> Result:
        """What ``job`` returns or raises, once the transaction it ran in is durable.

        The job reads before it writes, and raises only ConditionFailed and only before it writes. ``rows`` and
        ``blobs`` say that the job does no more than insert these if all are absent, so that one call may do it
        instead. ``blob_bytes`` are those it writes of blobs: jobs share a transaction up to `BLOB_SLICE_BYTES`.
        Raises StorageFull, Unavailable, Corrupt, Closed: nothing written. OutcomeUnknown: all or nothing was.
        """
        if self._closed:
            self.check_open()
        ticket = _Ticket(job, rows, blobs, blob_bytes)
        self._writer.commit(ticket)
        return ticket.answer()

    def read(self, statement: str, parameters: tuple[Any, ...]) -> list[Any]:
        """All rows of ``statement``, read at one moment. Raises Unavailable, Corrupt, Closed."""
        self.check_open()
        try:
            reader = self._take_reader()
            try:
                return reader.execute(statement, parameters).fetchall()
            finally:
                self._give_back(reader)
        except apsw.Error as exc:
            raise _error(exc) from exc

    def turn(self) -> AbstractContextManager[bool]:
        """Keep other processes from committing until the end of the block. See `Turnstile.turn`. Raises Closed."""
        self.check_open()
        return self._turnstile.turn()

    def check_open(self) -> None:
        """Raise Closed after :meth:`close` and in a forked child."""
        if self._closed:
            raise Closed("the database is closed, or was opened before a fork")

    def close(self) -> None:
        """Wait for writes under way, then let go of all files. Closing twice is fine."""
        if self._closed:
            return
        self._closed = True
        self._close_readers()
        try:
            self._writer.close()
        finally:
            self._turnstile.close()

    def leave_to_parent(self) -> None:
        """For a forked child: close the lock files without unlocking them."""
        if not self._closed:
            self._closed = True
            self._turnstile.leave_to_parent()

    def _open_reader(self) -> apsw.Connection:
        reader = apsw.Connection(self._path, flags=apsw.SQLITE_OPEN_READWRITE, vfs=self._vfs)
        reader.set_busy_timeout(BUSY_MS)
        reader.pragma("query_only", 1)
        return reader

    def _take_reader(self) -> apsw.Connection:
        try:
            return self._readers.pop()
        except IndexError:
            return self._open_reader()

    def _give_back(self, reader: apsw.Connection) -> None:
        """Keep a reader for the next read. After a burst of reads the others go, with their files and caches."""
        if len(self._readers) >= READERS_IDLE_MAX:
            reader.close()
            return
        self._readers.append(reader)
        if self._closed:
            self._close_readers()

    def _close_readers(self) -> None:
        with suppress(IndexError):
            while True:
                self._readers.pop().close()


class _Ticket(PendingCommit[Result]):
    """A job that waits for its turn, and later what came of it."""

    def __init__(
        self, job: Job[Result], rows: Sequence[Row] = (), blobs: Sequence[BlobRow] = (), blob_bytes: int = 0
    ) -> None:
        PendingCommit.__init__(self)
        self.job = job
        self.rows = rows
        self.blobs = blobs
        self.blob_bytes = blob_bytes


class _GroupWriter:
    """The one writing connection of this process. Whoever has the turn runs all jobs that wait, in one transaction."""

    def __init__(self, connection: apsw.Connection, turnstile: Turnstile, log_bytes: int) -> None:
        self._connection = connection
        self._inserting = connection.cursor()
        self._turnstile = turnstile
        self._log_bytes = log_bytes
        self._group_commit: GroupCommit[_Ticket[Any]] = GroupCommit()
        self._commits = 0
        self._closed = False

    def commit(self, ticket: _Ticket[Any]) -> None:
        """Run the ticket's job, or have it run; the ticket has the answer then."""
        self._group_commit.commit(ticket, self._run_group)

    def close(self) -> None:
        while not self._group_commit.enter(_Ticket(_nothing)):
            pass  # another did nothing for it in passing, but what is wanted is the turn
        try:
            self._closed = True
            self._connection.close()
        finally:
            self._group_commit.leave()

    def _run_group(self, group: list[_Ticket[Any]]) -> None:
        """Run ``group``, and who waits behind the first of it."""
        if self._group_commit.waiting:
            self._fill(group)
        for ticket in group:
            ticket.send()
        try:
            if self._closed:
                raise Closed("the database is closed")
            entered = self._turnstile.enter()
            try:
                outcomes = self._transact(group)
                self._commits += 1
                if self._commits == COMMITS_BEFORE_GROWTH:
                    _grow_log(self._connection, self._log_bytes)
            finally:
                if entered:
                    self._turnstile.leave()
        except StratalogError as exc:
            _fail(group, exc)
        except BaseException:
            self._roll_back()
            raise
        else:
            for ticket, outcome in zip(group, outcomes, strict=True):
                ticket.settle(outcome)

    def _fill(self, group: list[_Ticket[Any]]) -> None:
        """Take in who waits. Large blobs wait for the next transaction."""
        blob_bytes = group[0].blob_bytes
        while blob_bytes < BLOB_SLICE_BYTES and self._group_commit.take(group):
            blob_bytes += group[-1].blob_bytes

    def _transact(self, group: Sequence[_Ticket[Any]]) -> list[Any]:
        """The outcome of each ticket, once all are committed."""
        rows, blobs = (group[0].rows, group[0].blobs) if len(group) == 1 else _all_rows(group)
        if (rows or blobs) and len(blobs) <= INSERT_BLOBS_MAX and self._insert(rows, blobs):
            return [None] * len(group)
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            outcomes = self._run_each(group)
        except apsw.Error as exc:
            self._roll_back()
            raise _error(exc) from exc
        try:
            self._connection.execute("COMMIT")
        except apsw.Error as exc:
            self._roll_back()
            raise OutcomeUnknown("the transaction's commit failed", reason=str(exc)) from exc
        return outcomes

    def _insert(self, rows: Sequence[Row], blobs: Sequence[BlobRow]) -> bool:
        """Insert by one call that is its own transaction, or say False where a key is taken or a check fails.

        Each call into SQLite lets go of the interpreter's lock and must win it back from the other threads, so one
        call for many rows is what makes many writing threads fast. A busy file is noticed before anything is written,
        and a full one before the frame that would commit is whole. Any other error may come from the commit.
        """
        try:
            if blobs:
                statement = insert_all(tuple(map(len, rows)), len(blobs))
                self._inserting.execute(statement, tuple(chain.from_iterable((*rows, *blobs))))
            elif len(rows) == 1:
                self._inserting.execute(INSERT_ITEM[len(rows[0])], rows[0])
            else:
                self._inserting.execute(insert_items(tuple(map(len, rows))), tuple(chain.from_iterable(rows)))
        except apsw.ConstraintError:
            self._roll_back()
            return False
        except (apsw.BusyError, apsw.FullError) as exc:
            self._roll_back()
            raise _error(exc) from exc
        except apsw.Error as exc:
            self._roll_back()
            raise OutcomeUnknown("the insert or its commit failed", reason=str(exc)) from exc
        return True

    def _run_each(self, group: Sequence[_Ticket[Any]]) -> list[Any]:
        outcomes = []
        for ticket in group:
            try:
                outcomes.append(ticket.job(self._connection))
            except ConditionFailed as exc:
                outcomes.append(exc)
        return outcomes

    def _roll_back(self) -> None:
        """After an error. One that SQLite cannot undo now fails the next BEGIN, so nothing is built on it."""
        with suppress(apsw.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")


def _nothing(_: apsw.Connection) -> None:
    """The job of one who wants the turn and no more."""


def _all_rows(group: Sequence[_Ticket[Any]]) -> tuple[Sequence[Row], Sequence[BlobRow]]:
    """The rows of all tickets, where they want no more than to insert them and one statement holds them; else none."""
    rows = list(chain.from_iterable(ticket.rows for ticket in group))
    blobs = list(chain.from_iterable(ticket.blobs for ticket in group))
    insert = len(rows) <= INSERT_ROWS_MAX and all(ticket.rows or ticket.blobs for ticket in group)
    return (rows, blobs) if insert else ((), ())


def _fail(group: Sequence[_Ticket[Any]], error: StratalogError) -> None:
    """Give each ticket an exception of its own, since each is raised in another thread."""
    for ticket in group:
        ticket.settle(error.copy())


def _open_writer(path: str, synchronous: str, file_bytes_max: int | None, vfs: str | None) -> apsw.Connection:
    connection = apsw.Connection(path, vfs=vfs)
    try:
        _prepare(connection, synchronous, file_bytes_max)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: apsw.Connection, synchronous: str, file_bytes_max: int | None) -> None:
    """Whoever died amid a commit may have left it in the log unsynced, so a checkpoint syncs that before it is read."""
    connection.set_busy_timeout(BUSY_MS)
    connection.pragma("synchronous", synchronous)
    if file_bytes_max is not None:
        connection.pragma("max_page_count", max(1, file_bytes_max // PAGE_BYTES))
    prepare(connection)
    connection.pragma("journal_mode", "wal")
    connection.pragma("wal_checkpoint")


def _grow_log(connection: apsw.Connection, log_bytes: int) -> None:
    """Let SQLite's log have its size ahead of time: a commit that makes a file longer waits for the disk twice as long.

    A transaction larger than the cache spills into the log and leaves it long when it is rolled back. Where there is
    no room the log grows as it always did.
    """
    pages = connection.pragma("cache_size")
    with suppress(apsw.Error):
        connection.pragma("cache_size", SPILLING_PAGES)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO items VALUES ('', '', zeroblob(?))", (log_bytes,))
    with suppress(apsw.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    connection.pragma("cache_size", pages)


def _leave_to_parent(reference: weakref.ref[SqliteFile]) -> None:
    """In a forked child: close the lock files, which would else stay locked if the parent dies holding them."""
    file = reference()
    if file is not None:
        file.leave_to_parent()


def _error(exc: apsw.Error) -> StratalogError:
    """Ours for an error of SQLite's that certainly wrote nothing."""
    if isinstance(exc, apsw.FullError):
        return StorageFull("no room for the transaction", reason=str(exc))
    if isinstance(exc, apsw.CorruptError | apsw.NotADBError):
        return Corrupt("the file is no whole database", reason=str(exc))
    return Unavailable("the database could not take the request", reason=str(exc))


@contextmanager
def _opening(path: str) -> Iterator[None]:
    """One process at a time opens a file, which may be making it."""
    lock_file = open_lock_file(path + ".lock")
    try:
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        yield
    except apsw.Error as exc:
        raise _error(exc) from exc
    finally:
        os.close(lock_file)

"""A SQLite file that many threads and processes write, with group commit, turns of processes and separate readers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import apsw

from stratalog.backends.item_rows import Row
from stratalog.backends.row_blobs import BlobRow
from stratalog.backends.sqlite_connections import open_alone, open_reader, open_writer
from stratalog.backends.sqlite_tables import (
    INSERT_BLOBS_MAX,
    INSERT_ITEM,
    INSERT_ROWS_MAX,
    grow_log,
    insert_all,
    insert_items,
)
from stratalog.backends.turnstile import Turnstile
from stratalog.clock import Clock
from stratalog.errors import (
    Closed,
    ConditionFailed,
    Corrupt,
    StorageFull,
    StratalogError,
    Unavailable,
)
from stratalog.folders import OpenPath
from stratalog.group_commit import GroupCommit, PendingCommit
from stratalog.limits import BLOB_SLICE_BYTES
from stratalog.process_fork import close_in_child, delay_forks, leave_in_child
from stratalog.sqlite_files import close_inherited, commit_error, roll_back, translated_error

__all__ = ["LOG_BYTES", "Job", "SqliteFile"]

READERS_IDLE_MAX = 16

# A connection that has made this many commits will probably fill SQLite's write-ahead log up to its first checkpoint.
COMMITS_BEFORE_GROWTH = 16
LOG_BYTES = 4 * 1024 * 1024

Result = TypeVar("Result")
Job = Callable[[apsw.Connection], Result]


class SqliteFile:
    """The connections to one file: one connection for writes, and several for reads. Writes are jobs in transactions.

    Jobs of threads that wait at the same time share a transaction and its fsync. Processes that share the file take
    turns through a `Turnstile`, since SQLite's own busy handler starves some processes.
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
        self._vfs = vfs
        self._readers: list[apsw.Connection] = []
        self._closed = False
        self._log_bytes = log_bytes
        self._open_writer = partial(open_writer, path, clock, synchronous, file_bytes_max, vfs)
        self._writer: _GroupWriter | None = None
        self._writer_lock = threading.Lock()
        """The lock for opening the writer later, since a store that was opened on a full disk has none at first.

        Until then it is also the lock for a read by a connection that is alone.
        """

        close_in_child(self, "_writer_lock")
        with delay_forks():
            writer, self._opened = self._open_writer()
            with ExitStack() as on_error:
                if writer is not None:
                    on_error.callback(writer.close)
                self._turnstile = Turnstile(path, clock)
                on_error.pop_all()
            if writer is not None:
                self._writer = self._group_writer(writer)
            leave_in_child(self)

    def write(
        self, job: Job[Result], rows: Sequence[Row] = (), blobs: Sequence[BlobRow] = (), blob_bytes: int = 0
    ) -> Result:
        """Run ``job`` in a transaction. Return its result, or raise its error, once the transaction is durable.

        The job must read before it writes, and have the same effect when it runs again. It may raise ConditionFailed
        before its first write. An error of Stratalog fails only this job. An error of SQLite fails the whole group.

        If all ``rows`` and ``blobs`` are absent and the checks of the rows hold, the job must insert them and do
        nothing else. One statement may then replace the job. ``blob_bytes`` is the size of the blobs that the job
        writes. Jobs share a transaction until their blobs have `BLOB_SLICE_BYTES`.

        Raises the job's error, StorageFull, Unavailable, Corrupt, Closed: nothing was written. Raises OutcomeUnknown:
        either everything or nothing was written.
        """
        if self._closed:  # tested here first, since a call would cost time in every commit
            self.check_open()
        ticket = _Ticket(job, rows, blobs, blob_bytes)
        (self._writer or self._opened_writer()).commit(ticket)
        return ticket.answer()

    def read(self, statement: str, parameters: tuple[Any, ...]) -> list[Any]:
        """Return all rows of ``statement``, read in one snapshot. Raises Unavailable, Corrupt, Closed."""
        self.check_open()
        self._opened.check()
        try:
            try:
                return self._read(statement, parameters)
            except StorageFull:
                if self._writer is not None:  # it has a lock of the file, so no connection can be alone
                    raise
            with self._writer_lock:  # threads take turns: SQLite's own wait for a lock serves nobody in order
                if self._writer is None:
                    with delay_forks(), closing(open_alone(self._opened, self._vfs)) as alone:
                        return alone.execute(statement, parameters).fetchall()
            return self._read(statement, parameters)
        except apsw.Error as exc:
            raise translated_error(exc) from exc
        except UnicodeDecodeError as exc:
            raise Corrupt("a text in the database is not UTF-8", reason=str(exc)) from exc

    def turn(self) -> AbstractContextManager[bool]:
        """Make the commits of other processes wait for the end of the block. See `Turnstile.turn`. Raises Closed."""
        self.check_open()
        return self._turnstile.turn()

    def check_open(self) -> None:
        """Raise Closed after `close` and in a forked child."""
        if self._closed:
            raise Closed("the database is closed, or was opened before a fork")

    def close(self) -> None:
        """Wait for writes in flight, then close all files. Closing twice is fine."""
        if self._closed:
            return
        self._closed = True
        with delay_forks():
            self._close_readers()
        try:
            with self._writer_lock:
                if self._writer is not None:
                    self._writer.close()
        finally:
            self._turnstile.close()

    def leave_to_parent(self, clean: bool) -> None:
        """For a forked child: close the lock files without unlocking them.

        After a clean fork, also close the connections; see `close_inherited`.
        """
        self._closed = True  # not tested before: a thread that vanished may have closed the file halfway
        self._turnstile.leave_to_parent()
        if clean:
            close_inherited(self._readers)
            if self._writer is not None:
                self._writer.leave_to_parent()

    def _group_writer(self, connection: apsw.Connection) -> _GroupWriter:
        return _GroupWriter(connection, self._opened, self._turnstile, self._log_bytes)

    def _opened_writer(self) -> _GroupWriter:
        """Open the writer if it is still missing. Raises StorageFull while the disk has no room for it, and Closed."""
        with self._writer_lock:
            self.check_open()
            if self._writer is None:
                with delay_forks():
                    connection, _ = self._open_writer()
                    if connection is None:
                        raise StorageFull("no disk space for the transaction", path=self._opened.path)
                    self._writer = self._group_writer(connection)
            return self._writer

    def _read(self, statement: str, parameters: tuple[Any, ...]) -> list[Any]:
        with delay_forks():
            reader = self._take_reader()
            try:
                rows = reader.execute(statement, parameters).fetchall()
            except apsw.Error as exc:
                # After an error of the disk the reader may still have a lock, which would keep out `open_alone`.
                reader.close()
                raise translated_error(exc) from exc
            except BaseException:
                self._give_back(reader)
                raise
            self._give_back(reader)
            return rows

    def _take_reader(self) -> apsw.Connection:
        try:
            return self._readers.pop()
        except IndexError:
            return open_reader(self._opened, self._vfs)

    def _give_back(self, reader: apsw.Connection) -> None:
        """Keep a reader for the next read, or close it if `READERS_IDLE_MAX` are idle, as after a burst of reads."""
        if len(self._readers) >= READERS_IDLE_MAX:
            reader.close()
            return
        self._readers.append(reader)
        if self._closed:  # tested after the append, since `close` may have emptied the list just before
            self._close_readers()

    def _close_readers(self) -> None:
        with suppress(IndexError):
            while True:
                self._readers.pop().close()


class _Ticket(PendingCommit[Result]):
    """A job that waits for a leader. Once a leader has run the job, the ticket also has the outcome."""

    def __init__(
        self, job: Job[Result], rows: Sequence[Row] = (), blobs: Sequence[BlobRow] = (), blob_bytes: int = 0
    ) -> None:
        self.job = job
        self.rows = rows
        self.blobs = blobs
        self.blob_bytes = blob_bytes


class _GroupWriter:
    """The one connection for writes. The leader runs waiting jobs in one transaction."""

    def __init__(self, connection: apsw.Connection, opened: OpenPath, turnstile: Turnstile, log_bytes: int) -> None:
        self._connection = connection
        self._opened = opened
        self._inserting = connection.cursor()
        self._turnstile = turnstile
        self._log_bytes = log_bytes
        self._group_commit: GroupCommit[_Ticket[Any]] = GroupCommit()
        self._commits = 0
        self._closed = False

    def commit(self, ticket: _Ticket[Any]) -> None:
        """Run the ticket's job, in this thread or in the leader's thread, and settle the ticket."""
        self._group_commit.commit(ticket, self._run_group)

    def leave_to_parent(self) -> None:
        close_inherited([self._connection])

    def close(self) -> None:
        self._group_commit.lead(lambda: _Ticket(_nothing), self._close_connection)

    def _close_connection(self) -> None:
        self._closed = True
        with delay_forks():
            self._connection.close()

    def _run_group(self, group: list[_Ticket[Any]]) -> None:
        """Run the jobs of ``group``, and of the waiting tickets that `_fill` adds, in one transaction."""
        if self._group_commit.waiting:
            self._fill(group)
        for ticket in group:
            ticket.send()  # before the transaction: after `send`, an interrupt leaves the outcome unknown
        try:
            if self._closed:
                raise Closed("the database is closed")
            try:
                self._turnstile.enter()
                self._opened.check()
                with delay_forks():
                    outcomes = self._transact(group)
                    self._commits += 1
                    if self._commits == COMMITS_BEFORE_GROWTH:
                        grow_log(self._connection, self._log_bytes)
            finally:
                self._turnstile.leave()
        except StratalogError as exc:
            _fail(group, exc)
        except BaseException:
            self._roll_back()
            self._turnstile.leave()  # an interrupt may have ended the first call early
            raise
        else:
            for ticket, outcome in zip(group, outcomes, strict=True):
                ticket.settle(outcome)

    def _fill(self, group: list[_Ticket[Any]]) -> None:
        """Add waiting tickets until the group's blobs have `BLOB_SLICE_BYTES`. Later tickets are in the next group."""
        blob_bytes = group[0].blob_bytes
        while blob_bytes < BLOB_SLICE_BYTES and self._group_commit.take(group):
            blob_bytes += group[-1].blob_bytes

    def _transact(self, group: Sequence[_Ticket[Any]]) -> list[Any]:
        """Commit all jobs of ``group`` and return the outcome of each job.

        Raises OutcomeUnknown if a failed commit may be stored. After any other error, nothing was written.
        """
        if self._connection.in_transaction:
            # An earlier rollback failed. An insert would join the open transaction, and succeed without a commit.
            self._roll_back()
            if self._connection.in_transaction:
                raise Unavailable("the last transaction could not be rolled back")
        rows, blobs = (group[0].rows, group[0].blobs) if len(group) == 1 else _all_rows(group)
        if (rows or blobs) and len(blobs) <= INSERT_BLOBS_MAX and self._insert(rows, blobs):
            return [None] * len(group)
        try:
            outcomes = self._run_each(group)
        except apsw.Error as exc:
            self._roll_back()
            raise translated_error(exc, self._connection) from exc
        try:
            self._connection.execute("COMMIT")
        except apsw.Error as exc:
            self._roll_back()
            raise commit_error(exc, self._connection) from exc
        return outcomes

    def _insert(self, rows: Sequence[Row], blobs: Sequence[BlobRow]) -> bool:
        """Insert all rows by one call that is its own transaction.

        Return False, with nothing written, if a key is taken or a check fails.

        Each call into SQLite releases the interpreter's lock, and must then compete with other threads to get the lock
        back. So one call for many rows saves time.

        Any error may come from the commit, so this method raises `commit_error`.
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
        except apsw.Error as exc:
            self._roll_back()
            raise commit_error(exc, self._connection) from exc
        return True

    def _run_each(self, group: Sequence[_Ticket[Any]]) -> list[Any]:
        """Begin a transaction, run all jobs in it, and return the result or the error of each job. The caller commits.

        A job that fails with another error than ConditionFailed may have written. The transaction then begins again
        without this job.
        """
        failed: dict[int, StratalogError] = {}
        while True:
            self._connection.execute("BEGIN IMMEDIATE")
            outcomes = list[Any]()
            try:
                for position, ticket in enumerate(group):
                    outcomes.append(failed[position] if position in failed else self._run_job(ticket))
            except StratalogError as exc:
                self._connection.execute("ROLLBACK")
                failed[len(outcomes)] = exc
            else:
                return outcomes

    def _run_job(self, ticket: _Ticket[Any]) -> Any:
        try:
            return ticket.job(self._connection)
        except ConditionFailed as exc:
            return exc
        except UnicodeDecodeError as exc:
            raise Corrupt("a text in the database is not UTF-8", reason=str(exc)) from exc

    def _roll_back(self) -> None:
        """Roll back after an error. If the rollback fails, `_transact` tries again before the next commit."""
        with delay_forks():
            roll_back(self._connection)


def _nothing(_: apsw.Connection) -> None:
    """Do nothing: the job of a caller that only needs the leadership."""


def _all_rows(group: Sequence[_Ticket[Any]]) -> tuple[Sequence[Row], Sequence[BlobRow]]:
    """Return all rows and blobs if all tickets only insert and one call can insert all rows; else no rows and blobs."""
    rows = list(chain.from_iterable(ticket.rows for ticket in group))
    blobs = list(chain.from_iterable(ticket.blobs for ticket in group))
    insert = len(rows) <= INSERT_ROWS_MAX and all(ticket.rows or ticket.blobs for ticket in group)
    return (rows, blobs) if insert else ((), ())


def _fail(group: Sequence[_Ticket[Any]], error: StratalogError) -> None:
    """Settle each ticket with its own copy of ``error``, since each copy is raised in another thread."""
    for ticket in group:
        ticket.settle(error.copy())

"""Commits to the index in PostgreSQL. Threads that commit at the same time share one transaction.

A commit locks the rows that it writes or checks until the commit is durable. So commits are strictly serializable at
PostgreSQL's default isolation level. PostgreSQL cannot lock an absent row. So the transaction inserts the row, and
other transactions that insert the same key wait. If the commit does not put the item, the transaction deletes the row
again.

All transactions lock rows in one order, so that they do not deadlock: first the existing rows, then the rows that they
insert, both in order of key. PostgreSQL would end a deadlock only after a second.
"""

from __future__ import annotations

import select
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import Pipeline
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGresult

from stratalog.backends.item_rows import CHECKED_LENGTH, CHECKED_PAIR_BYTES, PLAIN_LENGTH, Row, item_of, key_of
from stratalog.backends.postgres_connections import (
    READ_ONLY,
    REPEATABLE,
    STATEMENT_TRIES,
    Connection,
    PostgresConnections,
    error_of,
    idle_end,
    is_lost,
)
from stratalog.backends.postgres_session import drained
from stratalog.backends.row_blobs import BlobRow, rows_bytes
from stratalog.clock import Clock
from stratalog.errors import Closed, ConditionFailed, Corrupt, StratalogError, Unavailable
from stratalog.group_commit import GroupCommit, PendingCommit
from stratalog.limits import BLOB_SLICE_BYTES
from stratalog.ports.index import Delete, Item, Put, Write, holds
from stratalog.process_fork import close_in_child

__all__ = ["PostgresCommit", "PostgresWriter", "put_blobs"]

GROUP_WRITES_MAX = 1000
NO_CHECK = (None,) * CHECKED_LENGTH

# The statements for one row. `_prepare` prepares them in each session of a `PostgresWriter`. If the check fails, the
# body is null, and the column's NOT NULL makes the statement fail.
INSERT_PLAIN = "INSERT INTO items VALUES ($1, $2, $3)"
INSERT_CHECKED = f"""
INSERT INTO items VALUES ($1, $2, (
    SELECT $3::bytea FROM items WHERE partition = $4 AND sort = $5 AND substr(body, 2, {CHECKED_PAIR_BYTES}) = $6
    FOR SHARE
))"""
PREPARED = {PLAIN_LENGTH: (b"insert_plain", INSERT_PLAIN), CHECKED_LENGTH: (b"insert_checked", INSERT_CHECKED)}
BINARY = {length: [Format.BINARY] * length for length in PREPARED}
# An array has the mark `%b`, for the binary format. In the text format psycopg escapes each element in Python, and the
# server parses twice as many bytes.
# The last sort needs all rows, so PostgreSQL has locked all checked rows before it inserts the first row.
INSERT_MANY = f"""
INSERT INTO items
SELECT added.partition, added.sort, CASE WHEN added.checked IS NULL OR seen.pair = added.pair THEN added.body END
FROM (
    SELECT * FROM unnest(%b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[])
    AS rows(partition, sort, body, checked, checked_sort, pair) ORDER BY checked, checked_sort
) AS added LEFT JOIN LATERAL (
    SELECT substr(body, 2, {CHECKED_PAIR_BYTES}) AS pair
    FROM items WHERE partition = added.checked AND sort = added.checked_sort FOR SHARE
) AS seen ON true
ORDER BY added.partition, added.sort"""
PUT_BLOBS = """
INSERT INTO blobs(body, key, bytes, modified_ms, stamp)
SELECT * FROM unnest(%b::bytea[], %b::bytea[], %b::bigint[], %b::bigint[], %b::bigint[])
ON CONFLICT (key) DO UPDATE SET
    modified_ms = greatest(blobs.modified_ms, excluded.modified_ms), stamp = excluded.stamp,
    bytes = CASE WHEN blobs.body = excluded.body THEN blobs.bytes ELSE excluded.bytes END,
    codec = CASE WHEN blobs.body = excluded.body THEN blobs.codec ELSE excluded.codec END,
    body = CASE WHEN blobs.body = excluded.body THEN blobs.body ELSE excluded.body END"""

INSERT_ABSENT = """
INSERT INTO items SELECT * FROM unnest(%b::bytea[], %b::bytea[], %b::bytea[])
ON CONFLICT DO NOTHING RETURNING partition, sort"""
LOCK = """
SELECT items.partition, items.sort, items.body
FROM items JOIN unnest(%b::bytea[], %b::bytea[]) AS wanted(partition, sort) USING (partition, sort)
ORDER BY partition, sort FOR UPDATE OF items"""
UPDATE = """
UPDATE items SET body = changed.body
FROM unnest(%b::bytea[], %b::bytea[], %b::bytea[]) AS changed(partition, sort, body)
WHERE items.partition = changed.partition AND items.sort = changed.sort"""
DELETE = """
DELETE FROM items USING unnest(%b::bytea[], %b::bytea[]) AS gone(partition, sort)
WHERE items.partition = gone.partition AND items.sort = gone.sort"""

Key = tuple[bytes, bytes]


class PostgresCommit(PendingCommit[None]):
    """A commit that waits for a leader. Once a leader has settled it, it also has the outcome.

    ``bodies`` are the encoded items of the writes. ``rows`` are the rows of a commit that only inserts; see
    `encoded_commit`.
    """

    def __init__(
        self, writes: Sequence[Write], bodies: Sequence[bytes], rows: Sequence[Row] = (), blobs: Sequence[BlobRow] = ()
    ) -> None:
        self.writes = writes
        self.bodies = bodies
        self.rows = rows
        self.blobs = blobs
        self.blob_bytes = rows_bytes(blobs)

    @property
    def only_inserts(self) -> bool:
        """Whether the rows and blobs are the whole commit."""
        return bool(self.rows) or not self.writes


class PostgresWriter:
    """The connection for commits. One waiting thread, the leader, commits for all waiting threads."""

    def __init__(self, connections: PostgresConnections, clock: Clock) -> None:
        self._connections = connections
        self._clock = clock
        self._connection: Connection | None = None
        self._idle_end = select.poll()
        close_in_child(self, "_connection")
        self._group_commit: GroupCommit[PostgresCommit] = GroupCommit()
        self._closed = False

    def commit(self, commit: PostgresCommit) -> None:
        """Do the commit, in this thread or in the leader's thread. Raises the errors of `Index.commit`."""
        self._connections.check_open()
        self._group_commit.commit(commit, self._run_group)
        commit.answer()

    def close(self) -> None:
        """Wait for commits in flight, and close the connection. Closing twice is fine."""
        self._group_commit.lead(lambda: PostgresCommit((), ()), self._close_connection)

    def _close_connection(self) -> None:
        self._closed = True
        self._disconnect()

    def _run_group(self, group: list[PostgresCommit]) -> None:
        self._fill(group)
        for commit in group:
            commit.send()  # before the transaction: after `send`, an interrupt leaves the outcome unknown
        try:
            outcomes = self._transact(group)
        except StratalogError as exc:
            for commit in group:
                commit.settle(exc.copy())
        except BaseException:
            self._disconnect()
            raise
        else:
            for commit, outcome in zip(group, outcomes, strict=True):
                commit.settle(outcome)

    def _fill(self, group: list[PostgresCommit]) -> None:
        """Add waiting commits until the group is large. Later commits wait for the next group."""
        writes, blob_bytes = len(group[0].writes), group[0].blob_bytes
        while writes < GROUP_WRITES_MAX and blob_bytes < BLOB_SLICE_BYTES and self._group_commit.take(group):
            writes, blob_bytes = writes + len(group[-1].writes), blob_bytes + group[-1].blob_bytes

    def _transact(self, group: Sequence[PostgresCommit]) -> Sequence[Any]:
        """Commit the group and return the outcome of each commit. Raises the errors that concern all commits."""
        if self._closed:
            raise Closed("the database is closed")
        if not any(commit.writes or commit.blobs for commit in group):
            return [None] * len(group)
        if all(commit.only_inserts for commit in group) and self._insert(self._connected(), group):
            return [None] * len(group)
        return self._run_each(group)

    def _connected(self) -> Connection:
        if self._connection is None or self._idle_end.poll(0) or self._connection.closed:
            self._disconnect()
            connection = self._connections.connect()
            try:
                for length in PREPARED:
                    _prepare(connection, length)
            except psycopg.Error as exc:
                connection.close()
                raise error_of(exc) from exc
            self._connection, self._idle_end = connection, idle_end(connection)
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _insert(self, connection: Connection, group: Sequence[PostgresCommit]) -> bool:
        """Insert the rows of all commits by one statement, with their blobs in the same transaction.

        Return False, with nothing written, if a key exists or a check fails, and after a deadlock or a serialization
        failure.
        """
        rows = [row for commit in group for row in commit.rows]
        blobs = self._blobs_of(group)
        try:
            if blobs and rows:
                with connection.pipeline() as pipeline, connection.transaction(), drained(pipeline):
                    _insert_rows(connection, rows)
                    put_blobs(connection, blobs)
            elif blobs:
                put_blobs(connection, blobs)
            else:
                _insert_rows(connection, rows)
        except (psycopg.errors.UniqueViolation, psycopg.errors.NotNullViolation):
            return False
        except psycopg.Error as exc:
            if exc.sqlstate in REPEATABLE:
                return False
            raise self._error_of(connection, exc, sent=True) from exc
        self._connections.require_replicated(connection)
        return True

    def _run_each(self, group: Sequence[PostgresCommit]) -> Sequence[Any]:
        """Write all commits whose conditions hold, in one transaction. Return the outcome of each commit."""
        for _ in range(STATEMENT_TRIES):
            connection, sent = self._connected(), False
            try:
                with connection.pipeline() as pipeline:
                    changes = _locked(connection, pipeline, group)
                    if changes is None:
                        connection.execute("ROLLBACK")
                        error: StratalogError = Unavailable("other commits put the same items again and again")
                        continue
                    outcomes = [changes.apply(commit) for commit in group]
                    done = [commit for commit, outcome in zip(group, outcomes, strict=True) if outcome is None]
                    if not done:
                        connection.execute("ROLLBACK")
                        return outcomes
                    sent = True
                    changes.write(connection)
                    if blobs := self._blobs_of(done):
                        put_blobs(connection, blobs)
                    connection.execute("COMMIT")
                self._connections.require_replicated(connection)
                return outcomes
            except psycopg.Error as exc:
                error = self._error_of(connection, exc, sent=sent)
                if exc.sqlstate not in REPEATABLE:
                    raise error from exc
        raise error

    def _error_of(self, connection: Connection, error: psycopg.Error, *, sent: bool) -> StratalogError:
        """End the session and return the error of its commits. With ``sent``, the COMMIT may have been sent."""
        in_doubt = sent and is_lost(connection, error) and error.sqlstate not in REPEATABLE
        if in_doubt or error.sqlstate == READ_ONLY:
            self._connections.renew()
        # Do not use the session again. After a failed statement of a pipeline the server skips the other statements.
        # psycopg takes a skipped statement as prepared, and all later uses of the statement would fail. A lost
        # connection may be in the middle of a pipeline.
        self._disconnect()
        return error_of(error, sent=in_doubt)

    def _blobs_of(self, group: Iterable[PostgresCommit]) -> list[BlobRow]:
        """Return the blobs of all commits, each key once, in order of key, so that transactions do not deadlock.

        The result has the present time. The time in a given row may be old, if the process was suspended meanwhile.
        """
        now_ms = self._clock.wall_ms()
        rows = {row[1]: row for commit in group for row in commit.blobs}
        return [(frame, key, size, now_ms, stamp) for key in sorted(rows) for frame, _, size, _, stamp in (rows[key],)]


class _Changes:
    """The locked rows of a transaction, and the changes that its commits make to them."""

    def __init__(self, stored: Mapping[Key, bytes | None], proposed: Mapping[Key, bytes]) -> None:
        self._bodies: dict[Key, bytes | None] = {**stored, **dict.fromkeys(proposed)}
        self._in_table: dict[Key, bytes | None] = {**stored, **proposed}

    def apply(self, commit: PostgresCommit) -> StratalogError | None:
        """Apply the commit if its conditions hold, else return ConditionFailed. Return Corrupt for a damaged item."""
        failed: dict[int, Item | None] = {}
        try:
            for position, write in enumerate(commit.writes):
                if write.condition is not None:
                    item = self._item(write)
                    if not holds(write.condition, item):
                        failed[position] = item
        except Corrupt as exc:
            return exc
        if failed:
            return ConditionFailed(failed)
        for write, body in zip(commit.writes, commit.bodies, strict=True):
            if isinstance(write, Put):
                self._bodies[_key(write)] = body
            elif isinstance(write, Delete):
                self._bodies[_key(write)] = None
        return None

    def write(self, connection: Connection) -> None:
        """Write the changes of all commits to the table."""
        changed = [
            (*key, body) for key, body in self._bodies.items() if body is not None and body != self._in_table[key]
        ]
        gone = [key for key, body in self._bodies.items() if body is None and self._in_table[key] is not None]
        if changed:
            connection.execute(UPDATE, _columns(changed))
        if gone:
            connection.execute(DELETE, _columns(gone))

    def _item(self, write: Write) -> Item | None:
        body = self._bodies[_key(write)]
        return None if body is None else item_of(*key_of(write), body)


def _locked(connection: Connection, pipeline: Pipeline, group: Sequence[PostgresCommit]) -> _Changes | None:
    """Begin a transaction that locks the existing rows of the group's keys, and then inserts the absent rows.

    Return None if another transaction inserted a row between these two steps. The caller then begins again: to lock
    this row now would break the order of locks.

    An inserted row has the body of the first put with its key, or an empty body if there is no put. Usually the
    transaction does not change this body again.
    """
    proposed: dict[Key, bytes] = {}
    for commit in group:
        for write, body in zip(commit.writes, commit.bodies, strict=True):
            key = _key(write)
            if not proposed.get(key):
                proposed[key] = body
    keys = sorted(proposed)
    if not keys:
        connection.execute("BEGIN")
        return _Changes({}, {})
    connection.execute("BEGIN")
    locking = connection.cursor(binary=True).execute(LOCK, _columns(keys))
    inserting = connection.cursor(binary=True).execute(INSERT_ABSENT, _columns([(*key, proposed[key]) for key in keys]))
    # If this process stops now, PostgreSQL ends the session after `idle_in_transaction_session_timeout`, and so unlocks
    # the rows. But it measures the idle time only after a Sync: `fetchall` alone, or the end of the pipeline, would
    # send a Flush, which ends this measurement.
    pipeline.sync()
    stored = {(partition, sort): body for partition, sort, body in locking.fetchall()}
    inserted = set(inserting.fetchall())
    if len(stored) + len(inserted) < len(keys):
        return None
    return _Changes(stored, {key: proposed[key] for key in keys if key in inserted})


def _insert_rows(connection: Connection, rows: Sequence[Row]) -> None:
    if len(rows) > 1 or connection.pgconn.pipeline_status:
        connection.execute(INSERT_MANY, _columns([(*map(_bytes, row), *NO_CHECK[len(row) :]) for row in rows]))
        return
    (row,) = rows
    # Most commits are this statement. psycopg's `execute` takes more time.
    try:
        _insert_row(connection, row)
    except psycopg.errors.InvalidSqlStatementName:
        # After a ROLLBACK, psycopg deallocates all prepared statements of the session, also these.
        _prepare(connection, len(row))
        _insert_row(connection, row)


def _insert_row(connection: Connection, row: Row) -> None:
    name, _ = PREPARED[len(row)]
    _check(connection, connection.execute_prepared(name, [*map(_bytes, row)], BINARY[len(row)]))


def _prepare(connection: Connection, length: int) -> None:
    """Prepare the statement for rows of ``length`` values in the session."""
    name, statement = PREPARED[length]
    _check(connection, connection.prepare(name, statement))


def _check(connection: Connection, result: PGresult) -> None:
    if result.status != ExecStatus.COMMAND_OK:
        raise psycopg.errors.error_from_result(result, encoding=connection.info.encoding)


def put_blobs(connection: Connection, rows: Sequence[BlobRow]) -> None:
    """Store blobs, in the order of ``rows``. A stored blob gets a new time and stamp. A different body is replaced."""
    connection.execute(PUT_BLOBS, _columns([(row[0], row[1].encode(), *row[2:]) for row in rows]))


def _columns(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _bytes(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _key(write: Write) -> Key:
    partition, sort = key_of(write)
    return partition.encode(), sort.encode()

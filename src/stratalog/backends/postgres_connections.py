"""The connections to one schema of a PostgreSQL database: settings, reads, short transactions, and errors."""

from __future__ import annotations

import re
import select
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from stratalog.backends.postgres_address import without_password
from stratalog.backends.postgres_session import PostgresSession
from stratalog.errors import Closed, Corrupt, Invalid, OutcomeUnknown, StorageFull, StratalogError, Unavailable
from stratalog.limits import POSTGRES_CONNECTIONS_MAX, POSTGRES_WAIT_SECONDS_MAX
from stratalog.process_fork import close_in_child

__all__ = [
    "READ_ONLY",
    "REPEATABLE",
    "STATEMENT_TRIES",
    "Connection",
    "PoolerRefused",
    "PostgresConnections",
    "error_of",
    "idle_end",
    "is_lost",
]

CONNECT_SECONDS_MAX = 10
IDLE_SECONDS_MAX = 600.0
STATEMENT_TRIES = 5

# PostgreSQL ends a statement that waits too long for a lock or runs too long. It also ends a session whose client
# stopped in the middle of a transaction. Otherwise one stopped client would block the other sessions for ever.
SETTINGS = {
    "lock_timeout": "10s",
    "statement_timeout": "60s",
    "idle_in_transaction_session_timeout": "60s",
    # An administrator can set other defaults for a role or a database. At a stricter isolation level, commits fail that
    # only had to wait. The next two settings change how PostgreSQL reads the bytes and arrays that psycopg sends.
    "default_transaction_isolation": "read committed",
    "standard_conforming_strings": "on",
    "array_nulls": "on",
    # With `on`, a policy of row-level security hides rows from the role, and a read would take them for absent.
    "row_security": "off",
    # Only a warning reports that a wait for a standby was cancelled.
    "client_min_messages": "warning",
    # Each statement finds its rows by an index, key by key. Otherwise PostgreSQL reads the whole table if it is small,
    # and a session keeps such a plan while the table grows. Without statistics PostgreSQL also reads and sorts all rows
    # of a partition for one page. A table without an index is still read, by a plan that has a great cost: with `jit`
    # the server may compile such a plan first.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
    # All parameters have the same plan, so the server makes it once.
    "plan_cache_mode": "force_generic_plan",
}
DURABLE_COMMITS = """
    SELECT set_config('synchronous_commit', CASE level WHEN 'off' THEN 'on' ELSE level END, false)
    FROM current_setting('synchronous_commit') AS level
"""
HAS_STANDBYS = "SELECT current_setting('synchronous_standby_names') <> '' AND NOT pg_is_in_recovery()"

# If the server's host vanishes, the kernel ends the connection after 30 seconds. The user timeout covers the time until
# the server has the request. The keepalive covers the wait for the answer; its default is two hours.
CONNECTION_DEFAULTS = {
    "connect_timeout": str(CONNECT_SECONDS_MAX),
    "tcp_user_timeout": "30000",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "4",
    "application_name": "stratalog",
    "target_session_attrs": "read-write",
}
# The names of schemas and of documents may have any characters, in a database of any encoding.
ENCODING = {"client_encoding": "UTF8"}

# Serialization failures and deadlocks: PostgreSQL aborted the transaction, and the client may repeat it.
REPEATABLE = frozenset({"40001", "40P01"})
READ_ONLY = "25006"
DISK_FULL = "53100"
DAMAGED = frozenset({"XX001", "XX002"})
# What to do after an error of the server, by its SQLSTATE. PostgreSQL hides the tables of a schema from a role without
# USAGE on the schema, as if they did not exist.
NO_TABLES = (
    "the role finds no tables of the store; create them with `stratalog init`, or grant the role USAGE on the schema"
)
NO_WRITES = (
    "the database accepts no writes; promote the standby, name another host in the URL, or turn off "
    "default_transaction_read_only for the role"
)
ADVICE = {
    "42501": "the role lacks a right; grant it the rights on the schema and its tables that the guide to PostgreSQL names",
    "42P01": NO_TABLES,
    "3F000": NO_TABLES,
    READ_ONLY: NO_WRITES,
}
READ_ONLY_HOST = "session is read-only"
"""libpq's reason why it did not accept a host as `target_session_attrs=read-write`."""

CONNECTING = re.compile(r"^connection [^:]*: connection to server .*? failed: ")

Result = TypeVar("Result")
Connection = PostgresSession


class PoolerRefused(Unavailable):
    """A pooler gives each transaction another session, so the store would read and write other schemas.

    A session may notice the pooler long after the store was opened. So this is an error that a port may raise. Only the
    opening of a store raises Invalid instead.
    """

    def __init__(self) -> None:
        super().__init__(
            "a pooler gives each transaction another session, so the store would read and write other schemas; "
            "use the pooler's session mode, or connect to the server itself"
        )


class PostgresConnections:
    """A pool of connections for reads and short transactions. `connect` opens a connection outside the pool.

    The constructor sends nothing. It raises Invalid for a URL that libpq does not accept.

    Safe to use from many threads. In a forked child every call but `close` raises Closed: the connections belong to the
    parent.
    """

    def __init__(self, conninfo: str, schema: str) -> None:
        self._conninfo = psycopg.conninfo.make_conninfo(**{**CONNECTION_DEFAULTS, **_parts(conninfo), **ENCODING})
        self._schema = schema
        self._closed = False
        self._opening = threading.Lock()
        self._asking = threading.Lock()
        self._answers = 0
        self._fault: StratalogError | None = None
        """The last answer to the question whether the server can be reached."""

        self._pool: ConnectionPool[Connection] | None = None
        # In a child `_closed` is an `Inherited`, which counts as true, so `check_open` raises Closed.
        close_in_child(self, "_opening", "_asking", "_pool", "_closed")

    def connect(self) -> Connection:
        """Return a new connection, which the caller closes. Raises Unavailable, Closed."""
        self.check_open()
        try:
            connection = Connection.connect(self._conninfo, autocommit=True)
            self._set_up(connection)
        except psycopg.Error as exc:
            text = NO_WRITES if READ_ONLY_HOST in str(exc) else "the database cannot be reached"
            raise Unavailable(text, reason=_reason(exc)) from exc
        return connection

    def read(self, statement: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return all rows of one statement. Raises Unavailable, Corrupt, Closed.

        If the connection breaks, the method repeats the read once on another connection.
        """
        try:
            return self._read_once(statement, parameters)
        except psycopg.OperationalError as exc:
            if exc.sqlstate is not None and not exc.sqlstate.startswith("57P"):
                raise error_of(exc) from exc
        except psycopg.Error as exc:
            raise error_of(exc) from exc
        try:
            return self._read_once(statement, parameters)
        except psycopg.Error as exc:
            raise error_of(exc) from exc

    def transact(self, work: Callable[[Connection], Result]) -> Result:
        """Run ``work`` in a transaction and return its result once the transaction is durable.

        The method may call ``work`` again after a rollback, so ``work`` must allow repetition. Raises the error of
        ``work``, Unavailable, StorageFull, Corrupt or Closed: then nothing was written. Raises OutcomeUnknown if the
        connection broke during the commit, or the wait for a standby was cancelled.
        """
        for _ in range(STATEMENT_TRIES):
            connection = self._take()
            is_committing = False
            try:
                connection.execute("BEGIN")
                result = work(connection)
                is_committing = True
                connection.execute("COMMIT")
                self.require_replicated(connection)
                return result
            except psycopg.Error as exc:
                in_doubt = is_committing and is_lost(connection, exc)
                if in_doubt or exc.sqlstate == READ_ONLY:
                    self.renew()
                if exc.sqlstate not in REPEATABLE:
                    raise error_of(exc, sent=in_doubt) from exc
                failure = exc
            finally:
                self._give_back(connection)
        raise error_of(failure) from failure

    def require_replicated(self, connection: Connection) -> None:
        """Raise OutcomeUnknown, and end the session, if a wait of the session for a standby was cancelled."""
        if not connection.is_replicated:
            connection.close()
            self.renew()
            raise OutcomeUnknown("the wait for a standby of the database was cancelled; the standby may lack a commit")

    def renew(self) -> None:
        """Replace the pool's connections.

        Call this after a server refused a write: another host may accept it. Also call this after a commit in doubt: a
        new session shows the commit only if a standby has it.
        """
        pool = self._pool  # `close` may set the attribute to None at any time
        if pool is not None:
            pool.drain()

    def check_open(self) -> None:
        """Raise Closed after `close`, and in a forked child."""
        if self._closed:
            raise Closed("the database is closed")

    def close(self) -> None:
        """Close the pool. Closing twice is fine."""
        if not self._closed:
            with self._opening:  # afterwards no thread opens a pool
                self._closed = True
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
            _open_pools.discard(pool)

    def _read_once(self, statement: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        connection = self._take()
        try:
            with connection.cursor(binary=True) as cursor:
                return cursor.execute(statement, parameters).fetchall()
        finally:
            self._give_back(connection)

    def _open_pool(self) -> ConnectionPool[Connection]:
        self.check_open()
        pool = self._pool
        if pool is None:
            with self._opening:
                self.check_open()  # `close` may have closed the pool since the first check
                pool = self._pool
                if pool is None:
                    pool = self._pool = ConnectionPool(
                        self._conninfo,
                        connection_class=Connection,
                        kwargs={"autocommit": True},
                        configure=self._set_up,
                        min_size=0,
                        max_size=POSTGRES_CONNECTIONS_MAX,
                        max_idle=IDLE_SECONDS_MAX,
                        reconnect_timeout=POSTGRES_WAIT_SECONDS_MAX,
                        name="stratalog",
                        open=True,
                    )
                    _open_pools.add(pool)
        return pool

    def _take(self) -> Connection:
        """Take a connection from the pool. Replace connections that the server ended while they were idle."""
        pool = self._open_pool()
        try:
            for _ in range(POSTGRES_CONNECTIONS_MAX):
                connection = pool.getconn(POSTGRES_WAIT_SECONDS_MAX)
                if not _is_stale(connection):
                    return connection
                connection.close()
                pool.putconn(connection)
            return pool.getconn(POSTGRES_WAIT_SECONDS_MAX)
        except (PoolTimeout, PoolClosed) as exc:
            self._require_reachable()  # the pool does not report why it could not connect
            raise Unavailable(
                "no connection to the database was free in time", limit=POSTGRES_WAIT_SECONDS_MAX
            ) from exc

    def _require_reachable(self) -> None:
        """Raise the error of `connect`, or nothing if the server can be reached.

        One thread asks the server. The threads that wait meanwhile share the answer: a session of each would exceed the
        pool's limit.
        """
        self.check_open()
        answers = self._answers
        with self._asking:
            if self._answers == answers:
                self._fault = self._ask()
                self._answers += 1
            fault = self._fault
        self.check_open()  # `close` may have been called since the first check
        if fault is not None:
            raise fault.copy()

    def _ask(self) -> StratalogError | None:
        try:
            self.connect().close()
        except StratalogError as exc:
            return exc
        return None

    def _give_back(self, connection: Connection) -> None:
        pool = self._pool
        if self._closed or pool is None:
            connection.close()
            return
        # The pool would roll back the transaction of a failed call too, but would log a warning.
        connection.end_transaction()
        pool.putconn(connection)  # replaces a broken connection

    def _set_up(self, connection: Connection) -> None:
        """Set up a new session, or close it. The pool would leave a refused session open until its collection."""
        try:
            self._apply_settings(connection)
        except BaseException:
            connection.close()
            raise

    def _apply_settings(self, connection: Connection) -> None:
        # Before the settings: they would change the sessions of other clients of the pooler.
        if connection.is_pooled():
            raise PoolerRefused
        settings = [
            *(sql.SQL("SET {} TO {}").format(sql.Identifier(name), value) for name, value in SETTINGS.items()),
            sql.SQL("SET search_path TO {}").format(sql.Identifier(self._schema)),
            # With `off`, the server acknowledges a commit before the commit is durable. Set any other value to itself:
            # otherwise an open session would take `off` from a configuration that the server loads later.
            sql.SQL(DURABLE_COMMITS),
        ]
        connection.execute(sql.SQL("; ").join(settings))
        if connection.execute(HAS_STANDBYS).fetchall() == [(True,)]:
            _await_standby(connection)


def _await_standby(connection: Connection) -> None:
    """Wait until a standby has all commits that the session can read. Raises Unavailable after a bounded time.

    A primary that was restarted shows commits that no standby has. A process whose commit was in doubt would find the
    commit and acknowledge it, and a failover would lose it.
    """
    if not connection.replicate():
        raise Unavailable("no standby has confirmed the commits of the database", seconds=POSTGRES_WAIT_SECONDS_MAX)


def idle_end(connection: Connection) -> select.poll:
    """Return a poll on an idle connection. The poll reports an event once the server has ended the connection."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return poll


def _is_stale(connection: Connection) -> bool:
    return connection.closed or bool(idle_end(connection).poll(0))


def is_lost(connection: Connection, error: psycopg.Error) -> bool:
    """Return whether the connection broke with this error. If so, the answer to the last request never arrives.

    An error without an SQLSTATE comes from libpq, not from the server. SQLSTATEs that begin with 08 are errors of the
    connection. SQLSTATEs that begin with 57P mean that the server ended or refused the session.
    """
    return connection.closed or not error.sqlstate or error.sqlstate.startswith(("08", "57P"))


def error_of(error: psycopg.Error, *, sent: bool = False) -> StratalogError:
    """Return Stratalog's error for an error of psycopg. With ``sent``, the connection broke after a commit was sent."""
    state, reason = error.sqlstate or "", _reason(error)
    if sent:
        return OutcomeUnknown("the connection to the database broke during a commit", reason=reason)
    if state == DISK_FULL:
        return StorageFull("the database has no room", reason=reason)
    if state in DAMAGED:
        return Corrupt("the database is damaged", reason=reason)
    return Unavailable(ADVICE.get(state, "the database could not execute a request"), reason=reason)


def _reason(error: Exception) -> str:
    """Return the first line of the error, without the server's address: our messages show only its first characters."""
    return CONNECTING.sub("", str(error).strip().partition("\n")[0])


def _parts(conninfo: str) -> dict[str, Any]:
    try:
        return psycopg.conninfo.conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError as exc:
        # libpq's reason may quote a part of the password.
        raise Invalid("libpq does not accept the URL of the store", url=without_password(conninfo)) from exc


_open_pools: set[ConnectionPool[Connection]] = set()
"""Keeps the parent's pools alive in a forked child. A pool's finalizer would wait for threads of the parent."""

"""One session of PostgreSQL, which ends if no answer comes, and knows whether a standby has its commits."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import Any

import psycopg
from psycopg import generators
from psycopg.pq import Format, TransactionStatus
from psycopg.pq.abc import PGresult

from stratalog.limits import POOLER_ANSWER_SECONDS_MAX, POSTGRES_ANSWER_SECONDS_MAX, POSTGRES_WAIT_SECONDS_MAX

__all__ = ["REPLICATE", "PostgresSession", "drained"]

WAIT_SECONDS = 0.1
# The function of PostgreSQL that reports a cancelled wait for a standby.
STANDBY_WAIT = "SyncRepWaitForLSN"
# This transaction writes a message that nothing reads. Its commit waits until a standby has all commits up to its own.
REPLICATE = "SELECT pg_logical_emit_message(true, 'stratalog', '')"
WAITS_FOR_STANDBY = "SELECT FROM pg_stat_activity WHERE pid = %s AND wait_event = 'SyncRep'"
SET_MARK = "SET stratalog.session TO 'open'"
OWN_PROCESS = "SELECT pg_backend_pid()"


class PostgresSession(psycopg.Connection[tuple[Any, ...]]):
    """A session that waits for bytes for at most `answer_seconds_max`, and knows whether its commits are replicated.

    The kernel ends the connection to a host that vanished. But a stopped proxy, or a server whose disk does not answer,
    keeps its connections. So the session then shuts its socket down, and libpq reports a broken connection. A session
    that waits for a synchronous standby may wait longer.
    """

    answer_seconds_max = POSTGRES_ANSWER_SECONDS_MAX

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._input = select.poll()
        self._input.register(self.pgconn.socket, select.POLLIN)
        self._process = self.info.backend_pid
        self._cancelled_waits: list[str] = []
        self._is_replicating = False
        self.add_notice_handler(partial(_note_cancelled_wait, self._cancelled_waits))

    @property
    def is_replicated(self) -> bool:
        """Whether no wait of the session for a synchronous standby was cancelled.

        After a cancelled wait PostgreSQL makes the commit visible, and reports success with a warning. The standby may
        lack the commit.
        """
        return not self._cancelled_waits

    def replicate(self) -> bool:
        """Return whether a standby has all commits that the session can read.

        The method waits for the standby. After `POSTGRES_WAIT_SECONDS_MAX` it cancels the wait, and returns False.
        """
        self._is_replicating = True
        try:
            self.execute(REPLICATE)
        except psycopg.errors.QueryCanceled:  # before the wait, on a slow server
            return False
        finally:
            self._is_replicating = False
        return self.is_replicated

    def end_transaction(self) -> None:
        """Roll back the open transaction of a failed call. A broken connection stays broken."""
        if self.pgconn.transaction_status != TransactionStatus.IDLE:
            with suppress(psycopg.Error):
                self.rollback()

    def is_pooled(self) -> bool:
        """Return whether a pooler gave another session the server's process that this session uses, or refuses BEGIN.

        A pooler states a process id of its own. So the method opens a second session only behind a pooler. If no second
        session can be opened, or the pooler does not answer it soon, the method may miss the pooler and return False.
        """
        self._process = self._current_process()
        if self._process == self.info.backend_pid:
            return False
        try:
            with self.transaction():
                pass
        except psycopg.errors.ProtocolViolation:  # a pooler that gives each statement a process, so it ends the session
            return True
        try:
            # Some proxies, such as Amazon's RDS Proxy, leave a process to the session that changed a setting.
            self.execute(SET_MARK)
            with self._other_session() as other:
                other.answer_seconds_max = POOLER_ANSWER_SECONDS_MAX
                # The pooler gives a transaction the process that was used last, the one of this idle session.
                with other.transaction():
                    return other._current_process() == self._process or self._current_process() != self._process
        except psycopg.Error:
            return False

    def execute_prepared(self, name: bytes, values: Sequence[Any], formats: Sequence[Format]) -> PGresult:
        """Execute a prepared statement, and return the result, which may be an error of the server."""
        self.pgconn.send_query_prepared(name, values, formats)
        # Usually the answer arrives soon. Without a generator this takes a fifth less time.
        result: PGresult | None = None
        if not self.pgconn.flush() and self._input.poll(WAIT_SECONDS * 1000):
            self.pgconn.consume_input()
            while not self.pgconn.is_busy():
                following = self.pgconn.get_result()
                if following is None:
                    return _required(result)
                result = following
        return _required(self._last_result() or result)

    def prepare(self, name: bytes, statement: str) -> PGresult:
        """Prepare a statement, and return the result, which may be an error of the server."""
        self.pgconn.send_prepare(name, statement.encode())
        return _required(self._last_result())

    def wait(self, gen: Any, interval: float = WAIT_SECONDS, *args: Any, **kwargs: Any) -> Any:
        """Run a generator of psycopg. psycopg calls this method for each request."""
        return super().wait(self._bounded(gen, interval), interval, *args, **kwargs)

    def _last_result(self) -> PGresult | None:
        """Wait for the results of what was sent, and return the last one; None if there is none."""
        results: list[PGresult] = self.wait(generators.execute(self.pgconn))
        return results[-1] if results else None

    def _bounded(self, gen: Generator[Any, int, Any], interval: float) -> Generator[Any, int, Any]:
        """Run ``gen``, which gets 0 after each ``interval`` without bytes. Too long a silence ends the session.

        The silence begins anew if the server says that the session waits for a standby.
        """
        silent_seconds = uncancelled_seconds = 0.0
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                silent_seconds = 0.0 if ready else silent_seconds + interval
                uncancelled_seconds = 0.0 if ready else uncancelled_seconds + interval
                if self._is_replicating and uncancelled_seconds >= POSTGRES_WAIT_SECONDS_MAX:
                    silent_seconds += self._cancel()
                    uncancelled_seconds = 0.0
                if silent_seconds >= self.answer_seconds_max:
                    silent_seconds = 0.0
                    if not self._waits_for_standby():
                        self._shut_down()
                wanted = gen.send(ready)
        except StopIteration as exc:
            return exc.value

    def _waits_for_standby(self) -> bool:
        """Return whether the server says, in another session, that this session waits for a synchronous standby."""
        try:
            with self._other_session() as other:
                return bool(other.execute(WAITS_FOR_STANDBY, [self._process]).fetchall())
        except psycopg.Error:
            return False

    def _current_process(self) -> int:
        """Return the id of the server's process that executes the session's statements now."""
        ((process,),) = self.execute(OWN_PROCESS).fetchall()
        return int(process)

    def _other_session(self) -> closing[_Probe]:
        """Open another session on the same host. Raises psycopg.Error."""
        own = {part.keyword.decode(): part.val.decode() for part in self.pgconn.info if part.val is not None}
        # The question whether the host accepts writes would wait for a process of a pooler.
        same: dict[str, Any] = {"host": self.info.host, "port": self.info.port, "target_session_attrs": "any"}
        return closing(_Probe.connect(**{**own, **same}, autocommit=True))

    def _cancel(self) -> float:
        """Ask the server to cancel the statement, and return for how many seconds the server was silent.

        The cancellation may come late or never. A request that ends within its time limit counts as no silence. So a
        session whose requests end late may wait for nearly twice `answer_seconds_max`. The time limit needs libpq 17,
        which the binary of psycopg has.
        """
        try:
            self.cancel_safe(timeout=POSTGRES_WAIT_SECONDS_MAX)
        except psycopg.errors.CancellationTimeout:
            return POSTGRES_WAIT_SECONDS_MAX
        except psycopg.Error:  # the server cannot be reached; the caller tries again
            pass
        return 0.0

    def _shut_down(self) -> None:
        with suppress(OSError), socket.socket(fileno=os.dup(self.pgconn.socket)) as own:
            own.shutdown(socket.SHUT_RDWR)


class _Probe(PostgresSession):
    """A session that asks about another one. The server may be silent to it too."""

    answer_seconds_max = POSTGRES_WAIT_SECONDS_MAX

    def _waits_for_standby(self) -> bool:
        return False


def _required(result: PGresult | None) -> PGresult:
    assert result is not None, "a statement has a result"
    return result


@contextmanager
def drained(pipeline: psycopg.Pipeline) -> Iterator[None]:
    """After an error in the block, read the results of its other statements.

    Otherwise the end of the pipeline would read them, and psycopg would log that the server has skipped the statements.
    """
    try:
        yield
    except psycopg.Error:
        with suppress(psycopg.Error):
            pipeline.sync()
        raise


def _note_cancelled_wait(cancelled: list[str], notice: psycopg.errors.Diagnostic) -> None:
    if notice.source_function == STANDBY_WAIT:
        cancelled.append(notice.message_primary or "")

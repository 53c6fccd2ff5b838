"""Announcements by PostgreSQL's NOTIFY: a process sends hints to the other processes."""

from __future__ import annotations

import json
import logging
import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

import msgspec
import psycopg
from psycopg import sql

from stratalog.backends.postgres_connections import Connection, PostgresConnections
from stratalog.clock import Clock, new_id
from stratalog.codec import sha256
from stratalog.errors import StratalogError
from stratalog.ports.announcements import Heard
from stratalog.process_fork import close_in_child

__all__ = ["PostgresAnnouncements"]

WAITING_MAX = 10_000
CLOSE_SECONDS_MAX = 1.0
RETRY_SECONDS = 1.0

_log = logging.getLogger("stratalog.postgres")


class PostgresAnnouncements:
    """Hints on a channel of the store's schema. One thread sends hints, and another thread receives hints.

    Each of the two threads starts when it is first needed.
    """

    def __init__(self, connections: PostgresConnections, schema: str, clock: Clock) -> None:
        self._connections = connections
        # A channel's name has at most 63 bytes, and so has the schema's name. So the channel's name contains a hash.
        self._channel = f"stratalog_{sha256(schema.encode()).hex()[:32]}"
        self._own = new_id(clock)
        self._waiting: SimpleQueue[tuple[str, str] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._closed = False
        self._wakes_listener: socket.socket | None = None
        self._heard: Heard = lambda organisation, name: None
        close_in_child(self, "_lock")

    def announce(self, organisation: str, name: str) -> None:
        if self._waiting.qsize() < WAITING_MAX:
            self._waiting.put((organisation, name))
            # The commit is durable by now, so this call must not fail. If the system has no thread left, the next
            # announcement sends this hint too.
            with suppress(RuntimeError, MemoryError):
                self._start("send", self._send)

    def listen(self, heard: Heard) -> None:
        self._heard = heard
        if self._wakes_listener is None:
            # `close` closes the first socket of the pair. The second socket then becomes readable and wakes the thread.
            self._wakes_listener, closed = socket.socketpair()
            self._start("listen", lambda: self._listen(closed))

    def close(self) -> None:
        with self._lock:
            self._closed = True
            threads, self._threads = self._threads, []
            if self._wakes_listener is not None:
                self._wakes_listener.close()
        self._waiting.put(None)
        for thread in threads:
            # The threads are daemons. A thread that waits for the server ends later, and its hints may be lost.
            thread.join(CLOSE_SECONDS_MAX)

    def _start(self, what: str, work: Callable[[], None]) -> None:
        name = f"stratalog-{what}"
        with self._lock:
            if not self._closed and all(thread.name != name for thread in self._threads):
                thread = threading.Thread(target=work, name=name, daemon=True)
                thread.start()
                self._threads.append(thread)

    def _send(self) -> None:
        while (first := self._waiting.get()) is not None:
            # Send one hint for many commits of one log.
            names = {first: None}
            while not self._waiting.empty() and (next_name := self._waiting.get()) is not None:
                names[next_name] = None
            # `json.dumps` escapes all characters beyond ASCII. A database of another encoding than UTF-8 lacks some of
            # them, and would refuse the hints of all names in this statement.
            texts = [json.dumps([self._own, *name]) for name in names]
            # The other processes also poll, so a hint may get lost, and `read` may send a hint twice.
            with suppress(StratalogError):
                self._connections.read("SELECT pg_notify(%s, unnest(%s::text[]))", (self._channel, texts))
            if self._closed:
                return

    def _listen(self, closed: socket.socket) -> None:
        with closed:
            while not self._closed:
                try:
                    connection = self._connections.connect()
                    try:
                        self._hear(connection, closed)
                    finally:
                        connection.close()
                except (psycopg.Error, StratalogError) as exc:
                    if not self._closed:
                        _log.warning("hints of other processes cannot be received: %s", exc)
                        _poll_of(closed).poll(RETRY_SECONDS * 1000)

    def _hear(self, connection: Connection, closed: socket.socket) -> None:
        connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
        readable = _poll_of(closed)
        readable.register(connection.fileno(), select.POLLIN)
        while not self._closed:
            for notify in connection.notifies(timeout=0):
                # Ignore a message of another form: any program may use the channel.
                with suppress(msgspec.DecodeError, RecursionError):
                    own, organisation, name = msgspec.json.decode(notify.payload, type=tuple[str, str, str])
                    if own != self._own:
                        self._heard(organisation, name)
                if self._closed:
                    return
            readable.poll()


def _poll_of(closed: socket.socket) -> select.poll:
    """Return a poll that reports an event once `close` was called."""
    poll = select.poll()
    poll.register(closed, select.POLLIN)
    return poll

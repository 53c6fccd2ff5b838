"""A pooler in front of PostgreSQL, like PgBouncer: its clients share the processes of the server."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from tempfile import TemporaryDirectory
from urllib.parse import parse_qs, quote, urlsplit

from stratalog.testing.postgres_server import SOCKETS
from tests.threads import CallThread, join_all, start_all

__all__ = ["pooler"]

PORT = 5432
STARTUP = b"\x00\x03\x00\x00user\x00stratalog\x00database\x00postgres\x00client_encoding\x00UTF8\x00\x00"
MADE_UP_KEY = b"K" + (12).to_bytes(4) + (1).to_bytes(4) + bytes(4)
READY, IDLE, TERMINATE = b"Z", b"I", b"X"
BEGIN = b"Q\x00\x00\x00\x0aBEGIN\x00"
REFUSAL = b"SFATAL\x00VFATAL\x00C08P01\x00Mtransaction blocks not allowed in statement pooling mode\x00\x00"


@contextmanager
def pooler(url: str, *, per_transaction: bool, refuses_begin: bool = False, processes_max: int = 100) -> Iterator[str]:
    """Run a pooler in front of the server of ``url``, and return the URL through the pooler.

    With ``per_transaction``, a client has a process only during a transaction, otherwise until the client disconnects.
    If no process is idle and ``processes_max`` are in use, a client waits until another client disconnects. With
    ``refuses_begin``, the pooler disconnects a client that sends BEGIN, like PgBouncer in statement mode.
    """
    folder = parse_qs(urlsplit(url).query)["host"][0]
    with TemporaryDirectory(prefix="stratalog-", dir=SOCKETS) as own, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{own}/.s.PGSQL.{PORT}")
        listening.listen()
        running = _Pooler(f"{folder}/.s.PGSQL.{PORT}", per_transaction, refuses_begin, processes_max)
        accepting = start_all([partial(running.accept, listening)])
        try:
            yield url.replace(quote(folder, safe=""), quote(own, safe=""))
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            join_all(accepting)  # `accept` must end first: a new socket could get the descriptor of the closed one
        running.close()


class _Pooler:
    """A running pooler. It has a list of idle server processes, the most recently used last."""

    def __init__(self, server: str, per_transaction: bool, refuses_begin: bool, processes_max: int) -> None:
        self._server = server
        self._may_start = threading.Semaphore(processes_max)
        self._per_transaction = per_transaction
        self._refuses_begin = refuses_begin
        self._idle: list[socket.socket] = []
        self._threads: list[CallThread] = []

    def accept(self, listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                self._threads += start_all([partial(self._serve, client)])

    def _serve(self, client: socket.socket) -> None:
        process: socket.socket | None = None
        with client, suppress(OSError, EOFError):
            _exactly(client, int.from_bytes(_exactly(client, 4)) - 4)
            client.sendall(_greeting())
            while (message := _message(client))[:1] != TERMINATE:
                if self._refuses_begin and message == BEGIN:
                    client.sendall(b"E" + (len(REFUSAL) + 4).to_bytes(4) + REFUSAL)
                    break
                process = process or self._take()
                process.sendall(message)
                process = self._answer(client, process)
        if process is not None:
            process.close()
            self._may_start.release()

    def _answer(self, client: socket.socket, process: socket.socket) -> socket.socket | None:
        """Forward messages both ways until the process is ready. Return the process if the client keeps it."""
        poll = select.poll()  # unlike `select`, it accepts descriptors above 1,023
        poll.register(client, select.POLLIN)
        poll.register(process, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if client.fileno() in ready:
                process.sendall(_message(client))
            if process.fileno() in ready:
                message = _message(process)
                is_free = message[:1] == READY and message[5:6] == IDLE and self._per_transaction
                if is_free:  # before the client gets the message and sends the next query
                    self._idle.append(process)
                client.sendall(message)
                if message[:1] == READY:
                    return None if is_free else process

    def close(self) -> None:
        """Wait until the clients, closed by the caller, are served. Then close the connections to the server."""
        join_all(self._threads)
        for process in self._idle:
            process.close()

    def _take(self) -> socket.socket:
        if self._idle:
            return self._idle.pop()
        self._may_start.acquire()
        process = socket.socket(socket.AF_UNIX)
        process.connect(self._server)
        process.sendall((len(STARTUP) + 4).to_bytes(4) + STARTUP)
        while _message(process)[:1] != READY:
            pass
        return process


def _greeting() -> bytes:
    authenticated = b"R" + (8).to_bytes(4) + bytes(4)
    settings = {b"client_encoding": b"UTF8", b"server_version": b"15.0", b"standard_conforming_strings": b"on"}
    texts = [b"%s\x00%s\x00" % pair for pair in settings.items()]
    statuses = b"".join(b"S" + (len(text) + 4).to_bytes(4) + text for text in texts)
    return authenticated + statuses + MADE_UP_KEY + READY + (5).to_bytes(4) + IDLE


def _message(source: socket.socket) -> bytes:
    head = _exactly(source, 5)
    return head + _exactly(source, int.from_bytes(head[1:]) - 4)


def _exactly(source: socket.socket, size: int) -> bytes:
    data = source.recv(size, socket.MSG_WAITALL) if size else b""
    if len(data) < size:
        raise EOFError
    return data

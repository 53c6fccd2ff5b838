"""A web server in a thread of this process, and raw sockets that call it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stratalog.cli.serve import listening_at
from stratalog.server.app import create_app
from stratalog.server.application import Application, ServerLimits
from stratalog.server.security import Authenticate
from stratalog.server.web_server import WebServer
from stratalog.store import open_store
from tests.threads import until

__all__ = ["RunningServer", "connect", "read_all", "web_server"]

SECONDS_MAX = 120
HOST = b"Host: 127.0.0.1\r\n"
PATIENT = ServerLimits(request_head_seconds_max=30, connection_idle_seconds_max=30)
"""On a busy machine, a test may open its last connection later than the usual limits allow its first to be silent."""


class RunningServer:
    """A web server and its port."""

    def __init__(self, server: WebServer, port: int) -> None:
        self.server = server
        self.port = port

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return self.server.connections.budget.used

    def answer(self, request: bytes = b"GET /health HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n") -> bytes:
        """Send a request, and return all bytes until the server closes the connection."""
        with connect(self.port) as caller:
            caller.sendall(request)
            return read_all(caller)


@contextmanager
def web_server(
    limits: ServerLimits = PATIENT,
    connections_max: int = 1000,
    pages: Path | None = None,
    authenticate: Authenticate | None = None,
    trusted_proxies: tuple[str, ...] = (),
) -> Iterator[RunningServer]:
    """Run a server of a store in memory until the end of the block."""
    given = {"test": pages} if pages else {}
    application = Application(limits=limits, pages=given, authenticate=authenticate, trusted_proxies=trusted_proxies)
    with listening_at("127.0.0.1", 0) as listening, open_store("memory:") as store:
        server = WebServer(create_app(store, application), listening, connections_max)
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            until(lambda: server.started)
            yield RunningServer(server, listening.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join(SECONDS_MAX)
            assert not thread.is_alive()


def connect(port: int, *, receive_bytes: int | None = None, source: str = "127.0.0.1") -> socket.socket:
    """Connect a socket from the address ``source``, with a receive buffer of ``receive_bytes``."""
    caller = socket.socket()
    caller.settimeout(SECONDS_MAX)
    caller.bind((source, 0))
    if receive_bytes is not None:
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    caller.connect(("127.0.0.1", port))
    return caller


def read_all(caller: socket.socket) -> bytes:
    """Return all bytes until the server closes or resets the connection."""
    pieces = []
    try:
        while piece := caller.recv(65536):
            pieces.append(piece)
    except ConnectionError:
        pass
    return b"".join(pieces)

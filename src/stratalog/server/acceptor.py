"""Acceptor: accepts connections from a listening socket, and refuses connections above the limit at once."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from stratalog.limits import ACCEPT_RETRY_SECONDS, ACCEPTS_PER_TURN_MAX
from stratalog.server.connection_shares import network_of
from stratalog.server.connections import OpenConnections
from stratalog.server.errors import Refused, encoded_problem
from stratalog.server.metrics import Metrics
from stratalog.server.shares import Allocation, Holder
from stratalog.server.trusted_proxies import TrustedProxies

__all__ = ["Acceptor"]

_log = logging.getLogger("stratalog.server")
_REQUEST_BYTES_READ = 64 * 1024
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
Protocol = Callable[[Allocation], asyncio.Protocol]


class Acceptor:
    """The accept loop of one listening socket.

    It replaces asyncio's own server. That server accepts every pending connection before a protocol can refuse one.
    When descriptors run out, it logs a traceback for each failed accept.
    """

    def __init__(
        self,
        listening: socket.socket,
        protocol: Protocol,
        connections: OpenConnections,
        metrics: Metrics,
        proxies: TrustedProxies | None = None,
    ) -> None:
        self._listening = listening
        self._proxies = proxies or TrustedProxies(())
        self._protocol = protocol
        self._connections = connections
        self._metrics = metrics
        self._connecting: set[asyncio.Task[None]] = set()

    async def accept(self) -> None:
        """Accept connections until cancelled."""
        self._listening.setblocking(False)
        while True:
            try:
                await self._accept_some()
            except OSError as exc:
                if exc.errno in _EXHAUSTED:
                    _log.error("cannot accept connections: %s", exc.strerror)
                # The socket stays readable, so the next try would fail at once. Without a pause this loop would spin.
                await asyncio.sleep(ACCEPT_RETRY_SECONDS)

    async def _accept_some(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(ACCEPTS_PER_TURN_MAX):
            with suppress(ConnectionAbortedError):
                connection, address = await loop.sock_accept(self._listening)
                self._begin(connection, address)
        # `sock_accept` does not yield to the event loop while connections are pending. Let other tasks run.
        await asyncio.sleep(0)

    def _begin(self, connection: socket.socket, address: Any) -> None:
        # Count the socket before its protocol exists: connections that are still being set up take room too.
        try:
            allocation = self._connections.budget.take(*self._holders(address))
        except Refused as exc:
            self._refuse(connection, exc)
            return
        task = asyncio.get_running_loop().create_task(self._connect(connection, allocation))
        # The event loop keeps only a weak reference to a task.
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    def _holders(self, address: Any) -> tuple[Holder, ...]:
        peer = address[0] if isinstance(address, tuple) else ""
        # All callers of a trusted proxy share its address, so that address has no share. The proxy must limit its
        # callers' sockets.
        return () if self._proxies.trusts(peer) else (("address", network_of(peer)),)

    async def _connect(self, connection: socket.socket, allocation: Allocation) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(lambda: self._protocol(allocation), connection)
        except OSError as exc:
            connection.close()
            allocation.release()
            _log.warning("an accepted connection could not be served: %s", exc.strerror)

    def _refuse(self, connection: socket.socket, refused: Refused) -> None:
        """Send as much of the error response as the socket takes without waiting, and close the socket."""
        self._metrics.connections_refused.inc()
        _log.warning("a connection was refused: %s", refused)
        with connection, suppress(OSError):
            connection.setblocking(False)
            connection.send(_answer(refused))
            connection.shutdown(socket.SHUT_WR)
            # Read the request. If its bytes stayed unread, closing the socket would reset the connection, and the
            # caller would lose the response.
            connection.recv(_REQUEST_BYTES_READ)


def _answer(refused: Refused) -> bytes:
    headers, body = encoded_problem(refused)
    headers["connection"] = "close"
    phrase = "Service Unavailable" if refused.status == 503 else "Too Many Requests"
    lines = [f"HTTP/1.1 {refused.status} {phrase}", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode() + body

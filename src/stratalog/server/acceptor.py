"""Acceptor: takes connections from a listening socket, and turns away those above the bound at once."""

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
    """The connections of one listening socket.

    asyncio's own server accepts as many connections as wait, before any protocol may refuse one. Where descriptors run
    out it logs a traceback for each.
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
        """Accept connections, for ever."""
        self._listening.setblocking(False)
        while True:
            try:
                await self._accept_some()
            except OSError as exc:
                if exc.errno in _EXHAUSTED:
                    _log.error("no connection can be accepted: %s", exc.strerror)
                # The next try would fail at once, and the socket stays readable: this waits, or the loop would spin.
                await asyncio.sleep(ACCEPT_RETRY_SECONDS)

    async def _accept_some(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(ACCEPTS_PER_TURN_MAX):
            with suppress(ConnectionAbortedError):
                connection, address = await loop.sock_accept(self._listening)
                self._begin(connection, address)
        # A connection that waits is accepted without a pause, so this lets the others have their turn.
        await asyncio.sleep(0)

    def _begin(self, connection: socket.socket, address: Any) -> None:
        try:
            allocation = self._connections.budget.take(*self._holders(address))
        except Refused as exc:
            self._refuse(connection, exc)
            return
        task = asyncio.get_running_loop().create_task(self._connect(connection, allocation))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    def _holders(self, address: Any) -> tuple[Holder, ...]:
        peer = address[0] if isinstance(address, tuple) else ""
        # A trusted proxy has one address for all of its callers, and bounds their sockets itself.
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
        """Answer where that takes no waiting, and close."""
        self._metrics.connections_refused.inc()
        _log.warning("a connection was refused: %s", refused)
        with connection, suppress(OSError):
            connection.setblocking(False)
            connection.send(_answer(refused))
            connection.shutdown(socket.SHUT_WR)
            # A request that is not read would make the system reset the connection, and take the answer back.
            connection.recv(_REQUEST_BYTES_READ)


def _answer(refused: Refused) -> bytes:
    headers, body = encoded_problem(refused)
    headers["connection"] = "close"
    phrase = "Service Unavailable" if refused.status == 503 else "Too Many Requests"
    lines = [f"HTTP/1.1 {refused.status} {phrase}", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode() + body

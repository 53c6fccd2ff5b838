"""Acceptor: accepts connections from a listening socket, and refuses connections above the limit at once."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from stratalog.limits import ACCEPT_RETRY_SECONDS, ACCEPTS_PER_TURN_MAX, SETUPS_PER_TURN_MAX
from stratalog.server.addresses import network_of
from stratalog.server.connections import OpenConnections
from stratalog.server.errors import Refused, encoded_problem
from stratalog.server.metrics import Metrics
from stratalog.server.rotation import Rotation
from stratalog.server.shares import Allocation, Holder
from stratalog.server.trusted_proxies import TrustedProxies

__all__ = ["Acceptor"]

_log = logging.getLogger("stratalog.server")
_REQUEST_BYTES_READ = 64 * 1024
Protocol = Callable[[Allocation, bytes], asyncio.Protocol]
"""Returns the protocol of a connection. The second argument has the bytes that another process has read from it."""


class Acceptor:
    """The accept loop of one listening socket.

    This loop replaces asyncio's own server, which accepts every pending connection before a protocol can refuse any of
    them. When descriptors run out, asyncio's server also logs a traceback for each failed accept.

    The system queues connections in their order of arrival. Accepting a connection is quick, but setting up its
    transport and its protocol is slow. So the loop accepts many connections at a time, and the addresses take turns for
    the set-up. Every second set-up is for the address with the lowest count in `RecentlyServed`. So hundreds of new
    connections of one caller, from one address or from many, delay the first connection of another caller only a
    little.
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
        self._waiting: Rotation[tuple[socket.socket, Allocation]] = Rotation()
        self._connecting: set[asyncio.Task[None]] = set()

    async def accept(self) -> None:
        """Accept connections until cancelled."""
        self._listening.setblocking(False)
        try:
            while True:
                try:
                    await self._accept_some()
                except OSError as exc:
                    _log.error("cannot accept connections: %s", exc.strerror)
                    # The socket stays readable, so the next try would fail at once. Without a pause this loop would
                    # spin.
                    await asyncio.sleep(ACCEPT_RETRY_SECONDS)
        finally:
            while (waiting := self._waiting.take()) is not None:
                _close(*waiting)

    def adopt(self, connection: socket.socket, received: bytes, claim: Callable[[], bool]) -> None:
        """Serve a connection that another process has accepted, if a limit allows it and ``claim`` returns true.

        ``received`` are the bytes that the other process has read. If this process does not serve the connection, it
        closes its copy.
        """
        try:
            allocation = self._connections.budget.take(*self._holders(connection.getpeername()))
        except (OSError, Refused):
            connection.close()
            return
        if claim():
            self._begin(connection, allocation, received)
        else:
            _close(connection, allocation)

    async def set_up(self) -> None:
        """Wait until each connection whose set-up has begun has its protocol."""
        if self._connecting:
            await asyncio.wait(self._connecting)

    async def _accept_some(self) -> None:
        """Accept pending connections, and begin the set-up of up to `SETUPS_PER_TURN_MAX` connections.

        If no connection waits for set-up, first wait for a new connection.
        """
        if not self._waiting:
            with suppress(ConnectionAbortedError):
                self._count(*await asyncio.get_running_loop().sock_accept(self._listening))
        refused = 0
        for _ in range(ACCEPTS_PER_TURN_MAX):
            # A refusal takes as long as a set-up, so refusals have the same limit.
            if refused == SETUPS_PER_TURN_MAX:
                break
            try:
                connection, address = self._listening.accept()
            except ConnectionAbortedError:
                continue
            except OSError:
                # Usually this error means that no connection is pending. `sock_accept` raises any other error again.
                break
            connection.setblocking(False)
            refused += not self._count(connection, address)
        for number in range(SETUPS_PER_TURN_MAX):
            if number % 2:
                # A turn accepts at most about `ACCEPTS_PER_TURN_MAX` connections. So the search includes every address
                # that is new in this turn.
                waiting = self._waiting.take_cheapest(self._served_lately, among=ACCEPTS_PER_TURN_MAX)
            else:
                waiting = self._waiting.take()
            if waiting is None:
                break
            self._begin(*waiting)
        await asyncio.sleep(0)

    def _served_lately(self, holders: Any) -> float:
        return sum(map(self._connections.turns.served.count, holders))

    def _count(self, connection: socket.socket, address: Any) -> bool:
        """Count the connection and queue it for its set-up. If a limit is reached, refuse it and return False."""
        holders = self._holders(address)
        try:
            allocation = self._connections.budget.take(*holders)
        except Refused as exc:
            self._refuse(connection, exc)
            return False
        self._waiting.add(holders, (connection, allocation))
        return True

    def _begin(self, connection: socket.socket, allocation: Allocation, received: bytes = b"") -> None:
        for holder in allocation.holders:
            self._connections.turns.served.add(holder)
        task = asyncio.get_running_loop().create_task(self._connect(connection, allocation, received))
        # The event loop keeps only a weak reference to a task.
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    def _holders(self, address: Any) -> tuple[Holder, ...]:
        peer = address[0] if isinstance(address, tuple) else ""
        # All callers of a trusted proxy have the proxy's address, so this address has no limit. The proxy must limit
        # the sockets of its callers.
        return () if self._proxies.trusts(peer) else (("address", network_of(peer)),)

    async def _connect(self, connection: socket.socket, allocation: Allocation, received: bytes) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(lambda: self._protocol(allocation, received), connection)
        except OSError as exc:
            _close(connection, allocation)
            _log.warning("an accepted connection could not be served: %s", exc.strerror)

    def _refuse(self, connection: socket.socket, refused: Refused) -> None:
        """Send as much of the error response as the socket takes without waiting, and close the socket."""
        self._metrics.connections_refused.inc()
        _log.warning("a connection was refused: %s", refused)
        with connection, suppress(OSError):
            connection.setblocking(False)
            connection.send(_answer(refused))
            connection.shutdown(socket.SHUT_WR)
            # Read the bytes of the request that have arrived. If they stayed unread, closing the socket would reset the
            # connection, and the caller would lose the response.
            connection.recv(_REQUEST_BYTES_READ)


def _close(connection: socket.socket, allocation: Allocation) -> None:
    connection.close()
    allocation.release()


def _answer(refused: Refused) -> bytes:
    headers, body = encoded_problem(refused)
    headers["connection"] = "close"
    phrase = "Service Unavailable" if refused.status == 503 else "Too Many Requests"
    lines = [f"HTTP/1.1 {refused.status} {phrase}", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode() + body

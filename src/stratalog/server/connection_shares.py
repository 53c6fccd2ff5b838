"""Shares of connections: limits on the requests and live connections that one caller may have at once.

Here a *connection* is one request or one live connection. A connection begins without a holder. If authentication fails
or gives no principal, the connection counts for its address. A WebSocket counts for its address until its handler has
checked the token. Once authentication succeeds, the connection counts for its principal. Once the principal is admitted
to an organisation, the connection counts for the organisation too. So a caller cannot use up the share of an
organisation that the caller may not enter. At its end a connection releases its amounts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from litestar.types import Scope

from stratalog.limits import REQUESTS_RESERVED_SHARE
from stratalog.server.addresses import network_of
from stratalog.server.application import ServerLimits
from stratalog.server.errors import Refused
from stratalog.server.shares import Allocation, Budget, Holder, HolderKind

__all__ = ["SOCKET", "CallerConnection", "ConnectionBudgets", "address_of", "connection_of"]

_KEY = "stratalog.connection"
SOCKET = "stratalog.socket"
"""The key under which a scope has the `Allocation` of its socket. Scopes lack this key if sockets are not counted."""


class ConnectionBudgets:
    """The connections of one process. Without authentication all callers are one user, and no shares apply."""

    def __init__(self, limits: ServerLimits, *, is_shared: bool) -> None:
        self._limits = limits
        self._is_shared = is_shared
        self.bound(limits.connections_max)

    def bound(self, connections_max: int) -> None:
        """Set the limit of connections. Call this method before any connection is open, since it replaces the budgets.

        Live connections last long, so `REQUESTS_RESERVED_SHARE` of the connections is reserved for requests.
        """
        limits, reserved = self._limits, int(connections_max * REQUESTS_RESERVED_SHARE)
        live_max = min(limits.live_connections_max, connections_max - reserved)
        self.connections = _budget("connections", connections_max, limits, self._is_shared)
        self.live = _budget("live connections", live_max, limits, self._is_shared)

    @contextmanager
    def open(self, scope: Scope) -> Iterator[CallerConnection]:
        """Open a connection until the end of the block, and store it in ``scope`` for `connection_of`.

        Raises Refused if the process is full.
        """
        data: Any = scope
        connection = data[_KEY] = CallerConnection(self, address_of(scope), data.get(SOCKET))
        try:
            yield connection
        finally:
            connection.close()


class CallerConnection:
    """One connection in progress. Used from the event loop only."""

    def __init__(self, budgets: ConnectionBudgets, address: str, socket: Allocation | None) -> None:
        self.address = address
        self._socket = socket
        self.principal = ""
        self._budgets = budgets
        self._live: Allocation | None = None
        # Take the allocation without holders. The process's limit applies now. The caller's share applies once the
        # caller is known.
        self._own = budgets.connections.take()

    @property
    def holders(self) -> tuple[Holder, ...]:
        """The holders for which the connection counts. The first call of a `count_for_` method sets them."""
        return self._own.holders

    @property
    def holder(self) -> Holder:
        """The connection's principal, or its address if no principal is known."""
        return ("principal", self.principal) if self.principal else ("address", self.address)

    def count_for_address(self) -> None:
        """Count the connection for its address, because no principal is known.

        After Refused, the holders are unchanged.
        """
        self._own.assign(("address", self.address))

    def count_for_principal(self, principal: str) -> None:
        """Count the connection and its socket for the principal instead of the address.

        After Refused, the principal and the holders are unchanged.
        """
        before = self.holders
        self._own.assign(("principal", principal))
        if self._socket is not None:
            try:
                self._socket.assign(("principal", principal))
            except Refused:
                # The former holders still have room, since the event loop has run nothing else in between.
                self._own.assign(*before)
                raise
        self.principal = principal

    def enter(self, organisation: str) -> None:
        """Count the connection also for an organisation to which the principal was admitted.

        The organisation replaces an earlier organisation. After Refused, the holders are unchanged.
        """
        others = tuple(holder for holder in self.holders if holder[0] != "organisation")
        self._own.assign(*others, ("organisation", organisation))

    def become_live(self) -> None:
        """Count the connection also as a live connection, until it ends. A second call does nothing. Raises Refused."""
        self._live = self._live or self._budgets.live.take(*self.holders)

    def close(self) -> None:
        """Release the connection's amounts. The socket keeps its allocation, since one socket serves many requests."""
        self._own.release()
        if self._live is not None:
            self._live.release()


def connection_of(scope: Scope) -> CallerConnection:
    """Return the connection of a request, which the middleware has opened."""
    data: Any = scope
    connection: CallerConnection = data[_KEY]
    return connection


def address_of(scope: Scope) -> str:
    """Return the caller's network address, as `network_of` returns it. One caller usually has a whole /64 network."""
    client = scope.get("client")
    return network_of(client[0] if client else "")


def _budget(resource: str, limit: int, limits: ServerLimits, is_shared: bool) -> Budget:
    return Budget(resource, limit, _shares(limit, limits) if is_shared else {})


def _shares(limit: int, limits: ServerLimits) -> Mapping[HolderKind, int]:
    """Return the shares of ``limit``, each at least 1: with a share of 0 a small process would refuse all callers."""
    return {
        "principal": max(1, int(limit * limits.principal_share_max)),
        "organisation": max(1, int(limit * limits.organisation_share_max)),
        "address": max(1, int(limit * limits.address_share_max)),
    }

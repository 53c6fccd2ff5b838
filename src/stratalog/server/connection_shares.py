"""Connections: what each connection holds of the process, and for whom it counts.

A connection begins as nobody's. It counts for its address while nobody is known, for its principal once there is one,
and for an organisation as well once the principal was let into it: nobody can use up the share of an organisation that
is closed to them. What it holds is given back when it ends, however it ends.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from functools import lru_cache
from types import TracebackType
from typing import Any, Self

from litestar.types import Scope

from stratalog.limits import REQUESTS_RESERVED_SHARE
from stratalog.server.application import ServerLimits
from stratalog.server.shares import Allocation, Budget, Holder, HolderKind

__all__ = ["SOCKET", "CallerConnection", "ConnectionBudgets", "address_of", "connection_of", "network_of"]

_KEY = "stratalog.connection"
SOCKET = "stratalog.socket"
"""Where a scope has what its socket has taken, if it has one."""

ADDRESSES_REMEMBERED_MAX = 1024


class ConnectionBudgets:
    """The connections of one process. Without authentication everybody is one user, and nobody has a share."""

    def __init__(self, limits: ServerLimits, *, is_shared: bool) -> None:
        self._limits = limits
        self._is_shared = is_shared
        self.bound(limits.connections_max)

    def bound(self, connections_max: int) -> None:
        """Bound them by what the process has room for, before any is open: shares are parts of that."""
        limits, reserved = self._limits, int(connections_max * REQUESTS_RESERVED_SHARE)
        live_max = min(limits.live_connections_max, connections_max - reserved)
        self.connections = _budget("connections", connections_max, limits, self._is_shared)
        self.live = _budget("live connections", live_max, limits, self._is_shared)

    def open(self, scope: Scope) -> CallerConnection:
        """A connection that begins, and whose parts find it by `connection_of`. Raises Refused."""
        data: Any = scope
        connection = CallerConnection(self, address_of(scope), data.get(SOCKET))
        data[_KEY] = connection
        return connection


class CallerConnection:
    """One connection in progress. Used from the event loop only."""

    def __init__(self, budgets: ConnectionBudgets, address: str, socket: Allocation | None = None) -> None:
        self.address = address
        self._socket = socket
        self.principal = ""
        self._budgets = budgets
        self._holders: tuple[Holder, ...] = ()
        self._live: Allocation | None = None
        self._own = budgets.connections.take()

    @property
    def holders(self) -> tuple[Holder, ...]:
        """Whose shares it counts for: none before it is known who asks."""
        return self._holders

    @property
    def holder(self) -> Holder:
        """Whom it counts for: its principal, else its address."""
        return ("principal", self.principal) if self.principal else ("address", self.address)

    def count_for_address(self) -> None:
        """Count it for the address, since nobody is known. Raises Refused."""
        self._assign(("address", self.address))

    def count_for_principal(self, principal: str) -> None:
        """Count it for the principal, and for the address no more. Raises Refused."""
        self.principal = principal
        self._assign(("principal", principal))
        if self._socket is not None:
            self._socket.assign()

    def enter(self, organisation: str) -> None:
        """Count it for the organisation too, which the principal was let into. Raises Refused."""
        others = tuple(holder for holder in self._holders if holder[0] != "organisation")
        self._assign(*others, ("organisation", organisation))

    def become_live(self) -> None:
        """Count it as a live connection too, until it ends. Raises Refused."""
        self._live = self._live or self._budgets.live.take(*self._holders)

    def close(self) -> None:
        """Give back what it holds."""
        self._own.release()
        if self._live is not None:
            self._live.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _assign(self, *holders: Holder) -> None:
        self._own.assign(*holders)
        self._holders = holders


def connection_of(scope: Scope) -> CallerConnection | None:
    """The connection of a request; None where no middleware opened it."""
    data: Any = scope
    connection: CallerConnection | None = data.get(_KEY)
    return connection


def address_of(scope: Scope) -> str:
    """The caller's network address. Of IPv6 the first 64 bits: whoever has one address there has all that follow."""
    client = scope.get("client")
    return network_of(client[0] if client else "")


@lru_cache(ADDRESSES_REMEMBERED_MAX)
def network_of(text: str) -> str:
    """What an address counts for: itself, or the network of one caller."""
    try:
        parsed = ipaddress.ip_address(text)
    except ValueError:
        return text
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False).network_address)
    return text


def _budget(resource: str, limit: int, limits: ServerLimits, is_shared: bool) -> Budget:
    return Budget(resource, limit, _shares(limit, limits) if is_shared else {})


def _shares(limit: int, limits: ServerLimits) -> Mapping[HolderKind, int]:
    """At least one: a share of nothing would keep everybody out of a small process."""
    return {
        "principal": max(1, int(limit * limits.principal_share_max)),
        "organisation": max(1, int(limit * limits.organisation_share_max)),
        "address": max(1, int(limit * limits.address_share_max)),
    }

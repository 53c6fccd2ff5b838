"""Audit: an access log and a security log, as JSON lines. Neither log contains a token, a query or a body.

The access log has one line for each request and WebSocket that reaches `Middleware`. Connections that `Acceptor`
refuses, and requests that are not valid HTTP, have no line. Each log omits lines above its rate: see `LineLog`. The
security log has the events that an operator needs after an attack: sign-ins, invalid tokens, forbidden actions, refused
hosts and origins, requests with both Content-Length and Transfer-Encoding, exhausted rates, shares and quotas, and live
connections that ended because a right was withdrawn.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from litestar.enums import ScopeType
from litestar.types import Scope

from stratalog.clock import Clock
from stratalog.errors import StratalogError
from stratalog.limits import AUDITED_PATH_BYTES_MAX
from stratalog.server.connection_shares import address_of
from stratalog.server.line_log import LineLog
from stratalog.server.security import Principal
from stratalog.server.shares import Holder

__all__ = ["AccessLine", "Audit", "AuditEvent", "SecurityEvent", "note_refusal"]

AuditEvent = Literal[
    "signed-in",
    "invalid-token",
    "forbidden",
    "source-refused",
    "framing-refused",
    "limited",
    "quota-exceeded",
    "revoked",
]
_EVENTS: dict[int, AuditEvent] = {401: "invalid-token", 403: "forbidden", 429: "limited", 507: "quota-exceeded"}
_KEY = "stratalog.refusal"


class AccessLine(msgspec.Struct, frozen=True, tag="request", tag_field="event"):
    """A line of the access log. ``path`` has no query.

    ``status`` is 101 for an accepted WebSocket, and 0 if no response was sent.
    """

    time_ms: int
    address: str
    principal: str
    method: str
    path: str
    status: int
    milliseconds: int


class SecurityEvent(msgspec.Struct, frozen=True):
    """A line of the security log. ``principal`` is an id, or empty if no principal was known."""

    event: AuditEvent
    time_ms: int
    address: str
    principal: str
    method: str = ""
    path: str = ""
    status: int = 0
    reason: str = ""


class Audit:
    """The access log and the security log of one server. Either log may be missing. Used from the event loop only."""

    def __init__(self, clock: Clock, access: LineLog | None = None, security: LineLog | None = None) -> None:
        self._clock = clock
        self._access = access
        self._security = security

    @property
    def omitted(self) -> dict[str, int]:
        """The number of lines that each log omitted, by the log's name."""
        logs = {"access": self._access, "security": self._security}
        return {name: log.omitted for name, log in logs.items() if log is not None}

    def note(self, scope: Scope, status: int, milliseconds: int) -> None:
        """Log a response or the end of a live connection, and the refusal that `note_refusal` stored in ``scope``."""
        if self._access is None and self._security is None:
            return
        principal, method, path = _principal_of(scope), _method_of(scope), _path_of(scope)
        address, now_ms = address_of(scope), self._clock.wall_ms()
        if self._access is not None:
            line = AccessLine(now_ms, address, principal, method, path, status, milliseconds)
            self._access.write(_holder(principal, address), line)
        data: Any = scope
        refusal: tuple[AuditEvent, int, str] | None = data.get(_KEY)
        if self._security is not None and refusal is not None:
            event, status, reason = refusal
            own = SecurityEvent(event, now_ms, address, principal, method, path, status, reason)
            self._security.write(_holder(principal, address), own)

    def note_sign_in(self, principal: Principal, address: str) -> None:
        """Log the use of a valid token that this process does not remember."""
        if self._security is not None:
            event = SecurityEvent("signed-in", self._clock.wall_ms(), address, principal.id)
            self._security.write(_holder(principal.id, address), event)


def note_refusal(scope: Scope, error: StratalogError, status: int, event: AuditEvent | None = None) -> None:
    """Store a refusal in ``scope``. When the request or connection ends, `Audit.note` logs the refusal.

    Without ``event`` the status determines the event. If the status has no security event, nothing is stored.
    """
    event = event or _EVENTS.get(status)
    if event is not None:
        data: Any = scope
        # Log only the message: the details may contain input of the caller.
        data[_KEY] = (event, status, error.message)


def _holder(principal: str, address: str) -> Holder:
    return ("principal", principal) if principal else ("address", address)


def _principal_of(scope: Scope) -> str:
    user: Any = scope.get("user")
    return user.id if isinstance(user, Principal) else ""


def _method_of(scope: Scope) -> str:
    return str(scope["method"]) if scope["type"] == ScopeType.HTTP else "WEBSOCKET"


def _path_of(scope: Scope) -> str:
    return scope["path"].encode(errors="replace")[:AUDITED_PATH_BYTES_MAX].decode(errors="ignore")

"""Middleware: the checks that every request passes before a handler runs.

If a check raises an error, no handler runs.

The checks run in this order: framing, CORS preflight, room for the connection, source (address, site, host, origin),
principal, shares and rates. The handler of a WebSocket checks its principal, because the token may be in the first
message.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from stratalog.clock import Clock
from stratalog.errors import Invalid, OutcomeUnknown, StratalogError
from stratalog.server.addresses import parse_address
from stratalog.server.application import Application
from stratalog.server.audit import Audit, AuditEvent, note_refusal
from stratalog.server.authentication import Authentication
from stratalog.server.connection_shares import CallerConnection, ConnectionBudgets
from stratalog.server.deadlines import within_deadline
from stratalog.server.error_responses import error_response
from stratalog.server.errors import Refused, status_of
from stratalog.server.home import OPEN_PATHS
from stratalog.server.metrics import Metrics
from stratalog.server.pages import WEB
from stratalog.server.rates import Rates
from stratalog.server.request_headers import Headers, headers_of
from stratalog.server.security import ANONYMOUS, Principal, bearer_token
from stratalog.server.trusted_proxies import TrustedProxies

__all__ = ["Middleware", "decoded_names"]

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_CORS_METHODS = "GET, PUT, POST, DELETE"
_CORS_HEADERS = (
    "authorization, content-type, content-encoding, x-replicache-requestid, range, if-range, if-none-match, "
    "stratalog-path"
)
_CORS_EXPOSED = "etag, retry-after, content-range, stratalog-version, stratalog-live"
_CORS_SECONDS = "600"
# Default headers of every response. Caches may not store the response, and browsers may not guess another media type.
_ALWAYS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
# Headers of a response that pages of other origins may not read. These pages may not embed the response either.
_OWN_PAGES_ONLY = ((b"cross-origin-resource-policy", b"same-origin"),)


class Middleware:
    """Wraps the application, and counts its requests in metrics, rates and logs."""

    def __init__(
        self,
        inner: ASGIApp,
        application: Application,
        clock: Clock,
        metrics: Metrics,
        *,
        authentication: Authentication,
        audit: Audit,
        budgets: ConnectionBudgets | None = None,
        rates: Rates | None = None,
    ) -> None:
        limits = application.limits
        self._inner = inner
        self._application = application
        self._metrics = metrics
        self._authentication = authentication
        self._audit = audit
        self._rates = rates or Rates(clock, limits.rate_requests_per_second, limits.rate_requests_burst)
        self._clock = clock
        self._proxies = TrustedProxies(application.trusted_proxies)
        self._connections = budgets or ConnectionBudgets(limits, is_shared=authentication.is_asked)
        metrics.watch(self._connections, self._audit)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request or WebSocket, pass it to the application, then record it in metrics and audit."""
        if scope["type"] not in ("http", "websocket"):
            return await self._inner(scope, receive, send)
        # Restore the caller's address first. Shares, logs and the check for a local caller must not use the address of
        # a proxy.
        self._proxies.restore_caller(scope)
        passing = _Passing(scope, send, self._application)
        began_ms = self._clock.boot_ms()
        try:
            # Check the framing before any code reads the body.
            passing.check_framing()
            if passing.is_preflight:
                return await passing.answer_preflight()
            with self._connections.open(scope) as connection:
                receive = await self._admit(scope, receive, passing, connection)
                await self._inner(scope, receive, passing.send)
        except StratalogError as exc:
            note_refusal(scope, exc, status_of(exc), passing.event_of(exc))
            await passing.refuse(exc)
        except asyncio.CancelledError:
            # A server that stops cancels the requests that still run after `SHUTDOWN_SECONDS`.
            if scope["type"] != ScopeType.HTTP or passing.status:
                raise
            await passing.refuse(OutcomeUnknown("the server stopped before the request ended"))
        finally:
            taken_ms = self._clock.boot_ms() - began_ms
            self._metrics.note(scope, passing.status, taken_ms / 1000)
            self._audit.note(scope, passing.status, taken_ms)
        return None

    async def _admit(self, scope: Scope, receive: Receive, passing: _Passing, connection: CallerConnection) -> Receive:
        """Check the request and return the function that receives its body.

        Raises Refused, and the errors of ``authenticate``.

        A WebSocket counts for its address here. After the check of the token, the WebSocket's handler counts the
        principal and the organisation.
        """
        passing.check_source()
        # Route by the escaped path, so that an escaped slash stays within its name. `decoded_names` unescapes the names
        # later.
        scope["path"] = _raw_path(scope)
        if scope["type"] == ScopeType.WEBSOCKET:
            connection.count_for_address()
            self._rates.take(connection.holder)
            return receive
        await self._recognise(scope, passing.headers, connection)
        if "transfer-encoding" in passing.headers or passing.headers.get("content-length", "0") != "0":
            return within_deadline(receive, self._application.limits)
        return receive

    async def _recognise(self, scope: Scope, headers: Headers, connection: CallerConnection) -> None:
        """Set the request's principal. Count the request for the principal, or else for the address.

        Raises Refused, and the errors of ``authenticate``.
        """
        try:
            principal = scope["user"] = await self._principal(scope, headers, connection.address)
        except StratalogError:
            # Count failed sign-ins too, or a caller could try tokens without limit.
            connection.count_for_address()
            self._rates.take(("address", connection.address))
            await self._authentication.delay_refusal(connection.address)
            raise
        if principal.id:
            connection.count_for_principal(principal.id)
        else:
            connection.count_for_address()
        self._rates.take(connection.holder)

    async def _principal(self, scope: Scope, headers: Headers, address: str) -> Principal:
        is_open = scope["path"] in OPEN_PATHS or scope["path"].startswith(WEB)
        if is_open or not self._authentication.is_asked:
            return ANONYMOUS
        return await self._authentication.identify(bearer_token(headers.get("authorization", "")), address)


class _Passing:
    """One request in the middleware: its headers, its source check, and its response with the added headers."""

    def __init__(self, scope: Scope, send: Send, application: Application) -> None:
        self.status = 0
        self._closes = False
        self.is_source_checked = False
        self.headers = headers_of(scope)
        self._scope = scope
        self._send = send
        self._application = application
        self._cors = self.headers.get("origin", "") in application.origins
        is_shared = self._cors or (application.authenticate is not None and bool(application.origins))
        self._resource_policy = () if is_shared else _OWN_PAGES_ONLY

    @property
    def is_preflight(self) -> bool:
        """Whether this is a CORS preflight request of a browser."""
        return (
            self._scope["type"] == ScopeType.HTTP
            and self._scope["method"] == "OPTIONS"
            and "access-control-request-method" in self.headers
        )

    def check_framing(self) -> None:
        """Raise Invalid for a request with both Transfer-Encoding and Content-Length.

        A proxy may have used another length than this server, so the bytes that follow may be a smuggled request. The
        response closes the connection.
        """
        if {"transfer-encoding", "content-length"} <= self.headers.keys():
            self._closes = True
            raise Invalid("a request may not have both Transfer-Encoding and Content-Length")

    def event_of(self, error: StratalogError) -> AuditEvent | None:
        """Return the security event for an error that a check raised.

        Return None if `note_refusal` must derive the event from the status.
        """
        if self._closes:
            return "framing-refused"
        return "source-refused" if status_of(error) == 403 and not self.is_source_checked else None

    def check_source(self) -> None:
        """Raise Refused for a host, an origin, an address or a site that may not call the server."""
        host = _host_name(self.headers.get("host", ""))
        hosts = self._application.hosts
        if self._application.authenticate is None:
            hosts = (*hosts, *LOOPBACK_NAMES)
            self._check_address()
            self._check_site()
        if hosts and host not in hosts:
            raise Refused(403, "forbidden", "the server does not accept this host name", value=host)
        origin = self.headers.get("origin")
        if origin is not None and not self._cors and not self._is_own(origin):
            raise Refused(403, "forbidden", "pages of this origin may not call the server", value=origin)
        self.is_source_checked = True

    def _check_address(self) -> None:
        """Raise Refused for a caller on another machine, even if the server listens on all addresses.

        Called only without authentication.
        """
        client = self._scope.get("client")
        address = None if client is None else parse_address(client[0])
        # Only a test client has a text that is no address.
        if address is not None and not address.is_loopback:
            raise Refused(403, "forbidden", "without authentication the server serves this machine only")

    def _check_site(self) -> None:
        """Raise Refused for a request of a page of another origin. Called only without authentication.

        Some requests of pages have no Origin header. So this check reads Sec-Fetch-Site, in which a browser states how
        the calling page's origin relates to this server's origin. A request that follows a link to one of the server's
        own pages passes. A request without the header passes, because programs do not send it. A WebSocket passes,
        because browsers send its Origin header, which `check_source` checks.
        """
        site = self.headers.get("sec-fetch-site", "none")
        if site in ("none", "same-origin") or self._cors or self._scope["type"] != ScopeType.HTTP:
            return
        path = _raw_path(self._scope)
        is_page = path in OPEN_PATHS or path.startswith(WEB)
        is_opened = (
            self.headers.get("sec-fetch-mode") == "navigate" and self.headers.get("sec-fetch-dest") == "document"
        )
        if not (is_page and is_opened and self._scope["method"] == "GET"):
            raise Refused(403, "forbidden", "pages of other sites may not call the server", value=site)

    def _is_own(self, origin: str) -> bool:
        """Whether the origin is this server. The scheme is ignored, because it is different behind a TLS proxy."""
        scheme, _, host = origin.partition("://")
        return scheme in ("http", "https") and host == self.headers.get("host")

    async def send(self, message: Message) -> None:
        """Send a message of the application. The start of a response gets the headers that every response has."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = list(message.get("headers", ()))
            names = {name.lower() for name, _ in headers}
            headers += [(name, value) for name, value in (*_ALWAYS, *self._resource_policy) if name not in names]
            message["headers"] = [*headers, *self._cors_headers()] if self._cors else headers
        elif message["type"] == "websocket.accept":
            self.status = 101
        await self._send(message)

    async def refuse(self, error: StratalogError) -> None:
        """Send the error as the response, or close a WebSocket with code 1008."""
        if self._scope["type"] == ScopeType.WEBSOCKET:
            await self._send({"type": "websocket.close", "code": 1008, "reason": error.message})
            return
        await self._answer(*error_response(self._scope, error))

    async def answer_preflight(self) -> None:
        """Answer a preflight request.

        An origin that is not allowed gets no CORS headers, so the browser refuses the request.
        """
        allowed = {
            "access-control-allow-methods": _CORS_METHODS,
            "access-control-allow-headers": _CORS_HEADERS,
            "access-control-max-age": _CORS_SECONDS,
        }
        await self._answer(204, allowed if self._cors else {})

    async def _answer(self, status: int, headers: Headers, body: bytes = b"") -> None:
        encoded = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        encoded += [(b"connection", b"close")] if self._closes else []
        start: Any = {"type": "http.response.start", "status": status, "headers": encoded}
        await self.send(start)
        await self.send({"type": "http.response.body", "body": body, "more_body": False})

    def _cors_headers(self) -> list[tuple[bytes, bytes]]:
        return [
            (b"access-control-allow-origin", self.headers["origin"].encode("latin-1")),
            (b"access-control-expose-headers", _CORS_EXPOSED.encode()),
            (b"vary", b"Origin"),
        ]


def decoded_names(app: ASGIApp) -> ASGIApp:
    """Wrap a handler so that path parameters are unescaped after routing: a name may contain an escaped slash.

    The handler is not called if a name in the path is not UTF-8.
    """

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        scope["path_params"] = {name: _decoded(value) for name, value in scope["path_params"].items()}
        await app(scope, receive, send)

    return call


def _decoded(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as exc:
        raise Invalid("a name in the path is not UTF-8", value=text) from exc


def _raw_path(scope: Scope) -> str:
    raw = scope.get("raw_path") or quote(scope["path"]).encode()
    return raw.partition(b"?")[0].decode("ascii")


def _host_name(header: str) -> str:
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""

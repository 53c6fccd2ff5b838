"""The edge: everything a request must pass before the core sees it. Whatever is in doubt is turned away."""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from stratalog.clock import Clock
from stratalog.errors import Invalid, StratalogError
from stratalog.limits import RATE_PRINCIPALS_MAX
from stratalog.server.application import Application, ServerLimits
from stratalog.server.bodies import encode_body
from stratalog.server.errors import Refused, problem_of, retry_headers, status_of
from stratalog.server.metrics import Metrics
from stratalog.server.pages import WEB
from stratalog.server.request_bodies import prompt, unpacked
from stratalog.server.security import ANONYMOUS, Principal, bearer_token, identify

__all__ = ["Middleware", "decoded_names"]

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
OPEN_PATHS = frozenset({"/health", "/schema/openapi.json"})
_CORS_METHODS = "GET, PUT, POST, DELETE"
_CORS_HEADERS = (
    "authorization, content-type, content-encoding, x-replicache-requestid, range, if-none-match, stratalog-path"
)
_CORS_EXPOSED = "etag, retry-after, content-range, stratalog-version, stratalog-live"
_CORS_SECONDS = "600"
# Unless an answer says otherwise: it is of this moment, and no browser may guess that it is something else.
_ALWAYS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
Headers = dict[str, str]


class Middleware:
    """Wraps the application. Counts what passes; keeps no state about a request once it is answered."""

    def __init__(self, inner: ASGIApp, application: Application, clock: Clock, metrics: Metrics) -> None:
        self._inner = inner
        self._application = application
        self._metrics = metrics
        self._rates = Rates(clock, application.limits)
        self._clock = clock
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection."""
        if scope["type"] not in ("http", "websocket"):
            return await self._inner(scope, receive, send)
        passing = _Passing(scope, send, self._application)
        if passing.is_preflight:
            return await passing.answer_preflight()
        began_ms = self._clock.boot_ms()
        self._open += 1
        try:
            receive = await self._admit(scope, receive, passing)
            await self._inner(scope, receive, passing.send)
        except StratalogError as exc:
            await passing.refuse(exc)
        finally:
            self._open -= 1
            self._metrics.note(scope, passing.status, (self._clock.boot_ms() - began_ms) / 1000)
        return None

    async def _admit(self, scope: Scope, receive: Receive, passing: _Passing) -> Receive:
        """The request's body to be read from, once everything else is found in order. Raises Refused."""
        if self._open > self._application.limits.connections_max:
            limit = self._application.limits.connections_max
            raise Refused(503, "unavailable", "too many connections", limit=limit, value=self._open)
        passing.check_source()
        scope["path"] = _raw_path(scope)
        if scope["type"] == ScopeType.WEBSOCKET:
            self._rates.take(_address_key(scope))
            return receive
        try:
            principal = scope["user"] = await self._principal(scope, passing.headers)
        except StratalogError:
            self._rates.take(_address_key(scope))
            raise
        self._rates.take(principal.id or _address_key(scope))
        encoding = passing.headers.get("content-encoding", "identity").lower()
        if "transfer-encoding" in passing.headers or passing.headers.get("content-length", "0") != "0":
            receive = prompt(receive)
        return await unpacked(receive, encoding, self._application.limits)

    async def _principal(self, scope: Scope, headers: Headers) -> Principal:
        if scope["path"] in OPEN_PATHS or scope["path"].startswith(WEB):
            return ANONYMOUS
        return await identify(self._application.authenticate, lambda: bearer_token(headers.get("authorization", "")))


class Rates:
    """A bucket of requests for each principal, or address where there is none, that fills at a steady rate."""

    def __init__(self, clock: Clock, limits: ServerLimits) -> None:
        self._clock = clock
        self._limits = limits
        self._buckets: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def take(self, key: str) -> None:
        """Take one. Raises Refused where the bucket is empty."""
        now, burst = self._clock.boot_ms(), float(self._limits.rate_requests_burst)
        left, then = self._buckets.pop(key, (burst, now))
        left = min(burst, left + (now - then) / 1000 * self._limits.rate_requests_per_second)
        self._buckets[key] = (left if left < 1 else left - 1, now)
        if len(self._buckets) > RATE_PRINCIPALS_MAX:
            self._buckets.popitem(last=False)
        if left < 1:
            limit = self._limits.rate_requests_per_second
            seconds = math.ceil((1 - left) / limit)
            raise Refused(429, "too-many-requests", "requests come too fast", limit=limit, seconds=seconds)


class _Passing:
    """One connection on its way through: its headers, and the answer that goes back with CORS headers on it."""

    def __init__(self, scope: Scope, send: Send, application: Application) -> None:
        self.status = 0
        self.headers: Headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        self._scope = scope
        self._send = send
        self._application = application
        self._cors = self.headers.get("origin", "") in application.origins

    @property
    def is_preflight(self) -> bool:
        """Whether a browser asks whether it may ask."""
        return (
            self._scope["type"] == ScopeType.HTTP
            and self._scope["method"] == "OPTIONS"
            and "access-control-request-method" in self.headers
        )

    def check_source(self) -> None:
        """Raise Refused for a host, origin or address that may not come in."""
        host = _host_name(self.headers.get("host", ""))
        hosts = self._application.hosts
        if self._application.authenticate is None:
            hosts = (*hosts, *LOOPBACK_NAMES)
            self._check_address()
        if hosts and host not in hosts:
            raise Refused(403, "forbidden", "the server does not go by this host name", value=host)
        origin = self.headers.get("origin")
        if origin is not None and not self._cors and not self._is_own(origin):
            raise Refused(403, "forbidden", "pages of this origin may not call the server", value=origin)

    def _check_address(self) -> None:
        """Without authentication only this machine is served, however the server was bound."""
        client = self._scope.get("client")
        if client is not None and not _is_local(client[0]):
            raise Refused(403, "forbidden", "without authentication only this machine is served")

    def _is_own(self, origin: str) -> bool:
        """Whether a page came from here. The scheme is left out: behind a proxy with TLS ours is not the page's."""
        scheme, _, host = origin.partition("://")
        return scheme in ("http", "https") and host == self.headers.get("host")

    async def send(self, message: Message) -> None:
        """Pass a message on; an answer's start gets the headers that every answer has."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = list(message.get("headers", ()))
            names = {name.lower() for name, _ in headers}
            headers += [(name, value) for name, value in _ALWAYS if name not in names]
            message["headers"] = [*headers, *self._cors_headers()] if self._cors else headers
        elif message["type"] == "websocket.accept":
            self.status = 101
        await self._send(message)

    async def refuse(self, error: StratalogError) -> None:
        """Answer that the request is turned away."""
        if self._scope["type"] == ScopeType.WEBSOCKET:
            await self._send({"type": "websocket.close", "code": 1008, "reason": error.message})
            return
        status = status_of(error)
        body = encode_body(problem_of(error), "application/json")
        headers = {"content-type": "application/json", "content-length": str(len(body))}
        await self._answer(status, headers | retry_headers(status, error.details), body)

    async def answer_preflight(self) -> None:
        """Answer a browser; without the headers it takes that for a no."""
        allowed = {
            "access-control-allow-methods": _CORS_METHODS,
            "access-control-allow-headers": _CORS_HEADERS,
            "access-control-max-age": _CORS_SECONDS,
        }
        await self._answer(204, allowed if self._cors else {})

    async def _answer(self, status: int, headers: Headers, body: bytes = b"") -> None:
        encoded = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
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
    """Unescape the names in a path once it is cut into them, so that a name may hold a slash."""

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


def _is_local(address: str) -> bool:
    """Whether an address is this machine's. A test client has none that is one: there is no network then."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return True
    mapped = getattr(parsed, "ipv4_mapped", None)
    return parsed.is_loopback or (mapped is not None and mapped.is_loopback)


def _address_key(scope: Scope) -> str:
    """Whose bucket it is where nobody is known: guesses at tokens are counted too."""
    client = scope.get("client")
    return f"@{client[0] if client else ''}"

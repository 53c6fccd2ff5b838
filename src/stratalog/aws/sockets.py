"""The handler of a WebSocket API: connections, the documents that they listen to, and the states that they show.

A connection receives messages only after its client has sent hello. Before hello, the index has no item about the
connection.

“Integrating backend resources with WebSocket APIs” in the Amazon API Gateway Developer Guide describes the event's
fields.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import unquote

from stratalog.aws.container import Container, container
from stratalog.aws.events import asgi_headers, headers_of
from stratalog.errors import Invalid, StratalogError
from stratalog.limits import IDENTITY_THREADS_MAX
from stratalog.protocol.live import SUBPROTOCOL, Hello, Ready
from stratalog.server.audit import Audit
from stratalog.server.authentication import Authentication
from stratalog.server.live import message_of
from stratalog.server.metrics import Metrics
from stratalog.server.middleware import Middleware
from stratalog.server.security import identify, permit
from stratalog.server.thread_pool import Pool, PoolSettings

__all__ = ["SILENCE_SECONDS", "Sockets", "handler"]

SILENCE_SECONDS = 660
"""A client disconnects by itself after this silence. API Gateway closes a silent connection after 10 minutes."""

ANSWERED = {"statusCode": 200}


def handler(event: Mapping[str, Any], context: object) -> dict[str, Any]:
    """Handle one WebSocket API event: the entry point for Lambda."""
    return _sockets().take(event)


@cache
def _sockets() -> Sockets:
    return Sockets(container())


class Sockets:
    """The WebSocket connections of one container. Lambda passes one event at a time."""

    def __init__(self, opened: Container) -> None:
        self._container = opened
        environment = opened.store.environment
        self._identity = Pool("identity", PoolSettings(threads=IDENTITY_THREADS_MAX))
        clock, application = environment.clock, opened.application
        self._middleware: Any = Middleware(
            _accept,
            application,
            clock,
            Metrics(environment),
            authentication=Authentication(application.authenticate, clock, application.limits, self._identity),
            audit=Audit(clock),
        )
        self._runner = asyncio.Runner()

    def take(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Handle one event and return the response to the gateway. Raises Unavailable, OutcomeUnknown."""
        context = event["requestContext"]
        kind, id = context["eventType"], context["connectionId"]
        if kind == "CONNECT":
            return self._runner.run(self._connect(event))
        if kind == "DISCONNECT":
            self._container.listeners.leave(id)
            return ANSWERED
        try:
            self._hear(id, event.get("body") or "")
        except StratalogError:
            # The gateway closes the connection with its own code, so the client does not get the reason.
            self._container.listeners.connections.close(id)
        return ANSWERED

    def close(self) -> None:
        """Close the event loop. The container stays open."""
        self._runner.close()

    async def _connect(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Accept the connection if the server's middleware accepts it."""
        sent: list[str] = []

        async def send(message: Mapping[str, Any]) -> None:
            sent.append(message["type"])

        async def receive() -> dict[str, Any]:
            return {"type": "websocket.connect"}

        headers = headers_of(event)
        await self._middleware(_scope(event["requestContext"], headers), receive, send)
        if sent != ["websocket.accept"]:
            return {"statusCode": 403}
        offered = [protocol.strip() for protocol in headers.get("sec-websocket-protocol", "").split(",")]
        chosen = {"headers": {"Sec-WebSocket-Protocol": SUBPROTOCOL}} if SUBPROTOCOL in offered else {}
        return {**ANSWERED, **chosen}

    def _hear(self, id: str, text: str) -> None:
        message = message_of(text)
        if isinstance(message, Hello):
            self._greet(id, message)
        else:
            self._container.listeners.show(id, message.state)

    def _greet(self, id: str, hello: Hello) -> None:
        """Add the connection to a document's listeners, and send it the head's version and the listeners' states."""
        organisation, _, name = hello.document.partition("/")
        if not name or "/" in name:
            raise Invalid("hello must name organisation/document", value=hello.document)
        organisation, name = unquote(organisation), unquote(name)
        expires_ms = self._runner.run(self._admit(hello.token, organisation, name))
        log = self._container.store.log(organisation, name)
        listeners = self._container.listeners
        listeners.join(id, organisation, name, expires_ms)
        # Read the head after the join. So a concurrent commit is in the head, or its announcement finds this listener.
        if not listeners.connections.post(id, Ready(id, log.head().version, SILENCE_SECONDS)):
            # The client has disconnected, and its DISCONNECT event may have been handled before the join.
            listeners.leave(id)
            return
        here = listeners.here(organisation, name)
        if here.present:
            listeners.connections.post(id, here)

    async def _admit(self, token: str, organisation: str, name: str) -> int | None:
        """Check the token and the right to read. Return the principal's expiry, or None.

        Raises Refused, Forbidden, and the errors of the application's functions.
        """
        application = self._container.application
        principal = await identify(application.authenticate, token, self._identity)
        await permit(application.authorize, principal, "read", organisation, name, self._identity)
        return principal.expires_ms


async def _accept(scope: object, receive: object, send: Any) -> None:
    await send({"type": "websocket.accept"})


def _scope(context: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
    """Return the connection's ASGI scope."""
    return {
        "type": "websocket",
        "path": "/",
        "raw_path": b"/",
        "headers": asgi_headers(headers),
        "client": (context["identity"]["sourceIp"], 0),
    }

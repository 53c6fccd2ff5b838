"""Live connections: a WebSocket, and server-sent events for clients that only listen.

A live connection transfers only hints and presence. Clients read the state itself by pull.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import anyio
import msgspec
from litestar import Request, Router, WebSocket, get, websocket
from litestar.exceptions import WebSocketDisconnect
from litestar.response import Stream
from litestar.types import Scope

from stratalog.codec import json_reason
from stratalog.errors import Invalid, StratalogError
from stratalog.limits import LIVE_HELLO_SECONDS_MAX, LIVE_MESSAGE_BYTES_MAX, PRESENCE_SECONDS_MIN
from stratalog.protocol.live import SUBPROTOCOLS, FromClient, Gone, Hello, Presence
from stratalog.server.audit import note_refusal
from stratalog.server.bodies import check_depth
from stratalog.server.connection_shares import address_of, connection_of
from stratalog.server.error_responses import PROBLEMS, response
from stratalog.server.errors import Refused, status_of
from stratalog.server.hub import Listener
from stratalog.server.live_right import LiveRight
from stratalog.server.parameters import PREFIX, Name
from stratalog.server.presence import Frame
from stratalog.server.security import Principal, bearer_token
from stratalog.server.service import Served, Service

__all__ = ["LIVE", "message_of"]

Asked = Request[Principal, Any, Any]
Socket = WebSocket[Any, Any, Any]
BEARER = "bearer."
EVENT_STREAM = "text/event-stream"
SERVICE_RESTART = 1012
CLOSE_CODES = 4000
"""A close code is this number plus the HTTP status of the same meaning: 4401 means that the token is missing or
invalid."""


@websocket("/live", pool="reads")
async def live(service: Served, socket: Socket) -> None:
    """The client sends Hello. The server sends Ready, and then pokes. The client and the server send presence.

    The server waits for Hello only if it authenticates clients and no subprotocol has the token.
    """
    names = socket.path_params
    organisation, name = names["organisation"], names.get("document") or names["log"]
    offered = socket.scope["subprotocols"]
    # Accept before the checks below: a client sees the code of a closed WebSocket only if the server accepted it
    # before.
    await socket.accept(subprotocols=next((known for known in SUBPROTOCOLS if known in offered), None))
    try:
        token = await _token(service, socket, offered)
        right = LiveRight(service, token, address_of(socket.scope), organisation, name)
        principal = socket.scope["user"] = await right.ask()
        _enter(service, socket.scope, organisation)
        connection_of(socket.scope).become_live()
        newest = SUBPROTOCOLS[0] in offered
        listener = await service.hub.join(organisation, name, principal, takes_changes=newest)
        await _serve(socket, service, listener, right)
    except StratalogError as exc:
        note_refusal(socket.scope, exc, status_of(exc))
        await socket.close(code=CLOSE_CODES + status_of(exc), reason=exc.message)
    except WebSocketDisconnect:
        return


streaming = partial(
    get,
    "/events",
    pool="reads",
    opt={"action": "read"},
    media_type=EVENT_STREAM,
    responses={**PROBLEMS, 200: response(str, "a stream of hints", EVENT_STREAM)},
    summary="Pokes as server-sent events",
)


@streaming()
async def document_events(service: Served, request: Asked, organisation: Name, document: Name) -> Stream:
    """The name of an event is the message's type. The data of an event is the message."""
    return await _stream(service, request, organisation, document)


@streaming()
async def log_events(service: Served, request: Asked, organisation: Name, log: Name) -> Stream:
    """The name of an event is the message's type. The data of an event is the message."""
    return await _stream(service, request, organisation, log)


async def _token(service: Service, socket: Socket, offered: list[str]) -> str:
    """Return the client's token: from the subprotocols, or else from the first message.

    Raises Refused if no message arrives in time, and the errors of `message_of`.

    A first message without a token gives an empty token, which `LiveRight.ask` checks as any other token. Without
    authentication the function returns an empty token at once.
    """
    if not service.authentication.is_asked:
        return ""
    token = next((protocol.removeprefix(BEARER) for protocol in offered if protocol.startswith(BEARER)), "")
    if not token:
        try:
            with anyio.fail_after(LIVE_HELLO_SECONDS_MAX):
                first = message_of(await socket.receive_data(mode="text"))
        except TimeoutError as exc:
            raise Refused(401, "unauthenticated", "the first message did not arrive in time") from exc
        token = first.token if isinstance(first, Hello) else ""
    return token


def _enter(service: Service, scope: Scope, organisation: str) -> None:
    """Count a WebSocket, and its one request, for its principal and organisation. Raises Refused.

    Before this call, the WebSocket counts for its address.
    """
    opened = connection_of(scope)
    user: Principal = scope["user"]
    if user.id:
        opened.count_for_principal(user.id)
        service.rates.take(opened.holder)
    service.enter(scope, organisation)


async def _serve(socket: Socket, service: Service, listener: Listener, right: LiveRight) -> None:
    """Receive and send messages until one of the two directions ends, then leave the hub."""
    ended: tuple[int, str] | None = None
    try:
        async with anyio.create_task_group() as group:

            async def hear() -> None:
                try:
                    await _hear(socket, listener)
                except StratalogError as exc:
                    await socket.close(code=CLOSE_CODES + status_of(exc), reason=exc.message)
                except WebSocketDisconnect:
                    pass
                group.cancel_scope.cancel()

            group.start_soon(hear)
            ended = await _send_messages(socket, listener, right)
            group.cancel_scope.cancel()
        if ended is not None:
            await socket.close(code=ended[0], reason=ended[1])
    finally:
        service.hub.leave(listener)


async def _send_messages(socket: Socket, listener: Listener, right: LiveRight) -> tuple[int, str]:
    """Send messages until the right or the document ends or the server stops. Return the close code and reason."""
    while frames := await listener.next(right.due_seconds()):
        # Check the right before sending: no message may be sent while a check is due.
        if (error := await right.ask_again()) is not None:
            note_refusal(socket.scope, error, status_of(error), "revoked")
            return CLOSE_CODES + status_of(error), error.message
        for frame in frames:
            await socket.send_data(frame.json, mode="text")
            if isinstance(frame.message, Gone):
                return CLOSE_CODES + 410, "the document was deleted"
    return SERVICE_RESTART, "the server is stopping"


async def _hear(socket: Socket, listener: Listener) -> None:
    while True:
        message = message_of(await socket.receive_data(mode="text"))
        if isinstance(message, Presence):
            listener.show(message.state)
        # Listeners get presence at most once in `PRESENCE_SECONDS_MIN`. So do not read a client's messages faster.
        await anyio.sleep(PRESENCE_SECONDS_MIN)


def message_of(text: str | bytes) -> FromClient:
    """Decode a client's message.

    Raises Invalid, LimitExceeded for deep nesting, Refused for a message that is too large.
    """
    # A text may be JSON of a gateway's event, so it may have lone surrogates, which the decoder then refuses.
    size = len(text) if isinstance(text, bytes) else len(text.encode(errors="surrogatepass"))
    if size > LIVE_MESSAGE_BYTES_MAX:
        raise Refused(413, "limit-exceeded", "a live message is too large", limit=LIVE_MESSAGE_BYTES_MAX)
    try:
        check_depth(msgspec.json.decode(text))
        return _decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
        raise Invalid("a live message cannot be decoded", reason=json_reason(text, exc)) from exc


async def _stream(service: Service, request: Asked, organisation: str, name: str) -> Stream:
    """Return the stream of events. Raises Refused, and NotFound before the response begins.

    `_events` joins the hub only when the stream is first read. Otherwise a stream that is never read would keep its
    listener for ever.
    """
    connection_of(request.scope).become_live()
    # Open the log only to raise NotFound here: once the stream has begun, the status of the response is 200.
    await service.run(lambda: service.store.log(organisation, name))
    token = bearer_token(request.headers["authorization"]) if service.authentication.is_asked else ""
    right = LiveRight(service, token, address_of(request.scope), organisation, name)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Stream(_events(service, request.scope, right, organisation, name), media_type=EVENT_STREAM, headers=headers)


async def _events(
    service: Service, scope: Scope, right: LiveRight, organisation: str, name: str
) -> AsyncIterator[bytes]:
    try:
        listener = await service.hub.join(organisation, name, await right.ask())
    except StratalogError:
        # Since the response began, for example, the document was deleted or the right was withdrawn. A new request gets
        # the error.
        return
    try:
        while frames := await listener.next(right.due_seconds()):
            if (error := await right.ask_again()) is not None:
                note_refusal(scope, error, status_of(error), "revoked")
                return
            for frame in frames:
                yield _event(frame)
                if isinstance(frame.message, Gone):
                    return
    finally:
        service.hub.leave(listener)


def _event(frame: Frame) -> bytes:
    kind = frame.message.__struct_config__.tag
    return b"event: %s\ndata: %s\n\n" % (str(kind).encode(), frame.json)


_decode: Callable[[str | bytes], FromClient] = msgspec.json.Decoder(FromClient).decode

LIVE = [
    Router(PREFIX + "/documents/{document:str}", route_handlers=[live, document_events], tags=["live"]),
    Router(PREFIX + "/logs/{log:str}", route_handlers=[live, log_events], tags=["live"]),
]

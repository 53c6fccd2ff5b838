"""Live connections: a WebSocket, and server-sent events for those who only listen. Hints alone; pull is the truth."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import anyio
import msgspec
from litestar import Request, Router, WebSocket, get, websocket
from litestar.exceptions import WebSocketDisconnect
from litestar.response import Stream

from stratalog.errors import Invalid, StratalogError
from stratalog.limits import LIVE_MESSAGE_BYTES_MAX, PRESENCE_SECONDS_MIN
from stratalog.protocol.live import SUBPROTOCOL, FromClient, FromServer, Gone, Hello, Presence
from stratalog.server.bodies import check_depth
from stratalog.server.errors import PROBLEMS, Refused, response, status_of
from stratalog.server.hub import Listener
from stratalog.server.parameters import PREFIX, Name
from stratalog.server.security import Principal, identify, is_expired
from stratalog.server.service import Served, Service

__all__ = ["LIVE", "message_of"]

Asked = Request[Principal, Any, Any]
Socket = WebSocket[Any, Any, Any]
HELLO_SECONDS_MAX = 10.0
BEARER = "bearer."
EVENT_STREAM = "text/event-stream"
SERVICE_RESTART = 1012
CLOSE_CODES = 4000
"""Added to the HTTP status that says the same: 4401 asks for a token, 4404 knows no such document."""


@websocket("/live")
async def live(service: Served, socket: Socket) -> None:
    """Hello, ready, and then pokes; presence both ways."""
    names = socket.path_params
    organisation, name = names["organisation"], names.get("document") or names["log"]
    offered = socket.scope["subprotocols"]
    await socket.accept(subprotocols=SUBPROTOCOL if SUBPROTOCOL in offered else None)
    try:
        principal = await _principal(service, socket, offered)
        await service.permit(principal, "read", organisation, name)
        listener = await service.hub.join(organisation, name)
        await _serve(socket, service, listener, principal)
    except StratalogError as exc:
        await socket.close(code=CLOSE_CODES + status_of(exc), reason=exc.message)
    except WebSocketDisconnect:
        return


streaming = partial(
    get,
    "/events",
    opt={"action": "read"},
    media_type=EVENT_STREAM,
    responses={**PROBLEMS, 200: response(str, "hints, as they come", EVENT_STREAM)},
    summary="Pokes as server-sent events",
)


@streaming()
async def document_events(service: Served, request: Asked, organisation: Name, document: Name) -> Stream:
    """The event is the message's type, its data the message."""
    return await _stream(service, request.user, organisation, document)


@streaming()
async def log_events(service: Served, request: Asked, organisation: Name, log: Name) -> Stream:
    """The event is the message's type, its data the message."""
    return await _stream(service, request.user, organisation, log)


async def _principal(service: Service, socket: Socket, offered: list[str]) -> Principal:
    """Who connects: by a token among the subprotocols, or in the first message. Raises Refused."""
    authenticate = service.application.authenticate
    if authenticate is None:
        return await identify(None, str)
    token = next((protocol.removeprefix(BEARER) for protocol in offered if protocol.startswith(BEARER)), "")
    if not token:
        try:
            with anyio.fail_after(HELLO_SECONDS_MAX):
                first = message_of(await socket.receive_data(mode="text"))
        except TimeoutError as exc:
            raise Refused(401, "unauthenticated", "the first message did not come") from exc
        token = first.token if isinstance(first, Hello) else ""
    return await identify(authenticate, lambda: token)


async def _serve(socket: Socket, service: Service, listener: Listener, principal: Principal) -> None:
    """Both directions, until either ends."""
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
            ended = await _send_messages(socket, service, listener, principal)
            group.cancel_scope.cancel()
        if ended is not None:
            await socket.close(code=ended[0], reason=ended[1])
    finally:
        service.hub.leave(listener)


async def _send_messages(socket: Socket, service: Service, listener: Listener, principal: Principal) -> tuple[int, str]:
    """Send what is new until there is a reason to stop: the code and words to close with."""
    while messages := await listener.next():
        if is_expired(principal, service.store.environment.clock.wall_ms()):
            return CLOSE_CODES + 401, "the token has come to its end"
        for message in messages:
            await socket.send_data(msgspec.json.encode(message), mode="text")
            if isinstance(message, Gone):
                return CLOSE_CODES + 410, "the document was deleted"
    return SERVICE_RESTART, "the server stops"


async def _hear(socket: Socket, listener: Listener) -> None:
    while True:
        message = message_of(await socket.receive_data(mode="text"))
        if isinstance(message, Presence):
            listener.show(message.state)
        # Everybody in the document is told of each: who says more than they can hear is left to wait.
        await anyio.sleep(PRESENCE_SECONDS_MIN)


def message_of(text: str | bytes) -> FromClient:
    """What a client says. Raises Invalid, LimitExceeded, Refused."""
    if len(text) > LIVE_MESSAGE_BYTES_MAX:
        raise Refused(413, "limit-exceeded", "a live message is too large", limit=LIVE_MESSAGE_BYTES_MAX)
    try:
        check_depth(msgspec.json.decode(text))
        return _decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
        raise Invalid("a live message does not decode", reason=str(exc)) from exc


async def _stream(service: Service, principal: Principal, organisation: str, name: str) -> Stream:
    """Joining waits until the stream is read: one that never is would stay joined for ever."""
    service.hub.check_room()
    await service.run(lambda: service.store.log(organisation, name))
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Stream(_events(service, principal, organisation, name), media_type=EVENT_STREAM, headers=headers)


async def _events(service: Service, principal: Principal, organisation: str, name: str) -> AsyncIterator[bytes]:
    listener = await service.hub.join(organisation, name)
    try:
        while messages := await listener.next():
            if is_expired(principal, service.store.environment.clock.wall_ms()):
                return
            for message in messages:
                yield _event(message)
                if isinstance(message, Gone):
                    return
    finally:
        service.hub.leave(listener)


def _event(message: FromServer) -> bytes:
    data = msgspec.json.encode(message)
    kind = message.__struct_config__.tag
    return b"event: %s\ndata: %s\n\n" % (str(kind).encode(), data)


_decode: Callable[[str | bytes], FromClient] = msgspec.json.Decoder(FromClient).decode

LIVE = [
    Router(PREFIX + "/documents/{document:str}", route_handlers=[live, document_events], tags=["live"]),
    Router(PREFIX + "/logs/{log:str}", route_handlers=[live, log_events], tags=["live"]),
]

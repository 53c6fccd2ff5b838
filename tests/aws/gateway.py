"""A gateway on loopback turns HTTP requests and WebSocket messages into API Gateway's events for functions.

One port serves the HTTP API, and the WebSocket API with its stage `/live`. Functions reach the connections below
`/live/@connections/`. If a function fails, the gateway answers as API Gateway does. Functions that notify listeners
need `sockets_url` as ``STRATALOG_SOCKETS``.
"""

from __future__ import annotations

import socket
import threading
from base64 import b64decode
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import anyio
import anyio.to_thread
import uvicorn

from stratalog.clock import Clock, SystemClock, new_id
from tests.aws.functions import Failed, Function
from tests.aws.gateway_events import http_event, socket_event

__all__ = ["Gateway"]

STAGE = "/live"
CONNECTIONS = f"{STAGE}/@connections/"
REQUEST_BYTES_MAX = 10 * 1024 * 1024
START_SECONDS_MAX = 30
JSON = (b"content-type", b"application/json")
FAILURE = '{"message": "Internal server error"}'
Scope = Mapping[str, Any]


class Gateway:
    """Serves functions on its own thread, inside a ``with`` statement.

    Create the functions after the gateway, since their environment needs the gateway's address. Set `api` and `sockets`
    before the first request. The caller closes the functions.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.api: Function | None = None
        self.sockets: Function | None = None
        self.posts: list[str] = []
        """The messages that functions posted to connections."""

        self._clock = clock or SystemClock()
        self._open: dict[str, Any] = {}
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        config = uvicorn.Config(
            self._serve,
            interface="asgi3",
            lifespan="off",
            log_level="error",
            timeout_graceful_shutdown=1,
            ws="websockets-sansio",
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._listening],), daemon=True)

    @property
    def sockets_url(self) -> str:
        """The address of the WebSocket API, for functions."""
        return self.url + STAGE

    @property
    def connections(self) -> int:
        """The number of open WebSockets."""
        return len(self._open)

    def __enter__(self) -> Gateway:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.should_exit = True
        self._thread.join(START_SECONDS_MAX)
        self._listening.close()

    async def _serve(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket" and scope["path"] == STAGE:
            await self._hold(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif scope["raw_path"].decode().startswith(CONNECTIONS):
            await self._manage(scope, await _body_of(receive), send)
        else:
            await self._pass(scope, await _body_of(receive), send)

    async def _pass(self, scope: Scope, body: bytes, send: Any) -> None:
        """Pass an HTTP request to the function, and send the function's answer."""
        if len(body) > REQUEST_BYTES_MAX:
            await _answer(send, 413, [JSON], b'{"message":"Request Entity Too Large"}')
            return
        try:
            answer = await _called(self.api, http_event(scope, body, self._clock))
        except Failed:
            await _answer(send, 503, [JSON], b'{"message":"Service Unavailable"}')
            return
        headers = [(name.encode(), value.encode("latin-1")) for name, value in answer.get("headers", {}).items()]
        headers += [(b"set-cookie", value.encode("latin-1")) for value in answer.get("cookies", ())]
        text = answer.get("body", "")
        content = b64decode(text) if answer.get("isBase64Encoded") else text.encode()
        await _answer(send, answer["statusCode"], headers, content)

    async def _hold(self, scope: Scope, receive: Any, send: Any) -> None:
        """Serve a WebSocket until either side closes it."""
        id = new_id(self._clock)
        await receive()
        try:
            answer = await _called(self.sockets, socket_event(scope, "CONNECT", id, self._clock))
        except Failed:
            answer = {"statusCode": 502}
        if answer["statusCode"] != 200:
            await send({"type": "websocket.close", "code": 1008})
            return
        chosen = {name.lower(): value for name, value in answer.get("headers", {}).items()}
        await send({"type": "websocket.accept", "subprotocol": chosen.get("sec-websocket-protocol")})
        self._open[id] = send
        try:
            while (message := await receive())["type"] == "websocket.receive":
                await self._heard(scope, id, message.get("text") or "")
        finally:
            self._open.pop(id, None)
            await self._heard(scope, id, None)

    async def _heard(self, scope: Scope, id: str, text: str | None) -> None:
        """Pass a client's message to the function. A ``text`` of None means that the client disconnected."""
        kind = "DISCONNECT" if text is None else "MESSAGE"
        try:
            await _called(self.sockets, socket_event(scope, kind, id, self._clock, text))
        except Failed:
            if id in self._open:
                await self._open[id]({"type": "websocket.send", "text": FAILURE})

    async def _manage(self, scope: Scope, body: bytes, send: Any) -> None:
        """Post a function's message to a connection, or close the connection at a function's request."""
        id = scope["raw_path"].decode().removeprefix(CONNECTIONS)
        connection = self._open.get(id)
        if connection is None:
            await _answer(send, 410, [(b"x-amzn-errortype", b"GoneException")], b"")
            return
        if scope["method"] == "DELETE":
            self._open.pop(id, None)
            await connection({"type": "websocket.close", "code": 1000})
            await _answer(send, 204, [], b"")
            return
        self.posts.append(body.decode())
        await connection({"type": "websocket.send", "text": self.posts[-1]})
        await _answer(send, 200, [], b"")


async def _called(function: Function | None, event: Mapping[str, Any]) -> Any:
    if function is None:
        raise Failed("there is no function")
    return await anyio.to_thread.run_sync(function.call, event)


async def _body_of(receive: Any) -> bytes:
    body, more = bytearray(), True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return bytes(body)


async def _answer(send: Any, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    headers = [*headers, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})

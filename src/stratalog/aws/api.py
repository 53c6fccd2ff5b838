"""The handler of an HTTP API: each event, in payload format 2.0, is one request to the server's own application.

The application runs without its lifespan, which would start a watch over live connections: there are none here. Answers
are one piece of at most 6 MB with Lambda, so that streams of events are refused, and so is what is larger.

The fields: “AWS Lambda proxy integrations for HTTP APIs”, Amazon API Gateway Developer Guide.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any
from urllib.parse import quote, unquote

from stratalog.aws.container import Container, container
from stratalog.errors import LimitExceeded, StratalogError
from stratalog.protocol.live import ADDRESS_HEADER, Poke
from stratalog.protocol.sync import PATH_HEADER
from stratalog.server.app import create_app
from stratalog.server.bodies import encode_body
from stratalog.server.errors import Refused, problem_of, status_of

__all__ = ["ANSWER_BYTES_MAX", "Api", "handler"]

ANSWER_BYTES_MAX = (6 * 1024 * 1024 - 64 * 1024) // 4 * 3
"""Lambda's bound of 6 MB is on the answer as JSON, where a body is base64; 64 KB are left to the rest of it."""

FUNCTION_URL = ".lambda-url."
EVENT_STREAM = b"text/event-stream"
# What an answer says of its body, which another body must not inherit.
OF_THE_BODY = frozenset({b"content-type", b"content-length", b"content-range", b"accept-ranges", b"etag"})
Headers = Sequence[tuple[bytes, bytes]]


def handler(event: Mapping[str, Any], context: object) -> dict[str, Any]:
    """Lambda's entry point."""
    return _api().answer(event)


@cache
def _api() -> Api:
    return Api(container())


class Api:
    """The application of one container, and the loop it runs on. One event at a time, as Lambda has it."""

    def __init__(self, held: Container) -> None:
        self._container = held
        self._poked: dict[tuple[str, str], int] = {}
        self._app: Any = create_app(held.store, held.application, poked=self._note)
        self._runner = asyncio.Runner()

    def answer(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """What is answered to one request. Who listens is told before: afterwards the container is frozen."""
        answer = self._runner.run(self._answer(event))
        while self._poked:
            (organisation, name), version = self._poked.popitem()
            self._container.tell(organisation, name, Poke(version))
        return answer.event(self._container.live_address)

    def close(self) -> None:
        """Let go of the loop; the container stays as it is."""
        self._runner.close()

    async def _answer(self, event: Mapping[str, Any]) -> _Answer:
        exchange = _Exchange(_body(event))
        call = asyncio.ensure_future(self._app(_scope(event), exchange.receive, exchange.send))
        ended = asyncio.ensure_future(exchange.ended.wait())
        await asyncio.wait((call, ended), return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if not call.done():
            call.cancel()
            await asyncio.wait((call,))
        if not call.cancelled() and (error := call.exception()) is not None:
            raise error
        return exchange.answer

    def _note(self, organisation: str, name: str, version: int) -> None:
        name_of = (organisation, name)
        if version:
            self._poked[name_of] = max(version, self._poked.get(name_of, 0))


class _Answer:
    """One answer, in the making."""

    def __init__(self) -> None:
        self.status = 500
        self.headers: Headers = ()
        self.body = bytearray()

    def refuse(self, error: StratalogError) -> None:
        """Answer this instead; what else the headers say, such as CORS, stands."""
        self.status = status_of(error)
        kept = [(name, value) for name, value in self.headers if name.lower() not in OF_THE_BODY]
        self.headers = [*kept, (b"content-type", b"application/json")]
        self.body[:] = encode_body(problem_of(error), "application/json")

    def event(self, live_address: str) -> dict[str, Any]:
        """The answer as the gateway takes it: each header once, cookies apart."""
        headers: dict[str, str] = {ADDRESS_HEADER: live_address} if live_address else {}
        cookies: list[str] = []
        for raw_name, raw_value in self.headers:
            name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
            if name == "set-cookie":
                cookies.append(value)
            elif name != "content-length":
                headers[name] = f"{headers[name]}, {value}" if name in headers else value
        told = {"statusCode": self.status, "headers": headers, "isBase64Encoded": True}
        return {**told, "body": b64encode(self.body).decode(), **({"cookies": cookies} if cookies else {})}


class _Exchange:
    """The two ends of ASGI for one request."""

    def __init__(self, body: bytes) -> None:
        self.answer = _Answer()
        self.ended = asyncio.Event()
        self._body: bytes | None = body

    async def receive(self) -> dict[str, Any]:
        if self._body is None:
            await self.ended.wait()
            return {"type": "http.disconnect"}
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Mapping[str, Any]) -> None:
        if self.ended.is_set():
            return
        answer = self.answer
        if message["type"] == "http.response.start":
            answer.status, answer.headers = message["status"], list(message.get("headers", ()))
            if any(
                name.lower() == b"content-type" and value.startswith(EVENT_STREAM) for name, value in answer.headers
            ):
                self._refuse(Refused(501, "unsupported", "no stream passes here; hints come over a WebSocket"))
            return
        answer.body += message.get("body", b"")
        if len(answer.body) > ANSWER_BYTES_MAX:
            text = "the answer is too large for this way to the server"
            self._refuse(LimitExceeded(text, value=len(answer.body), limit=ANSWER_BYTES_MAX))
        elif not message.get("more_body", False):
            self.ended.set()

    def _refuse(self, error: StratalogError) -> None:
        self.answer.refuse(error)
        self.ended.set()


def _scope(event: Mapping[str, Any]) -> dict[str, Any]:
    """The request as ASGI says it."""
    http = event["requestContext"]["http"]
    headers = {name.lower(): value for name, value in event.get("headers", {}).items()}
    if cookies := event.get("cookies"):
        headers["cookie"] = "; ".join(cookies)
    path = _raw_path(event, headers)
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": http["method"],
        "scheme": "https",
        "path": unquote(path),
        "raw_path": path.encode("ascii"),
        "root_path": "",
        "query_string": event.get("rawQueryString", "").encode(),
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()],
        "client": (http["sourceIp"], 0),
        "server": (event["requestContext"].get("domainName", ""), 443),
    }


def _raw_path(event: Mapping[str, Any], headers: Mapping[str, str]) -> str:
    """The path as it was sent. An HTTP API unescapes it, so that a name's slash looks like any other.

    A request may say its path once more in a header. It is believed where it is the same path unescaped: so it can
    name nothing but what the gateway let through, cut into names as its sender meant.
    """
    path: str = event["rawPath"]
    stage = f"/{event['requestContext'].get('stage', '')}"
    if path.startswith(f"{stage}/"):
        path = path.removeprefix(stage)
    if FUNCTION_URL in event["requestContext"].get("domainName", ""):
        return path
    said = headers.get(PATH_HEADER, "")
    # It also cuts a path at an escaped question mark.
    if said.isascii() and path in (unquote(said), unquote(said).partition("?")[0]):
        return said
    return quote(path)


def _body(event: Mapping[str, Any]) -> bytes:
    body = event.get("body") or ""
    return b64decode(body) if event.get("isBase64Encoded") else body.encode()

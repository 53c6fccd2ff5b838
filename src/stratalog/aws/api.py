"""The handler of an HTTP API: it passes each event, in payload format 2.0, as a request to the server's application.

A function has no live connections. So the application runs without its lifespan, which would start a watch over live
connections. A function returns a response in one piece (`answers.py`), so the handler refuses event streams.

“AWS Lambda proxy integrations for HTTP APIs” in the Amazon API Gateway Developer Guide describes the event's fields.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import quote, unquote

from stratalog.aws.answers import GatewayAnswer, packing_of
from stratalog.aws.container import Container, container
from stratalog.aws.events import asgi_headers, headers_of
from stratalog.errors import LimitExceeded, OutcomeUnknown, StratalogError
from stratalog.protocol.sync import PATH_HEADER
from stratalog.server.app import create_app
from stratalog.server.byte_budgets import bytes_of
from stratalog.server.errors import Refused

__all__ = ["Api", "handler"]

FUNCTION_URL = ".lambda-url."
EVENT_STREAM = b"text/event-stream"


def handler(event: Mapping[str, Any], context: object) -> dict[str, Any]:
    """Answer one HTTP API event: the entry point for Lambda."""
    return _api().answer(event)


@cache
def _api() -> Api:
    return Api(container())


class Api:
    """The application of one container and its event loop. Lambda passes one event at a time."""

    def __init__(self, opened: Container) -> None:
        self._container = opened
        self._app: Any = create_app(opened.store, opened.application, poked=opened.note)
        self._runner = asyncio.Runner()

    def answer(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Answer one request, and notify the listeners of its commits."""
        answer = self._runner.run(self._answer(event))
        # Announce before the return: Lambda may freeze the process right after the return.
        self._container.announce()
        return answer.event(self._container.live_address)

    def close(self) -> None:
        """Close the event loop. The container stays open."""
        self._runner.close()

    async def _answer(self, event: Mapping[str, Any]) -> GatewayAnswer:
        headers = _headers(event)
        scope = _scope(event, headers)
        exchange = _Exchange(scope, _body(event), GatewayAnswer(packing_of(headers)))
        call = asyncio.ensure_future(self._app(scope, exchange.receive, exchange.send))
        ended = asyncio.ensure_future(exchange.ended.wait())
        await asyncio.wait((call, ended), return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if not call.done():
            call.cancel()
            await asyncio.wait((call,))
        if not call.cancelled() and (error := call.exception()) is not None:
            raise error
        return exchange.answer


class _Exchange:
    """The ASGI callables ``receive`` and ``send`` of one request."""

    def __init__(self, scope: Any, body: bytes, answer: GatewayAnswer) -> None:
        self.answer = answer
        self.ended = asyncio.Event()
        self._scope = scope
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
        try:
            self._take(message)
        except LimitExceeded as exc:
            self._refuse(_after_a_write(exc) if bytes_of(self._scope).may_have_written else exc)
        except StratalogError as exc:
            self._refuse(exc)

    def _refuse(self, error: StratalogError) -> None:
        self.answer.refuse(error)
        self.ended.set()

    def _take(self, message: Mapping[str, Any]) -> None:
        answer = self.answer
        if message["type"] == "http.response.start":
            answer.status, answer.headers = message["status"], list(message.get("headers", ()))
            for name, value in answer.headers:
                if name.lower() == b"content-type" and value.startswith(EVENT_STREAM):
                    raise Refused(501, "unsupported", "functions do not serve event streams; use the WebSocket")
            return
        answer.add(message.get("body", b""))
        if not message.get("more_body", False):
            answer.end()
            self.ended.set()


def _after_a_write(error: LimitExceeded) -> OutcomeUnknown:
    """Return the error for a response that is too large, of a request that may have written.

    LimitExceeded means that nothing was written. A client could then write the same again under another number.
    """
    return OutcomeUnknown(f"the request may have been applied, but {error.message}", **error.details)


def _headers(event: Mapping[str, Any]) -> dict[str, str]:
    """Return the request's headers by lower-case names, with its cookies."""
    headers = headers_of(event)
    if cookies := event.get("cookies"):
        headers["cookie"] = "; ".join(cookies)
    return headers


def _scope(event: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
    """Return the request's ASGI scope."""
    http = event["requestContext"]["http"]
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
        "headers": asgi_headers(headers),
        "client": (http["sourceIp"], 0),
        "server": (event["requestContext"].get("domainName", ""), 443),
        "state": {},
    }


def _raw_path(event: Mapping[str, Any], headers: Mapping[str, str]) -> str:
    """Return the escaped path as the client sent it.

    An HTTP API unescapes the path, so an escaped slash in a name becomes a separator. A client may therefore repeat its
    escaped path in a header. The function uses the header only if the unescaped header equals the gateway's path. So
    the header can only change how the path is split into names. The header cannot lead to a path that the gateway did
    not authorise.
    """
    path: str = event["rawPath"]
    stage = f"/{event['requestContext'].get('stage', '')}"
    if path.startswith(f"{stage}/"):
        path = path.removeprefix(stage)
    if FUNCTION_URL in event["requestContext"].get("domainName", ""):
        return path
    header = headers.get(PATH_HEADER, "")
    # The gateway also cuts the path at an escaped question mark.
    if header.isascii() and path in (unquote(header), unquote(header).partition("?")[0]):
        return header
    return quote(path)


def _body(event: Mapping[str, Any]) -> bytes:
    body = event.get("body") or ""
    return b64decode(body) if event.get("isBase64Encoded") else body.encode()

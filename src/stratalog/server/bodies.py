"""Bodies on the wire: JSON for everybody, MessagePack for those who want bytes and speed. Both say the same.

In JSON bytes are ``{"$bytes": base64}``; `stratalog.protocol.readable` says how that stays without loss.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from litestar import Request, Response
from litestar.concurrency import sync_to_thread
from litestar.response.base import ASGIResponse

from stratalog.codec import Value
from stratalog.errors import Invalid, LimitExceeded
from stratalog.limits import REQUEST_DEPTH_MAX
from stratalog.protocol.readable import from_plain, to_plain
from stratalog.server.errors import Refused

__all__ = ["JSON", "MSGPACK", "PLAIN", "Answer", "Question", "check_depth", "decode_body", "encode_body", "encoded"]

JSON = "application/json"
MSGPACK = "application/msgpack"
LOOP_BYTES_MAX = 64 * 1024
"""A body up to this size is read on the event loop, which costs less than changing threads."""

PLAIN = "plain"
"""The option of a handler whose JSON knows nothing of our way to write bytes."""

MSGPACK_NAMES = frozenset({MSGPACK, "application/x-msgpack", "application/vnd.msgpack"})
T = TypeVar("T")


class Question(Request[Any, Any, Any]):
    """A request whose body is read as its content type says and then held against the handler's type, strictly."""

    async def json(self) -> Any:
        """The body as the struct that the handler asks for. Raises Invalid, LimitExceeded, Refused."""
        body, handler = await self.body(), self.route_handler
        field, kind = handler.parsed_data_field, self.content_type[0]

        def read() -> Any:
            value = decode_body(body, kind, plain=PLAIN in handler.opt)
            return value if field is None else convert(value, field.annotation)

        return read() if len(body) <= LOOP_BYTES_MAX else await sync_to_thread(read)


class Answer(Response[T]):
    """An answer in the form that the request's Accept header asks for."""

    def to_asgi_response(self, app: Any, request: Request[Any, Any, Any], **options: Any) -> ASGIResponse:
        if self.content is not None and not isinstance(self.content, bytes | str):
            self.media_type = accepted(request.headers.get("accept", ""))
        return super().to_asgi_response(app, request, **options)

    def render(self, content: Any, media_type: str, enc_hook: Any = None) -> bytes:
        if content is None or isinstance(content, bytes | str):
            return content.encode() if isinstance(content, str) else content or b""
        return encode_body(content, media_type)


def encoded(request: Request[Any, Any, Any], content: T) -> Response[T]:
    """An answer that may be large, encoded here and now: on the worker thread that calls this, not the event loop."""
    kind = accepted(request.headers.get("accept", ""))
    body: Any = encode_body(content, kind)
    return Response(body, media_type=kind)


def accepted(header: str) -> str:
    """The form to answer in: MessagePack where it is named, else JSON."""
    kinds = {part.partition(";")[0].strip() for part in header.split(",")}
    return MSGPACK if kinds & MSGPACK_NAMES else JSON


def decode_body(body: bytes, kind: str, *, plain: bool = False) -> Value:
    """The value a body says; ``plain`` JSON is taken as it is, also where it looks like bytes.

    Raises Invalid, LimitExceeded for one nested too deeply, Refused for an unknown kind.
    """
    if kind not in MSGPACK_NAMES and kind != JSON:
        raise Refused(415, "unsupported-media-type", "a body must be JSON or MessagePack", value=kind)
    try:
        value = msgspec.json.decode(body) if kind == JSON else msgspec.msgpack.decode(body)
    except (msgspec.DecodeError, UnicodeError, TypeError, ValueError) as exc:
        raise Invalid("the body does not decode", reason=str(exc)) from exc
    except RecursionError as exc:
        raise _too_deep() from exc
    check_depth(value)
    return from_plain(value) if kind == JSON and not plain else value


def encode_body(content: Any, kind: str) -> bytes:
    """An answer's bytes."""
    if kind == MSGPACK:
        return msgspec.msgpack.encode(content)
    return msgspec.json.encode(to_plain(msgspec.to_builtins(content, builtin_types=(bytes,))))


def convert(value: Value, kind: Any) -> Any:
    """``value`` as the type that was asked for. Raises Invalid."""
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, TypeError) as exc:
        raise Invalid("the body does not have the shape that is asked for", reason=str(exc)) from exc


def check_depth(value: Value) -> None:
    """Raise LimitExceeded where lists and objects are nested too deeply. Level by level: depth costs no stack."""
    level = [value]
    for _ in range(REQUEST_DEPTH_MAX):
        level = [child for item in level for child in _children(item) if isinstance(child, dict | list)]
        if not level:
            return
    raise _too_deep()


def _children(item: Value) -> Any:
    return item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()


def _too_deep() -> LimitExceeded:
    return LimitExceeded("the body is nested too deeply", limit=REQUEST_DEPTH_MAX)

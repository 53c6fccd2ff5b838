"""Request and response bodies: JSON for every client, MessagePack for clients that need bytes and speed.

JSON and MessagePack can express the same values. In JSON, bytes are ``{"$bytes": base64}``.
`stratalog.protocol.readable` describes this lossless mapping.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import msgspec
from litestar import Request, Response
from litestar.concurrency import sync_to_thread
from litestar.datastructures import MutableScopeHeaders
from litestar.response.base import ASGIResponse
from litestar.types import Empty

from stratalog.codec import json_reason, unescape_surrogates
from stratalog.errors import Invalid, LimitExceeded, StratalogError
from stratalog.limits import PUSH_PART_DECODED_BYTES, REQUEST_COPIES, REQUEST_DEPTH_MAX
from stratalog.protocol.messages import Undecodable
from stratalog.protocol.readable import restore, to_plain
from stratalog.server.application import ServerLimits
from stratalog.server.byte_budgets import bytes_of
from stratalog.server.decoded_sizes import JsonSize, msgpack_size, too_deep
from stratalog.server.errors import Refused
from stratalog.server.push_parts import PARTS, RawArguments
from stratalog.server.request_bodies import body_pieces
from stratalog.server.request_headers import headers_of
from stratalog.struct_types import resolved

__all__ = [
    "JSON",
    "MSGPACK",
    "PLAIN",
    "Answer",
    "Question",
    "accepted",
    "check_depth",
    "decode_body",
    "encode_body",
    "encoded",
]

JSON = "application/json"
MSGPACK = "application/msgpack"
LOOP_BYTES_MAX = 64 * 1024
"""A body of up to this size is decoded on the event loop, which costs less than a switch to a worker thread."""

PLAIN = "plain"
"""The option of a handler whose JSON has no ``{"$bytes": base64}``. The server converts no object of this JSON."""

# The bytes that do not begin a MessagePack list or object.
_NO_CONTAINERS = bytes(byte for byte in range(256) if not (0x80 <= byte <= 0x9F or 0xDC <= byte <= 0xDF))
MSGPACK_NAMES = frozenset({MSGPACK, "application/x-msgpack", "application/vnd.msgpack"})
T = TypeVar("T")


class Question(Request[Any, Any, Any]):
    """A request whose body is decoded strictly, by its content type, into the handler's type.

    The server first checks the caller's right. It reads and unpacks the body only when the handler asks for the body.
    """

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Yield the unpacked body as it arrives. Raises Refused, Invalid, LimitExceeded, QuotaExceeded."""
        async for piece in self._pieces():
            yield piece

    async def body(self) -> bytes:
        """Return the whole body, which counts against the budget of bodies until the request ends.

        Raises the errors of `stream`, and Invalid for an empty body if the handler needs a value. LimitExceeded also
        means that the decoded body would take too much memory, or is nested too deeply.
        """
        if self._body is Empty:
            taken, size, pieces, received = bytes_of(self.scope), self._json_size(), list[bytes](), 0
            async for piece in self._pieces():
                taken.take_body(len(piece))
                received += len(piece)
                if size is not None:
                    # Check the size after each piece. So the server can refuse a body before all of it has arrived.
                    await _run_sized(received, partial(size.add, piece))
                    self._check_size(size.decoded_bytes, self._decoded_bytes_max)
                pieces.append(piece)
            self._is_too_deep = size is not None and size.is_too_deep
            # The nesting of a push is checked for each mutation.
            if self._is_too_deep and PARTS not in self.route_handler.opt:
                raise too_deep()
            self._decoded_bytes = 0 if size is None else size.decoded_bytes
            self._body = b"".join(pieces)
            field = self.route_handler.parsed_data_field
            if not self._body and field is not None and field.is_required:
                raise Invalid("the request needs a body")
        return self._body

    async def json(self) -> Any:
        """Return the body decoded to the handler's struct. Raises the errors of `body`.

        A large push keeps its arguments as `RawArguments`, which are decoded part by part. Arguments of a push that
        cannot be decoded become `Undecodable`, so that they do not prevent the other mutations of the push.
        """
        body, handler, kind, limit = await self.body(), self.route_handler, self._kind, self._decoded_bytes_max
        size = self._decoded_bytes
        if kind in MSGPACK_NAMES:
            size = await _run_sized(len(body), lambda: msgpack_size(body, limit))
        size = max(size, len(body) * REQUEST_COPIES)
        self._check_size(size, limit)
        taken, is_plain = bytes_of(self.scope), PLAIN in handler.opt
        # Only a push may exceed the limit here. The server decodes a push in parts, so no part needs more memory than
        # the limit.
        await taken.take_decoded(min(size, limit))
        field = handler.parsed_data_field
        shape = Any if field is None else field.annotation
        decode = partial(decode_body, body, kind, shape, plain=is_plain)
        if PARTS in handler.opt:
            decoded = await self._decode_push(body, size, decode, ArgumentsCheck(kind, limit, plain=is_plain))
        else:
            decoded = await _run_sized(len(body), decode)
        # The request object exists until the response is sent. If the object kept the body, memory would contain one
        # copy more than the budget counts.
        self._body = Empty
        return decoded

    async def _decode_push(self, body: bytes, size: int, decode: Callable[[], Any], checked: ArgumentsCheck) -> Any:
        """Decode a push as a whole with ``decode``, or in parts if it is large or cannot be decoded as a whole."""
        failure: StratalogError | None = too_deep() if self._is_too_deep else None
        if failure is None and size <= min(PUSH_PART_DECODED_BYTES, self._decoded_bytes_max):
            try:
                return await _run_sized(len(body), decode)
            except (Invalid, LimitExceeded) as exc:
                failure = exc
        # Always on a thread: a small body may have many mutations, and the next call decodes each one on its own.
        return await sync_to_thread(_decode_parts, body, self.route_handler.opt[PARTS], checked, failure)

    def _pieces(self) -> AsyncGenerator[bytes, None]:
        limits = self._limits
        encoding = headers_of(self.scope).get("content-encoding", "identity").strip().lower()
        bytes_max = self.route_handler.resolve_request_max_body_size() or limits.request_bytes_max
        return body_pieces(self.receive, encoding, self._announced_bytes, bytes_max, limits)

    @property
    def _announced_bytes(self) -> int:
        header = headers_of(self.scope).get("content-length", "0")
        try:
            return int(header)
        except ValueError as exc:
            raise Invalid("a Content-Length must be a number", value=header) from exc

    @property
    def _kind(self) -> str:
        return headers_of(self.scope).get("content-type", "").partition(";")[0].strip().lower()

    @property
    def _limits(self) -> ServerLimits:
        limits: ServerLimits = self.app.state.service.application.limits
        return limits

    @property
    def _decoded_bytes_max(self) -> int:
        limits = self._limits
        in_flight = (limits.decoded_bytes_in_flight_max, limits.decoded_bytes_of_principal_max)
        return min(limits.request_decoded_bytes_max, *in_flight)

    def _json_size(self) -> JsonSize | None:
        is_decoded = self._kind == JSON and self.route_handler.parsed_data_field is not None
        return JsonSize() if is_decoded else None

    def _check_size(self, size: int, limit: int) -> None:
        # A push may exceed the limit as a whole: `ArgumentsCheck` checks each of its mutations.
        if size > limit and PARTS not in self.route_handler.opt:
            raise LimitExceeded("the body takes too much memory once decoded", limit=limit, value=size)


class ArgumentsCheck:
    """A check of the arguments of a push's mutations, one mutation at a time. The arguments stay encoded."""

    def __init__(self, kind: str, limit: int, *, plain: bool) -> None:
        self.kind = kind
        self.is_plain = plain
        self._limit = limit

    def open(self, raw: msgspec.Raw) -> RawArguments | Undecodable | None:
        """Return the arguments still encoded, `Undecodable` if they cannot be decoded, or None if there are none.

        Raises LimitExceeded for arguments that are too large.
        """
        body = bytes(raw)
        if not body:
            return None
        size = max(self._decoded_bytes(body), len(body) * REQUEST_COPIES)
        if size > self._limit:
            text = "the arguments of a mutation take too much memory once decoded"
            raise LimitExceeded(text, limit=self._limit, value=size)
        # Decode the arguments and discard the result. Otherwise invalid arguments would fail later, after earlier parts
        # were applied.
        try:
            decode_body(body, self.kind, plain=self.is_plain)
        except (Invalid, LimitExceeded) as exc:
            return Undecodable(str(exc.details.get("reason", exc.message)))
        return RawArguments(raw, size, self._decode)

    def _decoded_bytes(self, body: bytes) -> int:
        if self.kind in MSGPACK_NAMES:
            return msgpack_size(body, self._limit)
        size = JsonSize()
        size.add(body)
        return size.decoded_bytes

    def _decode(self, raw: msgspec.Raw) -> Any:
        return decode_body(bytes(raw), self.kind, plain=self.is_plain)


def _decode_parts(body: bytes, parts: Any, checked: ArgumentsCheck, failure: StratalogError | None) -> Any:
    """Return a push decoded to the type ``parts``, with its arguments still encoded.

    If the names and numbers of the push cannot be decoded either, raise ``failure``, the reason of an earlier attempt.
    """
    try:
        return decode_body(body, checked.kind, parts, plain=True).opened(checked.open)
    except Invalid as exc:
        failure = failure or exc
    if checked.kind == JSON and (unescaped := unescape_surrogates(body)) != body:
        with suppress(Invalid):
            return decode_body(unescaped, checked.kind, parts, plain=True).opened(checked.open)
    raise failure


async def _run_sized(size: int, function: Callable[[], T]) -> T:
    """Run work whose time grows with ``size`` in bytes: on the event loop for a small body, else on a worker thread."""
    return function() if size <= LOOP_BYTES_MAX else await sync_to_thread(function)


class Answer(Response[T]):
    """A response encoded in the media type that `accepted` returns. Bytes and text are sent as they are."""

    def to_asgi_response(self, app: Any, request: Request[Any, Any, Any], **options: Any) -> ASGIResponse:
        if self.content is not None and not isinstance(self.content, bytes | str):
            self.media_type = accepted(headers_of(request.scope).get("accept", ""))
            status = self.status_code or options.get("status_code", 200)
            if not (self.headers or self.cookies or self.background or any(map(options.get, _ADDITIONS))):
                return _EncodedAnswer(status, self.media_type, self.render(self.content, self.media_type))
        return super().to_asgi_response(app, request, **options)

    def render(self, content: Any, media_type: str, enc_hook: Any = None) -> bytes:
        if content is None or isinstance(content, bytes | str):
            return content.encode() if isinstance(content, str) else content or b""
        return encode_body(content, media_type)


_ADDITIONS = ("headers", "cookies", "background", "is_head_response")
"""Options by which a handler's declaration adds to its responses. If one is set, Litestar builds the response."""


class _EncodedAnswer(ASGIResponse):
    """A response that is already encoded. This class skips Litestar's constructor, which merges headers and cookies."""

    def __init__(self, status: int, kind: str, body: bytes) -> None:
        self.background = None
        self.body = body
        self.content_length = len(body)
        self.encoding = "utf-8"
        self.headers = MutableScopeHeaders()
        self.headers.headers += [(b"content-type", kind.encode()), (b"content-length", b"%d" % len(body))]
        self.is_head_response = False
        self.status_code = status
        self._encoded_cookies = ()


def encoded(request: Request[Any, Any, Any], content: T) -> Response[T]:
    """Encode a possibly large response on the calling worker thread, not on the event loop. Return the response.

    After the call, at most the encoded size counts against the budget of answers.
    """
    kind = accepted(headers_of(request.scope).get("accept", ""))
    body: Any = encode_body(content, kind)
    bytes_of(request.scope).settle_answer(len(body))
    return Response(body, media_type=kind)


def accepted(header: str) -> str:
    """Return the content type of the response: MessagePack if the Accept header names it, else JSON."""
    kinds = {part.partition(";")[0].strip() for part in header.split(",")}
    return MSGPACK if kinds & MSGPACK_NAMES else JSON


def decode_body(body: bytes, kind: str, shape: Any = Any, *, plain: bool = False) -> Any:
    """Return a body decoded to ``shape``. ``plain`` JSON is taken literally: ``{"$bytes": …}`` stays an object.

    Raises Invalid, LimitExceeded for a body nested too deeply, Refused (415) for an unknown content type.
    """
    if kind not in MSGPACK_NAMES and kind != JSON:
        raise Refused(415, "unsupported-media-type", "a body must be JSON or MessagePack", value=kind)
    decode = msgspec.json.decode if kind == JSON else msgspec.msgpack.decode
    try:
        value = decode(body, type=resolved(shape))
    except msgspec.ValidationError as exc:
        raise Invalid("the body does not match the expected shape", reason=str(exc)) from exc
    except (msgspec.DecodeError, UnicodeError, TypeError, ValueError) as exc:
        reason = json_reason(body, exc) if kind == JSON else str(exc)
        raise Invalid("the body cannot be decoded", reason=reason) from exc
    except RecursionError as exc:
        raise too_deep() from exc
    if _brackets_max(body, kind) > REQUEST_DEPTH_MAX:
        check_depth(value)
    return value if plain else _restored(value, body, kind)


def _restored(value: Any, body: bytes, kind: str) -> Any:
    """Return the decoded ``value`` with the bytes of ``{"$bytes": …}``. ``body`` is the encoded value."""
    # `restore` changes only objects with a name that begins with "$". Most bodies have no such name, and skip
    # `restore`.
    is_marked = kind == JSON and (b'"$' in body or b"\\u0024" in body)
    return restore(value) if is_marked else value


def encode_body(content: Any, kind: str) -> bytes:
    """Return ``content`` encoded as JSON or MessagePack."""
    if kind == MSGPACK:
        return msgspec.msgpack.encode(content)
    return msgspec.json.encode(to_plain(msgspec.to_builtins(content, builtin_types=(bytes,))))


def _brackets_max(body: bytes, kind: str) -> int:
    """Return an upper bound of the number of lists and objects in a body, which also bounds their nesting."""
    if kind == JSON:
        return body.count(b"{") + body.count(b"[")
    return len(body.translate(None, _NO_CONTAINERS))


def check_depth(value: Any) -> None:
    """Raise LimitExceeded if lists and objects are nested too deeply.

    The function visits one level after the other, so that deep nesting cannot exhaust the stack.
    """
    level = [value]
    for _ in range(REQUEST_DEPTH_MAX):
        level = [child for item in level for child in _children(item) if isinstance(child, _NESTED)]
        if not level:
            return
    raise too_deep()


_NESTED = (dict, list, msgspec.Struct)


def _children(item: Any) -> Any:
    if isinstance(item, msgspec.Struct):
        return (getattr(item, name) for name in item.__struct_fields__)
    return item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()

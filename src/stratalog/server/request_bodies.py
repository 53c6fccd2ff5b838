"""Request bodies on their way in: no slower than they may be, and unpacked within bounds, so that no bomb goes off."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import anyio
import zstandard
from litestar.concurrency import sync_to_thread
from litestar.types import HTTPReceiveMessage, Receive

from stratalog.errors import Invalid
from stratalog.limits import REQUEST_SILENCE_SECONDS_MAX
from stratalog.server.application import ServerLimits
from stratalog.server.errors import Refused

__all__ = ["prompt", "unpacked"]

WINDOW_BYTES_MAX = 8 * 1024 * 1024


async def unpacked(receive: Receive, encoding: str, limits: ServerLimits) -> Receive:
    """What the body is read from. An encoded one is read whole, since both its sizes are bounded. Raises Refused."""
    if encoding == "identity":
        return receive
    unpack = _UNPACKERS.get(encoding)
    if unpack is None:
        raise Refused(415, "unsupported-media-type", "a body may be packed with gzip or zstd", value=encoding)
    packed = await _read(receive, limits.request_compressed_bytes_max)
    try:
        body = await sync_to_thread(unpack, packed, limits.request_bytes_max + 1)
    except (zlib.error, zstandard.ZstdError, EOFError) as exc:
        raise Invalid("the body does not unpack", reason=str(exc)) from exc
    if len(body) > limits.request_bytes_max:
        raise _too_large("the body is too large once unpacked", limits.request_bytes_max)
    return _once(body, receive)


def prompt(receive: Receive) -> Receive:
    """The same, for a request with a body: raises Refused where its caller goes away in the middle, or falls silent."""
    complete = False

    async def give() -> Any:
        nonlocal complete
        if complete:
            return await receive()
        try:
            with anyio.fail_after(REQUEST_SILENCE_SECONDS_MAX):
                message: Any = await receive()
        except TimeoutError as exc:
            limit = REQUEST_SILENCE_SECONDS_MAX
            raise Refused(408, "timeout", "the rest of the body did not come", limit=limit) from exc
        if message["type"] == "http.disconnect":
            raise Refused(400, "invalid", "the caller went away before the body ended")
        complete = not message.get("more_body", False)
        return message

    return give


async def _read(receive: Receive, limit: int) -> bytes:
    packed = bytearray()
    while True:
        message: Any = await receive()
        packed += message.get("body", b"")
        if len(packed) > limit:
            raise _too_large("the packed body is too large", limit)
        if not message.get("more_body", False):
            return bytes(packed)


def _once(body: bytes, receive: Receive) -> Receive:
    """Give the body as one message, and then whatever comes after it."""
    messages: list[HTTPReceiveMessage] = [{"type": "http.request", "body": body, "more_body": False}]

    async def give() -> HTTPReceiveMessage:
        return messages.pop() if messages else await receive()  # type: ignore[return-value]

    return give


def _gunzip(packed: bytes, limit: int) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    body = unpacker.decompress(packed, limit)
    if len(body) < limit and not unpacker.eof:
        raise EOFError("the gzip member is cut short")
    return body


def _unzstd(packed: bytes, limit: int) -> bytes:
    unpacker = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES_MAX)
    with unpacker.stream_reader(io.BytesIO(packed)) as reader:
        return reader.read(limit)


def _too_large(message: str, limit: int) -> Refused:
    return Refused(413, "limit-exceeded", message, limit=limit)


_UNPACKERS: Mapping[str, Callable[[bytes, int], bytes]] = {"gzip": _gunzip, "zstd": _unzstd}

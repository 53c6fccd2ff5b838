"""Request bodies: received within their limits, and unpacked piece by piece."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from litestar.concurrency import sync_to_thread
from litestar.types import Receive

from stratalog.server.application import ServerLimits
from stratalog.server.errors import Refused
from stratalog.server.packed_bodies import ENCODINGS, PackedBody

__all__ = ["body_pieces"]


def body_pieces(
    receive: Receive, encoding: str, announced: int, bytes_max: int, limits: ServerLimits
) -> AsyncGenerator[bytes, None]:
    """Return the pieces of a body as they arrive, unpacked. ``announced`` is the body's Content-Length, or 0.

    The call raises Refused for an unknown encoding. It also raises Refused for a body that is sent without compression
    and whose ``announced`` length is too large. Iteration raises Refused for a body that is too large, packed or
    unpacked, and when the caller disconnects.
    Iteration also raises Invalid for a body that cannot be unpacked, LimitExceeded for a body of too many gzip members
    or zstd frames, and the errors of ``receive``.
    """
    # A generator adds a tenth to the time that a small body takes. So this function is no generator, and most bodies
    # pass through one generator only.
    if encoding == "identity":
        if announced > bytes_max:
            raise _too_large("the body is too large", bytes_max)
        return _received(receive, "the body is too large", bytes_max)
    if encoding not in ENCODINGS:
        raise Refused(415, "unsupported-media-type", "the encoding of a body must be gzip or zstd", value=encoding)
    packed = _received(receive, "the compressed body is too large", limits.request_compressed_bytes_max)
    bytes_max = min(bytes_max, limits.request_bytes_max)
    return _bounded(_unpacked(packed, encoding), "the decompressed body is too large", bytes_max)


async def _received(receive: Receive, message: str, limit: int) -> AsyncGenerator[bytes, None]:
    size, has_more = 0, True
    while has_more:
        event: Any = await receive()
        if event["type"] != "http.request":
            raise Refused(400, "invalid", "the caller disconnected before the body ended")
        has_more = event.get("more_body", False)
        if piece := event.get("body", b""):
            size += len(piece)
            if size > limit:
                raise _too_large(message, limit)
            yield piece


async def _bounded(pieces: AsyncIterator[bytes], message: str, limit: int) -> AsyncGenerator[bytes, None]:
    size = 0
    async for piece in pieces:
        size += len(piece)
        if size > limit:
            raise _too_large(message, limit)
        yield piece


async def _unpacked(packed: AsyncIterator[bytes], encoding: str) -> AsyncIterator[bytes]:
    body = PackedBody(encoding)
    async for received in packed:
        unpacked = body.unpack(received)
        # Unpack on a thread, since unpacking takes processor time. Unpack one piece at a time, since a small body may
        # become large.
        while piece := await sync_to_thread(next, unpacked, b""):
            yield piece
    body.finish()


def _too_large(message: str, limit: int) -> Refused:
    return Refused(413, "limit-exceeded", message, limit=limit)

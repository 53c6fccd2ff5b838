"""Request bodies on their way in: within their bounds, and unpacked piece by piece."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from litestar.concurrency import sync_to_thread
from litestar.types import Receive

from stratalog.server.application import ServerLimits
from stratalog.server.errors import Refused
from stratalog.server.packed_bodies import ENCODINGS, PackedBody

__all__ = ["body_pieces"]


async def body_pieces(
    receive: Receive, encoding: str, announced: int, bytes_max: int, limits: ServerLimits
) -> AsyncIterator[bytes]:
    """A body's bytes as they arrive, unpacked. ``announced`` is its Content-Length, 0 where it has none.

    Raises Refused for a body that is too large, or packed in another way; Invalid for one that does not unpack.
    """
    if encoding == "identity":
        if announced > bytes_max:
            raise _too_large("the body is too large", bytes_max)
        async for piece in _bounded(_received(receive), "the body is too large", bytes_max):
            yield piece
        return
    if encoding not in ENCODINGS:
        raise Refused(415, "unsupported-media-type", "a body may be packed with gzip or zstd", value=encoding)
    packed = _bounded(_received(receive), "the packed body is too large", limits.request_compressed_bytes_max)
    bytes_max = min(bytes_max, limits.request_bytes_max)
    async for piece in _bounded(_unpacked(packed, encoding), "the body is too large once unpacked", bytes_max):
        yield piece


async def _received(receive: Receive) -> AsyncIterator[bytes]:
    while True:
        message: Any = await receive()
        if message["type"] != "http.request":
            raise Refused(400, "invalid", "the caller went away before the body ended")
        if piece := message.get("body", b""):
            yield piece
        if not message.get("more_body", False):
            return


async def _bounded(pieces: AsyncIterator[bytes], message: str, limit: int) -> AsyncIterator[bytes]:
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
        while piece := await sync_to_thread(next, unpacked, b""):
            yield piece
    body.finish()


def _too_large(message: str, limit: int) -> Refused:
    return Refused(413, "limit-exceeded", message, limit=limit)

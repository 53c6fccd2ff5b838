"""Patch streams: send the response to a large pull while its patch is read from the store.

A pull returns all changes of a document of any size, so it has no pages. The server sends the patch in pieces, and
makes each piece after it has sent the previous piece. An error after the first piece ends the response early. The
client detects the early end, because the body is then no complete JSON or MessagePack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

from litestar import Request, Response
from litestar.response import Stream

from stratalog.limits import ANSWER_PIECE_BYTES
from stratalog.server.bodies import MSGPACK
from stratalog.server.byte_budgets import RequestBytes, bytes_of
from stratalog.sync.pull import OpenPull

__all__ = ["stream_pull"]

Encode = Callable[[Any], bytes]


def stream_pull(
    request: Request[Any, Any, Any], opened: OpenPull, fields: Mapping[str, Any], kind: str, encode: Encode
) -> Response[Any]:
    """Return a streamed object with these ``fields``, whose `patch` continues with the rest of ``opened``.

    ``encode`` encodes a value in the media type ``kind``. Besides the start of the patch, only one operation at a time
    is in memory. The request takes the operation's bytes from the budget of responses. Raises Refused when the budget
    or the spool file has no room, LimitExceeded for an operation larger than the caller's share, and the errors of
    reading the store. After the first piece any of these errors ends the response early.
    """
    taken, service = bytes_of(request.scope), request.app.state.service
    operations = _operations(opened, taken, encode, b"" if kind == MSGPACK else b",")
    parts = _gathered(_framed(fields, operations, opened.count, kind, encode))
    pieces = service.spool.pieces(parts, taken)
    # Make the first piece now: an error in this piece still gets its own HTTP status.
    first = next(pieces)
    return Stream(chain((first,), pieces), media_type=kind)


def _operations(opened: OpenPull, taken: RequestBytes, encode: Encode, separator: bytes) -> Iterator[bytes]:
    has_before = False
    for operation in opened.start.patch:
        yield (separator if has_before else b"") + encode(operation)
        has_before = True
    opened.start.patch.clear()
    for size, load in opened.rest or ():
        if has_before and separator:
            yield separator
        taken.cover_answer(size)
        with taken.room_for_row(size):
            # Use a list, so that `pop` below leaves no reference here while the consumer has the bytes.
            encoded = [encode(load())]
        yield encoded.pop()
        has_before = True


def _framed(
    fields: Mapping[str, Any], operations: Iterator[bytes], count: Callable[[], int], kind: str, encode: Encode
) -> Iterator[bytes]:
    """Yield the object's bytes in parts. MessagePack needs the number of operations before the first operation."""
    is_text = kind != MSGPACK
    if not is_text:
        yield bytes([_MAP_OF_FEW | len(fields)])
    for position, (name, value) in enumerate(fields.items()):
        if is_text:
            yield b"," if position else b"{"
        yield encode(name) + (b":" if is_text else b"")
        if name == "patch":
            yield b"[" if is_text else _ARRAY + count().to_bytes(4, "big")
            yield from operations
            yield b"]" if is_text else b""
        else:
            yield encode(value)
    yield b"}" if is_text else b""


def _gathered(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the parts joined to pieces of `ANSWER_PIECE_BYTES` or more. Keeps no reference to a yielded piece."""
    gathered = bytearray()
    for part in parts:
        gathered += part
        del part
        if len(gathered) >= ANSWER_PIECE_BYTES:
            given = [bytes(gathered)]
            gathered.clear()
            yield given.pop()
    if gathered:
        yield bytes(gathered)


_MAP_OF_FEW = 0x80
_ARRAY = b"\xdd"

"""Streams of patches: the answer to a pull that is too large to hold is sent as it is read from the store.

A pull is whole, however large its document. So it has no pages: its patch goes out in pieces, each made once the one
before it has been sent. An error after the first piece cuts the answer short, which its form shows.
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
    """An object with these ``fields``, whose `patch` goes on with what ``opened`` has not read yet.

    ``encode`` says a value in ``kind``. Beside what the start of the patch takes, one operation is held, which is
    counted. Raises Refused and LimitExceeded where there is no room for that, and what reading the store raises; later
    any of these ends the answer.
    """
    taken, service = bytes_of(request.scope), request.app.state.service
    operations = _operations(opened, taken, encode, b"" if kind == MSGPACK else b",")
    parts = _gathered(_framed(fields, operations, opened.count, kind, encode))
    pieces = service.spool.pieces(parts, taken)
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
            encoded = [encode(load())]
        yield encoded.pop()
        has_before = True


def _framed(
    fields: Mapping[str, Any], operations: Iterator[bytes], count: Callable[[], int], kind: str, encode: Encode
) -> Iterator[bytes]:
    """The object's bytes, in parts. MessagePack says first how many operations come."""
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
    """Small parts together. Holds none that it gave out, nor the one after it."""
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

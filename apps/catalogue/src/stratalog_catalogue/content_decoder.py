"""The decoding of compressed HTTP responses in bounded memory.

The HTTP client itself would decode each received piece at once. A piece of 64 KiB that was compressed twice may expand
to gigabytes, before any limit is checked.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from stratalog import Invalid, Unavailable

__all__ = ["ACCEPTED_CODINGS", "decoded"]

ACCEPTED_CODINGS = "gzip, deflate"
PIECE_BYTES = 256 * 1024
GZIP_BEGINNING = b"\x1f\x8b"
AUTOMATIC = zlib.MAX_WBITS | 32
"""The window size by which zlib accepts the header of gzip and the header of zlib."""


def decoded(pieces: Iterable[bytes], coding: str) -> Iterator[bytes]:
    """Yield the content of a response in pieces of at most `PIECE_BYTES`, or unchanged if it has no content coding.

    Yields at least one piece, which may be empty, for each received piece, so the caller can count the time. Raises
    Invalid for content that is not in the coding and for an unsupported coding, and Unavailable for content that is cut
    off.
    """
    coding = coding.strip().lower()
    if coding in ("", "identity"):
        yield from pieces
    elif coding in ("gzip", "x-gzip", "deflate"):
        yield from _inflated(pieces, coding)
    else:
        raise Invalid("the content coding of a response is not supported", coding=coding, known=ACCEPTED_CODINGS)


def _inflated(pieces: Iterable[bytes], coding: str) -> Iterator[bytes]:
    inflater, rest = None, b""
    for piece in pieces:
        left, rest, is_full = rest + piece, b"", False
        try:
            while left or is_full:
                # Content in gzip may be several members, one after another. Other bytes after a member are no content.
                if inflater is not None and inflater.eof and not left.startswith(GZIP_BEGINNING):
                    rest = left[: len(GZIP_BEGINNING)]  # the beginning of a member, if its second byte has not come
                    yield b""
                    break
                if inflater is None or inflater.eof:
                    inflater = _inflater(coding, left)
                part = inflater.decompress(left, PIECE_BYTES)
                yield part
                # A decoder that has read all its input may have further output.
                is_full = len(part) == PIECE_BYTES and not inflater.eof
                left = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
        except zlib.error as exc:
            raise Invalid("a response is not in its content coding", coding=coding, reason=str(exc)) from exc
        if not piece:
            yield piece
    if inflater is not None and not inflater.eof:
        # A server that fails while it compresses may end the response properly.
        raise Unavailable("a response is cut off", coding=coding)


def _inflater(coding: str, content: bytes) -> Any:
    """Return a decoder of content that begins with ``content``, which is not empty."""
    # Many servers send "deflate" without the header of zlib, whose first four bits are 8.
    is_raw = coding == "deflate" and content[0] & 0xF != 8
    return zlib.decompressobj(-zlib.MAX_WBITS if is_raw else AUTOMATIC)

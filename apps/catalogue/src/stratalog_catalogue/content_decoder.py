"""The decoding of compressed HTTP responses in bounded memory.

The HTTP client's own decoder expands a received piece as a whole, before any limit is checked. A piece of 64 KiB that
was compressed twice may expand to gigabytes.
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
"""With this window size zlib detects whether content has a gzip header or a zlib header."""


def decoded(pieces: Iterable[bytes], coding: str) -> Iterator[bytes]:
    """Yield the decoded content in pieces of at most `PIECE_BYTES`. Content without a coding is yielded as received.

    Yields at least one piece, which may be empty, for each received piece, so the caller can check its deadline. Raises
    Invalid for an unsupported coding and for content that is not in the coding, and Unavailable for truncated content.
    """
    coding = coding.strip().lower()
    if coding in ("", "identity"):
        yield from pieces
    elif coding in ("gzip", "x-gzip", "deflate"):
        yield from _inflated(pieces, coding)
    else:
        raise Invalid("the content coding of a response is not supported", coding=coding, known=ACCEPTED_CODINGS)


def _inflated(pieces: Iterable[bytes], coding: str) -> Iterator[bytes]:
    inflater, rest, is_gzip = None, b"", False
    for piece in pieces:
        left, rest, is_full = rest + piece, b"", False
        try:
            while left or is_full:
                # Gzip content may have several members. Drop bytes after a member that begin no other member, and all
                # bytes after a zlib or raw stream.
                if inflater is not None and inflater.eof and not (is_gzip and left.startswith(GZIP_BEGINNING)):
                    rest = left[: len(GZIP_BEGINNING)]  # perhaps the first byte of a member
                    yield b""
                    break
                if inflater is None or inflater.eof:
                    inflater, is_gzip = _inflater(coding, left), left[:1] == GZIP_BEGINNING[:1]
                part = inflater.decompress(left, PIECE_BYTES)
                yield part
                # After a full piece, a decoder that has read all its input may have more output.
                is_full = len(part) == PIECE_BYTES and not inflater.eof
                left = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
        except zlib.error as exc:
            raise Invalid("a response is not in its content coding", coding=coding, reason=str(exc)) from exc
        if not piece:
            yield piece
    if inflater is not None and not inflater.eof:
        # The connection shows no error if the server's compression failed, but the server ended the response normally.
        raise Unavailable("a response is cut off", coding=coding)


def _inflater(coding: str, content: bytes) -> Any:
    """Return a decoder for ``coding``. ``content`` is the first bytes of the content, at least one."""
    # Many servers send "deflate" without a zlib header. The low four bits of the header's first byte are 8.
    is_raw = coding == "deflate" and content[0] & 0xF != 8
    return zlib.decompressobj(-zlib.MAX_WBITS if is_raw else AUTOMATIC)

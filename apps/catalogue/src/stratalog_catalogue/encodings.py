"""Encodings of text. A byte order mark or the source's settings name the encoding. The default is UTF-8.

Decoding never replaces an invalid byte by another character.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from itertools import chain

from stratalog import Invalid

__all__ = [
    "UTF8",
    "check_encoding",
    "decode_text",
    "encode_text",
    "is_utf8",
    "named_encoding",
    "peeked",
    "utf8_pieces",
]

UTF8 = "utf-8"
MARK_BYTES = 4
# The longer marks come first, because the mark of UTF-32-LE begins with the mark of UTF-16-LE.
MARKS = (
    (codecs.BOM_UTF8, UTF8),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
MARKED = "-sig"
"""The end of Python's name of an encoding that writes a byte order mark. `utf8_pieces` reads the mark without it."""

# In these encodings, except `LOSSY`, text that is decoded and encoded again has the same bytes.
FAMILIES = ("utf-8", "utf-16-", "utf-32-", "iso8859-", "cp125", "koi8-", "mac-", "ascii")
# In these, two different bytes give the same character, such as the spaces of left-to-right and right-to-left text.
LOSSY = ("mac-arabic", "mac-farsi")


def check_encoding(name: str) -> str:
    """Return the standard name of an encoding.

    An empty name means UTF-8, unless a byte order mark names another encoding. Raises Invalid for an encoding that is
    unknown or not supported.
    """
    if not name:
        return ""
    try:
        known = codecs.lookup(name).name.removesuffix(MARKED)
    except (LookupError, ValueError) as exc:
        raise Invalid("unknown encoding", value=name) from exc
    if known in LOSSY:
        raise Invalid("the encoding is not supported, because text would change its bytes", value=name)
    if not known.startswith(FAMILIES):
        raise Invalid("the encoding is not supported", value=name, known=" ".join(FAMILIES))
    return known


def utf8_pieces(pieces: Iterable[bytes], declared: str) -> tuple[str, bytes, Iterator[bytes]]:
    """Return the text's encoding, its byte order mark, and the rest as UTF-8.

    The bytes of a UTF-8 text pass unchanged, even invalid bytes. The iterator raises Invalid if text in another
    encoding cannot be decoded, and if a text whose encoding is not named begins as UTF-16 or UTF-32 do: its first four
    bytes have a zero byte, and another byte.
    """
    # Settings and dead letters of earlier builds may declare an encoding that writes a mark.
    declared = declared.removesuffix(MARKED)
    head, rest = peeked(pieces, MARK_BYTES)
    mark, encoding = next((known for known in MARKS if head.startswith(known[0])), (b"", declared or UTF8))
    pieces = chain([head[len(mark) :]], rest)
    if not mark and not declared and b"\0" in head[:MARK_BYTES] and any(head[:MARK_BYTES]):
        return encoding, mark, _refused()
    return encoding, mark, pieces if encoding == UTF8 else _transcoded(pieces, encoding)


def peeked(pieces: Iterable[bytes], size: int) -> tuple[bytes, Iterator[bytes]]:
    """Return the first pieces joined, which are at least ``size`` bytes or the whole text, and the other pieces."""
    rest = iter(pieces)
    head = b""
    while len(head) < size and (piece := next(rest, None)) is not None:
        head += piece
    return head, rest


def named_encoding(encoding: str, mark: bytes) -> str:
    """Return the encoding to store with a record or dead letter, or "" for UTF-8 without a byte order mark.

    A record does not contain the mark of its text. A text without a mark may be in an encoding that the source's
    settings do not declare yet. So a redrive of a dead letter with "" tries UTF-8, then the encoding declared by then.
    """
    return encoding if mark or encoding != UTF8 else ""


def is_utf8(pieces: Iterable[bytes]) -> bool:
    """Return whether the bytes are valid UTF-8."""
    decoder = codecs.getincrementaldecoder(UTF8)()
    try:
        for piece in pieces:
            decoder.decode(piece)
        decoder.decode(b"", True)
    except UnicodeDecodeError:
        return False
    return True


def decode_text(body: bytes, encoding: str) -> str:
    """Return a record's text. Raises Invalid with the position of the first invalid byte."""
    try:
        return body.decode(encoding or UTF8)
    except (UnicodeDecodeError, LookupError) as exc:
        position = getattr(exc, "start", 0)
        raise Invalid("text is not in its encoding", encoding=encoding or UTF8, position=position) from exc


def encode_text(body: bytes, encoding: str) -> bytes:
    """Convert a text from UTF-8 to the encoding of its source."""
    return body if encoding == UTF8 else body.decode().encode(encoding)


def _refused() -> Iterator[bytes]:
    raise Invalid("a text with zero bytes and without a byte order mark needs an encoding in the source's settings")
    yield  # pragma: no cover - makes this function a generator


def _transcoded(pieces: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for piece in pieces:
            yield decoder.decode(piece).encode()
        yield decoder.decode(b"", True).encode()
    except UnicodeDecodeError as exc:
        raise Invalid("text is not in its encoding", encoding=encoding, reason=exc.reason) from exc

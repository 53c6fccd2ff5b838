"""Decoded sizes: an upper bound of the memory that a body takes once decoded, computed before decoding.

Once decoded, a body of empty objects takes 24 times its size, while an ASCII text takes only its size. So this module
counts the values in the encoded bytes. The module counts JSON as the body arrives, and MessagePack once the body is
complete. Each weight bounds the size in bytes of a CPython object and of the pointer to the object.
"""

from __future__ import annotations

import re

import msgspec

from stratalog.errors import Invalid, LimitExceeded
from stratalog.limits import REQUEST_DEPTH_MAX

__all__ = ["JsonSize", "msgpack_size", "too_deep"]

OBJECT_BYTES = 130
FIELD_BYTES = 64
LIST_BYTES = 96
ELEMENT_BYTES = 40
TEXT_BYTES = 44
OPENING = ord("{")
SLICE_BYTES = 128 * 1024
CHARACTER_BYTES_MAX = 4
"""The bytes of each character in CPython, if a text has any character beyond Unicode's Basic Multilingual Plane."""

_NOT_STRUCTURAL = bytes(byte for byte in range(256) if byte not in b'[]{}:,"')
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_CURLY = bytes.maketrans(b"[]", b"{}")
_RUNS = re.compile(rb"\{+|\}+")


class JsonSize:
    """The decoded size of a JSON text that arrives in pieces.

    This class counts the brackets, colons and commas outside strings, and the quotes. The text need not be valid JSON.
    """

    def __init__(self) -> None:
        self.is_too_deep = False
        """Whether lists and objects were nested more deeply than `REQUEST_DEPTH_MAX`."""

        self._parts_bytes = 0
        self._text_bytes = 0
        self._is_ascii = True
        self._level = 0
        self._in_text = False
        self._carried = b""

    @property
    def decoded_bytes(self) -> int:
        """An upper bound, in bytes, of the memory for the decoded text that has arrived so far."""
        return self._parts_bytes + self._text_bytes * (1 if self._is_ascii else CHARACTER_BYTES_MAX)

    def add(self, piece: bytes) -> None:
        """Count the next piece."""
        # On a worker thread, one call for a large piece would keep the interpreter's lock for milliseconds, and block
        # the event loop.
        for start in range(0, len(piece), SLICE_BYTES):
            self._add(piece[start : start + SLICE_BYTES])

    def _add(self, piece: bytes) -> None:
        self._text_bytes += len(piece)
        piece = self._carried + piece
        self._is_ascii = self._is_ascii and piece.isascii() and b"\\u" not in piece
        # If a piece ends with an odd number of backslashes, the last backslash escapes the first character of the next
        # piece. So count this backslash with the next piece.
        carried = (len(piece) - len(piece.rstrip(b"\\"))) % 2
        self._carried = piece[-1:] if carried else b""
        if carried:
            piece = piece[:-1]
        if b"\\" in piece:
            # Remove escaped backslashes first. Each backslash that still precedes a quote then escapes this quote.
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = piece.translate(None, _NOT_STRUCTURAL).split(b'"')
        outside = b"".join(parts[self._in_text :: 2])
        quotes = len(parts) - 1
        self._in_text ^= bool(quotes % 2)
        opened = outside.count(b"{"), outside.count(b"[")
        self._parts_bytes += (
            opened[0] * OBJECT_BYTES
            + opened[1] * LIST_BYTES
            + outside.count(b":") * FIELD_BYTES
            + outside.count(b",") * ELEMENT_BYTES
            + quotes * TEXT_BYTES // 2
        )
        self._add_level(outside, sum(opened))

    def _add_level(self, outside: bytes, opened: int) -> None:
        # Compute up to three bounds, from cheap to exact. The first bound assumes that all opening brackets come before
        # all closing brackets.
        highest = self._level + opened
        if highest <= REQUEST_DEPTH_MAX:
            self._level = highest - outside.count(b"]") - outside.count(b"}")
            return
        brackets = outside.translate(_CURLY, _NOT_BRACKETS)
        if self._level + _height_max(brackets) <= REQUEST_DEPTH_MAX:
            self._level += brackets.count(b"{") - brackets.count(b"}")
            return
        for run in _RUNS.findall(brackets):
            self._level += len(run) if run[0] == OPENING else -len(run)
            if self._level > REQUEST_DEPTH_MAX:
                self.is_too_deep = True


def _height_max(brackets: bytes) -> int:
    """Return an upper bound of the depth that a sequence of brackets reaches above its start.

    A depth above `REQUEST_DEPTH_MAX` may be returned as any number above this limit. Below the limit, the bound is
    exact for a balanced sequence. Counting single brackets is slow in Python. Each pass here removes the innermost
    pairs, which lowers each peak by one.
    """
    passes, rest = 0, brackets
    while passes <= REQUEST_DEPTH_MAX and len(shorter := rest.replace(b"{}", b"")) < len(rest):
        passes, rest = passes + 1, shorter
    return passes + max(0, rest.count(b"{") - rest.count(b"}"))


def msgpack_size(body: bytes, limit: int) -> int:
    """Return an upper bound, in bytes, of the memory for a decoded MessagePack body.

    The count stops once it exceeds ``limit``, so any result above ``limit`` only means that the body is too large.
    Raises Invalid for a body that is not MessagePack, LimitExceeded for a body nested too deeply.
    """
    try:
        # This call validates the body without creating its values: a header that claims more elements than there are
        # bytes fails here.
        msgspec.msgpack.decode(body, type=msgspec.Raw)
    except msgspec.DecodeError as exc:
        raise Invalid("the body cannot be decoded", reason=str(exc)) from exc
    except RecursionError as exc:
        raise too_deep() from exc
    upper = _upper_size(body)
    return upper if upper <= len(body) * 2 + SMALL_BYTES else _exact_size(body, limit)


def too_deep() -> LimitExceeded:
    """Return the error for a body that is nested too deeply."""
    return LimitExceeded("the body is nested too deeply", limit=REQUEST_DEPTH_MAX)


SMALL_BYTES = 256 * 1024
_POINTER = 8
_NUMBER = 32 + _POINTER
_TEXT = 50 + TEXT_BYTES // 2


def _weight(first: int) -> int:
    """Return the memory in bytes of a value with this first byte, without its elements and its text."""
    if first in range(0x80, 0x90) or first in (0xDE, 0xDF):
        return OBJECT_BYTES
    if first in range(0x90, 0xA0) or first in (0xDC, 0xDD):
        return LIST_BYTES
    if first in range(0xA0, 0xC0) or first in (0xD9, 0xDA, 0xDB):
        return _TEXT
    return _NUMBER if first in range(0xC4, 0xD9) else _POINTER


def _fixed_bytes(first: int) -> int:
    """Return the distance in bytes from a value's first byte to the next value, for a value without a length field."""
    if first in range(0xA0, 0xC0):
        return 1 + first - 0xA0
    sizes = {0xCA: 5, 0xCB: 9, 0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9, 0xD0: 2, 0xD1: 3, 0xD2: 5, 0xD3: 9}
    sizes |= {0xD4: 3, 0xD5: 4, 0xD6: 6, 0xD7: 10, 0xD8: 18, 0xDC: 3, 0xDD: 5, 0xDE: 3, 0xDF: 5}
    return sizes.get(first, 1)


_WEIGHTS = [_weight(first) for first in range(256)]
_FIXED = [_fixed_bytes(first) for first in range(256)]
# For each first byte: the number of bytes of the length field, and of the bytes between that field and the content.
_LENGTHS = {0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0), 0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1)}
_LENGTHS |= {0xD9: (1, 0), 0xDA: (2, 0), 0xDB: (4, 0)}
_HEAVY = sorted(set(_WEIGHTS) - {_POINTER})
_OTHERS = {weight: bytes(first for first in range(256) if _WEIGHTS[first] != weight) for weight in _HEAVY}


def _upper_size(body: bytes) -> int:
    """Return the size as if each byte began a value.

    The count is far faster than a walk of the values, and the result is never too small.
    """
    heavy = sum(len(body.translate(None, others)) * weight for weight, others in _OTHERS.items())
    return heavy + len(body) * (_POINTER + _characters(body) + FIELD_BYTES // 2)


def _exact_size(body: bytes, limit: int) -> int:
    size, position, end = len(body) * _characters(body), 0, len(body)
    while position < end and size <= limit:
        first = body[position]
        size += _WEIGHTS[first] + FIELD_BYTES // 2
        lengths = _LENGTHS.get(first)
        if lengths is None:
            position += _FIXED[first]
        else:
            digits, between = lengths
            position += 1 + digits
            position += int.from_bytes(body[position - digits : position], "big") + between
    return size


def _characters(body: bytes) -> int:
    # The function does not distinguish texts from binary values. A binary value takes its size only once, so the bound
    # may be too high for binary values, but is never too low.
    return 1 if body.isascii() else CHARACTER_BYTES_MAX

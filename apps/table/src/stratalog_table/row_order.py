"""Row keys as text whose order is the order of the keys, so that what compares regions needs no types.

Numbers are moved up by half their range and written in hexadecimal of a fixed width; text is its UTF-8 and bytes are
themselves, two digits a byte. The least key of a type is its smallest number, or the empty text.
"""

from __future__ import annotations

from typing import Literal, get_args

from stratalog.errors import Corrupt, Invalid, LimitExceeded

__all__ = [
    "EDGE_BYTES_MAX",
    "KEY_TYPES",
    "Key",
    "KeyType",
    "check_edge",
    "decode_key",
    "encode_key",
    "is_edge",
    "minimum_key",
]

KeyType = Literal["int", "long", "string", "bytes"]
Key = int | str | bytes
KEY_TYPES: tuple[str, ...] = get_args(KeyType)

EDGE_BYTES_MAX = 256
"""How long a split point of text or bytes may be. Rows may have longer keys."""

_BITS = {"int": 32, "long": 64}


def encode_key(kind: KeyType, value: Key) -> str:
    """The text of a key. Raises Invalid for a value of another type or out of range."""
    if kind in _BITS:
        return _encode_number(_BITS[kind], kind, value)
    if kind == "string" and isinstance(value, str):
        return value.encode("utf-8", "surrogatepass").hex()
    if kind == "bytes" and isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    raise Invalid("a key has another type than its column", type=kind, value=value)


def decode_key(kind: KeyType, text: str) -> Key:
    """The key behind a text. Raises Corrupt."""
    try:
        if kind in _BITS:
            return int(text, 16) - (1 << (_BITS[kind] - 1))
        body = bytes.fromhex(text)
        return body.decode("utf-8", "surrogatepass") if kind == "string" else body
    except ValueError as exc:
        raise Corrupt("a stored key is no key of its column's type", type=kind, value=text) from exc


def minimum_key(kind: KeyType) -> str:
    """The text that no key of the type is below."""
    return "0" * (_BITS[kind] // 4) if kind in _BITS else ""


def check_edge(text: str) -> str:
    """``text``, if a region may begin or end there. Raises LimitExceeded."""
    if len(text) > 2 * EDGE_BYTES_MAX:
        raise LimitExceeded("a split point is too long", value=len(text) // 2, limit=EDGE_BYTES_MAX)
    return text


def is_edge(kind: KeyType, text: str) -> bool:
    """Whether a region may begin or end at ``text``: it is how a key of the type is written, and not too long."""
    try:
        key = decode_key(kind, text)
        return len(text) <= 2 * EDGE_BYTES_MAX and encode_key(kind, key) == text
    except (Corrupt, Invalid):
        return False


def _encode_number(bits: int, kind: str, value: Key) -> str:
    half = 1 << (bits - 1)
    if not isinstance(value, int) or isinstance(value, bool) or not -half <= value < half:
        raise Invalid("a key is no number of its column's type", type=kind, value=value)
    return f"{value + half:0{bits // 4}x}"

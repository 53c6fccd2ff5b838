"""The canonical encoding of values, the compression and hash of bytes, and the tags of the codecs of stored bytes.

A *value* is a JSON value or bytes: None, bool, int within ±(2^53 - 1), finite float, str, bytes, list, and dict with
str keys. An instance of a subclass of one of these types (an `OrderedDict`, a `StrEnum`) is stored as the type itself.
A bytearray or memoryview is stored as bytes, and a tuple as a list.

JSON has one number type, so a float without a fraction *is* the integer (RFC 8785 has the same rule): ``1.0`` is
stored, hashed and read back as ``1``. A float beyond the range of ints, such as ``1e300``, stays a float. Text is never
normalised.
"""

from __future__ import annotations

import hashlib
import math
import re
import struct
import threading
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple

import msgspec
import zstandard

from stratalog.errors import Corrupt, Invalid, LimitExceeded, Unsupported
from stratalog.limits import INTEGER_MAX, JSON_DEPTH_MAX

__all__ = [
    "PLAIN",
    "ZSTD",
    "Codec",
    "Plain",
    "Value",
    "canonical",
    "codec_named",
    "compress",
    "compress_quickly",
    "decode",
    "decompress",
    "encode",
    "encode_checked",
    "escaped",
    "is_decimal",
    "json_reason",
    "reread",
    "sha256",
    "unescape_surrogates",
    "unpack",
    "unpack_item",
]

Value = Any
"""A value, as the module's docstring defines it. The type checker accepts any object; `canonical` checks the object."""

COMPRESSION_LEVEL = 3
QUICK_LEVEL = 1
QUICK_BYTES_MAX = 64 * 1024
HASHED_BYTES_MIN = 1024
DIGITS_MAX = 19
HASHED_BYTES_MAX = 1024 * 1024

PLAIN_DEPTH = 6
_Integer = Annotated[int, msgspec.Meta(ge=-INTEGER_MAX, le=INTEGER_MAX)]
Plain: Any = None | bool | _Integer | float | str
"""The msgspec type of the values that `reread` can prove canonical. They have no bytes and are not deeply nested."""
for _ in range(PLAIN_DEPTH):
    Plain = None | bool | _Integer | float | str | list[Plain] | dict[str, Plain]

FLOAT_HEAD = b"\xcb"
# An encoded float is a head byte and eight more bytes. The four alternatives match absolute values near 1, absolute
# values from 2 to 2^65, values near 0, and infinity or NaN. Every other float has a fraction, or is too large for an
# integer. Text may contain the head byte, so the pattern looks ahead: it also finds a float that overlaps a match.
_FLOATS = re.compile(
    rb"\xcb(?=([\x3f\xbf]\xf0.{6}|[\x40-\x43\xc0-\xc3].{7}|[\x00\x80]\x00.{6}|[\x7f\xff][\xf0-\xff].{6}))", re.DOTALL
)

# The escapes in a JSON text: a surrogate pair, a single surrogate as group 1, and any other escape.
_ESCAPES = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
# One match has all text up to the next escape of a lone surrogate, so that few calls of Python are needed.
_LONE_SURROGATES = re.compile(
    rb"(?:[^\\]++|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u(?![dD][89a-fA-F])|\\[^u])++"
    rb"|\\(u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
# The three bytes that UTF-8 would have for a surrogate, if it allowed surrogates.
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
# A low surrogate's escape, or the start of one.
_LOW_BEGUN = re.compile(rb"(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?")
_CUT = "Input data was truncated"

_encoder = msgspec.msgpack.Encoder(order="deterministic")
_decoder = msgspec.msgpack.Decoder()
_plain_decoder = msgspec.msgpack.Decoder(Plain)

encode: Callable[[Value], bytes] = _encoder.encode
"""Return the canonical bytes of a canonical value: MessagePack with sorted keys. Equal values have equal bytes."""


def canonical(value: Value, what: str = "value") -> Value:
    """Return the canonical copy of ``value``.

    Raises Invalid for anything that is not a value (NaN, a lone surrogate, another type) and LimitExceeded for a value
    that is nested too deeply.
    """
    if type(value) is dict or type(value) is list:
        _, copy = reread(value, _plain_decoder)
        if copy == value:
            return copy
    return _canonical(value, what, JSON_DEPTH_MAX)


def encode_checked(value: Value, what: str = "value") -> bytes:
    """Return the canonical bytes of any value. Raises the errors of `canonical`."""
    if type(value) is dict or type(value) is list:
        body, copy = reread(value, _plain_decoder)
        if copy == value:
            return body
    return encode(_canonical(value, what, JSON_DEPTH_MAX))


def reread(value: Any, plain: msgspec.msgpack.Decoder[Any]) -> tuple[bytes, Any]:
    """Return the canonical bytes of ``value`` and the value that ``plain`` decodes from them; on failure ``b"", None``.

    For most values, two calls of msgspec are faster than a visit of each part of the value in Python. If the decoded
    value equals ``value``, then ``value`` is canonical. Otherwise the caller must visit each part.
    """
    try:
        body = _encoder.encode(value)
        if FLOAT_HEAD in body and _may_have_integral_float(body):
            return b"", None
        return body, plain.decode(body)
    except (msgspec.MsgspecError, TypeError, OverflowError, UnicodeEncodeError, RecursionError):
        return b"", None


def decode(data: bytes) -> Value:
    """Return the value that `encode` encoded. Raises Corrupt."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise Corrupt("bytes do not decode", reason=str(exc)) from exc
    except RecursionError as exc:
        raise Corrupt("bytes are nested too deeply") from exc


def json_reason(text: str | bytes, error: Exception) -> str:
    """Return the reason of an ``error`` that msgspec raised for a JSON text. A lone surrogate has its own reason.

    If a text ends within five bytes after the escape of a lone high surrogate, msgspec reports that the text was cut
    short. This function reports the lone surrogate instead, unless the text ends inside the escape of a low surrogate.
    """
    reason = str(error)
    if isinstance(error, UnicodeDecodeError) and _SURROGATE.match(error.object, error.start):
        return "a string has a lone surrogate"
    if reason != _CUT:
        return reason
    body = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    for escape in _ESCAPES.finditer(body):
        if escape[1] and not _LOW_BEGUN.fullmatch(body, escape.end()):
            return f"a string has a lone surrogate (byte {escape.start()})"
    return reason


def unescape_surrogates(text: bytes) -> bytes:
    """Return a JSON text in which three bytes replace each escape of a lone surrogate.

    No decoder accepts these bytes, which are not UTF-8. But msgspec can skip a string with these bytes as
    `msgspec.Raw`, and then decode the rest of the text. msgspec cannot skip a string with the escape.
    """

    def unescape(escape: re.Match[bytes]) -> bytes:
        return chr(int(escape[1][1:], 16)).encode(errors="surrogatepass") if escape[1] else escape[0]

    return _LONE_SURROGATES.sub(unescape, text)


def escaped(text: str) -> str:
    """Return ``text`` with an escape in place of each lone surrogate, which UTF-8 cannot encode.

    Python uses lone surrogates for bytes of a file name or an argument that are not UTF-8.
    """
    return text.encode(errors="backslashreplace").decode()


def is_decimal(text: str) -> bool:
    """Return whether ``text`` consists of 1 to `DIGITS_MAX` ASCII digits, so that ``int`` can read it.

    `str.isdecimal` alone accepts digits of every script. `str.isdigit` also accepts digits that ``int`` refuses.
    """
    return len(text) <= DIGITS_MAX and text.isascii() and text.isdecimal()


def sha256(data: bytes) -> bytes:
    """Return the SHA-256 of ``data``, as 32 bytes.

    The function caches the last hash of bytes of `HASHED_BYTES_MIN` to `HASHED_BYTES_MAX`, because two callers hash
    each body. One caller makes the blob's key, and the backend checks the key. Hashing takes 0.6 µs a KB.
    """
    known, digest = _hashed.last
    if known is data:
        return digest
    digest = hashlib.sha256(data).digest()
    # The comparison of identities above is enough. Bytes are immutable, and no other object can have the identity of
    # the cached bytes.
    if HASHED_BYTES_MIN <= len(data) <= HASHED_BYTES_MAX and type(data) is bytes:
        _hashed.last = (data, digest)
    return digest


def compress(data: bytes) -> bytes:
    """Return ``data`` as one zstd frame that states its content size."""
    return _zstd().compressor.compress(data)


def compress_quickly(data: bytes) -> bytes:
    """Compress for a local disk. For at most `QUICK_BYTES_MAX`, this takes 50 to 85 % of the time of `compress`.

    The result is then up to a tenth larger. For more bytes the function works like `compress`.
    """
    return (_zstd().quick_compressor if len(data) <= QUICK_BYTES_MAX else _zstd().compressor).compress(data)


def decompress(data: bytes, bytes_max: int) -> bytes:
    """Return the content of one zstd frame.

    Raises Corrupt for a broken frame, a frame without a stated size, or a stated size above ``bytes_max``.
    """
    try:
        size = zstandard.frame_content_size(data)
        if not 0 <= size <= bytes_max:
            raise Corrupt("compressed bytes state a size over the limit", value=size, limit=bytes_max)
        return _zstd().decompressor.decompress(data)
    except zstandard.ZstdError as exc:
        raise Corrupt("compressed bytes do not decompress", reason=str(exc)) from exc


class Codec(NamedTuple):
    """A way to store bytes. A stored object names its codec, so that another codec can be added."""

    tag: str
    """One character. In an index item it is the name of the body's attribute. A row or message stores it as a value."""

    suffix: str
    """The suffix of a file's name."""

    encoding: str
    """HTTP's content encoding."""


PLAIN = Codec("b", "", "identity")
"""The codec of bytes that are stored without compression."""

ZSTD = Codec("z", ".zst", "zstd")
"""The codec of bytes that are stored as one zstd frame. The frame states its content size."""

_CODECS = {name: codec for codec in (PLAIN, ZSTD) for name in codec if name}


def codec_named(name: str, key: str) -> Codec:
    """Return the codec of a tag, a suffix that is not empty, or a content encoding.

    Raises Unsupported for another name; the details have the name, as ``codec``, and ``key``.
    """
    try:
        return _CODECS[name]
    except KeyError:
        raise Unsupported("stored bytes have a codec that this program does not support", codec=name, key=key) from None


def unpack(codec: Codec, data: bytes, bytes_max: int) -> bytes:
    """Return the content of stored bytes. Raises the errors of `decompress`."""
    return data if codec is PLAIN else decompress(data, bytes_max)


def unpack_item(attributes: Mapping[str, Any], bytes_max: int, key: str) -> bytes | None:
    """Return the body of an item; None if the item has no body. The codec's tag is the name of the body's attribute.

    The tag of a future codec will be an upper-case letter. No other attribute has an upper-case letter as its name.
    Raises Unsupported for an upper-case tag, with the tag and ``key``. Raises the errors of `decompress`.
    """
    body: bytes | None = attributes.get(PLAIN.tag)
    if body is not None:
        return body
    if ZSTD.tag in attributes:
        return decompress(attributes[ZSTD.tag], bytes_max)
    for name in attributes:
        if len(name) == 1 and name.isupper():
            codec_named(name, key)
    return None


class _Zstd(threading.local):
    """One compressor and decompressor per thread: zstd contexts are expensive to make and not safe to share."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=COMPRESSION_LEVEL, write_content_size=True)
        self.quick_compressor = zstandard.ZstdCompressor(level=QUICK_LEVEL, write_content_size=True)
        self.decompressor = zstandard.ZstdDecompressor()


class _Hashed:
    """The last hashed bytes and their hash, in one tuple. So no thread reads bytes with the hash of other bytes."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = (b"", hashlib.sha256(b"").digest())


_hashed = _Hashed()
_local = _Zstd()


def _zstd() -> _Zstd:
    return _local


def _may_have_integral_float(body: bytes) -> bool:
    """Return whether encoded ``body`` may contain a float that is not finite, or a float without a fraction.

    The encoder accepts both kinds of float. In a canonical value every float is finite. An integer replaces a float
    without a fraction, unless the float is too large. The result False is certain. The result True is not certain:
    bytes of another type may look like a float.
    """
    candidates = _FLOATS.findall(body)
    floats = struct.unpack(f">{len(candidates)}d", b"".join(candidates))
    return any(map(float.is_integer, floats)) or not all(map(math.isfinite, floats))


def _canonical(value: Value, what: str, depth: int) -> Value:
    """Return the canonical copy, by a visit of each part. The code tests the types in the order of their frequency."""
    kind = type(value)
    if kind is str:
        return _text(value, what)
    if kind is int:
        return value if -INTEGER_MAX <= value <= INTEGER_MAX else _refuse_integer(value, what)
    if value is None or kind is bool or kind is bytes:
        return value
    if kind is float:
        return _number(value, what)
    if depth == 0:
        raise LimitExceeded(f"{what} is nested too deeply", limit=JSON_DEPTH_MAX)
    if kind is dict:
        return {
            name if type(name) is str and name.isascii() else _name(name, what): item
            if type(item) is str and item.isascii()
            else _canonical(item, what, depth - 1)
            for name, item in value.items()
        }
    if kind is list or kind is tuple:
        return [_canonical(item, what, depth - 1) for item in value]
    for base, plain in _PLAIN_KINDS:
        if isinstance(value, base):
            return _canonical(plain(value), what, depth)
    raise Invalid(f"{what} has a type that JSON cannot say", value=kind.__name__)


_PLAIN_KINDS: tuple[tuple[type | tuple[type, ...], Callable[[Any], Value]], ...] = (
    (dict, dict),
    (list, list),
    (tuple, list),
    ((bytes, bytearray, memoryview), bytes),
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
)


def _text(value: str, what: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as exc:
            raise Invalid(f"{what} holds a lone surrogate", value=value.encode(errors="backslashreplace")) from exc
    return value


def _name(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise Invalid(f"{what} has an object key that is no text", value=repr(value))
    return _text(str.__str__(value), what)


def _refuse_integer(value: int, what: str) -> Value:
    raise Invalid(f"{what} holds an integer that JSON readers cannot hold exactly", value=value, limit=INTEGER_MAX)


def _number(value: float, what: str) -> float | int:
    if not math.isfinite(value):
        raise Invalid(f"{what} holds a number that JSON cannot say", value=value)
    return int(value) if value.is_integer() and abs(value) <= INTEGER_MAX else value

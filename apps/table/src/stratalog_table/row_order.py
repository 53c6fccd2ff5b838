"""Row keys as text that sorts in the order of the keys. So code can compare regions without the types of the keys.

An integer is shifted up by half its range and written in hexadecimal with a fixed width. A date becomes its days since
1970, a timestamp its ticks since 1970, and a decimal its digits without the point. The bits of a float become an
integer that sorts in the order of the floats. Text is written as UTF-8 and bytes as they are, with two hexadecimal
digits per byte. The lower bound of a type is all zeros, or the empty text.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

import msgspec

from stratalog.errors import Corrupt, Invalid, LimitExceeded
from stratalog_table.limits import EDGE_BYTES_MAX, KEY_PRECISION_MAX

__all__ = [
    "KEY_TYPES",
    "Key",
    "KeyKind",
    "check_edge",
    "decode_key",
    "encode_key",
    "is_edge",
    "is_key_type",
    "key_kind",
    "minimum_key",
    "parse_key",
]

Key = int | str | bytes | float | date | datetime | Decimal
KEY_TYPES = "int, long, string, bytes, date, timestamp, float, double, decimal(PRECISION,SCALE)"
"""The types of key columns, for messages. A timestamp may name its unit and zone: timestamp[ns, tz=UTC]."""

TICKS = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
EPOCH = datetime.fromisoformat("1970-01-01")
EPOCH_DAY = date(1970, 1, 1).toordinal()
_TIMESTAMP = re.compile(r"timestamp(?:\[(s|ms|us|ns)(?:, ?tz=([A-Za-z0-9_+:/-]{1,64}))?\])?")
_DECIMAL = re.compile(r"decimal\((\d{1,2}), ?(\d{1,2})\)", re.ASCII)
_FRACTION = re.compile(r"([\dW-]+[Tt ](?:\d\d:\d\d:\d\d|\d{6}))[.,](\d+)", re.ASCII)
"""A date and a time down to the second, then the fraction of that second. A zone may follow."""

_BITS = {"int": 32, "long": 64, "date": 32, "timestamp": 64, "float": 32, "double": 64}
_SHORT = {"timestamp": "timestamp[us]"}


class KeyKind(msgspec.Struct, frozen=True):
    """The parsed type of a key column: its family, and the parameters of the family."""

    name: str
    """The type as a table stores it."""

    family: str
    """The name without its parameters."""

    bits: int = 0
    """The width of the integer that encodes a key, or 0 for text and bytes."""

    unit: str = ""
    zone: str = ""
    precision: int = 0
    scale: int = 0

    @property
    def is_ordinal(self) -> bool:
        """Whether `encode_key` accepts an integer in place of a key: the days of a date, the ticks of a timestamp."""
        return self.family in ("date", "timestamp")


@lru_cache(256)
def key_kind(text: str) -> KeyKind:
    """Parse a key type, as typed or as stored. Raises Invalid."""
    wanted = _SHORT.get(text, text)
    if wanted in ("string", "bytes"):
        return KeyKind(wanted, wanted)
    if wanted in _BITS:
        return KeyKind(wanted, wanted, _BITS[wanted])
    if match := _TIMESTAMP.fullmatch(wanted):
        # Parquet stores seconds as milliseconds.
        unit, zone = "ms" if match[1] == "s" else match[1], match[2] or ""
        name = f"timestamp[{unit}, tz={zone}]" if zone else f"timestamp[{unit}]"
        return KeyKind(name, "timestamp", _BITS["timestamp"], unit, zone)
    if match := _DECIMAL.fullmatch(wanted):
        precision, scale = int(match[1]), int(match[2])
        if 1 <= precision <= KEY_PRECISION_MAX and scale <= precision:
            return KeyKind(f"decimal({precision}, {scale})", "decimal", 128, precision=precision, scale=scale)
    raise Invalid("a key column cannot be of this type", type=text, types=KEY_TYPES)


def is_key_type(text: str) -> bool:
    """Return whether a text is a key type in its stored form."""
    try:
        return key_kind(text).name == text
    except Invalid:
        return False


def encode_key(kind: str, value: Key) -> str:
    """Return the text of a key. Raises Invalid for a value of another type or out of range.

    A date may also be given as its days since 1970, and a timestamp as its ticks.
    """
    known = key_kind(kind)
    if known.bits:
        return f"{_ENCODERS[known.family](known, value):0{known.bits // 4}x}"
    if known.family == "string" and isinstance(value, str):
        return value.encode("utf-8", "surrogatepass").hex()
    if known.family == "bytes" and isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    raise _is_no_key(known, value)


def decode_key(kind: str, text: str) -> Key:
    """Return the key of a text. A date or timestamp that Python cannot represent is an integer. Raises Corrupt."""
    known = key_kind(kind)
    try:
        if known.bits:
            return _DECODERS[known.family](known, int(text, 16))
        body = bytes.fromhex(text)
        return body.decode("utf-8", "surrogatepass") if known.family == "string" else body
    except ValueError as exc:
        raise Corrupt("a stored key is no key of its column's type", type=kind, value=text) from exc


def parse_key(kind: str, text: str) -> Key:
    """Parse a key as typed: ISO 8601 for dates and timestamps, hexadecimal for bytes. Raises Invalid."""
    known = key_kind(kind)
    try:
        if known.bits:
            _check_digits(text)
        return _PARSERS[known.family](known, text)
    except (ValueError, OverflowError, InvalidOperation) as exc:
        raise Invalid("a text is no key of its column's type", type=known.name, value=text) from exc


def minimum_key(kind: str) -> str:
    """Return a text that is at or below the text of every key of the type."""
    return "0" * (key_kind(kind).bits // 4)


def check_edge(text: str) -> str:
    """Return ``text`` if it is short enough for a bound of a region. Raises LimitExceeded."""
    if len(text) > 2 * EDGE_BYTES_MAX:
        raise LimitExceeded("a split point is too long", value=len(text) // 2, limit=EDGE_BYTES_MAX)
    return text


def is_edge(kind: str, text: str) -> bool:
    """Return whether ``text`` may be a bound of a region: it is the text of a key of the type, and not too long."""
    try:
        key = decode_key(kind, text)
        return len(text) <= 2 * EDGE_BYTES_MAX and encode_key(kind, key) == text
    except (Corrupt, Invalid):
        return False


def _is_no_key(kind: KeyKind, value: Any) -> Invalid:
    return Invalid("a key is of another type than its column, or out of its range", type=kind.name, value=value)


def _from_number(kind: KeyKind, value: Any) -> int:
    half = 1 << (kind.bits - 1)
    if not isinstance(value, int) or isinstance(value, bool) or not -half <= value < half:
        raise _is_no_key(kind, value)
    return value + half


def _to_number(kind: KeyKind, raised: int) -> int:
    return raised - (1 << (kind.bits - 1))


def _from_date(kind: KeyKind, value: Any) -> int:
    if isinstance(value, datetime):
        raise _is_no_key(kind, value)
    return _from_number(kind, value.toordinal() - EPOCH_DAY if isinstance(value, date) else value)


def _to_date(kind: KeyKind, raised: int) -> Key:
    days = _to_number(kind, raised)
    try:
        return date.fromordinal(days + EPOCH_DAY)
    except (OverflowError, ValueError):
        return days


def _from_timestamp(kind: KeyKind, value: Any) -> int:
    if not isinstance(value, datetime):
        return _from_number(kind, value)
    if bool(kind.zone) != (value.tzinfo is not None):
        raise Invalid("a key and its column must both have a time zone, or neither", type=kind.name, value=value)
    try:
        plain = value.astimezone(UTC).replace(tzinfo=None) if kind.zone else value
    except OverflowError as exc:  # the time in UTC is before the year 1 or after the year 9999
        raise _is_no_key(kind, value) from exc
    microseconds = (plain - EPOCH) // timedelta(microseconds=1)
    ticks, rest = divmod(microseconds * TICKS[kind.unit], TICKS["us"])
    if rest:
        raise Invalid("a key is more exact than its column", type=kind.name, value=value)
    return _from_number(kind, ticks)


def _to_timestamp(kind: KeyKind, raised: int) -> Key:
    ticks = _to_number(kind, raised)
    microseconds, rest = divmod(ticks * TICKS["us"], TICKS[kind.unit])
    if rest:
        return ticks
    try:
        plain = EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return ticks
    return plain.replace(tzinfo=UTC) if kind.zone else plain


def _from_decimal(kind: KeyKind, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not Decimal(value).is_finite():
        raise _is_no_key(kind, value)
    sign, digits, exponent = Decimal(value).as_tuple()
    significant = "".join(map(str, digits)).rstrip("0")
    shift = int(exponent) + len(digits) - len(significant) + kind.scale if significant else 0
    # Check the number of digits first: Python refuses to convert thousands of digits, and 10**999999999 takes too long.
    if shift < 0 or len(significant) + shift > kind.precision:
        raise _is_no_key(kind, value)
    unscaled = int(significant or "0") * 10**shift
    return _from_number(kind, -unscaled if sign else unscaled)


def _to_decimal(kind: KeyKind, raised: int) -> Decimal:
    unscaled = _to_number(kind, raised)
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -kind.scale))


def _from_float(kind: KeyKind, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise _is_no_key(kind, value)
    try:
        # Adding 0.0 turns -0.0 into 0.0, because -0.0 and 0.0 are the same key.
        (bits,) = struct.unpack(*_float_formats(kind, float(value) + 0.0))
    except OverflowError as exc:
        raise _is_no_key(kind, value) from exc
    top = 1 << (kind.bits - 1)
    return int(~bits & (2 * top - 1) if bits & top else bits | top)


def _to_float(kind: KeyKind, raised: int) -> float:
    top = 1 << (kind.bits - 1)
    bits = raised & ~top if raised & top else ~raised & (2 * top - 1)
    bits_format, real = (">I", ">f") if kind.bits == 32 else (">Q", ">d")
    try:
        (value,) = struct.unpack(real, struct.pack(bits_format, bits))
    except struct.error as exc:
        raise ValueError(str(exc)) from exc
    return float(value)


def _float_formats(kind: KeyKind, value: float) -> tuple[str, bytes]:
    return (">I", struct.pack(">f", value)) if kind.bits == 32 else (">Q", struct.pack(">d", value))


def _check_digits(text: str) -> None:
    """Raise ValueError for digits of other scripts and for ``_``, which Python's own parsers of numbers accept."""
    if not text.isascii() or "_" in text:
        raise ValueError("a number must have only ASCII digits")


def _parse_timestamp(kind: KeyKind, text: str) -> int:
    fraction = _FRACTION.match(text)
    without = fraction[1] + text[fraction.end() :] if fraction else text
    if "." in without or "," in without:
        raise ValueError("only the seconds may have a fraction")
    at_second = datetime.fromisoformat(without)
    if bool(kind.zone) != (at_second.tzinfo is not None):
        raise ValueError("the text and the type must both have a time zone, or neither")
    plain = at_second.astimezone(UTC).replace(tzinfo=None) if kind.zone else at_second
    seconds = (plain - EPOCH) // timedelta(seconds=1)
    digits = fraction[2] if fraction else ""
    part, rest = divmod(int(digits or "0") * TICKS[kind.unit], 10 ** len(digits))
    if rest:
        raise ValueError("the text is more exact than the type")
    return int(seconds * TICKS[kind.unit] + part)


_ENCODERS: dict[str, Callable[[KeyKind, Any], int]] = {
    "int": _from_number,
    "long": _from_number,
    "date": _from_date,
    "timestamp": _from_timestamp,
    "decimal": _from_decimal,
    "float": _from_float,
    "double": _from_float,
}
_DECODERS: dict[str, Callable[[KeyKind, int], Key]] = {
    "int": _to_number,
    "long": _to_number,
    "date": _to_date,
    "timestamp": _to_timestamp,
    "decimal": _to_decimal,
    "float": _to_float,
    "double": _to_float,
}
_PARSERS: dict[str, Callable[[KeyKind, str], Key]] = {
    "int": lambda kind, text: int(text),
    "long": lambda kind, text: int(text),
    "string": lambda kind, text: text,
    "bytes": lambda kind, text: bytes.fromhex(text),
    "date": lambda kind, text: date.fromisoformat(text),
    "timestamp": _parse_timestamp,
    "decimal": lambda kind, text: Decimal(text),
    "float": lambda kind, text: float(text),
    "double": lambda kind, text: float(text),
}

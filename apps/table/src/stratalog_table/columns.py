"""Value columns: their names, their types as a table's state stores them, and the changes that are allowed.

A type is Arrow's name, or a list for a nested type: ``["list", T]``, ``["fixed_size_list", T, length]``,
``["map", K, V]``, ``["struct", [[name, T], …]]``. A type that Parquet cannot store is not allowed. A change of columns
only adds columns or widens types. So a reader with newer columns can read every older file, and writers may continue
with older columns. This module does not import pyarrow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from stratalog import Invalid, LimitExceeded
from stratalog_table.limits import COLUMN_NAME_BYTES_MAX, COLUMN_TYPE_DEPTH_MAX, COLUMNS_MAX

__all__ = [
    "ColumnType",
    "ValueColumn",
    "check_columns",
    "check_name",
    "column_type",
    "holds",
    "joined",
    "stored_type",
    "type_text",
    "widened",
]

ColumnType = Any
"""A text, or a list for a nested type: see the docstring of the module."""

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_PLAIN = {*_INTEGERS, "null", "bool", "halffloat", "float", "double", "string", "binary", "date32[day]"}
_TIMED = re.compile(r"(time32\[ms\]|time64\[(?:us|ns)\]|duration\[(?:s|ms|us|ns)\])")
_TIMESTAMP = re.compile(r"timestamp\[(ms|us|ns)(?:, tz=([A-Za-z0-9_+:/-]{1,64}))?\]")
_DECIMAL = re.compile(r"decimal(128|256)\((\d{1,2}), ?(\d{1,2})\)", re.ASCII)
_FIXED = re.compile(r"fixed_size_binary\[([1-9]\d{0,8})\]", re.ASCII)
_SECONDS = re.compile(r"(time32|timestamp)\[s\b")
_TYPED = re.compile(r"decimal\((\d{1,2}), ?(\d{1,2})\)", re.ASCII)
_ALIASES = {
    "int": "int32",
    "long": "int64",
    "bytes": "binary",
    "date": "date32[day]",
    "timestamp": "timestamp[us]",
    "time": "time64[us]",
}
_BITS_EXACT = {"halffloat": 11, "float": 24, "double": 53}
_INTEGER = re.compile(r"(u?)int(8|16|32|64)", re.ASCII)
_UNITS = ("ms", "us", "ns")
RESERVED = ("__filename", "__fragment_index", "__batch_index", "__last_in_fragment")
"""The names of the columns that pyarrow adds to each file of a data set."""

DECIMAL_DIGITS = {"128": 38, "256": 76}


class ValueColumn(msgspec.Struct, frozen=True, array_like=True):
    """A column that is not part of the row key: its name, and the type of its values."""

    name: str
    type: ColumnType


def column_type(text: str) -> ColumnType:
    """Return the type that a person typed: Arrow's name, a short name such as ``long``, or JSON for a nested type.

    Raises Invalid, LimitExceeded.
    """
    wanted: ColumnType = text
    if text.lstrip().startswith("["):
        try:
            wanted = msgspec.json.decode(text)
        except msgspec.DecodeError as exc:
            raise Invalid("the type of a column is not JSON", type=text) from exc
        except RecursionError as exc:
            raise LimitExceeded("the type of a column is nested too deep", limit=COLUMN_TYPE_DEPTH_MAX) from exc
    elif match := _TYPED.fullmatch(text):
        wanted = f"decimal{128 if int(match[1]) <= DECIMAL_DIGITS['128'] else 256}({match[1]}, {match[2]})"
    else:
        wanted = stored_type(_ALIASES.get(text, text))
    check_type(wanted)
    return wanted


def stored_type(text: str) -> str:
    """Return the type in which Parquet stores a type.

    Times and timestamps in seconds become milliseconds, since Parquet has no seconds. A duration keeps its unit, since
    Parquet stores it as an integer.
    """
    return _SECONDS.sub(r"\1[ms", text)


def type_text(kind: ColumnType) -> str:
    """Return the text of a type, which `column_type` reads."""
    return kind if isinstance(kind, str) else msgspec.json.encode(kind).decode()


def check_columns(columns: Sequence[ValueColumn]) -> None:
    """Raise Invalid or LimitExceeded for columns that a table cannot have."""
    if len(columns) > COLUMNS_MAX:
        raise LimitExceeded("a table has too many columns", value=len(columns), limit=COLUMNS_MAX)
    seen: set[str] = set()
    for column in columns:
        check_name(column.name)
        if column.name in seen:
            raise Invalid("two columns have one name", column=column.name)
        seen.add(column.name)
        try:
            check_type(column.type)
        except (Invalid, LimitExceeded) as exc:
            raise type(exc)(exc.message, column=column.name, **exc.details) from exc


def check_type(kind: ColumnType, depth: int = 1) -> None:
    """Raise Invalid if ``kind`` is not a type, and LimitExceeded if it is nested too deep."""
    if depth > COLUMN_TYPE_DEPTH_MAX:
        raise LimitExceeded("the type of a column is nested too deep", value=depth, limit=COLUMN_TYPE_DEPTH_MAX)
    for inner in _inner_types(kind):
        check_type(inner, depth + 1)


def joined(
    known: Sequence[ValueColumn], brought: Iterable[ValueColumn], *, add: bool = False, widen: bool = False
) -> tuple[ValueColumn, ...]:
    """Return the columns of a table after an ingest. The table has columns ``known``, and the rows have ``brought``.

    Raises Invalid for a new column, unless ``add`` is True. Raises Invalid for a type that does not fit the table's
    column, unless ``widen`` is True and one type can represent the values of both types. A column of type null takes
    the new type in any case. Raises LimitExceeded for too many columns.
    """
    types = {column.name: column.type for column in known}
    for column in brought:
        mine = types.get(column.name)
        if mine is None:
            if not add:
                raise Invalid(
                    "the rows have a column that the table lacks; --add-columns, in Python add_columns=True, adds it",
                    column=column.name,
                    type=type_text(column.type),
                )
            types[column.name] = column.type
        elif not holds(mine, column.type) or mine == "null":
            wider = widened(mine, column.type)
            if wider is None or not (widen or mine == "null"):
                advice = "no type holds both"
                if wider is not None:
                    advice = f"--widen, in Python widen=True, makes it {type_text(wider)}"
                raise Invalid(
                    f"a column has another type in the table; {advice}",
                    column=column.name,
                    type=type_text(column.type),
                    table_type=type_text(mine),
                )
            types[column.name] = wider
    columns = tuple(ValueColumn(*item) for item in types.items())
    check_columns(columns)
    return columns


def holds(wide: ColumnType, narrow: ColumnType) -> bool:
    """Return whether values of ``narrow`` may be stored as ``wide``.

    For timestamps, the cast in `arrow_types.fitted` also checks that each value fits.
    """
    if wide == narrow or narrow == "null" or widened(wide, narrow) == wide:
        return True
    return bool((pair := _instants(wide, narrow)) and _UNITS.index(pair[0]) > _UNITS.index(pair[1]))


def widened(first: ColumnType, other: ColumnType) -> ColumnType | None:
    """Return the type that represents every value of both types exactly, or None.

    The type is one of the two types, or a wider decimal.
    """
    if first == other or other == "null":
        return first
    if first == "null":
        return other
    if not isinstance(first, str) or not isinstance(other, str):
        return None
    for wide, narrow in ((first, other), (other, first)):
        if _is_wider(wide, narrow):
            return wide
    return _joined_decimals(first, other)


def _is_wider(wide: str, narrow: str) -> bool:
    """Return whether ``wide`` represents every value of ``narrow`` exactly."""
    integer = _INTEGER.fullmatch(narrow)
    if integer and (known := _INTEGER.fullmatch(wide)):
        unsigned, bits, narrow_unsigned, narrow_bits = known[1], int(known[2]), integer[1], int(integer[2])
        return bits > narrow_bits and (not unsigned or bool(narrow_unsigned))
    if wide in _BITS_EXACT:
        return (int(integer[2]) if integer else _BITS_EXACT.get(narrow, 99)) <= _BITS_EXACT[wide]
    if wide == "binary":
        return _FIXED.fullmatch(narrow) is not None
    pair = _instants(wide, narrow)
    # A 64-bit count of nanoseconds ends in the year 2262, so a coarser column is never widened to nanoseconds.
    return bool(pair and pair[0] != "ns" and _UNITS.index(pair[0]) > _UNITS.index(pair[1]))


def _instants(first: str, other: str) -> tuple[str, str] | None:
    """Return the units of two timestamp types whose zones are equal, or None for other types."""
    if not isinstance(first, str) or not isinstance(other, str):
        return None
    left, right = _TIMESTAMP.fullmatch(first), _TIMESTAMP.fullmatch(other)
    return (left[1], right[1]) if left and right and left[2] == right[2] else None


def _joined_decimals(first: str, other: str) -> str | None:
    left, right = _DECIMAL.fullmatch(first), _DECIMAL.fullmatch(other)
    if not left or not right:
        return None
    scale = max(int(left[3]), int(right[3]))
    precision = scale + max(int(match[2]) - int(match[3]) for match in (left, right))
    for bits, digits in DECIMAL_DIGITS.items():
        if precision <= digits and int(bits) >= max(int(left[1]), int(right[1])):
            return f"decimal{bits}({precision}, {scale})"
    return None


def _inner_types(kind: ColumnType) -> list[ColumnType]:
    """Return the types inside a nested type, or an empty list for a plain type. Raises Invalid."""
    if isinstance(kind, str):
        if not _is_plain(kind):
            raise Invalid("a column cannot be of this type", type=kind)
        return []
    parts = list(kind) if isinstance(kind, list | tuple) else []
    match parts:
        case ["list", item]:
            return [item]
        # A file with lists of length 0 can be written, but pyarrow cannot read it, or aborts the process.
        case ["fixed_size_list", item, int(length)] if 1 <= length < 2**31 and not isinstance(length, bool):
            return [item]
        case ["map", key, item]:
            return [key, item]
        case ["struct", [_, *_] as fields] if all(_is_field(field) for field in fields):
            return [item for _, item in fields]
    raise Invalid("a column cannot be of this type", type=str(kind)[:COLUMN_NAME_BYTES_MAX])


def _is_field(field: Any) -> bool:
    return isinstance(field, list | tuple) and len(field) == 2 and isinstance(field[0], str)


def _is_plain(text: str) -> bool:
    if text in _PLAIN or _TIMED.fullmatch(text) or _TIMESTAMP.fullmatch(text) or _FIXED.fullmatch(text):
        return True
    decimal = _DECIMAL.fullmatch(text)
    return bool(decimal and 1 <= int(decimal[2]) <= DECIMAL_DIGITS[decimal[1]] and int(decimal[3]) <= int(decimal[2]))


def check_name(name: str) -> None:
    """Raise Invalid or LimitExceeded for a name that no column can have."""
    if name in RESERVED:
        raise Invalid("pyarrow reserves the name of a column, so a file with this column cannot be read", column=name)
    try:
        size = len(name.encode())
    except UnicodeEncodeError as exc:
        raise Invalid("the name of a column is not Unicode", value=ascii(name)) from exc
    if size > COLUMN_NAME_BYTES_MAX:
        text = "the name of a column is too long"
        raise LimitExceeded(text, column=name, value=size, limit=COLUMN_NAME_BYTES_MAX)

"""Columns and keys in pyarrow: conversion of types in both directions, rows that fit a table, comparable keys."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from stratalog import Invalid, LimitExceeded
from stratalog_table.columns import ColumnType, ValueColumn, check_type, holds, stored_type
from stratalog_table.model import Schema
from stratalog_table.row_order import decode_key, key_kind

__all__ = [
    "arrow_key_type",
    "arrow_schema",
    "arrow_type",
    "check_values",
    "columns_of",
    "comparable",
    "fitted",
    "key_scalar",
    "sorted_by_key",
    "type_of",
    "with_typed_keys",
]

_FAMILIES = (
    (pa.types.is_large_string, "string"),
    (pa.types.is_string_view, "string"),
    (pa.types.is_large_binary, "binary"),
    (pa.types.is_binary_view, "binary"),
    (pa.types.is_date64, "date32[day]"),
)
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_list_view, pa.types.is_large_list_view)
_BRACKETS = re.compile(r"(\w+)[\[(](.*)[\])]")
_PLAIN = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "halffloat": pa.float16(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date32[day]": pa.date32(),
}
_KEYS = {
    "int": pa.int32(),
    "long": pa.int64(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "date": pa.date32(),
    "float": pa.float32(),
    "double": pa.float64(),
}
_KEY_SOURCES = {
    "int": pa.types.is_integer,
    "long": pa.types.is_integer,
    "string": pa.types.is_string,
    "bytes": lambda given: pa.types.is_binary(given) or pa.types.is_fixed_size_binary(given),
    "date": pa.types.is_date,
    "timestamp": pa.types.is_timestamp,
    "decimal": lambda given: pa.types.is_decimal(given) or pa.types.is_integer(given),
    "float": pa.types.is_floating,
    "double": pa.types.is_floating,
}
"""For each kind of key column, the pyarrow types that it accepts. A numeric column does not accept text."""


def type_of(kind: pa.DataType) -> ColumnType:
    """Return the type that a table's state stores for a column of a pyarrow type.

    The stored type omits the layout of the values: dictionaries, runs, views and large offsets. An extension type
    becomes its storage type. Seconds of a time or timestamp become milliseconds, date64 becomes date32, and a decimal
    gets at least 128 bits.

    Raises Invalid for a type that Parquet cannot store, for example a union. Raises LimitExceeded for a type that is
    nested too deep.
    """
    known: ColumnType
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return type_of(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return type_of(kind.storage_type)
    if any(is_list(kind) for is_list in _LISTS):
        known = ["list", type_of(kind.value_type)]
    elif pa.types.is_fixed_size_list(kind):
        known = ["fixed_size_list", type_of(kind.value_type), kind.list_size]
    elif pa.types.is_map(kind):
        known = ["map", type_of(kind.key_type), type_of(kind.item_type)]
    elif pa.types.is_struct(kind):
        known = ["struct", [[field.name, type_of(field.type)] for field in kind]]
    elif pa.types.is_decimal(kind) and kind.bit_width < 128:
        known = str(pa.decimal128(kind.precision, kind.scale))
    else:
        known = next((name for is_of, name in _FAMILIES if is_of(kind)), stored_type(str(kind)))
    check_type(known)
    return known


def arrow_type(kind: ColumnType) -> pa.DataType:
    """Return the pyarrow type of a column."""
    if isinstance(kind, str):
        return _plain_type(kind)
    name, *parts = kind
    if name == "struct":
        return pa.struct([pa.field(field, arrow_type(inner)) for field, inner in parts[0]])
    if name == "map":
        return pa.map_(arrow_type(parts[0]), arrow_type(parts[1]))
    return pa.list_(arrow_type(parts[0]), *parts[1:])


@lru_cache(1024)
def arrow_key_type(kind: str) -> pa.DataType:
    """Return the pyarrow type of a key column."""
    known = key_kind(kind)
    if known.family == "timestamp":
        return pa.timestamp(known.unit, known.zone or None)
    if known.family == "decimal":
        return pa.decimal128(known.precision, known.scale)
    return _KEYS[known.family]


def arrow_schema(schema: Schema, columns: Sequence[ValueColumn]) -> pa.Schema:
    """Return the pyarrow schema of a table's rows: the key columns, then the value columns."""
    keys = [(column.name, arrow_key_type(column.type)) for column in schema.keys]
    return pa.schema([*keys, *((column.name, arrow_type(column.type)) for column in columns)])


def columns_of(schema: Schema, rows: pa.Schema) -> tuple[ValueColumn, ...]:
    """Return the value columns of rows. Raises Invalid or LimitExceeded for a type that no column can have."""
    keys = {column.name for column in schema.keys}
    columns = []
    for field in rows:
        if field.name not in keys:
            try:
                columns.append(ValueColumn(field.name, type_of(field.type)))
            except Invalid as exc:
                raise Invalid(
                    "a column has a type that tables do not support", column=field.name, type=field.type
                ) from exc
            except LimitExceeded as exc:
                raise LimitExceeded(exc.message, column=field.name, **exc.details) from exc
    return tuple(columns)


def fitted(rows: pa.Table, wanted: pa.Schema) -> pa.Table:
    """Return rows with exactly the columns and types of ``wanted``. No value changes. A missing column becomes nulls.

    Raises Invalid for a column with values that the wanted type cannot represent.
    """
    arrays = []
    for field in wanted:
        position = rows.schema.get_field_index(field.name)
        if position < 0:
            arrays.append(pa.nulls(rows.num_rows, field.type))
            continue
        column = rows.column(position)
        try:
            # Without this check the cast would parse texts as numbers.
            if not _is_held(field.type, column.type):
                raise pa.ArrowTypeError("the types hold different values")
            arrays.append(column if column.type == field.type else _plain_layout(column).cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as exc:
            raise Invalid(
                "a column has values that its type in the table cannot hold",
                column=field.name,
                type=column.type,
                table_type=field.type,
                reason=str(exc),
            ) from exc
    return pa.table(arrays, schema=wanted)


def check_values(rows: pa.Table) -> None:
    """Raise Invalid for a value that is not of its column's type, such as a text that is not UTF-8."""
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as exc:
            raise Invalid("a column has a value that is not of its type", column=name, reason=str(exc)) from exc


def with_typed_keys(schema: Schema, rows: pa.Table) -> pa.Table:
    """Return rows with key columns of the table's types.

    Raises Invalid if a key does not fit, if two columns have one name, or if a value is not of its column's type.
    """
    if len({*rows.schema.names}) < len(rows.schema.names):
        twice = next(name for name in rows.schema.names if rows.schema.names.count(name) > 1)
        raise Invalid("two columns of the rows have one name", column=twice)
    check_values(rows)
    for column in schema.keys:
        index = rows.schema.get_field_index(column.name)
        if index < 0:
            raise Invalid("the rows lack a key column", column=column.name)
        rows = rows.set_column(index, column.name, _key_column(column.name, column.type, rows.column(index)))
    return rows


def sorted_by_key(schema: Schema, rows: pa.Table) -> pa.Table:
    """Return rows sorted by key. The columns must have types of a table, because pyarrow cannot sort all layouts."""
    return rows.sort_by([(column.name, "ascending") for column in schema.keys])


def comparable(kind: str, column: Any) -> Any:
    """Return a key column as values for `encode_key` that Python can compare: days for dates, ticks for timestamps."""
    known = key_kind(kind)
    return column.cast(pa.int32() if known.bits == 32 else pa.int64()) if known.is_ordinal else column


def key_scalar(kind: str, text: str) -> pa.Scalar:
    """Return a stored key as a pyarrow scalar of its type."""
    known, wanted = key_kind(kind), arrow_key_type(kind)
    if known.is_ordinal:
        # Cast the integer: Python's dates lack nanoseconds and end in the year 9999.
        return pa.scalar(int(text, 16) - (1 << (known.bits - 1)), pa.int32() if known.bits == 32 else pa.int64()).cast(
            wanted
        )
    return pa.scalar(decode_key(kind, text), wanted)


@lru_cache(1024)
def _is_held(wide: pa.DataType, narrow: pa.DataType) -> bool:
    return holds(type_of(wide), type_of(narrow))


def _key_column(name: str, kind: str, column: Any) -> Any:
    wanted, plain = arrow_key_type(kind), _plain_layout(column)
    given, known = plain.type, key_kind(kind)
    is_same_zone = known.family != "timestamp" or not pa.types.is_timestamp(given) or bool(given.tz) == bool(known.zone)
    if not pa.types.is_null(given) and not (_KEY_SOURCES[known.family](given) and is_same_zone):
        raise Invalid("the rows have another type than the key column", column=name, type=kind, rows_type=given)
    try:
        cast = plain.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
        raise Invalid("a key column has a value that its type cannot hold", column=name, type=kind, reason=exc) from exc
    if cast.null_count:
        raise Invalid("a key is empty", column=name, rows=cast.null_count)
    if pa.types.is_floating(wanted):
        if pc.any(pc.is_nan(cast)).as_py():
            raise Invalid("a key is not a number", column=name, value=float("nan"))
        # A cast from double to float rounds without an error.
        if not pc.all(pc.equal(cast.cast(pa.float64()), plain.cast(pa.float64()))).as_py():
            raise Invalid("a key column has a value that its type cannot hold", column=name, type=kind, rows_type=given)
    return cast


def _plain_layout(column: Any) -> Any:
    """Return a column in the plain layout of its outermost type. A cast converts the layout of nested types."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        chunks = [chunk.storage for chunk in column.chunks]
        return _plain_layout(pa.chunked_array(chunks, type=kind.storage_type))
    if pa.types.is_run_end_encoded(kind):
        return _plain_layout(pa.chunked_array(map(pc.run_end_decode, column.chunks), type=kind.value_type))
    if pa.types.is_dictionary(kind):
        return _plain_layout(column.cast(kind.value_type))
    for is_of, name in _FAMILIES[:4]:
        if is_of(kind):
            return column.cast(_PLAIN[name])
    if _has_list_view(kind):
        return pa.chunked_array(map(_without_list_views, column.chunks or [pa.array([], kind)]))
    return column


@lru_cache(1024)
def _has_list_view(kind: pa.DataType) -> bool:
    """Return whether a type is a list view or contains one."""
    if isinstance(kind, pa.BaseExtensionType):
        return _has_list_view(kind.storage_type)
    is_view = pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)
    return is_view or any(_has_list_view(kind.field(position).type) for position in range(kind.num_fields))


def _without_list_views(array: Any) -> Any:
    """Return an array with lists in place of its list views. Raises ArrowTypeError.

    In pyarrow 26, a cast of a list view loses the values of its last list, and may read outside of its memory.
    """
    kind = array.type
    if not _has_list_view(kind):
        return array
    if isinstance(kind, pa.BaseExtensionType):
        return _without_list_views(array.storage)
    if pa.types.is_struct(kind):
        fields = [_without_list_views(field) for field in array.flatten()]
        return pa.StructArray.from_arrays(fields, [field.name for field in kind], mask=array.is_null())
    if not any(is_list(kind) for is_list in _LISTS):
        raise pa.ArrowTypeError(f"a list view cannot be read inside of {kind}")
    lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int64())
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)])
    return pa.LargeListArray.from_arrays(offsets, _without_list_views(array.flatten()), mask=array.is_null())


@lru_cache(1024)
def _plain_type(text: str) -> pa.DataType:
    if text in _PLAIN:
        return _PLAIN[text]
    match = _BRACKETS.fullmatch(text)
    if match is None:
        return pa.type_for_alias(text)
    name, inside = match[1], match[2]
    if name == "timestamp":
        unit, _, zone = inside.partition(", tz=")
        return pa.timestamp(unit, zone or None)
    if name in ("decimal128", "decimal256"):
        precision, scale = map(int, inside.split(","))
        return (pa.decimal128 if name == "decimal128" else pa.decimal256)(precision, scale)
    if name == "fixed_size_binary":
        return pa.binary(int(inside))
    return pa.type_for_alias(text)

"""Rows as JSON, converted column by column, with no value changed or left out.

A value without a JSON form becomes a text. NaN and the infinities have the names of proto3's JSON mapping. Decimals
have all their digits. Dates, times and durations are in ISO 8601 with all their digits. A map is an object if its keys
are distinct texts, and otherwise a list of pairs. Bytes stay bytes: the caller that writes the JSON encodes the bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

__all__ = ["json_rows"]


def json_rows(rows: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield each row as a dict."""
    names = rows.column_names
    for batch in rows.to_batches():
        for values in zip(*(_plain_values(column) for column in batch.columns), strict=True):
            yield dict(zip(names, values, strict=True))


def _plain_values(column: Any) -> list[Any]:
    """Return the values of an array as JSON values, or as bytes."""
    kind = column.type
    if pa.types.is_floating(kind):
        return [value if value is None or math.isfinite(value) else _named(value) for value in column.to_pylist()]
    if pa.types.is_timestamp(kind):
        return [None if text is None else text.replace(" ", "T", 1) for text in column.cast(pa.string()).to_pylist()]
    if pa.types.is_decimal(kind):
        return [None if value is None else format(value, "f") for value in column.to_pylist()]
    if pa.types.is_date(kind) or pa.types.is_time(kind):
        return column.cast(pa.string()).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_duration(kind):
        return [None if value is None else _duration(value, kind.unit) for value in column.cast(pa.int64()).to_pylist()]
    if pa.types.is_map(kind):
        return _grouped(column, zip(_plain_values(column.keys), _plain_values(column.items), strict=True), _mapped)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _grouped(column, _plain_values(column.values), list)
    if pa.types.is_struct(kind):
        fields = [_plain_values(field) for field in column.flatten()]
        names = [field.name for field in kind]
        rows = [dict(zip(names, values, strict=True)) for values in zip(*fields, strict=True)] or [{}] * len(column)
        return [row if is_valid else None for row, is_valid in zip(rows, column.is_valid().to_pylist(), strict=True)]
    if pa.types.is_fixed_size_list(kind):
        return [_plain_values(value.values) if value.is_valid else None for value in column]
    values = column.to_pylist()
    return [value if value is None or isinstance(value, bool | int | str | bytes) else str(value) for value in values]


def _grouped(column: Any, values: Any, group: Any) -> list[Any]:
    """Return one value per row of a list or map column: ``group`` applied to the row's slice of the flat ``values``."""
    flat = [*values]
    edges = pairwise(column.offsets.to_pylist())
    valid = column.is_valid().to_pylist()
    return [group(flat[low:high]) if is_valid else None for (low, high), is_valid in zip(edges, valid, strict=True)]


def _mapped(pairs: list[tuple[Any, Any]]) -> Any:
    is_object = all(isinstance(key, str) for key, _ in pairs) and len({key for key, _ in pairs}) == len(pairs)
    return dict(pairs) if is_object else [list(pair) for pair in pairs]


def _named(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _duration(ticks: int, unit: str) -> str:
    """Return a duration in ISO 8601, in seconds."""
    digits = {"s": 0, "ms": 3, "us": 6, "ns": 9}[unit]
    seconds, rest = divmod(abs(ticks), 10**digits)
    fraction = f".{rest:0{digits}d}" if rest else ""
    return f"{'-' if ticks < 0 else ''}PT{seconds}{fraction}S"

"""Rows as JSON, converted column by column, with no value changed or left out.

A value without a JSON form becomes a text. NaN and the infinities have the names of proto3's JSON mapping. Decimals
have all their digits. Dates, times and durations are in ISO 8601 with all their digits. A year before 0 or after 9999
has a sign. A time with a time zone is in UTC if the zone is unknown, or if the time is before 2 January of the year 1
or after 30 December 9999. A map whose keys are distinct texts becomes an object, and so does a struct whose field names
are distinct. Any other map or struct becomes a list of pairs. Bytes stay bytes: the caller that writes the JSON encodes
the bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from itertools import pairwise
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

__all__ = ["json_rows"]

_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_DAY_SECONDS = 86_400
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_CYCLE_DAYS = 146_097
"""The days of 400 years. After them, the calendar repeats itself."""

_NEAR_DAYS = (date(1, 1, 2).toordinal() - _EPOCH_DAY, date(9999, 12, 31).toordinal() - _EPOCH_DAY)
"""The first day that Arrow formats correctly in any time zone, and the first later day that it does not."""


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
        return _timestamps(column)
    if pa.types.is_decimal(kind):
        return [None if value is None else format(value, "f") for value in column.to_pylist()]
    if pa.types.is_date(kind):
        days = column.cast(pa.date32())
        return _calendar_texts(days, days.cast(pa.int32()).to_pylist(), 1, _day_text)
    if pa.types.is_time(kind):
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
        group = dict if len({*names}) == len(names) else _pairs
        rows = [group(zip(names, values, strict=True)) for values in zip(*fields, strict=True)] or [{}] * len(column)
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
    return dict(pairs) if is_object else _pairs(pairs)


def _pairs(pairs: Iterable[tuple[Any, Any]]) -> list[list[Any]]:
    return [list(pair) for pair in pairs]


def _timestamps(column: Any) -> list[str | None]:
    kind = column.type
    second = 10 ** _DIGITS[kind.unit]

    def text(ticks: int) -> str:
        days, rest = divmod(ticks, _DAY_SECONDS * second)
        seconds, fraction = divmod(rest, second)
        minutes, seconds = divmod(seconds, 60)
        clock = f"{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}"
        end = f".{fraction:0{_DIGITS[kind.unit]}d}" if second > 1 else ""
        return f"{_day_text(days)} {clock}{end}{'Z' if kind.tz else ''}"

    texts = _calendar_texts(column, column.cast(pa.int64()).to_pylist(), _DAY_SECONDS * second, text)
    return [None if text is None else text.replace(" ", "T", 1) for text in texts]


def _calendar_texts(column: Any, ticks: list[Any], day: int, far_text: Callable[[int], str]) -> list[str | None]:
    """Return dates or timestamps as texts. ``far_text`` formats the ticks outside `_NEAR_DAYS`."""
    first, end = (days * day for days in _NEAR_DAYS)
    is_far = [tick is not None and not first <= tick < end for tick in ticks]
    near = pc.if_else(pa.array(is_far), pa.scalar(None, column.type), column) if any(is_far) else column
    return [far_text(tick) if far else text for text, tick, far in zip(_texts(near), ticks, is_far, strict=True)]


def _texts(column: Any) -> list[str | None]:
    try:
        return column.cast(pa.string()).to_pylist()  # type: ignore[no-any-return]
    except pa.ArrowInvalid:  # the time zone is unknown on this machine
        return column.cast(pa.timestamp(column.type.unit, "UTC")).cast(pa.string()).to_pylist()  # type: ignore[no-any-return]


def _day_text(days: int) -> str:
    cycles, rest = divmod(days + _EPOCH_DAY - 1, _CYCLE_DAYS)
    day = date.fromordinal(rest + 1)
    year = day.year + 400 * cycles
    return f"{year:{'04d' if 0 <= year <= 9999 else '+05d'}}-{day:%m-%d}"


def _named(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _duration(ticks: int, unit: str) -> str:
    """Return a duration in ISO 8601, in seconds."""
    digits = _DIGITS[unit]
    seconds, rest = divmod(abs(ticks), 10**digits)
    fraction = f".{rest:0{digits}d}" if rest else ""
    return f"{'-' if ticks < 0 else ''}PT{seconds}{fraction}S"

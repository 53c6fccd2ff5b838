"""Rows as JSON: no value is lost, no type fails, and every value except bytes is valid JSON."""

from __future__ import annotations

import json
import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from stratalog_table.json_rows import json_rows


def values_in(column: pa.Array) -> list[Any]:
    values = [row["value"] for row in json_rows(pa.table({"value": column}))]
    for value in values:
        if not isinstance(value, bytes):
            assert json.loads(msgspec.json.encode(value), parse_constant=pytest.fail) == value
    return values


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (pa.array([1.5, math.nan, math.inf, -math.inf, None]), [1.5, "NaN", "Infinity", "-Infinity", None]),
        (pa.array([math.nan], pa.float32()), ["NaN"]),
        (pa.array([2**53 + 1, -1, None]), [2**53 + 1, -1, None]),
        (pa.array([True, None]), [True, None]),
        (pa.array(["é", None]), ["é", None]),
        (pa.array([b"\xff\x00", None]), [b"\xff\x00", None]),
        (pa.array([b"ab"], pa.binary(2)), [b"ab"]),
        (pa.array([Decimal("1.10"), None]), ["1.10", None]),
        (pa.array([Decimal("0.000001")], pa.decimal128(10, 8)), ["0.00000100"]),
        (pa.array([date(2026, 11, 24), None]), ["2026-11-24", None]),
        (pa.array([time(1, 2, 3)]), ["01:02:03.000000"]),
        (pa.array([datetime.fromisoformat("2026-01-02T03:04:05.000006")]), ["2026-01-02T03:04:05.000006"]),
        (pa.array([1, None], pa.timestamp("ns")), ["1970-01-01T00:00:00.000000001", None]),
        (pa.array([1], pa.timestamp("s", "UTC")), ["1970-01-01T00:00:01Z"]),
        (pa.array([1_500_000_001, -1, 0], pa.duration("ns")), ["PT1.500000001S", "-PT0.000000001S", "PT0S"]),
        (pa.array([timedelta(seconds=3)]), ["PT3S"]),
        (pa.array([[1.0, math.nan], [], None, [None]]), [[1.0, "NaN"], [], None, [None]]),
        (pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), [[1, 2], None]),
        (pa.array([{"a": math.nan, "b": [1]}, None]), [{"a": "NaN", "b": [1]}, None]),
        (pa.array([{}, None], pa.struct([])), [{}, None]),
        (pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int8())), [{"a": 1}, None, {}]),
        (pa.array([[(1, "x"), (2, "y")]], pa.map_(pa.int8(), pa.string())), [[[1, "x"], [2, "y"]]]),
        (pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int8())), [[["a", 1], ["a", 2]]]),
        (pa.nulls(2), [None, None]),
        (
            pa.array([-719_528, -719_529, 2_932_896, 2_932_897, -(2**31), 0, None], pa.date32()),
            ["0000-01-01", "-0001-12-31", "9999-12-31", "+10000-01-01", "-5877641-06-23", "1970-01-01", None],
        ),
        (
            pa.array([2**63 - 1, -(2**63), None, 0], pa.timestamp("us")),
            ["+294247-01-10T04:00:54.775807", "-290308-12-21T19:59:05.224192", None, "1970-01-01T00:00:00.000000"],
        ),
        (
            pa.array([2**62, 253_402_300_799_999, 0], pa.timestamp("ms", "Europe/Berlin")),
            ["+146140482-04-24T15:36:27.904Z", "9999-12-31T23:59:59.999Z", "1970-01-01T01:00:00.000+0100"],
        ),
        (pa.array([253_402_300_800], pa.timestamp("s")), ["+10000-01-01T00:00:00"]),
        (pa.array([1, None], pa.timestamp("us", "No/Where")), ["1970-01-01T00:00:00.000001Z", None]),
        (
            pa.StructArray.from_arrays([pa.array([1, 2]), pa.array([3, None])], names=["a", "a"]),
            [[["a", 1], ["a", 3]], [["a", 2], ["a", None]]],
        ),
    ],
)
def test_each_type_of_value_becomes_the_expected_json(column: pa.Array, values: list[Any]) -> None:
    assert values_in(column) == values
    # A slice of a column, as a filter returns it, gives the same values.
    doubled = pa.concat_arrays([column, column])
    assert values_in(doubled.slice(len(column))) == values
    assert values_in(doubled.slice(1)) == [*values[1:], *values]


def test_rows_have_all_columns_in_order() -> None:
    rows = pa.table({"id": [1, 2], "b": ["x", None], "a": [0.5, 1.0]})
    assert [list(row.items()) for row in json_rows(rows)] == [
        [("id", 1), ("b", "x"), ("a", 0.5)],
        [("id", 2), ("b", None), ("a", 1.0)],
    ]

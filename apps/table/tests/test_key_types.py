"""Keys of each type: their texts have the keys' order, data files keep the type, and a table refuses other types."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.table.tests.helpers import leaves, system_store
from apps.table.tests.test_data_files import made_of, rows_in
from stratalog import Document, Invalid
from stratalog_table import RULES, Column, Schema
from stratalog_table.arrow_types import arrow_key_type
from stratalog_table.columns import column_type
from stratalog_table.maintenance import compact, maintain_table
from stratalog_table.row_order import decode_key, encode_key, is_edge, key_kind, minimum_key, parse_key
from stratalog_table.rows import ingest

NOON = datetime.fromisoformat("2026-11-24T12:00:00.123456")
KEYS: dict[str, list[Any]] = {
    "date": [date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(9999, 12, 31)],
    "timestamp": [
        datetime.fromisoformat("0001-01-01T00:00:00"),
        NOON,
        NOON + timedelta(microseconds=1),
        datetime.fromisoformat("9999-12-31T00:00:00"),
    ],
    "timestamp[s]": [
        datetime.fromisoformat("1969-12-31T23:59:59"),
        datetime.fromisoformat("2026-01-01T00:00:00"),
        datetime.fromisoformat("2026-01-01T00:00:01"),
    ],
    "timestamp[us, tz=UTC]": [NOON.replace(tzinfo=UTC), NOON.replace(tzinfo=UTC) + timedelta(days=1)],
    "float": [-math.inf, -1.5, 0.0, 1.5, math.inf],
    "double": [-math.inf, -1e300, -5e-324, 0.0, 5e-324, 0.1, 1e300, math.inf],
    "decimal(10,2)": [Decimal("-99999999.99"), Decimal("-0.01"), Decimal(0), Decimal("1.50"), Decimal("99999999.99")],
    "decimal(38,0)": [Decimal(-(10**38) + 1), Decimal(10**38 - 1)],
}


@pytest.mark.parametrize("kind", KEYS)
def test_encoded_keys_have_the_order_of_the_keys(kind: str) -> None:
    texts = [encode_key(kind, key) for key in KEYS[kind]]
    assert texts == sorted(texts)
    assert len({*texts}) == len(texts)
    assert [decode_key(kind, text) for text in texts] == KEYS[kind]
    assert all(is_edge(kind, text) and minimum_key(kind) <= text for text in texts)


@given(st.sampled_from(["float", "double"]), st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_encoded_floats_have_the_order_of_the_floats(kind: str, left: float, right: float) -> None:
    if kind == "float":
        left, right = (pa.scalar(value).cast(pa.float32(), safe=False).as_py() for value in (left, right))
    assert (encode_key(kind, left) < encode_key(kind, right)) == (left < right)
    assert decode_key(kind, encode_key(kind, left)) == left


@given(st.datetimes(), st.datetimes())
def test_encoded_timestamps_have_the_order_of_the_timestamps(left: datetime, right: datetime) -> None:
    assert (encode_key("timestamp", left) < encode_key("timestamp", right)) == (left < right)
    assert decode_key("timestamp", encode_key("timestamp", left)) == left


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_each_type_are_unchanged_by_splits_and_merges(tmp_path: Path, kind: str) -> None:
    keys = KEYS[kind]
    table, data_files = made_of(tmp_path, Schema((Column("key", key_kind(kind).name),)))
    rows = pa.table({"key": pa.array(keys, arrow_key_type(kind)), "row": [*range(len(keys))]})
    for part in range(len(keys)):
        ingest(table, data_files, rows.slice(part, 1))
    for _ in range(3):
        assert maintain_table(table, data_files, rows_max=2, files_min=2, age_ms=0).faults == ()
    assert [key for (key,) in rows_in(table, data_files, columns=["key"])] == keys
    assert [key for (key,) in rows_in(table, data_files, (keys[1], None), columns=["key"])] == keys[1:]
    assert len(leaves(table)) > 1 or len(keys) == 2
    (filename, *_) = (file.filename for file in table.at().files(0).files)
    assert data_files.file_schema(filename).field("key").type == arrow_key_type(kind)


def test_keys_of_nanoseconds_are_exact(tmp_path: Path) -> None:
    kind = "timestamp[ns, tz=UTC]"
    table, data_files = made_of(tmp_path, Schema((Column("key", kind),)))
    ticks = [-1, 0, 1, 1_800_000_000_000_000_001]
    rows = pa.table({"key": pa.array(ticks, pa.int64()).cast(arrow_key_type(kind)), "row": [*range(4)]})
    for part in range(4):
        ingest(table, data_files, rows.slice(part, 1))
    table.split_at("root", 1)
    maintain_table(table, data_files, rows_max=1, files_min=2, age_ms=0)
    assert rows_in(table, data_files, (1, None)) == [(2,), (3,)]
    assert rows_in(table, data_files, (parse_key(kind, "1970-01-01T00:00:00Z"), 2)) == [(1,), (2,)]


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("long", pa.array(["12"])),
        ("long", pa.array([1.0])),
        ("long", pa.array([NOON])),
        ("string", pa.array([date(2026, 1, 1)])),
        ("string", pa.array([b"x"])),
        ("string", pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())),
        ("date", pa.array([NOON])),
        ("timestamp", pa.array([NOON.replace(tzinfo=UTC)], pa.timestamp("us", "UTC"))),
        ("timestamp[us, tz=UTC]", pa.array([NOON])),
        ("timestamp[s]", pa.array([NOON])),
        ("double", pa.array([math.nan])),
        ("float", pa.array([0.1, None])),
        ("float", pa.array([0.1])),
        ("float", pa.array([1e300])),
        ("decimal(4,1)", pa.array([Decimal("1.55")])),
        ("decimal(4,1)", pa.array([Decimal("12345.5")])),
    ],
)
def test_a_key_that_is_no_value_of_its_columns_type_is_refused_and_not_converted(
    tmp_path: Path, kind: str, column: pa.Array
) -> None:
    table, data_files = made_of(tmp_path, Schema((Column("key", key_kind(kind).name),)))
    with pytest.raises(Invalid, match="key"):
        ingest(table, data_files, pa.table({"key": column}))
    assert table.at().has_no_files()
    assert table.at().columns() is None


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["b", "a"]).dictionary_encode(),
        pa.array(["b", "a"], pa.large_string()),
        pa.array(["b", "a"], pa.string_view()),
        pa.RunEndEncodedArray.from_arrays([1, 2], pa.array(["b", "a"])),
    ],
)
def test_keys_of_any_arrow_layout_are_ingested(tmp_path: Path, column: pa.Array) -> None:
    table, data_files = made_of(tmp_path, Schema((Column("key", "string"),)))
    ingest(table, data_files, pa.table({"key": column, "row": [1, 0]}))
    ingest(table, data_files, pa.table({"key": ["c"], "row": [2]}))
    assert compact(table, data_files, files_min=2) == 1
    assert rows_in(table, data_files, columns=["key", "row"]) == [("a", 0), ("b", 1), ("c", 2)]


@pytest.mark.parametrize(
    ("kind", "text", "key"),
    [
        ("int", "-7", -7),
        ("bytes", "ff00", b"\xff\x00"),
        ("date", "2026-11-24", date(2026, 11, 24)),
        ("timestamp", "2026-11-24T12:00:00.123456", NOON),
        ("timestamp[us, tz=UTC]", "2026-11-24T14:00:00.123456+02:00", NOON.replace(tzinfo=UTC)),
        ("timestamp[ns]", "1970-01-01 00:00:01.000000001", 1_000_000_001),
        ("timestamp[us, tz=UTC]", "20261124T140000,123456+020000", NOON.replace(tzinfo=UTC)),
        ("timestamp[us, tz=UTC]", "2026-W48-2T10:00:00.123456-02:00", NOON.replace(tzinfo=UTC)),
        ("decimal(10,2)", "1.5", Decimal("1.50")),
        ("double", "-inf", -math.inf),
    ],
)
def test_a_key_text_is_parsed_by_the_type_of_its_column(kind: str, text: str, key: Any) -> None:
    assert encode_key(kind, parse_key(kind, text)) == encode_key(kind, key)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int", "x"),
        ("date", "24.11."),
        ("timestamp", "2026-11-24T12:00:00Z"),
        ("timestamp[ms]", "2026-11-24T12:00:00.0005"),
        ("timestamp[us, tz=UTC]", "2026-01-01T00:00:00+02:00:00.5"),
        ("timestamp[us, tz=UTC]", "2026-01-01T00:00:00.5+02:00:00.5"),
        ("timestamp[us, tz=UTC]", "20260101T00-020000.5"),
        ("timestamp", "2026-01-01T12:30.5"),
        ("timestamp", "2026-01-01T12.5"),
        ("timestamp", "2026-01-01.12:00:00"),
        ("timestamp[us, tz=UTC]", "0001-01-01T00:00:00+14:00"),
        ("timestamp[us, tz=UTC]", "9999-12-31T23:59:59-01:00"),
    ],
)
def test_an_invalid_key_text_is_refused(kind: str, text: str) -> None:
    with pytest.raises(Invalid, match="no key of its column's type"):
        parse_key(kind, text)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int", "１2"),
        ("long", "1_2"),
        ("float", "1_0.5"),
        ("double", "１.5"),
        ("decimal(10,2)", "1_0"),
        ("decimal(10,2)", "１"),
        ("date", "2026-01-0１"),
        ("timestamp", "2026-01-01T00:00:00.５"),
    ],
)
def test_a_key_text_with_non_ascii_digits_or_underscores_is_refused(kind: str, text: str) -> None:
    with pytest.raises(Invalid, match="no key of its column's type"):
        parse_key(kind, text)


def test_a_timestamp_that_utc_cannot_represent_is_refused_as_a_key() -> None:
    with pytest.raises(Invalid, match="out of its range"):
        encode_key("timestamp[us, tz=UTC]", datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))))


@pytest.mark.parametrize("kind", ["decimal128(１0, 2)", "decimal(１0, 2)", "fixed_size_binary[1２]"])
def test_a_column_type_with_non_ascii_digits_is_refused(kind: str) -> None:
    with pytest.raises(Invalid):
        column_type(kind)


@pytest.mark.parametrize(
    "kind", ["decimal(１0, 2)", "text", "timestamp[h]", "decimal(39,0)", "decimal(3,4)", "list", "int64", ""]
)
def test_a_key_column_of_an_unsupported_type_is_refused(tmp_path: Path, kind: str) -> None:
    with pytest.raises(Invalid, match="cannot be of this type"):
        made_of(tmp_path, Schema((Column("key", kind),)))


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("date", NOON),
        ("timestamp", NOON.replace(tzinfo=timezone(timedelta(hours=1)))),
        ("timestamp[s]", NOON),
        ("double", math.nan),
        ("float", 1e300),
        ("decimal(4,1)", Decimal("NaN")),
        ("decimal(4,1)", 0.5),
        ("decimal(4,1)", Decimal("1E999999999")),
        ("decimal(4,1)", Decimal("1E-999999999")),
        ("decimal(4,1)", Decimal("1" * 5_001)),
        pytest.param("decimal(4,1)", 10**5_000, id="decimal(4,1)-of-5001-digits"),
        pytest.param("long", 10**5_000, id="long-of-5001-digits"),
        pytest.param("double", 10**5_000, id="double-of-5001-digits"),
        ("int", True),
    ],
)
def test_a_key_that_its_type_cannot_represent_is_refused(kind: str, key: Any) -> None:
    with pytest.raises(Invalid):
        encode_key(kind, key)


def test_a_transaction_that_creates_a_table_with_an_unsupported_key_type_is_rejected() -> None:
    store = system_store()
    store.create("acme", "events")
    document = Document(store.log("acme", "events"), RULES)
    wanted = {"schema": {"keys": [{"name": "id", "type": "timestamp"}]}, "partitions": []}
    outcome = document.mutate("create_table", wanted)
    assert outcome.reason == "Malformed transaction: a key column is of a type that none can have"

"""Hostile input files: damaged, unusual and useless Parquet files, and files that are not Parquet."""

from __future__ import annotations

import base64
import io
import random
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["hostile_files"]

ROWS = 40
SEED = 20261124
NOON = datetime.fromisoformat("2026-11-24T12:00:00.123456")


def hostile_files() -> Iterator[tuple[str, bytes]]:
    """Yield each file as its name and its bytes."""
    yield from _no_parquet()
    yield from _damaged()
    yield from _columns()
    yield from _keys()
    yield from _layouts()


def parquet(rows: pa.Table, **options: Any) -> bytes:
    """Return the bytes of a Parquet file with the rows."""
    body = io.BytesIO()
    pq.write_table(rows, body, **options)
    return body.getvalue()


def plain(count: int = ROWS) -> pa.Table:
    """Return rows that fit a table with the integer key ``id``."""
    return pa.table({"id": [*range(count)], "text": [f"text {number}" for number in range(count)]})


def _no_parquet() -> Iterator[tuple[str, bytes]]:
    yield "empty", b""
    yield "magic_alone", b"PAR1"
    yield "magic_twice", b"PAR1PAR1"
    yield "magic_and_zeros", b"PAR1" + bytes(100) + b"PAR1"
    yield "footer_longer_than_file", b"PAR1" + bytes(8) + (2**31 - 1).to_bytes(4, "little") + b"PAR1"
    yield "footer_of_negative_length", b"PAR1" + bytes(8) + b"\xff" * 4 + b"PAR1"
    yield "encrypted", parquet(plain())[:-4] + b"PARE"
    yield "csv", b"id,text\n1,a\n"
    yield "json", b'[{"id": 1}]'
    yield "zip", b"PK\x03\x04" + bytes(100)
    yield "gzip", b"\x1f\x8b" + bytes(100)
    yield "arrow_stream", _arrow_stream()
    yield "two_files_in_one", parquet(plain(3)) + parquet(plain(4))
    yield "text_before", b"# comment\n" + parquet(plain())
    yield "text_behind", parquet(plain()) + b"\n"
    yield "noise", random.Random(SEED).randbytes(5000)


def _arrow_stream() -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, plain().schema) as stream:
        stream.write_table(plain())
    return sink.getvalue()


def _damaged() -> Iterator[tuple[str, bytes]]:
    chance = random.Random(SEED)
    for sums in (False, True):
        body = parquet(plain(500), write_page_checksum=sums)
        name = "with_sums" if sums else "without_sums"
        for number in range(15):
            position = chance.randrange(4, len(body) - 4)
            flipped = bytearray(body)
            flipped[position] ^= 1 << chance.randrange(8)
            yield f"flipped_{name}_{number}", bytes(flipped)
        for number in range(5):
            yield f"cut_{name}_{number}", body[: chance.randrange(1, len(body))]
        start = chance.randrange(4, len(body) // 2)
        yield f"hole_{name}", body[:start] + bytes(64) + body[start + 64 :]
        yield f"missing_middle_{name}", body[:start] + body[start + 64 :]


def _columns() -> Iterator[tuple[str, bytes]]:
    values: dict[str, pa.Array] = {
        "nothing": pa.nulls(2),
        "booleans": pa.array([True, None]),
        "small_numbers": pa.array([-128, 127], pa.int8()),
        "large_numbers": pa.array([0, 2**64 - 1], pa.uint64()),
        "halves": pa.array([1.5, None], pa.float16()),
        "not_numbers": pa.array([float("nan"), float("-inf")]),
        "decimals": pa.array([Decimal("1.10"), Decimal("-99999999.99")]),
        "long_decimals": pa.array([Decimal(10) ** 60], pa.decimal256(76, 5)).take(pa.array([0, 0])),
        "days": pa.array([date(1, 1, 1), date(9999, 12, 31)]),
        "clock": pa.array([time(23, 59, 59, 999999), None]),
        "seconds_of_day": pa.array([time(1), None], pa.time32("s")),
        "moments": pa.array([NOON, None]),
        "seconds": pa.array([0, 2**40], pa.timestamp("s")),
        "nanoseconds": pa.array([-(2**63) + 1, 2**63 - 1], pa.timestamp("ns")),
        "zoned": pa.array([NOON, None], pa.timestamp("us", "Europe/Berlin")),
        "durations": pa.array([timedelta(days=-1), None]),
        "bytes": pa.array([b"\0\xff", b""]),
        "fixed_bytes": pa.array([b"12345678", None], pa.binary(8)),
        "large_texts": pa.array(["x" * 100_000, None], pa.large_string()),
        "views": pa.array(["a" * 50, None], pa.string_view()),
        "zero_character": pa.array(["a\0b", "\0"]),
        "no_utf8": pa.Array.from_buffers(pa.string(), 2, pa.array([b"\xff\xfe", b"\x80"]).buffers()),
        "categories": pa.array(["a", "b"]).dictionary_encode(),
        "lists": pa.array([[1, None], None]),
        "fixed_lists": pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2)),
        "lists_of_lists": pa.array([[["a"], []], [None]]),
        "list_views": pa.array([[1, None], None], pa.list_view(pa.int64())),
        "large_list_views": pa.array([["a"], None], pa.large_list_view(pa.string_view())),
        "lists_of_views": pa.array([["a"], None], pa.list_(pa.string_view())),
        "maps": pa.array([[("a", 1), ("a", 2)], []], pa.map_(pa.string(), pa.int8())),
        "structs": pa.array([{"a.b": 1, "": {"c": [None]}}, None]),
        "lists_of_nothing": pa.array([[None], []]),
        "uuids": pa.array([b"0123456789abcdef", None], pa.uuid()),
        "json": pa.array(['{"a": 1}', None], pa.json_()),
    }
    for name, column in values.items():
        yield f"values_{name}", parquet(pa.table({"id": [1, 2], "value": column}))
    names = ("", " ", "a.b", "a" * 300, "a\nb", "é" * 200, "id ", "ID", "__index_level_0__", "$", "a/b", '"', "\0")
    for position, name in enumerate(names):
        yield f"name_{position}", parquet(pa.table({"id": [1], name: ["x"]}))
    yield "many_columns", parquet(pa.table({"id": [1], **{f"c{number}": [number] for number in range(1000)}}))
    yield "two_columns_of_one_name", parquet(pa.table([[1], ["a"], ["b"]], names=["id", "text", "text"]))
    deep: Any = 1
    for _ in range(30):
        deep = [deep]
    yield "nested_deep", parquet(pa.table({"id": [1], "value": [deep]}))


def _keys() -> Iterator[tuple[str, bytes]]:
    keys: dict[str, Any] = {
        "missing": None,
        "empty": pa.array([1, None]),
        "all_empty": pa.nulls(2, pa.int64()),
        "untyped": pa.nulls(2),
        "texts": pa.array(["1", "2"]),
        "floats": pa.array([1.0, 2.0]),
        "days": pa.array([date(2026, 1, 1)] * 2),
        "moments": pa.array([NOON] * 2),
        "booleans": pa.array([True, False]),
        "too_large": pa.array([1, 2**64 - 1], pa.uint64()),
        "small": pa.array([-1, 1], pa.int8()),
        "extremes": pa.array([-(2**63), 2**63 - 1]),
        "categories": pa.array([5, 5]).dictionary_encode(),
        "nested": pa.array([[1], [2]]),
        "all_one": pa.array([7, 7]),
    }
    for name, column in keys.items():
        columns = {"text": ["a", "b"]} if column is None else {"id": column, "text": ["a", "b"]}
        yield f"keys_{name}", parquet(pa.table(columns))
    yield "no_rows", parquet(plain(0))
    yield "no_columns", parquet(pa.table({}))
    yield "key_alone", parquet(plain().select(["id"]))
    yield "unsorted", parquet(plain().take(pa.array([*reversed(range(ROWS))])))


def _layouts() -> Iterator[tuple[str, bytes]]:
    for codec in ("none", "snappy", "gzip", "brotli", "lz4", "zstd"):
        yield f"packed_{codec}", parquet(plain(), compression=codec)
    for version in ("1.0", "2.4", "2.6"):
        yield f"version_{version}", parquet(plain(), version=version)
    yield "pages_of_version_2", parquet(plain(), data_page_version="2.0")
    yield "tiny_pages", parquet(plain(), data_page_size=1, write_batch_size=1, dictionary_pagesize_limit=1)
    yield "tiny_row_groups", parquet(plain(), row_group_size=1)
    yield "no_dictionary_no_statistics", parquet(plain(), use_dictionary=False, write_statistics=False)
    encodings = {"id": "DELTA_BINARY_PACKED", "text": "DELTA_BYTE_ARRAY"}
    yield "deltas", parquet(plain(), use_dictionary=False, column_encoding=encodings)
    moments = pa.table({"id": [1], "value": pa.array([NOON], pa.timestamp("ns"))})
    yield "int96", parquet(moments, use_deprecated_int96_timestamps=True)
    yield "no_arrow_schema", parquet(plain(), store_schema=False)
    yield "metadata", parquet(plain().replace_schema_metadata({b"\xff": b"\0" * 1000, b"pandas": b"{no json"}))
    other = {
        "of_another": pa.schema([("id", pa.string()), ("text", pa.int64()), ("more", pa.bool_())]),
        "of_other_types": pa.schema([("id", pa.timestamp("us", "UTC")), ("text", pa.large_string())]),
        "in_another_order": pa.schema([("text", pa.string()), ("id", pa.int64())]),
    }
    for name, schema in other.items():
        yield f"arrow_schema_{name}", with_arrow_schema(base64.b64encode(schema.serialize().to_pybytes()))
    yield "arrow_schema_of_noise", with_arrow_schema(base64.b64encode(random.Random(SEED).randbytes(100)))
    yield "arrow_schema_no_base64", with_arrow_schema(b"no base64")


def with_arrow_schema(stored: bytes) -> bytes:
    """Return a file of plain rows, with the bytes ``stored`` in place of its Arrow schema."""
    body = io.BytesIO()
    with pq.ParquetWriter(body, plain().schema, store_schema=False) as writer:
        writer.write_table(plain())
        writer.add_key_value_metadata({"ARROW:schema": stored.decode()})
    return body.getvalue()

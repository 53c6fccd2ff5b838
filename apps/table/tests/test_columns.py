"""Value columns: the first rows determine the columns, a table refuses other columns, and widened values stay exact."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from apps.table.tests.helpers import LONG, system_store
from apps.table.tests.test_data_files import made_of, rows_in
from stratalog import Invalid, LimitExceeded
from stratalog_table import Column, Schema, Table, TransactionRefused, create_table
from stratalog_table.arrow_types import arrow_type, fitted, type_of
from stratalog_table.columns import ValueColumn, check_columns, column_type, holds, joined, type_text, widened
from stratalog_table.data_files import DataFiles
from stratalog_table.job_worker import JobWorker
from stratalog_table.limits import COLUMN_NAME_BYTES_MAX, COLUMN_TYPE_DEPTH_MAX, COLUMNS_MAX, RETENTION_DAYS_MAX
from stratalog_table.maintenance import compact
from stratalog_table.merge_plan import plan
from stratalog_table.rows import data_files_of, ingest, scan
from stratalog_table.table_changes import SetColumns

NOON = datetime.fromisoformat("2026-11-24T12:00:00")
TYPES = [
    pa.null(),
    pa.bool_(),
    *(pa.type_for_alias(name) for name in ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]),
    pa.float16(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.binary(16),
    pa.date32(),
    pa.time32("ms"),
    pa.time64("ns"),
    *(pa.timestamp(unit, zone) for unit in ("ms", "us", "ns") for zone in (None, "UTC", "Europe/Berlin")),
    pa.duration("us"),
    pa.decimal128(10, 2),
    pa.decimal256(60, 5),
    pa.list_(pa.int64()),
    pa.list_(pa.float32(), 3),
    pa.map_(pa.string(), pa.list_(pa.date32())),
    pa.struct([("a, b>", pa.int8()), ("c", pa.list_(pa.struct([("d", pa.string())])))]),
]


def made(folder: Path) -> tuple[Table, DataFiles]:
    return made_of(folder, LONG)


def bring(table: Table, data_files: DataFiles, id: int, column: Any, **options: bool) -> None:
    ingest(table, data_files, pa.table({"id": [id] * len(column), "value": column}), **options)


def values_in(table: Table, data_files: DataFiles, name: str = "value") -> list[Any]:
    parts = pa.concat_tables(scan(table.at(), data_files)).sort_by("id")
    return parts.column(name).to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_each_column_type_survives_its_text_form_and_parquet(kind: pa.DataType, tmp_path: Path) -> None:
    parsed = type_of(kind)
    assert type_of(arrow_type(parsed)) == parsed
    assert column_type(type_text(parsed)) == parsed
    assert arrow_type(parsed).equals(kind)
    rows = pa.table({"value": pa.nulls(2, kind)})
    pq.write_table(rows, tmp_path / "rows.parquet")
    assert pq.read_table(tmp_path / "rows.parquet").schema == rows.schema


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.large_string(), "string"),
        (pa.string_view(), "string"),
        (pa.large_binary(), "binary"),
        (pa.date64(), "date32[day]"),
        (pa.time32("s"), "time32[ms]"),
        (pa.timestamp("s", "UTC"), "timestamp[ms, tz=UTC]"),
        (pa.decimal32(5, 2), "decimal128(5, 2)"),
        (pa.dictionary(pa.int8(), pa.large_string()), "string"),
        (pa.run_end_encoded(pa.int32(), pa.int64()), "int64"),
        (pa.large_list(pa.string_view()), ["list", "string"]),
        (pa.list_view(pa.large_list_view(pa.int64())), ["list", ["list", "int64"]]),
        (pa.uuid(), "fixed_size_binary[16]"),
    ],
)
def test_types_that_differ_only_in_layout_are_the_same_column_type(kind: pa.DataType, expected: Any) -> None:
    assert type_of(kind) == expected


@pytest.mark.parametrize(
    "kind",
    [
        pa.dense_union([pa.field("a", pa.int8())]),
        pa.struct([]),
        pa.binary(0),
        pa.decimal128(10, -2),
        pa.month_day_nano_interval(),
        pa.list_(pa.struct([])),
        pa.list_(pa.int8(), 0),
    ],
    ids=str,
)
def test_a_column_type_that_parquet_cannot_store_is_refused_at_ingest(kind: pa.DataType, tmp_path: Path) -> None:
    table, data_files = made(tmp_path)
    with pytest.raises(Invalid, match="has a type that tables do not support"):
        bring(table, data_files, 1, pa.nulls(1, kind))
    assert table.at().columns() is None


@pytest.mark.parametrize(
    ("left", "right", "both"),
    [
        ("int32", "int64", "int64"),
        ("uint32", "int64", "int64"),
        ("uint64", "int64", None),
        ("int32", "uint64", None),
        ("int32", "double", "double"),
        ("int64", "double", None),
        ("int16", "float", "float"),
        ("float", "double", "double"),
        ("null", "string", "string"),
        ("string", "int64", None),
        ("string", "binary", None),
        ("fixed_size_binary[4]", "binary", "binary"),
        ("decimal128(10, 2)", "decimal128(6, 4)", "decimal128(12, 4)"),
        ("decimal128(38, 2)", "decimal128(38, 4)", "decimal256(40, 4)"),
        ("decimal256(76, 0)", "decimal128(38, 2)", None),
        ("timestamp[ms]", "timestamp[us]", "timestamp[us]"),
        ("timestamp[us]", "timestamp[ns]", None),
        ("timestamp[us]", "timestamp[us, tz=UTC]", None),
        ("date32[day]", "timestamp[us]", None),
        (["list", "int8"], ["list", "int64"], None),
        (["list", "int8"], ["list", "int8"], ["list", "int8"]),
    ],
)
def test_two_types_are_widened_to_a_type_that_holds_both(left: Any, right: Any, both: Any) -> None:
    assert widened(left, right) == widened(right, left) == both
    assert holds(both, left) if both else not (holds(left, right) and holds(right, left))


def test_the_first_rows_determine_the_columns_and_different_columns_are_refused(tmp_path: Path) -> None:
    table, data_files = made(tmp_path)
    bring(table, data_files, 1, [7])
    assert table.at().columns() == (ValueColumn("value", "int64"),)
    before = table.version
    with pytest.raises(Invalid, match="another type in the table; no type holds both"):
        bring(table, data_files, 2, ["seven"])
    with pytest.raises(Invalid, match="the table lacks; --add-columns, in Python add_columns=True, adds it"):
        ingest(table, data_files, pa.table({"id": [2], "value": [8], "more": [0.5]}))
    with pytest.raises(Invalid, match="two columns of the rows have one name"):
        ingest(table, data_files, pa.table([[2], [8], [9]], names=["id", "value", "value"]))
    assert table.version == before
    assert len([*data_files.list()]) == 1
    bring(table, data_files, 3, pa.array([9], pa.int8()))
    ingest(table, data_files, pa.table({"id": [4]}))
    assert values_in(table, data_files) == [7, 9, None]
    assert compact(table, data_files, files_min=3) == 1
    assert values_in(table, data_files) == [7, 9, None]


def test_columns_are_added_and_widened_on_request(tmp_path: Path) -> None:
    table, data_files = made(tmp_path)
    bring(table, data_files, 1, pa.array([2**31 - 1], pa.int32()))
    old = table.version
    with pytest.raises(Invalid, match="--widen, in Python widen=True, makes it int64"):
        bring(table, data_files, 2, [2**40])
    bring(table, data_files, 2, [2**40], widen=True)
    ingest(table, data_files, pa.table({"id": [3], "value": [1], "note": ["new"]}), add_columns=True)
    assert table.at().columns() == (ValueColumn("value", "int64"), ValueColumn("note", "string"))
    assert values_in(table, data_files) == [2**31 - 1, 2**40, 1]
    assert compact(table, data_files, files_min=3) == 1
    assert values_in(table, data_files) == [2**31 - 1, 2**40, 1]
    assert values_in(table, data_files, "note") == [None, None, "new"]
    # A view of an old version has the columns of that version.
    (then,) = scan(table.at(old), data_files)
    assert then.schema == pa.schema([("id", pa.int64()), ("value", pa.int32())])


@pytest.mark.parametrize("later", [{"value": [1], "note": ["new"]}, {"value": [2**40], "note": ["new"]}])
def test_a_worker_merges_files_whose_columns_are_newer_than_the_worker(tmp_path: Path, later: dict[str, Any]) -> None:
    table, data_files = made(tmp_path)
    bring(table, data_files, 1, pa.array([1], pa.int32()))
    worker = JobWorker(table, data_files, 0)
    ingest(table, data_files, pa.table({"id": [2], **later}), add_columns=True, widen=True)
    plan(table, 2)
    ((job, partition, _),) = table.at().jobs()
    assert worker.work(job, partition)
    assert values_in(table, data_files) == [1, *later["value"]]
    assert values_in(table, data_files, "note") == [None, "new"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.array([None]), pa.array(["text"])),
        (pa.array([1.5], pa.float32()), pa.array([0.1])),
        (pa.array([Decimal("1.50")]), pa.array([Decimal("12345.678")])),
        (
            pa.array([NOON], pa.timestamp("ms", "UTC")),
            pa.array([NOON + timedelta(microseconds=1)], pa.timestamp("us", "UTC")),
        ),
        (pa.array([b"1234"], pa.binary(4)), pa.array([b"12345"])),
        (pa.array([time(12)], pa.time32("s")), pa.array([time(12, 0, 0, 5)], pa.time32("s"))),
    ],
)
def test_widening_a_column_does_not_change_earlier_values(tmp_path: Path, first: pa.Array, second: pa.Array) -> None:
    table, data_files = made(tmp_path)
    bring(table, data_files, 1, first)
    bring(table, data_files, 2, second, widen=True)
    wanted = [*first.to_pylist(), *second.to_pylist()]
    assert values_in(table, data_files) == wanted
    assert compact(table, data_files, files_min=2) == 1
    assert values_in(table, data_files) == wanted


def test_a_value_that_its_column_cannot_hold_is_refused(tmp_path: Path) -> None:
    table, data_files = made(tmp_path)
    bring(table, data_files, 1, pa.array([0], pa.timestamp("ns")))
    bring(table, data_files, 2, pa.array([NOON], pa.timestamp("us")))
    with pytest.raises(Invalid, match="has values that its type in the table cannot hold"):
        bring(table, data_files, 3, pa.array([datetime.fromisoformat("9999-01-01")], pa.timestamp("us")))
    assert len(values_in(table, data_files)) == 2


def test_nested_values_are_read_as_written(tmp_path: Path) -> None:
    table, data_files = made(tmp_path)
    kind = pa.struct([("tags", pa.list_(pa.large_string())), ("seen", pa.map_(pa.string(), pa.int8()))])
    values = [{"tags": ["a", None], "seen": [("x", 1)]}, None, {"tags": [], "seen": []}]
    for id, value in enumerate(values):
        bring(table, data_files, id, pa.array([value], kind))
    assert compact(table, data_files, files_min=3) == 1
    assert values_in(table, data_files) == values
    with pytest.raises(Invalid, match="no type holds both"):
        bring(table, data_files, 3, pa.array([{"tags": ["a"]}]))


LISTS = [[1, 2], None, [], [3]]
TEXTS = [["a", None], None, [], ["b"]]
NESTED = [[["a"], None, []], None, [], [["b", None]]]
FIELDS = [{"x": [1], "y": "a"}, None, {"x": None, "y": None}, {"x": [2, 3], "y": "b"}]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.list_view(pa.int64()), LISTS),
        (pa.large_list_view(pa.int64()), LISTS),
        (pa.list_view(pa.list_view(pa.string_view())), NESTED),
        (pa.list_(pa.large_list_view(pa.string())), NESTED),
        (pa.struct([("x", pa.list_view(pa.int64())), ("y", pa.string_view())]), FIELDS),
    ],
    ids=str,
)
def test_list_views_become_lists_with_the_same_values(kind: pa.DataType, values: list[Any]) -> None:
    source = pa.array(values * 2, kind)
    wanted = pa.schema([("value", arrow_type(type_of(kind)))])
    for column in (pa.chunked_array([source]), pa.chunked_array([source.slice(1), source.slice(3, 2)]), source[:0]):
        rows = fitted(pa.table({"value": column}), wanted)
        rows.validate(full=True)
        assert rows.column("value").to_pylist() == column.to_pylist()


@pytest.mark.parametrize("kind", [pa.map_(pa.string(), pa.list_view(pa.int8())), pa.list_(pa.list_view(pa.int8()), 1)])
def test_a_list_view_inside_a_map_or_a_list_of_fixed_size_is_refused(kind: pa.DataType, tmp_path: Path) -> None:
    table, data_files = made(tmp_path)
    with pytest.raises(Invalid, match="a list view cannot be read inside of"):
        bring(table, data_files, 1, pa.nulls(1, kind))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.list_(pa.string_view()), TEXTS),
        (pa.struct([("x", pa.list_(pa.int64())), ("y", pa.string_view())]), FIELDS),
        (pa.large_list_view(pa.int64()), LISTS),
    ],
    ids=str,
)
def test_nested_columns_of_any_arrow_layout_are_ingested(tmp_path: Path, kind: pa.DataType, values: list[Any]) -> None:
    table, data_files = made(tmp_path)
    ingest(table, data_files, pa.table({"id": [4, 3, 2, 1], "value": pa.array(values, kind)}))
    assert values_in(table, data_files) == values[::-1]


def test_columns_may_be_given_at_the_creation_of_a_table(tmp_path: Path) -> None:
    columns = (ValueColumn("price", column_type("decimal(10,2)")), ValueColumn("at", column_type("timestamp")))
    store = system_store()
    table = create_table(store, "acme", "events", LONG, data=(tmp_path / "lake").as_uri(), columns=columns)
    assert table.at().columns() == (ValueColumn("price", "decimal128(10, 2)"), ValueColumn("at", "timestamp[us]"))
    data_files = data_files_of(table)
    with pytest.raises(Invalid, match="no type holds both"):
        ingest(table, data_files, pa.table({"id": [1], "price": [1.5]}))
    ingest(table, data_files, pa.table({"id": [1], "price": [Decimal("1.5")]}))
    assert rows_in(table, data_files, columns=["price", "at"]) == [(Decimal("1.50"), None)]
    table.clear_files()
    assert table.at().columns() == columns


def test_an_alteration_that_is_refused_makes_none_of_its_changes(tmp_path: Path) -> None:
    table, _ = made(tmp_path)
    table.set_columns([ValueColumn("value", "int64")])
    before = table.at().columns()
    new = SetColumns((ValueColumn("new", "int32"),), add=True)
    other = SetColumns((ValueColumn("value", "string"),), widen=True)
    for columns, days in (([new, other], None), ([new], RETENTION_DAYS_MAX + 1)):
        with pytest.raises(TransactionRefused):
            table.alter(columns, retention_days=days)
    assert table.at().columns() == before


def test_columns_that_do_not_fit_the_columns_of_the_table_are_refused(tmp_path: Path) -> None:
    table, _ = made(tmp_path)
    table.set_columns([ValueColumn("value", "int64")])
    table.set_columns([ValueColumn("value", "int32")])
    with pytest.raises(TransactionRefused, match="Columns do not fit") as caught:
        table.set_columns([ValueColumn("value", "string")])
    assert caught.value.kind == "columns"
    with pytest.raises(TransactionRefused, match="has the name of a key column"):
        table.set_columns([ValueColumn("id", "int64")], add=True)


def test_the_number_names_and_nesting_of_columns_are_limited() -> None:
    check_columns([ValueColumn(str(number), "int8") for number in range(COLUMNS_MAX)])
    with pytest.raises(LimitExceeded, match="too many columns"):
        check_columns([ValueColumn(str(number), "int8") for number in range(COLUMNS_MAX + 1)])
    check_columns([ValueColumn("x" * COLUMN_NAME_BYTES_MAX, "int8")])
    with pytest.raises(LimitExceeded, match="name of a column is too long"):
        check_columns([ValueColumn("x" * (COLUMN_NAME_BYTES_MAX + 1), "int8")])
    deep: Any = "int8"
    for _ in range(COLUMN_TYPE_DEPTH_MAX - 1):
        deep = ["list", deep]
    check_columns([ValueColumn("x", deep)])
    with pytest.raises(LimitExceeded, match="nested too deep"):
        check_columns([ValueColumn("x", ["list", deep])])
    with pytest.raises(LimitExceeded, match="nested too deep"):
        column_type('["list", ' * 100_000)
    with pytest.raises(Invalid, match="two columns have one name"):
        check_columns([ValueColumn("x", "int8"), ValueColumn("x", "int8")])
    with pytest.raises(Invalid, match="not Unicode"):
        check_columns([ValueColumn("\ud800", "int8")])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "text",
        '["list"]',
        '["struct",[["a"]]]',
        '["fixed_size_list","int8",0]',
        "[",
        "decimal128(39, 0)",
        "timestamp[h]",
    ],
)
def test_an_invalid_column_type_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        column_type(text)


def test_joining_columns_reports_the_column_and_the_types_that_do_not_fit() -> None:
    known = (ValueColumn("a", "int32"),)
    assert joined(known, known) == known
    assert joined((), known, add=True) == known
    assert joined(known, [ValueColumn("a", "null")]) == known
    with pytest.raises(Invalid) as caught:
        joined(known, [ValueColumn("a", "int64")])
    assert caught.value.details == {"column": "a", "type": "int64", "table_type": "int32"}


def test_dates_and_zones_keep_their_type(tmp_path: Path) -> None:
    table, data_files = made(tmp_path)
    day, at = date(2026, 11, 24), NOON.replace(tzinfo=UTC)
    ingest(
        table, data_files, pa.table({"id": [1], "day": [day], "at": pa.array([at], pa.timestamp("us", "Asia/Tokyo"))})
    )
    (rows,) = scan(table.at(), data_files)
    assert rows.schema.field("at").type == pa.timestamp("us", "Asia/Tokyo")
    assert rows.to_pylist() == [{"id": 1, "day": day, "at": at}]


@pytest.mark.parametrize("name", ["__filename", "__fragment_index", "__batch_index", "__last_in_fragment"])
def test_a_column_whose_name_pyarrow_reserves_is_refused_before_any_row_is_added(tmp_path: Path, name: str) -> None:
    table, data_files = made(tmp_path)
    with pytest.raises(Invalid, match="pyarrow reserves the name"):
        ingest(table, data_files, pa.table({"id": [1], name: [2]}))
    ingest(table, data_files, pa.table({"id": [1]}))
    assert rows_in(table, data_files, columns=("id",)) == [(1,)]
    with pytest.raises(Invalid, match="pyarrow reserves the name"):
        create_table(system_store(), "acme", "keys", Schema((Column(name, "long"),)))

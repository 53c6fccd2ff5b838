"""Queries on a whole table, on ranges and at any version, and the number of chunks that they read."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.table.tests.helpers import (
    LONG,
    TWO,
    assignment,
    children_of,
    leaf,
    leaves,
    memory_store,
    new_file,
    reopened,
    replacement,
    table_of,
)
from stratalog.testing.clock import ManualClock
from stratalog_table import Column, File, NewFile, Partition, Schema, Table, queries
from stratalog_table.model import Region, overlaps
from stratalog_table.row_order import decode_key, encode_key, minimum_key

LEAVES = 100_000
CHUNKS_READ_MAX = 10


def brute(table: Table, region: Region) -> set[str]:
    """Return the partitions that a query of a region must return. This function checks all partitions."""
    view = table.at()
    held = {holding.partition for holding in view.holdings()}
    return {
        partition.id for partition in view.partitions() if partition.id in held and overlaps(partition.region, region)
    }


def partitions_in(table: Table, region: Region) -> set[str]:
    return {holding.partition for holding in table.at().in_range(region)}


def test_the_number_of_listed_unreferenced_files_is_limited() -> None:
    table = table_of(memory_store())
    table.add_files([NewFile("a"), NewFile("b"), new_file("c")])
    view = table.at()
    assert [file.filename for file in view.files(1).files] == ["a", "c"]
    assert (view.files(1).more, view.files(2).more) == (True, False)
    assert view.files(0).files == (File("c", ("root",)),)


def test_files_by_partition_omits_partitions_without_files() -> None:
    table = table_of(memory_store(), points=[10, 20])
    first, second, third = leaves(table)
    table.add_files([new_file("b", partition=first), new_file("a", partition=first), new_file("c", partition=third)])
    assert table.at().files_by_partition() == {first: ["a", "b"], third: ["c"]}
    assert second in {holding.partition for holding in table.at().holdings()}


def test_a_view_does_not_change_with_later_transactions() -> None:
    table = table_of(memory_store())
    table.add_files([new_file("a")])
    view = table.at()
    names = view.unreferenced(view.version)
    table.assign_job_ids([assignment("job", "a")])
    table.replace_file_references([replacement("job", "a")])
    table.delete_files(["a"])
    assert ([*names], view.files(0).files) == ([], (File("a", ("root",)),))
    assert table.at(view.version).file_references() == view.file_references()


def test_a_range_query_returns_leaves_in_order_and_inner_partitions_with_files() -> None:
    table = table_of(memory_store())
    table.add_files([new_file("top")])
    table.extend_at("root", [10, 20, 30])
    order = leaves(table)
    table.add_files([new_file("leaf", partition=order[1])])
    held = table.at().in_range(LONG.region([(10, 21)]))
    assert [item.partition for item in held] == [order[1], order[2], "root"]
    assert [[item.filename for item in each.references] for each in held] == [["leaf"], [], ["top"]]


@pytest.mark.parametrize("scanned", [0, 1000])
def test_a_range_query_is_correct_with_and_without_a_scan_of_inner_partitions(
    monkeypatch: pytest.MonkeyPatch, scanned: int
) -> None:
    monkeypatch.setattr("stratalog_table.queries.INNER_SCANNED_MAX", scanned)
    table = table_of(memory_store(snapshot_entries_interval=7))
    chance = random.Random(4)
    for n in range(60):
        leaf = table.at().partition(chance.choice(leaves(table)))
        table.add_files([new_file(str(n), partition=leaf.id)])
        low, high = table.schema.keys_of(leaf.region[0], 0)
        low, high = -1000 if low is None else max(low, -1000), 1000 if high is None else high
        if high - low > 1:
            table.split_at(leaf.id, chance.randrange(low + 1, high))
    for _ in range(40):
        low = chance.randrange(-1100, 1100)
        region = LONG.region([(low, low + chance.choice([1, 30, 500]))])
        assert partitions_in(table, region) == brute(table, region)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_range_query_is_correct_on_a_tree_split_on_several_columns(data: st.DataObject) -> None:
    table = table_of(memory_store(), schema=TWO)
    for n in range(data.draw(st.integers(1, 8))):
        order = sorted(leaf.id for leaf in table.at().leaf_partitions())
        leaf = table.at().partition(data.draw(st.sampled_from(order)))
        table.add_files([new_file(str(n), partition=leaf.id)])
        dimension = data.draw(st.integers(0, 1))
        point: Any = data.draw(st.integers(-50, 50)) if dimension == 0 else data.draw(st.text("abc", min_size=1))
        low, high = leaf.region[dimension]
        if low < encode_key(TWO.keys[dimension].type, point) < (high or "~"):
            table.split_at(leaf.id, point, dimension)
    low = data.draw(st.integers(-60, 60))
    region = TWO.region([(low, low + 10), (None, data.draw(st.text("abc", min_size=1)))])
    assert partitions_in(table, region) == brute(table, region)


@pytest.mark.parametrize("seed", range(6))
def test_a_range_query_is_correct_for_split_points_with_a_common_prefix(seed: int) -> None:
    """The leaves' bounds begin alike, so the rows of the leaves are in order of their ids, which the seed changes."""
    points = sorted({"x" * 40 + chr(97 + n) for n in range(20)} | {"x" * 31, "x" * 33, "y"})
    table = table_of(memory_store(ManualClock(seed=seed)), schema=Schema((Column("k", "string"),)), points=points)
    for low in ["", "x" * 31, "x" * 32, "x" * 40 + "c", "x" * 40 + "cc", "z"]:
        for high in [low + "a", low + "zz", None]:
            region = table.schema.region([(low, high)])
            assert partitions_in(table, region) == brute(table, region)


def test_a_range_query_returns_the_references_of_leaves_whose_ids_begin_alike() -> None:
    low, middle, high = ("", *(encode_key("string", "x" * 40 + end) for end in "ab"))
    table = table_of(memory_store(), schema=Schema((Column("k", "string"),)))
    table.initialise_partitions(
        [
            Partition("root", ((low, None),), None, ("left", "right"), 0),
            Partition("left", ((low, high),), "root", ("p", "p-1"), 0),
            leaf("p", low, middle, "left"),
            leaf("p-1", middle, high, "left"),
            leaf("right", high, None, "root"),
        ]
    )
    table.add_files([new_file(f"{id}.parquet", partition=id) for id in ("p", "p-1", "right")])
    held = table.at().in_range(table.schema.region([("", None)]))
    assert {holding.partition: [each.filename for each in holding.references] for holding in held} == {
        "p": ["p.parquet"],
        "p-1": ["p-1.parquet"],
        "right": ["right.parquet"],
    }


def test_leaves_whose_bounds_begin_alike_are_read_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    points = ["x" * 40 + end for end in "abcdefgh"]
    table = table_of(memory_store(), schema=Schema((Column("k", "string"),)), points=points)
    table.add_files([new_file(f"{id}.parquet", partition=id) for id in leaves(table)])
    holding, read = queries._holding, []

    def noted(key: str, row: list[Any], **given: Any) -> Any:
        read.append(key.split("/")[2])
        return holding(key, row, **given)

    monkeypatch.setattr(queries, "_holding", noted)
    holdings = table.at().holdings()
    assert [next(holdings).partition for _ in range(4)] == read


@given(st.data())
def test_encoded_keys_have_the_order_of_the_keys(data: st.DataObject) -> None:
    kind, values = data.draw(st.sampled_from(KEYS))
    left, right = data.draw(values), data.draw(values)
    assert (encode_key(kind, left) < encode_key(kind, right)) == (left < right)
    assert decode_key(kind, encode_key(kind, left)) == left
    assert minimum_key(kind) <= encode_key(kind, left)


KEYS: Sequence[Any] = [
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("string", st.text(st.characters(exclude_categories=["Cs"]))),
    ("bytes", st.binary()),
]


@pytest.mark.usefixtures("untraced")
@pytest.mark.slow
def test_a_range_over_100_000_leaves_reads_ten_chunks_at_most() -> None:
    table = table_of(memory_store())
    table.extend_at("root", range(1000, LEAVES * 1000, 1000))
    at = leaves(table)
    assert len(at) == LEAVES
    lows = (-5, 0, 12_345, 31_415_926, 63_999_999, 99_999_000, 10**9)
    # Files in all leaves would take three times as long. The leaves of the ranges and one leaf in fifty have files.
    asked = {id for low in lows for id in at[max(0, low // 1000) : low // 1000 + 4] or at[-1:]}
    table.add_files([new_file(f"data/{id}.parquet", partition=id) for id in sorted(asked.union(at[::50]))])
    table.snapshot()
    for low in lows:
        other = reopened(table)
        before = other.document.chunks.reads
        held = other.at().in_range(LONG.region([(low, low + 1500)]))
        assert 1 <= len(held) <= 3
        assert all(len(each.references) == 1 for each in held)
        assert other.document.chunks.reads - before <= CHUNKS_READ_MAX
        assert other.document.chunks.reads <= CHUNKS_READ_MAX + 3
    other = reopened(table)
    other.add_files([new_file("late", partition=children_of(other)[0])])
    assert len(other.at().in_range(LONG.region([(5, 6)]))) == 2
    assert other.document.chunks.reads <= 30

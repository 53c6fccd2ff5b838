"""Transactions on the tree of partitions, on every backend: their effects, their refusals, and the exact reasons."""

from __future__ import annotations

from typing import Any

import pytest

from apps.table.tests.helpers import LONG, TWO, children_of, leaf, new_file, refused, reopened, rows_held, table_of
from stratalog import Conflict, Invalid, NotFound
from stratalog_table import Column, NewFile, Partition, Schema, Table, create_table, open_table
from stratalog_table.tree import split

LOW = "0" * 16
MIDDLE = "8" + "0" * 15


def kinds(kind: Any) -> Schema:
    return Schema((Column("key", kind),))


@pytest.mark.parametrize(
    ("kind", "points"),
    [
        ("int", [-5, 0, 5]),
        ("long", [-(2**62), 0, 2**62]),
        ("string", ["", "b", "ba", "é"][1:]),
        ("bytes", [b"\x00", b"a", b"\xff"]),
    ],
)
def test_a_table_is_split_at_points_of_each_type(store: Any, kind: Any, points: list[Any]) -> None:
    table = table_of(store, f"typed-{kind}-{id(store)}", kinds(kind), points)
    view = table.at()
    regions = [holding.region[0] for holding in view.holdings()]
    assert [table.schema.keys_of(region, 0)[1] for region in regions] == [*points, None]
    assert len([*view.leaf_partitions()]) == 4
    assert len([*view.partitions()]) == 7


def test_initialise_pairs_adjacent_leaves_and_moves_an_odd_leaf_up(table: Table) -> None:
    table.initialise([10, 20])
    view = table.at()
    left, right = view.partition("root").children
    assert not view.partition(left).is_leaf
    assert view.partition(right).is_leaf
    assert table.schema.keys_of(view.partition(right).region[0], 0) == (20, None)


def test_the_tree_of_a_table_with_files_cannot_be_replaced(table: Table) -> None:
    table.add_files([NewFile("a")])
    with refused("files-present", "Cannot initialise state store when files are present"):
        table.initialise([10])
    table.delete_files(["a"])
    table.initialise([10])
    assert len([*table.at().leaf_partitions()]) == 2


def test_a_reinitialisation_is_a_single_version(table: Table) -> None:
    table.add_files([new_file("a")])
    before = table.version
    assert table.reinitialise([10, 20, 30]) == before + 1
    view = table.at()
    assert view.has_no_files()
    assert len([*view.leaf_partitions()]) == 4
    assert table.at(before).file("a") is not None


def test_a_leaf_is_split(table: Table) -> None:
    table.add_files([new_file("a")])
    table.split_at("root", 10)
    view = reopened(table).at()
    left, right = view.partition("root").children
    assert [view.partition(id).is_leaf for id in ("root", left, right)] == [False, True, True]
    assert table.schema.keys_of(view.partition(left).region[0], 0)[1] == 10
    assert rows_held(table) == 100


def test_a_split_accepts_the_children_in_any_order(table: Table) -> None:
    parent, left, right = split(table.at().partition("root"), MIDDLE, 0, "l", "r")
    table.split_partition(parent, [right, left])
    assert children_of(table) == ("l", "r")


def test_a_missing_partition_cannot_be_split(table: Table) -> None:
    parent, left, right = split(leaf("other", LOW, None), MIDDLE, 0, "l", "r")
    with refused("partitions", "Parent partition not found"):
        table.split_partition(parent, [left, right])


def test_a_partition_cannot_be_split_twice(table: Table) -> None:
    parent, left, right = split(table.at().partition("root"), MIDDLE, 0, "l", "r")
    table.split_partition(parent, [left, right])
    with refused("partitions", "Parent should be a leaf partition"):
        table.split_partition(parent, [left, right])


def test_a_split_whose_parent_stays_a_leaf_is_refused(table: Table) -> None:
    root = table.at().partition("root")
    with refused("partitions", "Parent should not be a leaf partition after split"):
        table.split_partition(root, [leaf("l", LOW, MIDDLE, "root"), leaf("r", MIDDLE, None, "root")])


PARENT = Partition("root", ((LOW, None),), None, ("l", "r"), 0)
PAIR = [leaf("l", LOW, MIDDLE, "root"), leaf("r", MIDDLE, None, "root")]


@pytest.mark.parametrize(
    ("parent", "pair", "cause"),
    [
        (Partition("root", ((LOW, None),), None, ("l", "r"), 1), PAIR, "Partition root has no dimension 1"),
        (
            Partition("root", ((MIDDLE, None),), None, ("l", "r"), 0),
            PAIR,
            "Partition root has another region or parent than before",
        ),
        (PARENT, [leaf("l", LOW, "4", "root"), PAIR[1]], "Children of partition root do not meet"),
        (PARENT, [PAIR[0], leaf("r", MIDDLE, "9", "root")], "Children of partition root do not fill it"),
        (
            Partition("root", ((LOW, None),), None, ("r", "l"), 0),
            PAIR,
            "Children of partition root are not listed left first",
        ),
        (PARENT, PAIR[:1], "Partition root does not have the new partitions as its children"),
        (
            PARENT,
            [PAIR[0], leaf("x", MIDDLE, None, "root")],
            "Partition root does not have the new partitions as its children",
        ),
        (
            PARENT,
            [leaf("l", LOW, LOW, "root"), leaf("r", LOW, None, "root")],
            "Children of partition root do not meet inside it",
        ),
        (
            PARENT,
            [Partition("l", ((LOW, MIDDLE), ("", None)), "root"), PAIR[1]],
            "Children of partition root have another number of key columns",
        ),
    ],
)
def test_a_split_that_is_not_sound_is_refused_with_the_cause(
    table: Table, parent: Partition, pair: list[Partition], cause: str
) -> None:
    with refused("partitions", f"Failed to validate partition split: {cause}"):
        table.split_partition(parent, pair)


def test_children_of_a_split_must_be_new_leaves_of_their_parent(table: Table) -> None:
    table.initialise([0])
    left, right = children_of(table)
    stored = table.at().partition(left)
    parent, low, high = split(stored, "4" + "0" * 15, 0, right, "new")
    with refused("partitions", f"Attempted to add a partition which already exists: {right}"):
        table.split_partition(parent, [low, high])
    parent, low, high = split(stored, "4" + "0" * 15, 0, "one", "other")
    with refused("partitions", "Child partition has another parent: other"):
        table.split_partition(parent, [low, leaf("other", *high.region[0], "root")])
    grown = Partition("one", low.region, left, ("x", "y"), 0)
    with refused("partitions", "Child partition should be a leaf partition: one"):
        table.split_partition(parent, [grown, high])


def test_a_leaf_becomes_a_subtree_in_one_version(table: Table) -> None:
    before = table.version
    assert table.extend_at("root", range(1, 100)) == before + 1
    view = table.at()
    assert len([*view.leaf_partitions()]) == 100
    assert [table.schema.keys_of(holding.region[0], 0)[1] for holding in view.holdings()] == [*range(1, 100), None]


def test_only_existing_leaves_can_be_extended(table: Table) -> None:
    top, *below = split(leaf("nowhere", LOW, None), MIDDLE, 0, "l", "r")
    with refused("partitions", "Attempted to update a partition which does not exist: nowhere"):
        table.extend_partition_tree([top], below)
    root = table.at().partition("root")
    with refused("partitions", "Attempted to update a partition without splitting it: root"):
        table.extend_partition_tree([root], [])
    top, *below = split(root, MIDDLE, 0, "l", "r")
    table.extend_partition_tree([top], below)
    with refused("partitions", "Attempted to update a partition which has already been split: root"):
        table.extend_partition_tree([top], below)


def test_an_extension_cannot_add_an_existing_partition(table: Table) -> None:
    table.initialise([0])
    left, right = children_of(table)
    top, *below = split(table.at().partition(left), "4" + "0" * 15, 0, "new", right)
    with refused("partitions", f"Attempted to add a partition which already exists: {right}"):
        table.extend_partition_tree([top], below)


@pytest.mark.parametrize(
    ("extra", "cause"),
    [
        (leaf("second", LOW, None), "There should be exactly one root partition, found 2"),
        (leaf("loose", LOW, None, "l"), "Only 3 of 4 partitions are linked to the root"),
    ],
)
def test_an_extension_with_a_second_root_or_an_unlinked_partition_is_refused(
    table: Table, extra: Partition, cause: str
) -> None:
    top, *below = split(table.at().partition("root"), MIDDLE, 0, "l", "r")
    with refused("partitions", f"Update results in invalid partition tree: {cause}"):
        table.extend_partition_tree([top], [*below, extra])
    assert table.at().partition("root").is_leaf


@pytest.mark.parametrize(
    ("below", "cause"),
    [
        (PAIR[:1], "Partition root has a child that is not there: r"),
        ([PAIR[0], leaf("r", MIDDLE, None, "l")], "Partition r has another parent than root"),
        ([*PAIR, PAIR[0]], "A partition is named twice"),
        ([leaf("l", LOW, "4", "root"), PAIR[1]], "Children of partition root do not meet"),
    ],
)
def test_an_extension_that_is_not_sound_is_refused(table: Table, below: list[Partition], cause: str) -> None:
    with refused("partitions", f"Update results in invalid partition tree: {cause}"):
        table.extend_partition_tree([PARENT], below)


@pytest.mark.parametrize(
    ("tree", "cause"),
    [
        ([], "There should be exactly one root partition, found 0"),
        ([leaf("a", LOW, None), leaf("b", LOW, None)], "There should be exactly one root partition, found 2"),
        ([leaf("a", LOW, None), leaf("a", LOW, None)], "Partition a is there twice"),
        ([PARENT, PAIR[0]], "Partition root has a child that is not there: r"),
        ([leaf("a", MIDDLE, None)], "Partition a is the root, and not all of the key space"),
        ([leaf("a", LOW, "f" * 16)], "Partition a is the root, and not all of the key space"),
        (
            [Partition("root", ((LOW, None),), None, ("l", "m", "r"), 0), *PAIR, leaf("m", LOW, None, "root")],
            "Partition root should have exactly 2 children, found 3",
        ),
    ],
)
def test_an_invalid_initial_tree_is_refused_with_the_cause(table: Table, tree: list[Partition], cause: str) -> None:
    with refused("partitions", f"Initialised with invalid partition tree: {cause}"):
        table.initialise_partitions(tree)


@pytest.mark.parametrize(
    ("kind", "edge"),
    [
        ("long", "4"),
        ("long", "8" + "0" * 14 + "G"),
        ("long", "8_" + "0" * 14),
        ("int", MIDDLE),
        ("string", "8"),
        ("string", "80"),
        ("bytes", "AB"),
        ("bytes", "00" * 257),
    ],
)
def test_a_split_at_an_impossible_key_is_refused(store: Any, kind: Any, edge: str) -> None:
    table = table_of(store, f"edges-{kind}-{edge[:20]}-{id(store)}", kinds(kind))
    parent, *children = split(table.at().partition("root"), edge, 0, "l", "r")
    reason = f"Malformed transaction: partition root is split where no key can be: {edge!r:.80}"
    for act in (table.split_partition, lambda top, below: table.extend_partition_tree([top], below)):
        with refused("malformed", reason):
            act(parent, children)
    with refused("malformed", reason):
        table.initialise_partitions([parent, *children])


def test_children_that_differ_from_their_parent_on_another_column_are_refused(store: Any) -> None:
    table = table_of(store, f"columns-{id(store)}", TWO)
    parent, left, right = split(table.at().partition("root"), MIDDLE, 0, "l", "r")
    narrow = Partition("r", (right.region[0], ("6d", None)), "root")
    cause = "Failed to validate partition split: Children of partition root differ from it on dimension 1"
    with refused("partitions", cause):
        table.split_partition(parent, [left, narrow])


def test_reading_a_missing_partition_is_refused(table: Table) -> None:
    with refused("partition-not-found", "Partition not found: nowhere"):
        table.at().partition("nowhere")


def test_a_partition_is_split_on_any_of_several_columns(store: Any) -> None:
    table = table_of(store, f"two-{id(store)}", TWO)
    table.split_at("root", 10)
    left, right = children_of(table)
    table.split_at(left, "m", dimension=1)
    low, high = children_of(table, left)
    holdings = table.at().in_range(table.schema.region([(0, 5), ("x", None)]))
    assert [holding.partition for holding in holdings] == [high]
    holdings = table.at().in_range(table.schema.region([(0, 50)]))
    assert {holding.partition for holding in holdings} == {low, high, right}


def test_a_table_cannot_be_created_twice(store: Any) -> None:
    name = f"once-{id(store)}"
    table_of(store, name)
    with pytest.raises(Conflict):
        table_of(store, name)
    store.create("acme", name + "-other").mutate("put", {"key": "a", "value": 1})
    with pytest.raises(Conflict):
        table_of(store, name + "-other")
    with pytest.raises(NotFound):
        open_table(store, "acme", name + "-other")


def test_an_unfinished_creation_is_resumed(store: Any) -> None:
    name = f"half-{id(store)}"
    store.create("acme", name)
    table = create_table(store, "acme", name, LONG, [1])
    assert [table.schema.keys_of(holding.region[0], 0) for holding in table.at().holdings()] == [(None, 1), (1, None)]


@pytest.mark.parametrize("points", [[2, 1], [1, 1], [2**63], ["a"], [-(2**63)]])
def test_split_points_must_be_ordered_keys_of_the_first_column(store: Any, points: list[Any]) -> None:
    with pytest.raises(Invalid):
        create_table(store, "acme", f"points-{id(store)}", LONG, points)


def test_split_points_must_lie_inside_the_extended_partition(table: Table) -> None:
    table.initialise([10])
    left, _ = children_of(table)
    with pytest.raises(Invalid, match="inside the partition"):
        table.extend_at(left, [5, 15])

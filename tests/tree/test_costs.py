"""The costs of reads, updates and comparisons, counted in chunks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice

import pytest

from stratalog.cache import ByteCache
from stratalog.codec import decode
from stratalog.tree.chunks import Chunks
from stratalog.tree.diff import diff
from stratalog.tree.lookup import count, get, leaf_of, scan
from stratalog.tree.nodes import Root, Slot
from stratalog.tree.reach import addresses, read_tree_back, verify
from stratalog.tree.update import build, update
from tests.tree.helpers import build_from, cold, items, keys_of_level, new_chunks, slot

KEYS = 100_000
LEVELS = 4
SEED = 11

Tree = tuple[Chunks, Root]


@pytest.fixture(scope="module")
def large() -> Tree:
    chunks = new_chunks()
    return chunks, build(chunks, items(KEYS))


def key(number: int) -> str:
    return f"item/{number:08d}"


def some_keys(many: int) -> list[str]:
    return [key(number) for number in random.Random(SEED).sample(range(KEYS), many)]


def test_a_lookup_reads_one_chunk_a_level(large: Tree) -> None:
    chunks, root = cold(large[0]), large[1]
    slot = get(chunks, root, key(77_777))
    assert slot is not None
    assert decode(slot.value) == {"n": 77_777}
    assert chunks.reads <= LEVELS


def test_a_second_lookup_in_the_same_leaf_reads_no_chunk(large: Tree) -> None:
    leaf = leaf_of(*large, key(500))
    assert leaf is not None
    first, *later = leaf[1].keys
    assert later
    chunks, root = cold(large[0]), large[1]
    get(chunks, root, first)
    before = chunks.reads
    assert all(get(chunks, root, name) for name in later)
    assert chunks.reads == before > 0


def test_without_a_cache_every_lookup_reads_again(large: Tree) -> None:
    chunks, root = Chunks(large[0]._blobs, "acme/plan@abc", ByteCache(0)), large[1]
    get(chunks, root, key(500))
    before = chunks.reads
    get(chunks, root, key(500))
    assert chunks.reads == 2 * before


def test_a_scan_reads_chunks_lazily(large: Tree) -> None:
    chunks, root = cold(large[0]), large[1]
    assert [name for name, _ in islice(scan(chunks, root, after=key(60_000)), 3)] == [
        key(60_001),
        key(60_002),
        key(60_003),
    ]
    assert chunks.reads <= LEVELS + 1


def test_a_scan_of_a_prefix_reads_only_the_leaves_of_the_prefix(large: Tree) -> None:
    chunks, root = cold(large[0]), large[1]
    assert len(list(scan(chunks, root, prefix="item/000421"))) == 100
    assert chunks.reads <= LEVELS + 8


def test_a_count_of_a_prefix_reads_up_to_two_chunks_per_level(large: Tree) -> None:
    chunks, root = cold(large[0]), large[1]
    assert count(chunks, root, prefix="item/0004") == 10_000
    assert chunks.reads <= 2 * LEVELS


def test_an_update_of_ten_keys_reads_and_writes_only_their_paths(large: Tree) -> None:
    chunks, root = cold(large[0]), large[1]
    changed = update(chunks, root, {name: slot("new", 2) for name in some_keys(10)})
    assert chunks.reads <= 10 * LEVELS
    assert chunks.writes <= 10 * LEVELS
    verify(chunks, changed)


def test_additions_and_deletions_touch_few_chunks_outside_the_paths_of_their_keys(large: Tree) -> None:
    chunks, root = cold(large[0]), large[1]
    patch: dict[str, Slot | None] = dict.fromkeys(some_keys(10))
    patch |= {name + "/new": slot() for name in some_keys(10)}
    changed = update(chunks, root, patch)
    assert changed.count == KEYS
    assert chunks.reads <= 15 * LEVELS
    assert chunks.writes <= 15 * LEVELS


def test_deleting_the_last_key_of_a_leaf_joins_two_leaves(large: Tree) -> None:
    end = keys_of_level(1, 1, "item/00050000/")[0]
    split = update(large[0], large[1], {end: slot()})
    chunks = cold(large[0])
    assert update(chunks, split, {end: None}) == large[1]
    assert chunks.reads <= 2 * LEVELS
    assert chunks.writes <= LEVELS


@pytest.mark.parametrize("many", [1, 10, 100])
def test_the_cost_of_a_diff_is_proportional_to_the_number_of_changes(large: Tree, many: int) -> None:
    root = large[1]
    changed = update(large[0], root, dict.fromkeys(some_keys(many)))
    chunks = cold(large[0])
    assert [name for name, _, after in diff(chunks, root, changed) if after is None] == sorted(some_keys(many))
    assert chunks.reads <= 2 * LEVELS * many + 2 * many


def test_the_cost_of_a_diff_across_moved_boundaries_is_proportional_to_the_changes(large: Tree) -> None:
    root = large[1]
    tower = keys_of_level(2, 3, "item/00050000/")
    changed = update(large[0], root, {name: slot() for name in tower})
    chunks = cold(large[0])
    assert [name for name, _, _ in diff(chunks, root, changed)] == sorted(tower)
    assert chunks.reads <= 2 * LEVELS * len(tower) + 16


def test_equal_trees_are_compared_by_address_alone(large: Tree) -> None:
    chunks, root = cold(large[0]), large[1]
    assert list(diff(chunks, root, root)) == []
    assert chunks.reads == 0


@pytest.mark.parametrize("level", [0, 1])
def test_a_change_in_a_long_run_of_keys_that_end_no_chunk_gives_the_same_tree_as_a_build(level: int) -> None:
    run, tail = keys_of_level(0, 2000), keys_of_level(level, 1, "l")
    chunks = new_chunks()
    content = dict.fromkeys([*run, *tail], slot())
    root = build_from(chunks, content)
    del content[run[0]]
    changed = update(chunks, root, {run[0]: None})
    assert changed == build_from(new_chunks(), content)
    assert [name for name, _, _ in diff(chunks, root, changed)] == run[:1]


def test_a_patch_that_changes_nothing_writes_nothing(large: Tree) -> None:
    chunks, root = cold(large[0]), large[1]
    name = key(123)
    assert update(chunks, root, {name: get(chunks, root, name), "absent": None, "zzz": None}) == root
    assert update(chunks, root, {}) == root
    assert chunks.writes == 0


def test_the_addresses_of_a_second_version_omit_the_chunks_already_seen(large: Tree) -> None:
    chunks, root = cold(large[0]), large[1]
    changed = update(chunks, root, {key(5): slot("new", 2)})
    written = chunks.writes
    seen = set(addresses(chunks, root))
    assert len(list(addresses(chunks, changed, seen))) == written


def test_a_tree_that_was_read_back_is_not_read_again(large: Tree) -> None:
    chunks, root, seen = cold(large[0]), large[1], set[bytes]()
    readings = list(read_tree_back(chunks, root, seen=seen))
    (top,) = [reading for reading in readings if not reading.key]
    assert top.node is not None, "the inline topmost chunk was not decoded"
    assert top.node.level == 3
    assert chunks.reads == len(readings) - 1 == len(seen)
    assert list(read_tree_back(chunks, root, seen=seen)) == [top]
    assert chunks.reads == len(readings) - 1


def test_listing_addresses_reads_no_leaf(large: Tree) -> None:
    chunks, root = cold(large[0]), large[1]
    listed = set(addresses(chunks, root))
    assert {f"acme/plan@abc/chunks/{address.hex()}" for address in listed} <= {
        stat.key for stat in chunks._blobs.list("")
    }
    assert chunks.reads < len(listed) / 20


def test_a_build_writes_chunks_before_all_items_are_read() -> None:
    held: list[int] = []
    chunks = new_chunks(0)

    def watched() -> Iterator[tuple[str, Slot]]:
        for number, item in enumerate(items(20_000)):
            held.append(number - 64 * chunks.writes)
            yield item

    build(chunks, watched())
    assert max(held) < 5_000

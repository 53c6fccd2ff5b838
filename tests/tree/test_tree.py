"""A tree by example: edge cases, limits, and damaged or foreign chunks."""

from __future__ import annotations

import msgspec
import pytest

from stratalog.backends.memory import MemoryBlobs
from stratalog.cache import ByteCache
from stratalog.clock import SystemClock
from stratalog.codec import encode, sha256
from stratalog.errors import Corrupt, Invalid, LimitExceeded, NotFound, Unsupported
from stratalog.limits import BLOB_BYTES_MAX, KEY_BYTES_MAX, VERSION_MAX
from stratalog.tree.chunks import Chunks
from stratalog.tree.diff import diff
from stratalog.tree.lookup import count, get, scan
from stratalog.tree.nodes import (
    CHUNK_ROWS_MAX,
    EMPTY,
    SLOT_BYTES_MAX,
    TREE_INLINE_BYTES_MAX,
    Inner,
    Leaf,
    Root,
    Slot,
    chunk_of,
    decode_node,
    key_level,
    root_of,
    seal,
)
from stratalog.tree.reach import addresses, verify
from stratalog.tree.update import build, update
from tests.tree.helpers import OWNER, build_from, items, keys_of_level, new_chunks, slot


def test_the_empty_tree_holds_nothing_and_is_no_blob() -> None:
    chunks = new_chunks()
    assert build(chunks, []) == EMPTY
    assert (get(chunks, EMPTY, ""), count(chunks, EMPTY)) == (None, 0)
    assert list(scan(chunks, EMPTY)) == list(diff(chunks, EMPTY, EMPTY)) == list(addresses(chunks, EMPTY)) == []
    verify(chunks, EMPTY)
    assert (chunks.reads, chunks.writes) == (0, 0)


def test_deleting_everything_leads_back_to_the_empty_tree() -> None:
    chunks = new_chunks()
    root = build(chunks, items(5000))
    assert update(chunks, root, {key: None for key, _ in items(5000)}) == EMPTY


def test_a_small_tree_is_inline_and_no_blob() -> None:
    chunks = new_chunks()
    root = update(chunks, EMPTY, {"a": slot(), "b": slot()})
    assert root.inline is not None
    assert root.address == sha256(root.inline)
    assert (chunks.writes, list(addresses(chunks, root))) == (0, [])
    assert get(chunks, root, "b") == slot()


def test_a_leaf_over_the_inline_bound_is_a_blob() -> None:
    chunks = new_chunks()
    root = update(chunks, EMPTY, {"a": slot("x" * TREE_INLINE_BYTES_MAX)})
    assert root.inline is None
    assert list(addresses(chunks, root)) == [root.address]
    assert chunks.writes == 1


def test_a_leaf_that_was_inline_is_stored_when_it_gets_a_parent() -> None:
    chunks = new_chunks(0)
    end = keys_of_level(1, 1)[0]
    small = update(chunks, EMPTY, {end: slot()})
    grown = update(chunks, small, {end + "x": slot()})
    assert small.inline is not None
    assert small.address in set(addresses(chunks, grown))
    assert list(scan(chunks, grown)) == [(end, slot()), (end + "x", slot())]


def test_a_tall_tree_collapses_to_an_inline_leaf() -> None:
    chunks = new_chunks(0)
    towers = keys_of_level(3, 2)
    root = update(chunks, EMPTY, dict.fromkeys(towers, slot()))
    assert chunks.top(root).level == 3
    before = chunks.writes
    assert update(chunks, root, {towers[1]: None}) == build_from(new_chunks(), {towers[0]: slot()})
    assert chunks.writes == before


def test_a_chunk_ends_at_the_maximum_row_count_if_no_key_ends_it() -> None:
    chunks = new_chunks()
    root = build_from(chunks, dict.fromkeys(keys_of_level(0, 2 * CHUNK_ROWS_MAX + 1), slot()))
    top = chunks.top(root)
    assert isinstance(top, Inner)
    assert top.counts == (CHUNK_ROWS_MAX, CHUNK_ROWS_MAX, 1)


@pytest.mark.parametrize("run", [CHUNK_ROWS_MAX - 1, CHUNK_ROWS_MAX, CHUNK_ROWS_MAX + 1, 2 * CHUNK_ROWS_MAX - 1])
@pytest.mark.parametrize("known", [0, 1, 100])
def test_an_update_near_a_chunk_of_the_maximum_row_count_gives_the_same_tree_as_a_build(run: int, known: int) -> None:
    keys = [*keys_of_level(0, run), *keys_of_level(1, 1, "l"), "m"]
    content = dict.fromkeys(keys, slot())
    chunks = new_chunks()
    standing = build_from(chunks, {key: content[key] for key in [*keys[:known], *keys[-1:]]})
    root = update(chunks, standing, content)
    assert root == build_from(new_chunks(), content)
    verify(chunks, root)


def test_keys_are_in_the_order_of_their_utf_8_bytes() -> None:
    keys = ["\U0010ffff", "\uffff", "é", "z", "", "\ue000", "a\x00", "a"]
    chunks = new_chunks()
    root = update(chunks, EMPTY, dict.fromkeys(keys, slot()))
    assert [key for key, _ in scan(chunks, root)] == sorted(keys, key=str.encode)


def test_a_scan_of_the_last_unicode_character_as_prefix_is_complete() -> None:
    chunks = new_chunks()
    root = update(chunks, EMPTY, dict.fromkeys(["a", "\U0010ffff", "\U0010ffffb"], slot()))
    assert [key for key, _ in scan(chunks, root, prefix="\U0010ffff")] == ["\U0010ffff", "\U0010ffffb"]
    assert count(chunks, root, prefix="\U0010ffff") == 2


def test_a_scan_before_the_empty_key_is_empty() -> None:
    chunks = new_chunks()
    root = update(chunks, EMPTY, {"": slot(), "a": slot()})
    assert list(scan(chunks, root, before="")) == []
    assert [key for key, _ in scan(chunks, root, after="")] == ["a"]


def test_a_key_is_measured_in_bytes() -> None:
    chunks = new_chunks()
    assert update(chunks, EMPTY, {"é" * (KEY_BYTES_MAX // 2): slot()}).count == 1
    for key in ("x" * (KEY_BYTES_MAX + 1), "é" * (KEY_BYTES_MAX // 2 + 1)):
        with pytest.raises(LimitExceeded):
            update(chunks, EMPTY, {key: slot()})
        with pytest.raises(LimitExceeded):
            build(chunks, [(key, slot())])


def test_a_key_with_a_surrogate_is_invalid() -> None:
    with pytest.raises(Invalid, match="surrogate"):
        update(new_chunks(), EMPTY, {"\ud800": None})


def test_values_and_versions_have_bounds() -> None:
    chunks = new_chunks()
    with pytest.raises(LimitExceeded):
        update(chunks, EMPTY, {"a": Slot(b"x" * (SLOT_BYTES_MAX + 1), 1)})
    for version in (-1, VERSION_MAX + 1):
        with pytest.raises(Invalid):
            update(chunks, EMPTY, {"a": slot(1, version)})


def test_the_largest_possible_chunk_fits_into_a_blob() -> None:
    keys = [key + "x" * (KEY_BYTES_MAX - len(key)) for key, _ in items(CHUNK_ROWS_MAX)]
    assert len(seal(0, [(key, b"x" * SLOT_BYTES_MAX, VERSION_MAX) for key in keys]).body) <= BLOB_BYTES_MAX


def test_items_out_of_order_are_invalid() -> None:
    for keys in (["b", "a"], ["a", "a"]):
        with pytest.raises(Invalid, match="ascending"):
            build(new_chunks(), [(key, slot()) for key in keys])


def test_the_levels_of_known_keys_do_not_change() -> None:
    assert [key_level(key) for key in ("a", "key/22", "é", "")] == [0, 0, 0, 0]
    assert keys_of_level(1, 2) == ["k000000051", "k000000113"]
    assert keys_of_level(2, 1) == ["k000008462"]


def test_the_cache_keeps_within_its_bound() -> None:
    writer = new_chunks()
    root = build(writer, items(20_000))
    chunks = Chunks(writer._blobs, OWNER, ByteCache(200_000))
    assert sum(1 for _ in scan(chunks, root)) == 20_000
    assert 5 <= len(chunks._cache._held) <= 40
    assert 100_000 <= chunks._cache.held_bytes <= 200_000


def test_a_missing_chunk_is_not_found() -> None:
    root = build(new_chunks(), items(5000))
    with pytest.raises(NotFound):
        get(new_chunks(), root, "item/00000001")


def test_an_inline_chunk_must_have_the_address_of_its_root() -> None:
    root = msgspec.structs.replace(EMPTY, inline=encode([1, 0, ["a"], [b"\x01"], [1]]))
    with pytest.raises(Corrupt, match="address"):
        get(new_chunks(), root, "a")


@pytest.mark.parametrize("body", [encode([2, 0, [], [], []]), encode([9, {"new": "shape"}])])
def test_a_chunk_of_a_newer_format_raises_unsupported(body: bytes) -> None:
    with pytest.raises(Unsupported):
        decode_node(body)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x95",
        b"text",
        encode(None),
        encode([0, 0, [], [], []]),
        encode([1, 1, ["a"], [b"\x01"], [1]]),
        encode([1, 0, ["a"], [b"\x01"], []]),
        encode([1, 0, [1], [b"\x01"], [1]]),
        encode([1, 0, ["a"], [b"\x01"], [1], []]),
        encode([1, 1, [], [], [], []]),
        encode([1, 0, ["a"], [b"\x01"], [1]])[:-1],
        encode([1, 0, [], [], []]) + b"\x00",
        encode([1, 0, ["a"], [b"\x01"], [1]]).replace(b"a", b"\xe1"),  # a flipped bit: invalid UTF-8
    ],
)
def test_a_malformed_chunk_is_corrupt(body: bytes) -> None:
    with pytest.raises(Corrupt):
        decode_node(body)


def stored(chunks: Chunks, node: Leaf | Inner) -> Root:
    chunk = chunk_of(node)
    chunks.write(chunk)
    return root_of(chunk)


def parent_of(*nodes: Leaf | Inner, level: int = 1) -> Inner:
    chunks = [chunk_of(node) for node in nodes]
    return Inner(
        1,
        level,
        tuple(chunk.node.keys[-1] for chunk in chunks),
        tuple(chunk.address for chunk in chunks),
        tuple(chunk.digest for chunk in chunks),
        tuple(chunk.count for chunk in chunks),
    )


def leaf(*keys: str) -> Leaf:
    return Leaf(1, 0, keys, (b"\x01",) * len(keys), (1,) * len(keys))


def broken_trees() -> list[tuple[str, list[Leaf | Inner]]]:
    end, plain = keys_of_level(1, 1)[0], keys_of_level(0, 3, "m")
    first, second = leaf(end), leaf(*plain)
    good = parent_of(first, second)
    return [
        ("out of order", [leaf("b", "a")]),
        ("out of order", [first, leaf("a"), parent_of(first, leaf("a"))]),
        ("does not end at a boundary", [leaf(end, "z")]),
        ("does not end at a boundary", [leaf("a"), second, parent_of(leaf("a"), second)]),
        ("single child", [first, parent_of(first)]),
        ("one level below|contradicts its parent", [first, second, msgspec.structs.replace(good, level=2)]),
        ("contradicts its parent", [first, second, msgspec.structs.replace(good, counts=(1, 4))]),
        ("contradicts its parent", [first, second, msgspec.structs.replace(good, digests=(b"0" * 32, b"1" * 32))]),
        ("contradicts its parent", [first, second, msgspec.structs.replace(good, keys=(end, "z"))]),
    ]


@pytest.mark.parametrize(("message", "nodes"), broken_trees())
def test_verify_names_the_defect_of_a_broken_tree(message: str, nodes: list[Leaf | Inner]) -> None:
    chunks = new_chunks()
    roots = [stored(chunks, node) for node in nodes]
    with pytest.raises(Corrupt, match=message):
        verify(chunks, roots[-1])


def test_verify_accepts_the_same_tree_unbroken() -> None:
    chunks = new_chunks()
    first, second = leaf(keys_of_level(1, 1)[0]), leaf(*keys_of_level(0, 3, "m"))
    roots = [stored(chunks, node) for node in (first, second, parent_of(first, second))]
    verify(chunks, roots[-1])


def test_verify_detects_a_root_with_a_wrong_count() -> None:
    chunks = new_chunks()
    root = build(chunks, items(500))
    with pytest.raises(Corrupt, match="a root contradicts"):
        verify(chunks, msgspec.structs.replace(root, count=501))


def test_verify_finds_bytes_that_are_not_canonical() -> None:
    body = encode([1, 0, [], [], []]).replace(b"\x90", b"\xdc\x00\x00", 1)
    with pytest.raises(Corrupt, match="canonical"):
        verify(new_chunks(), Root(sha256(body), EMPTY.digest, 0, body))


def test_a_parent_with_a_wrong_level_raises_corrupt() -> None:
    chunks = new_chunks()
    first = leaf(keys_of_level(1, 1)[0])
    stored(chunks, first)
    root = stored(chunks, parent_of(first, level=5))
    with pytest.raises(Corrupt, match="one level below"):
        get(chunks, root, "a")


def test_chunks_are_stored_under_the_key_prefix_of_their_owner() -> None:
    blobs = MemoryBlobs(SystemClock())
    build(Chunks(blobs, OWNER), items(500))
    assert all(stat.key.startswith(f"{OWNER}/chunks/") for stat in blobs.list(""))

"""After any history that Hypothesis generates, a tree has the content of a plain dict."""

from __future__ import annotations

from itertools import count as count_from

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.tree.diff import diff
from stratalog.tree.lookup import count, get, scan
from stratalog.tree.nodes import EMPTY, Slot, key_level
from stratalog.tree.reach import verify
from stratalog.tree.update import update
from tests.tree.helpers import build_from, keys_of_level, new_chunks, slot

pytestmark = pytest.mark.usefixtures("untraced")

Content = dict[str, Slot]
Patch = dict[str, Slot | None]

# Each pool gives trees a different shape. The pools have usual keys, keys that end no chunk, keys that all end a chunk,
# a mix of both, keys with common prefixes, and keys in several scripts.
DENSE = [f"item/{number:05d}" for number in range(3000)]
ENDLESS = keys_of_level(0, 3000)
ENDS = keys_of_level(1, 40) + keys_of_level(2, 6)
MIXED = sorted(ENDLESS[:1500] + ENDS)
NESTED = ["a" * length for length in range(200)] + ["ab" * length + "c" for length in range(100)]
UNICODE = sorted(
    {
        chr(point) + tail
        for point in [*range(32, 700), 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF]
        for tail in ("", "x", "é")
    }
)
POOLS = [DENSE, ENDLESS, ENDS, MIXED, NESTED, UNICODE]

slots = st.builds(slot, st.integers(0, 3), st.integers(1, 3))


@st.composite
def patches(draw: st.DrawFn, pool: list[str]) -> Patch:
    """Some single keys and some runs of adjacent keys, put or deleted."""
    patch: Patch = {}
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(pool) - 1))
        length = draw(st.sampled_from([1, 2, 70, 300, 1200]))
        value = draw(st.one_of(st.none(), slots))
        patch |= dict.fromkeys(pool[start : start + length], value)
    for _ in range(draw(st.integers(0, 6))):
        patch[draw(st.sampled_from(pool))] = draw(st.one_of(st.none(), slots))
    return patch


histories = st.sampled_from(POOLS).flatmap(lambda pool: st.lists(patches(pool), min_size=1, max_size=6))


def applied(content: Content, patch: Patch) -> Content:
    joined = {**content, **patch}
    return {key: value for key, value in joined.items() if value is not None}


def differences(source: Content, target: Content) -> list[tuple[str, Slot | None, Slot | None]]:
    keys = sorted(source.keys() | target.keys())
    return [(key, source.get(key), target.get(key)) for key in keys if source.get(key) != target.get(key)]


@settings(max_examples=400, deadline=None)
@given(histories)
def test_the_root_depends_on_the_content_and_not_on_the_history(history: list[Patch]) -> None:
    chunks = new_chunks()
    root, content = EMPTY, Content()
    for patch in history:
        root, content = update(chunks, root, patch), applied(content, patch)
        assert root == build_from(new_chunks(), content)
        verify(chunks, root)


@settings(max_examples=250, deadline=None)
@given(histories, st.integers(0, 5), st.integers(0, 5))
def test_the_difference_of_two_versions_is_that_of_their_contents(
    history: list[Patch], first: int, second: int
) -> None:
    chunks = new_chunks(0)
    roots, contents = [EMPTY], [Content()]
    for patch in history:
        roots.append(update(chunks, roots[-1], patch))
        contents.append(applied(contents[-1], patch))
    first, second = first % len(roots), second % len(roots)
    assert list(diff(chunks, roots[first], roots[second])) == differences(contents[first], contents[second])


@settings(max_examples=250, deadline=None)
@given(
    st.sampled_from(POOLS).flatmap(
        lambda pool: st.tuples(patches(pool), st.lists(st.sampled_from(pool), min_size=3, max_size=3))
    )
)
def test_lookups_scans_and_counts_match_a_dict(drawn: tuple[Patch, list[str]]) -> None:
    patch, (key, after, before) = drawn
    chunks = new_chunks()
    root, content = update(chunks, EMPTY, patch), applied({}, patch)
    ordered = sorted(content.items())
    assert get(chunks, root, key) == content.get(key)
    assert list(scan(chunks, root)) == ordered
    assert list(scan(chunks, root, reverse=True)) == ordered[::-1]
    between = [pair for pair in ordered if after < pair[0] < before]
    assert list(scan(chunks, root, after=after, before=before)) == between
    prefix = key[:-1]
    under = [pair for pair in ordered if pair[0].startswith(prefix)]
    assert list(scan(chunks, root, prefix=prefix)) == under
    assert (
        list(scan(chunks, root, prefix=prefix, after=after, reverse=True)) == [p for p in under if p[0] > after][::-1]
    )
    assert count(chunks, root, prefix=prefix) == len(under)


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(POOLS))
def test_single_keys_put_and_deleted_in_any_order_lead_to_one_root(random: object, pool: list[str]) -> None:
    chunks = new_chunks()
    retained, dropped = pool[:150:2], pool[1:150:2]
    puts = retained + dropped
    random.shuffle(puts)  # type: ignore[attr-defined]
    root = EMPTY
    for key in puts:
        root = update(chunks, root, {key: slot(len(key))})
    random.shuffle(dropped)  # type: ignore[attr-defined]
    for key in dropped:
        root = update(chunks, root, {key: None})
    assert root == build_from(new_chunks(), {key: slot(len(key)) for key in retained})


@settings(max_examples=150, deadline=None)
@given(histories)
def test_equal_content_of_other_versions_has_an_equal_digest(history: list[Patch]) -> None:
    content = Content()
    for patch in history:
        content = applied(content, patch)
    later = {
        key: Slot(slot.value, slot.version + number)
        for number, (key, slot) in zip(count_from(1), content.items(), strict=False)
    }
    chunks = new_chunks()
    first, second = build_from(chunks, content), build_from(chunks, later)
    assert first.digest == second.digest
    assert (first.address == second.address) == (not content)


@pytest.mark.parametrize("pool", [DENSE, ENDLESS, UNICODE])
def test_another_value_or_key_has_another_digest(pool: list[str]) -> None:
    chunks = new_chunks()
    content = {key: slot() for key in pool}
    root = build_from(chunks, content)
    digests = {root.digest}
    for key in pool[:: len(pool) // 20]:
        digests.add(update(chunks, root, {key: slot(2)}).digest)
        digests.add(update(chunks, root, {key: None}).digest)
        digests.add(update(chunks, root, {key + "~": slot()}).digest)
    assert len(digests) == 1 + 3 * len(pool[:: len(pool) // 20])


def test_the_pools_have_keys_of_the_stated_levels() -> None:
    assert {key_level(key) for key in ENDLESS} == {0}
    assert min(key_level(key) for key in ENDS) == 1

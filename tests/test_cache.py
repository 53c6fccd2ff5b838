"""A ByteCache limits the bytes of its values, and drops the least recently used value first."""

from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from stratalog.cache import ByteCache
from tests.threads import run_together


def test_the_least_recently_used_value_is_evicted_first() -> None:
    cache: ByteCache[str] = ByteCache(10)
    for key in "abc":
        cache.put(key, key.upper(), 3)
    assert cache.get("a") == "A"
    cache.put("d", "D", 3)
    assert [cache.get(key) for key in "abcd"] == ["A", None, "C", "D"]
    assert cache.held_bytes == 9


def test_a_value_larger_than_the_cache_evicts_no_other_value() -> None:
    cache: ByteCache[str] = ByteCache(10)
    cache.put("a", "A", 10)
    cache.put("b", "B", 11)
    assert (cache.get("a"), cache.get("b")) == ("A", None)
    cache.put("a", "A", 11)
    assert (cache.get("a"), cache.held_bytes) == (None, 0)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 12))))
def test_the_cache_never_exceeds_its_limit(puts: list[tuple[int, int]]) -> None:
    cache: ByteCache[int] = ByteCache(20)
    for key, size in puts:
        cache.put(key, size, size)
        held = [value for other in range(10) if (value := cache.get(other)) is not None]
        assert sum(held) == cache.held_bytes <= 20


def test_threads_can_share_the_cache() -> None:
    cache: ByteCache[int] = ByteCache(50)

    def use(first: int) -> None:
        for number in range(2000):
            key = (first + number) % 40
            assert cache.get(key) in (None, key)
            cache.put(key, key, 1 + key % 7)

    run_together(partial(use, first) for first in range(4))
    assert 0 < cache.held_bytes <= 50

"""The contract suite of an index: tests of the port's contract. `CommitContract` tests commits with blobs.

Subclass :class:`IndexContract` in a test module, implement ``make``, and run it with any test runner that collects
methods named ``test_…``. The suite needs no framework.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

from stratalog.errors import Closed, ConditionFailed, Invalid, LimitExceeded, StratalogError
from stratalog.limits import COMMIT_WRITES_MAX, ITEM_BYTES_MAX, PARTITION_BYTES_MAX, SORT_BYTES_MAX
from stratalog.ports.index import Absent, Check, Delete, Equals, Index, Item, LessThan, Put

__all__ = ["IndexContract"]

MANY = 2500
"""More items than a backend reads in one page, if it limits a page by a number of items."""


class IndexContract(ABC):
    """Tests of an index. A subclass implements ``make``."""

    @abstractmethod
    def make(self) -> Index:
        """Return a new, empty index. Every test calls `make` once."""

    def test_an_item_reads_back_as_it_was_put(self) -> None:
        index = self.make()
        item = Item("p", "s", {"t": "text é\0", "b": b"\x00\xff", "n": -(2**53) + 1, "e": ""})
        index.commit([Put(item)])
        assert index.get("p", "s") == item
        assert index.get("p", "s", consistent=False) == item

    def test_an_unknown_key_is_none(self) -> None:
        index = self.make()
        index.commit([Put(Item("p", "s", {}))])
        assert index.get("p", "t") is None
        assert index.get("q", "s") is None
        assert list(index.query("q")) == []

    def test_an_item_does_not_change_with_the_caller_s_dictionary(self) -> None:
        index = self.make()
        attributes = {"n": 1}
        index.commit([Put(Item("p", "s", attributes))])
        attributes["n"] = 2
        assert index.get("p", "s") == Item("p", "s", {"n": 1})

    def test_a_put_replaces_the_whole_item(self) -> None:
        index = self.make()
        index.commit([Put(Item("p", "s", {"a": 1, "b": 2}))])
        index.commit([Put(Item("p", "s", {"a": 3}))])
        assert index.get("p", "s") == Item("p", "s", {"a": 3})

    def test_a_delete_removes_an_item_and_a_second_delete_does_nothing(self) -> None:
        index = self.make()
        index.commit([Put(_item("s"))])
        index.commit([Delete("p", "s")])
        index.commit([Delete("p", "s")])
        assert index.get("p", "s") is None

    def test_the_condition_absent_holds_only_for_the_first_put(self) -> None:
        index = self.make()
        index.commit([Put(_item("s", 1), Absent())])
        failure = _failure(index, [Put(_item("s", 2), Absent())])
        assert failure.items == {0: _item("s", 1)}
        assert index.get("p", "s") == _item("s", 1)

    def test_the_condition_absent_holds_again_after_a_delete(self) -> None:
        index = self.make()
        index.commit([Put(_item("s", 1), Absent())])
        index.commit([Delete("p", "s")])
        index.commit([Put(_item("s", 2), Absent())])
        assert index.get("p", "s") == _item("s", 2)

    def test_equals_holds_only_for_an_item_with_the_value_and_its_type(self) -> None:
        index = self.make()
        index.commit([Put(Item("p", "s", {"n": 1, "t": "1"}))])
        for name, value in (("n", 2), ("n", "1"), ("t", 1), ("t", b"1"), ("x", 1)):
            assert _failure(index, [Check("p", "s", Equals(name, value))]).items[0] is not None
        assert _failure(index, [Check("p", "none", Equals("n", 1))]).items == {0: None}
        index.commit([Put(Item("p", "s", {"n": 5}), Equals("n", 1))])
        assert index.get("p", "s") == Item("p", "s", {"n": 5})

    def test_less_than_compares_values_of_one_type(self) -> None:
        index = self.make()
        index.commit([Put(Item("p", "s", {"n": 5, "t": "b", "b": b"b"}))])
        for name, value in (("n", 5), ("n", 4), ("n", "9"), ("t", "b"), ("b", b"a"), ("b", "c"), ("x", 1)):
            _failure(index, [Check("p", "s", LessThan(name, value))])
        _failure(index, [Check("p", "none", LessThan("n", 9))])
        index.commit([Check("p", "s", LessThan("n", 6))])
        index.commit([Check("p", "s", LessThan("t", "c"))])
        index.commit([Delete("p", "s", LessThan("b", b"c"))])
        assert index.get("p", "s") is None

    def test_a_turn_lets_its_holder_read_and_commit(self) -> None:
        index = self.make()
        with index.turn("p") as has_turn:
            assert has_turn in (True, False)
            assert index.get("p", "s") is None
            index.commit([Put(_item("s", 1), Absent())])
        assert index.get("p", "s") == _item("s", 1)

    def test_a_turn_inside_a_turn_has_the_same_value(self) -> None:
        index = self.make()
        with index.turn("p") as outer, index.turn("p") as inner:
            index.commit([Put(_item("s", 1), Absent())])
            assert inner == outer

    def test_a_turn_fences_nothing(self) -> None:
        index = self.make()
        index.commit([Put(_item("s", 1))])
        with index.turn("p"):
            assert _failure(index, [Put(_item("s", 2), Absent())]).items == {0: _item("s", 1)}

    def test_a_turn_passes_on_the_error_of_its_block_and_another_turn_can_follow(self) -> None:
        index = self.make()
        error = ConditionFailed({})

        def fail() -> None:
            with index.turn("p"):
                raise error

        assert _raised(fail) is error
        with index.turn("p"):
            index.commit([Put(_item("s", 1), Absent())])
        assert index.get("p", "s") == _item("s", 1)

    def test_one_failed_condition_undoes_the_whole_commit(self) -> None:
        index = self.make()
        index.commit([Put(_item("stands", 1)), Put(_item("kept", 1))])
        writes = [Put(_item("new")), Delete("p", "kept"), Put(_item("stands", 2), Absent()), Put(_item("later"))]
        assert _failure(index, writes).items == {2: _item("stands", 1)}
        assert [item.sort for item in index.query("p")] == ["kept", "stands"]

    def test_a_failure_names_every_failed_condition_and_its_item(self) -> None:
        index = self.make()
        index.commit([Put(_item("a", 1)), Put(_item("b", 2))])
        failure = _failure(
            index,
            [
                Put(_item("a", 9), Absent()),
                Check("p", "b", Equals("n", 2)),
                Delete("p", "c", Equals("n", 1)),
                Check("p", "b2", Absent()),
            ],
        )
        assert failure.items == {0: _item("a", 1), 2: None}

    def test_conditions_see_the_state_before_the_commit(self) -> None:
        index = self.make()
        index.commit([Put(_item("a", 1))])
        index.commit([Delete("p", "a"), Check("p", "b", Absent()), Put(_item("c"), Absent())])
        assert [item.sort for item in index.query("p")] == ["c"]

    def test_a_check_writes_nothing(self) -> None:
        index = self.make()
        index.commit([Check("p", "s", Absent())])
        assert index.get("p", "s") is None

    def test_a_commit_spans_partitions(self) -> None:
        index = self.make()
        index.commit([Put(Item("p", "s", {})), Put(Item("q", "s", {}))])
        _failure(index, [Put(Item("r", "s", {})), Put(Item("q", "s", {}), Absent())])
        assert [index.get(partition, "s") is None for partition in "pqr"] == [False, False, True]

    def test_a_commit_over_a_bound_writes_nothing(self) -> None:
        index = self.make()
        good = Put(_item("good"))
        large = Item("p", "large", {"b": bytes(ITEM_BYTES_MAX)})
        nearly = [Put(Item("p", f"{n}", {"b": bytes(ITEM_BYTES_MAX - 100)})) for n in range(11)]
        _refused(index, LimitExceeded, [])
        _refused(index, LimitExceeded, [Put(_item(f"{n}")) for n in range(COMMIT_WRITES_MAX + 1)])
        _refused(index, LimitExceeded, [good, Put(large)])
        _refused(index, LimitExceeded, [good, *nearly])
        _refused(index, LimitExceeded, [good, Put(_item("s" * (SORT_BYTES_MAX + 1)))])
        _refused(index, LimitExceeded, [good, Put(Item("p" * (PARTITION_BYTES_MAX + 1), "s", {}))])
        _refused(index, LimitExceeded, [good, Put(_item(""))])
        assert list(index.query("p")) == []

    def test_two_writes_of_one_key_are_refused(self) -> None:
        index = self.make()
        _refused(index, Invalid, [Put(_item("s")), Delete("p", "s")])
        _refused(index, Invalid, [Check("p", "s", Absent()), Put(_item("s"))])
        assert index.get("p", "s") is None

    def test_an_attribute_of_another_type_is_refused(self) -> None:
        index = self.make()
        for value in (1.5, None, [1], {"a": 1}, True):
            _refused(index, Invalid, [Put(Item("p", "s", {"a": value}))])  # type: ignore[dict-item]
        assert index.get("p", "s") is None

    def test_integers_of_64_bits_read_back_and_larger_ones_are_refused(self) -> None:
        """The limits also apply to the value of a condition, both of a check and of a put."""
        index = self.make()
        fitting = Item("p", "s", {"least": -(2**63), "most": 2**64 - 1})
        index.commit([Put(fitting)])
        index.commit([Check("p", "s", Equals("most", 2**64 - 1)), Delete("p", "t", Absent())])
        assert index.get("p", "s") == fitting
        for value in (-(2**63) - 1, 2**64, 10**5000):
            _refused(index, Invalid, [Put(Item("p", "t", {"a": value}))])
            for condition in (Equals("most", value), LessThan("most", value)):
                _refused(index, Invalid, [Put(Item("p", "t", {}), Absent()), Check("p", "s", condition)])
                _refused(index, Invalid, [Put(fitting, condition)])
        assert list(index.query("p")) == [fitting]

    def test_a_condition_on_a_value_of_another_type_is_refused(self) -> None:
        index = self.make()
        for value in (1.5, None, [1], True):
            condition = Equals("a", value)  # type: ignore[arg-type]
            _refused(index, Invalid, [Put(Item("p", "t", {}), Absent()), Check("p", "s", condition)])
        assert index.get("p", "t") is None

    def test_a_full_commit_and_the_longest_keys_fit(self) -> None:
        index = self.make()
        long = Item("p" * PARTITION_BYTES_MAX, "s" * SORT_BYTES_MAX, {"n": 1})
        index.commit([Put(long), *(Put(_item(f"{n:03d}")) for n in range(COMMIT_WRITES_MAX - 1))])
        assert index.get(long.partition, long.sort) == long
        assert len(list(index.query("p"))) == COMMIT_WRITES_MAX - 1

    def test_a_query_is_in_order_of_code_points(self) -> None:
        index = self.make()
        sorts = ["A", "a", "a\0", "aa", "b", "é", "\uffff", "\U00010000"]
        for sort in reversed(sorts):
            index.commit([Put(_item(sort))])
        assert _sorts(index) == sorts
        assert _sorts(index, reverse=True) == sorts[::-1]

    def test_query_bounds_are_exclusive(self) -> None:
        index = self.make()
        index.commit([Put(_item(sort)) for sort in "abcde"])
        assert _sorts(index, after="b") == ["c", "d", "e"]
        assert _sorts(index, before="d") == ["a", "b", "c"]
        assert _sorts(index, after="a", before="d") == ["b", "c"]
        assert _sorts(index, after="a", before="d", reverse=True) == ["c", "b"]
        assert _sorts(index, after="bb", before="dd") == ["c", "d"]
        assert _sorts(index, after="d", before="b") == []
        assert _sorts(index, after="") == ["a", "b", "c", "d", "e"]

    def test_a_limit_counts_items(self) -> None:
        index = self.make()
        index.commit([Put(_item(sort)) for sort in "abcde"])
        assert _sorts(index, limit=2) == ["a", "b"]
        assert _sorts(index, limit=2, reverse=True) == ["e", "d"]
        assert _sorts(index, limit=9) == ["a", "b", "c", "d", "e"]
        assert _sorts(index, limit=0) == []

    def test_a_query_of_several_pages_returns_all_items_in_order(self) -> None:
        index = self.make()
        sorts = _fill(index, MANY)
        assert _sorts(index) == sorts
        assert _sorts(index, reverse=True) == sorts[::-1]
        assert _sorts(index, after=sorts[2], before=sorts[-2]) == sorts[3:-2]
        assert _sorts(index, limit=MANY - 1) == sorts[:-1]
        assert _sorts(index, limit=MANY - 1, reverse=True) == sorts[:0:-1]

    def test_a_query_of_large_items_returns_all_of_them(self) -> None:
        index = self.make()
        for n in range(30):
            index.commit([Put(Item("p", f"{n:02d}", {"b": bytes([n]) * 300_000}))])
        assert [item.attributes["b"] for item in index.query("p")] == [bytes([n]) * 300_000 for n in range(30)]

    def test_commits_to_another_partition_leave_an_open_query_unchanged(self) -> None:
        index = self.make()
        sorts = _fill(index, MANY)
        seen = []
        for item in index.query("p"):
            seen.append(item.sort)
            if len(seen) % 500 == 1:
                index.commit([Put(Item("other", item.sort, {}))])
        assert seen == sorts

    def test_only_one_of_many_threads_puts_an_absent_item(self) -> None:
        index = self.make()
        for turn in range(20):
            outcomes = _race(8, partial(_put_absent, index, f"{turn}"))
            winners = [n for n, outcome in enumerate(outcomes) if outcome is None]
            losers = [outcome for outcome in outcomes if outcome is not None]
            assert len(winners) == 1
            assert [loser.items for loser in losers] == [{0: _item(f"{turn}", winners[0])}] * 7

    def test_a_counter_loses_no_step_between_threads(self) -> None:
        index = self.make()
        index.commit([Put(_item("counter", 0))])

        def step_often(_: int) -> None:
            for _ in range(20):
                while not _step(index):
                    pass

        assert _race(8, step_often) == [None] * 8
        assert index.get("p", "counter") == _item("counter", 160)

    def test_threads_see_commits_whole(self) -> None:
        index = self.make()
        torn = []

        def write_or_read(n: int) -> None:
            for turn in range(50):
                if n % 2:
                    index.commit([Put(_item("a", n * 100 + turn)), Put(_item("b", n * 100 + turn))])
                elif len({item.attributes["n"] for item in index.query("p")}) > 1:
                    torn.append(turn)

        assert _race(8, write_or_read) == [None] * 8
        assert torn == []

    def test_calls_after_closing_raise_closed(self) -> None:
        index = self.make()
        index.commit([Put(_item("s"))])
        index.close()
        index.close()
        _refused(index, Closed, [Put(_item("t"))])
        for call in (lambda: index.get("p", "s"), lambda: list(index.query("p")), lambda: index.turn("p")):
            assert isinstance(_raised(call), Closed)


def _item(sort: str, n: int = 0) -> Item:
    return Item("p", sort, {"n": n})


def _put_absent(index: Index, sort: str, n: int) -> None:
    index.commit([Put(_item(sort, n), Absent())])


def _sorts(index: Index, **bounds: Any) -> list[str]:
    return [item.sort for item in index.query("p", **bounds)]


def _fill(index: Index, count: int) -> list[str]:
    sorts = [f"{n:06d}" for n in range(count)]
    for start in range(0, count, COMMIT_WRITES_MAX):
        index.commit([Put(_item(sort)) for sort in sorts[start : start + COMMIT_WRITES_MAX]])
    return sorts


def _step(index: Index) -> bool:
    item = index.get("p", "counter")
    assert item is not None
    n = item.attributes["n"]
    assert isinstance(n, int)
    try:
        index.commit([Put(_item("counter", n + 1), Equals("n", n))])
    except ConditionFailed:
        return False
    return True


def _failure(index: Index, writes: list[Any]) -> ConditionFailed:
    raised = _raised(lambda: index.commit(writes))
    assert isinstance(raised, ConditionFailed), raised
    return raised


def _refused(index: Index, kind: type[StratalogError], writes: list[Any]) -> None:
    raised = _raised(lambda: index.commit(writes))
    assert isinstance(raised, kind), raised


def _raised(call: Callable[[], object]) -> StratalogError | None:
    try:
        call()
    except StratalogError as exc:
        return exc
    return None


def _race(count: int, work: Callable[[int], None]) -> list[Any]:
    """Run ``work`` in ``count`` threads at the same time. Return the error of each thread, or None."""
    outcomes: list[object] = ["an error that is not ours"] * count
    barrier = threading.Barrier(count)

    def run(n: int) -> None:
        barrier.wait()
        outcomes[n] = _raised(lambda: work(n))

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes

"""`Newest` never replaces a value by an older value, in any order of the offers."""

from __future__ import annotations

from stratalog.newest import Newest


def test_newest_is_initially_empty() -> None:
    assert Newest(int).value is None


def test_a_newer_value_replaces_an_older_one() -> None:
    shared = Newest(int, 1)
    assert shared.offer(2) == 2
    assert shared.value == 2


def test_an_older_value_is_refused_and_the_newer_one_returned() -> None:
    shared = Newest(int, 5)
    assert shared.offer(2) == 5
    assert shared.value == 5


def test_an_equally_new_value_replaces_the_held_value() -> None:
    shared: Newest[list[int]] = Newest(len, [1])
    again = [2]
    assert shared.offer(again) is again
    assert shared.value is again


def test_a_value_is_dropped() -> None:
    shared = Newest(int, 5)
    shared.drop(shared.value)
    assert shared.value is None


def test_a_drop_does_not_remove_a_newer_value() -> None:
    shared: Newest[list[int]] = Newest(len, [1])
    seen = shared.value
    shared.offer([1, 2])
    shared.drop(seen)
    assert shared.value == [1, 2]


def test_an_older_value_is_not_held_after_a_newer_value_was_dropped() -> None:
    shared = Newest(int, 5)
    shared.drop(5)
    assert shared.offer(4) == 4
    assert shared.value is None
    assert shared.offer(5) == 5
    assert shared.value == 5


def test_a_newer_and_an_older_value_are_joined_in_either_order() -> None:
    def join(newer: tuple[int, int], older: tuple[int, int]) -> tuple[int, int]:
        return newer[0], max(newer[1], older[1])

    for first, second in (((2, 0), (1, 1)), ((1, 1), (2, 0))):
        shared = Newest(lambda pair: pair[0], first, join=join)
        assert shared.offer(second) == (2, 1)
        assert shared.value == (2, 1)

"""Each checker finds its own kind of fault, and accepts a correct history."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stratalog.testing.checkers import (
    Answered,
    CheckedAppend,
    HeadRead,
    LoggedEntry,
    Violation,
    check_acknowledged,
    check_appends,
    check_gapless,
    check_once,
    check_real_time,
    check_refused,
    check_writer_order,
)

FIRST = CheckedAppend("a", "w1", 1, 2, Answered.ACKNOWLEDGED, 1)
SECOND = CheckedAppend("b", "w2", 3, 4, Answered.ACKNOWLEDGED, 2)
REFUSED = CheckedAppend("b", "w3", 5, 6, Answered.REFUSED)
UNKNOWN = CheckedAppend("a", "w4", 5, 7, Answered.UNKNOWN)
LOG = [LoggedEntry(1, "a", "w1", 1), LoggedEntry(2, "b", "w2", 1), LoggedEntry(3, "a", "w4", 2)]


def test_a_correct_history_passes() -> None:
    check_appends([FIRST, SECOND, REFUSED, UNKNOWN], [HeadRead(5, 6, 2)], LOG)


def test_a_history_passes_without_the_forgotten_entries_up_to_the_floor() -> None:
    check_appends([FIRST, SECOND], [], LOG[1:], floor=1)


@pytest.mark.parametrize(
    ("checker", "check"),
    [
        ("gapless", lambda: check_gapless([1, 3])),
        ("gapless", lambda: check_gapless([1, 1])),
        ("gapless", lambda: check_gapless([1], floor=1)),
        ("once", lambda: check_once(["w1", "w2", "w1"])),
        ("acknowledged", lambda: check_acknowledged([FIRST], [])),
        ("acknowledged", lambda: check_acknowledged([FIRST], [LoggedEntry(2, "a", "w1", 1)])),
        ("refused", lambda: check_refused([REFUSED], [LoggedEntry(1, "b", "w3", 1)])),
        ("writer-order", lambda: check_writer_order([LoggedEntry(1, "a", "x", 2), LoggedEntry(2, "a", "y", 1)])),
        ("real-time", lambda: check_real_time([SECOND], [HeadRead(5, 6, 1)])),
        (
            "real-time",
            lambda: check_real_time([CheckedAppend("a", "x", 5, 6, Answered.ACKNOWLEDGED, 2)], [HeadRead(1, 2, 2)]),
        ),
    ],
)
def test_a_wrong_history_is_detected_by_its_checker(checker: str, check: Callable[[], None]) -> None:
    with pytest.raises(Violation) as caught:
        check()
    assert caught.value.checker == checker


def test_appends_that_overlap_may_have_their_versions_in_any_order() -> None:
    check_real_time(
        [
            CheckedAppend("a", "x", 1, 9, Answered.ACKNOWLEDGED, 1),
            CheckedAppend("b", "y", 2, 3, Answered.ACKNOWLEDGED, 2),
        ],
        [],
    )

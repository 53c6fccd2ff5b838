"""The lane hands its turn on, whatever becomes of those who wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stratalog.log.lane import Lane


class Caller:
    """One who wants to enter. ``meanwhile`` is what happens while it waits at its gate."""

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.gate: Any = self
        self.leads: bool | None = None
        self._meanwhile = meanwhile
        self._closed = False

    def acquire(self) -> None:
        if self._closed:
            self._meanwhile()
        self._closed = True

    def release(self) -> None:
        self._closed = False


def test_who_comes_first_has_the_turn() -> None:
    lane: Lane[Caller] = Lane()
    assert lane.enter(Caller())
    assert lane.next() is None


def test_one_who_waits_is_handed_the_turn() -> None:
    lane: Lane[Caller] = Lane()
    lane.enter(Caller())
    assert lane.enter(Caller(lane.leave))


def test_one_who_was_served_has_no_turn() -> None:
    lane: Lane[Caller] = Lane()
    lane.enter(Caller())

    def serve() -> None:
        follower = lane.next()
        assert follower is not None
        lane.leave([follower])

    assert not lane.enter(Caller(serve))
    assert lane.enter(Caller())


def test_one_who_is_interrupted_is_not_served_unseen() -> None:
    lane: Lane[Caller] = Lane()
    lane.enter(Caller())
    with pytest.raises(KeyboardInterrupt):
        lane.enter(Caller(interrupted))
    assert lane.next() is None


def test_one_who_is_interrupted_hands_on_the_turn_it_was_given() -> None:
    lane: Lane[Caller] = Lane()
    lane.enter(Caller())

    def given_and_interrupted() -> None:
        lane.leave()
        interrupted()

    with pytest.raises(KeyboardInterrupt):
        lane.enter(Caller(given_and_interrupted))
    assert lane.enter(Caller())


def interrupted() -> None:
    raise KeyboardInterrupt

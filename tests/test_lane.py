"""The lane hands its turn on, whatever becomes of those who wait."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stratalog.group_commit import Gate, Lane


class Caller:
    """One who wants to enter, and the gate it waits at. ``meanwhile`` is what happens while it waits."""

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.gate: Gate | None = None
        self.leads: bool | None = None
        self._meanwhile = meanwhile

    def acquire(self) -> None:
        self._meanwhile()

    def release(self) -> None:
        pass


def enter(lane: Lane[Caller], caller: Caller) -> bool:
    """Enter, with the caller itself as the gate."""
    lane._new_gate = lambda: caller
    return lane.enter(caller)


def test_who_comes_first_has_the_turn() -> None:
    lane: Lane[Caller] = Lane()
    assert enter(lane, Caller())
    assert lane.next() is None


def test_one_who_waits_is_handed_the_turn() -> None:
    lane: Lane[Caller] = Lane()
    enter(lane, Caller())
    assert enter(lane, Caller(lane.leave))


def test_one_who_was_served_has_no_turn() -> None:
    lane: Lane[Caller] = Lane()
    enter(lane, Caller())

    def serve() -> None:
        follower = lane.next()
        assert follower is not None
        lane.leave([follower])

    assert not enter(lane, Caller(serve))
    assert enter(lane, Caller())


def test_one_who_is_interrupted_is_not_served_unseen() -> None:
    lane: Lane[Caller] = Lane()
    enter(lane, Caller())
    with pytest.raises(KeyboardInterrupt):
        enter(lane, Caller(interrupted))
    assert lane.next() is None


def test_one_who_is_interrupted_hands_on_the_turn_it_was_given() -> None:
    lane: Lane[Caller] = Lane()
    enter(lane, Caller())

    def given_and_interrupted() -> None:
        lane.leave()
        interrupted()

    with pytest.raises(KeyboardInterrupt):
        enter(lane, Caller(given_and_interrupted))
    assert enter(lane, Caller())


def test_one_who_awaits_others_goes_on_once_they_stand_in_the_lane() -> None:
    lane: Lane[Caller] = Lane()
    assert enter(lane, Caller())
    seconds: list[float] = []

    def arrive(most: float) -> None:
        seconds.append(most)
        assert not enter(lane, Caller(lambda: serve(lane)))

    lane._enough.wait = arrive  # type: ignore[method-assign, assignment]
    lane.await_others(1, 60)
    assert seconds == [60]
    assert lane._enough.is_set()


def test_one_who_awaits_others_that_are_there_does_not_wait() -> None:
    lane: Lane[Caller] = Lane()
    assert enter(lane, Caller())

    def work() -> None:
        lane._enough.wait = interrupted  # type: ignore[method-assign, assignment]
        lane.await_others(1, 60)
        serve(lane)

    assert not enter(lane, Caller(work))


def test_one_who_awaits_others_in_vain_goes_on_alone() -> None:
    lane: Lane[Caller] = Lane()
    assert enter(lane, Caller())
    lane.await_others(1, 0)
    assert lane.next() is None


def serve(lane: Lane[Caller]) -> None:
    """What the one whose turn it is does for another."""
    follower = lane.next()
    assert follower is not None
    lane.leave([follower])


def interrupted() -> None:
    raise KeyboardInterrupt

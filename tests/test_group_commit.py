"""A leader of a group commit passes the leadership to a waiter, even if a signal interrupts the leader or a waiter."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stratalog.errors import OutcomeUnknown, Unavailable
from stratalog.group_commit import GroupCommit, Latch, PendingCommit
from tests.interrupts import ends_of


class Caller:
    """A waiter that is its own latch. ``meanwhile`` runs while the caller waits."""

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.latch: Latch | None = None
        self.is_leader: bool | None = None
        self._meanwhile = meanwhile

    def acquire(self) -> None:
        self._meanwhile()

    def release(self) -> None:
        pass


def enter(group: GroupCommit[Caller], caller: Caller) -> bool:
    """Enter the group with the caller as its own latch."""
    group._new_latch = lambda: caller
    return group.enter(caller)


def test_who_comes_first_has_the_turn() -> None:
    group: GroupCommit[Caller] = GroupCommit()
    assert enter(group, Caller())
    assert group.next() is None


def test_one_who_waits_is_handed_the_turn() -> None:
    group: GroupCommit[Caller] = GroupCommit()
    enter(group, Caller())
    leads_again: list[bool] = []

    def leave_and_come_back() -> None:
        group.leave()
        leads_again.append(enter(group, Caller()))

    assert enter(group, Caller(leave_and_come_back))
    assert leads_again == [False]


def test_one_who_was_served_has_no_turn() -> None:
    group: GroupCommit[Caller] = GroupCommit()
    enter(group, Caller())

    def serve() -> None:
        follower = group.next()
        assert follower is not None
        group.leave([follower])

    assert not enter(group, Caller(serve))
    assert enter(group, Caller())


def test_one_who_is_interrupted_is_not_served_unseen() -> None:
    group: GroupCommit[Caller] = GroupCommit()
    enter(group, Caller())
    with pytest.raises(KeyboardInterrupt):
        enter(group, Caller(interrupted))
    assert group.next() is None


def test_one_who_is_interrupted_hands_on_the_turn_it_was_given() -> None:
    group: GroupCommit[Caller] = GroupCommit()
    enter(group, Caller())

    def given_and_interrupted() -> None:
        group.leave()
        interrupted()

    with pytest.raises(KeyboardInterrupt):
        enter(group, Caller(given_and_interrupted))
    assert enter(group, Caller())


def test_one_who_awaits_others_goes_on_once_they_stand_in_the_lane() -> None:
    group: GroupCommit[Caller] = GroupCommit()
    assert enter(group, Caller())
    seconds: list[float] = []

    def arrive(most: float) -> None:
        seconds.append(most)
        assert not enter(group, Caller(lambda: serve(group)))

    group._enough.wait = arrive  # type: ignore[method-assign, assignment]
    group.await_others(1, 60)
    assert seconds == [60]
    assert group._enough.is_set()


def test_one_who_awaits_others_that_are_there_does_not_wait() -> None:
    group: GroupCommit[Caller] = GroupCommit()
    assert enter(group, Caller())

    def work() -> None:
        group._enough.wait = interrupted  # type: ignore[method-assign, assignment]
        group.await_others(1, 60)
        serve(group)

    assert not enter(group, Caller(work))


def test_one_who_awaits_others_in_vain_goes_on_alone() -> None:
    group: GroupCommit[Caller] = GroupCommit()
    assert enter(group, Caller())
    group.await_others(1, 0)
    assert group.next() is None


def test_a_leader_that_is_interrupted_leaves_those_it_has_not_sent_to_the_next() -> None:
    group: GroupCommit[PendingCommit[str]] = GroupCommit()
    interrupts = [KeyboardInterrupt]

    def settle(batch: list[PendingCommit[str]]) -> None:
        while group.take(batch):
            pass
        if interrupts:
            raise interrupts.pop()
        for pending in batch:
            pending.settle("written")

    def commit() -> str:
        pending: PendingCommit[str] = PendingCommit()
        group.commit(pending, settle)
        return pending.answer()

    ends = ends_of(group, PendingCommit(), dict.fromkeys(("leader", "second", "third"), commit))
    assert isinstance(ends.pop("leader"), KeyboardInterrupt)
    assert ends == {"second": "written", "third": "written"}


def test_what_was_sent_is_settled_with_an_unknown_outcome_until_its_leader_says_more() -> None:
    pending: PendingCommit[str] = PendingCommit()
    assert not pending.settled
    pending.send()
    assert pending.settled
    with pytest.raises(OutcomeUnknown, match="interrupted"):
        pending.answer()
    pending.withdraw()
    assert not pending.settled
    pending.settle(Unavailable("no index today"))
    with pytest.raises(Unavailable):
        pending.answer()


def serve(group: GroupCommit[Caller]) -> None:
    """Serve the next waiter, as a leader does."""
    follower = group.next()
    assert follower is not None
    group.leave([follower])


def interrupted() -> None:
    raise KeyboardInterrupt

"""A leader of a group commit passes the leadership to a waiter, even if a signal interrupts the leader or a waiter."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from itertools import count
from types import FunctionType, SimpleNamespace

import pytest

from stratalog import group_commit
from stratalog.errors import OutcomeUnknown, Unavailable
from stratalog.group_commit import CommitDelay, GroupCommit, Latch, PendingCommit, closed_latch
from stratalog.testing.clock import ManualClock
from tests import interrupts
from tests.interrupts import Interrupter, ends_of
from tests.threads import SECONDS_MAX, join_all, start_all

Group = GroupCommit[PendingCommit[str]]
Batch = list[PendingCommit[str]]

STEPS = [
    each
    for module in (GroupCommit, group_commit)
    for each in vars(module).values()
    if isinstance(each, FunctionType) and each.__module__ == group_commit.__name__
]
"""Every method of `GroupCommit`, and every function of its module outside the classes."""


class Arrival:
    """A latch of a waiter. ``meanwhile`` runs while the waiter waits."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self._meanwhile = meanwhile

    def acquire(self) -> None:
        self._meanwhile()

    def release(self) -> None:
        pass


def commit_alone(group: Group, pending: PendingCommit[str], batch: Batch) -> None:
    """Settle the leader's own request."""
    pending.settle("alone")


def commit_all(group: Group, pending: PendingCommit[str], batch: Batch) -> None:
    """Settle the requests of the leader and of all waiters."""
    while group.take(batch):
        pass
    for each in batch:
        each.settle("together")


def wait_in(group: Group, meanwhile: Callable[[], object]) -> PendingCommit[str]:
    """Commit a request that has to wait. ``meanwhile`` runs while it waits. Return the request."""

    def latch() -> Latch:
        group._new_latch = closed
        return Arrival(meanwhile)

    closed, group._new_latch = group._new_latch, latch
    pending: PendingCommit[str] = PendingCommit()
    group.commit(pending, partial(commit_alone, group, pending))
    return pending


def lead(group: Group, serve: Callable[[Batch], object]) -> None:
    """Run ``serve`` as the leader. Fails if another request is the leader."""
    pending: PendingCommit[str] = PendingCommit()
    served: list[bool] = []

    def work(batch: Batch) -> None:
        served.append(batch == [pending])
        serve(batch)

    group.commit(pending, work)
    assert served == [True]


def test_work_that_needs_the_leadership_waits_until_its_own_request_leads() -> None:
    group: Group = GroupCommit()
    made: list[PendingCommit[str]] = []

    def new_pending() -> PendingCommit[str]:
        made.append(PendingCommit())
        return made[-1]

    calls = {
        "first": partial(group.commit, PendingCommit[str](), partial(commit_all, group, PendingCommit())),
        "second": partial(group.lead, new_pending, lambda: made[-1].settle("led")),
    }
    ends_of(group, PendingCommit(), calls)
    assert [pending.answer() for pending in made] == ["together", "led"]


def test_a_request_to_an_idle_group_leads_immediately() -> None:
    group: Group = GroupCommit()
    lead(group, lambda batch: None)
    lead(group, lambda batch: None)
    assert not group.waiting


def test_a_leader_passes_the_leadership_to_a_waiter() -> None:
    group: Group = GroupCommit()
    order: list[str] = []

    def commit(name: str, times: int) -> None:
        for _ in range(times):
            group.commit(PendingCommit(), lambda batch: order.append(name))

    ends = ends_of(group, PendingCommit(), {name: partial(commit, name, 2) for name in ("first", "second")})
    assert ends == {"first": None, "second": None}
    assert order[:2] == ["first", "second"]


def test_a_waiter_that_a_leader_served_does_not_lead() -> None:
    group: Group = GroupCommit()
    second: PendingCommit[str] = PendingCommit()
    commits = {"first": partial(commit_all, group, PendingCommit()), "second": partial(commit_alone, group, second)}
    pendings = {"first": PendingCommit[str](), "second": second}
    ends_of(group, PendingCommit(), {name: partial(group.commit, pendings[name], commits[name]) for name in commits})
    assert second.answer() == "together"
    lead(group, lambda batch: None)


def test_an_interrupted_waiter_leaves_the_queue() -> None:
    group: Group = GroupCommit()

    def serve(batch: Batch) -> None:
        with pytest.raises(KeyboardInterrupt):
            wait_in(group, interrupted)
        assert not group.take(batch)

    lead(group, serve)


def test_an_interrupted_waiter_passes_on_the_leadership_that_it_was_given() -> None:
    group: Group = GroupCommit()
    leader: PendingCommit[str] = PendingCommit()

    def given_and_interrupted() -> None:
        group._leave(leader, [leader])
        interrupted()

    def serve(batch: Batch) -> None:
        with pytest.raises(KeyboardInterrupt):
            wait_in(group, given_and_interrupted)

    group.commit(leader, serve)
    lead(group, lambda batch: None)


def test_a_leader_that_awaits_waiters_continues_when_they_are_queued() -> None:
    group: Group = GroupCommit()
    seconds: list[float] = []

    def serve(batch: Batch) -> None:
        group.await_others(1, 60)
        assert group.take(batch)
        batch[1].settle("awaited")

    def arrive(seconds_max: float) -> None:
        seconds.append(seconds_max)
        threads.extend(start_all([partial(group.commit, PendingCommit(), serve)]))
        assert wait(seconds_max)

    threads: list[threading.Thread] = []
    wait, group._enough.wait = group._enough.wait, arrive  # type: ignore[method-assign, assignment]
    lead(group, serve)
    join_all(threads)
    assert seconds == [60]


def test_a_leader_does_not_wait_for_waiters_that_are_already_queued() -> None:
    group: Group = GroupCommit()
    group._enough.wait = interrupted  # type: ignore[method-assign, assignment]

    def serve(batch: Batch) -> None:
        group.await_others(1, 60)
        commit_all(group, batch[0], batch)

    calls = {
        "first": partial(group.commit, PendingCommit(), serve),
        "second": partial(group.commit, PendingCommit(), serve),
    }
    assert ends_of(group, PendingCommit(), calls) == {"first": None, "second": None}


def test_a_leader_continues_alone_if_no_waiter_arrives_in_time() -> None:
    group: Group = GroupCommit()

    def serve(batch: Batch) -> None:
        group.await_others(1, 0)
        assert not group.take(batch)

    lead(group, serve)


@pytest.mark.parametrize(
    ("requests", "commit_ms", "ms_min", "awaited"),
    [
        (1, 100, 1, []),  # the last commit had no other caller
        (32, 1, 0, []),  # a fifth of this commit is less than `DELAY_MS_MIN`
        (32, 1, 1, [(31, 1)]),
        (32, 5, 0, [(31, 1)]),
        (2, 10, 1, [(1, 2)]),
        (32, 100, 0, [(31, 4)]),
    ],
)
def test_a_leader_waits_for_the_last_callers_a_fifth_of_the_last_commit_within_limits(
    requests: int, commit_ms: int, ms_min: float, awaited: list[tuple[int, float]]
) -> None:
    clock, calls = ManualClock(), []
    group: Group = GroupCommit()
    group.await_others = lambda count, seconds: calls.append((count, 1000 * seconds))  # type: ignore[method-assign]
    delay: CommitDelay[PendingCommit[str]] = CommitDelay(clock, ms_min)
    delay.wait(group)
    assert calls == []
    delay.measure([PendingCommit() for _ in range(requests)], lambda batch: clock.sleep(commit_ms / 1000))
    delay.wait(group)
    assert calls == awaited


def test_an_interrupted_leader_leaves_unsent_requests_to_the_next_leader() -> None:
    group: Group = GroupCommit()
    interrupts = [KeyboardInterrupt]

    def settle(batch: Batch) -> None:
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


def test_a_waiter_that_is_interrupted_twice_during_its_commit_leaves_no_other_waiter_asleep() -> None:
    """A person presses Ctrl-C twice during a slow commit. The leader answers the threads that it committed for."""
    taken, left = threading.Event(), threading.Event()

    class Impatient:
        """A latch whose `acquire` is interrupted twice, after the leader has taken the waiter."""

        def __init__(self) -> None:
            self._acquired = 0

        def acquire(self) -> None:
            assert taken.wait(SECONDS_MAX)
            self._acquired += 1
            if self._acquired == 2:
                left.set()
            raise KeyboardInterrupt

        def release(self) -> None:
            pass

    def new_latch() -> Latch:
        return Impatient() if threading.current_thread().name == "impatient" else closed_latch()

    def serve(batch: Batch) -> None:
        while group.take(batch):
            pass
        taken.set()
        assert left.wait(SECONDS_MAX)
        for pending in batch:
            pending.settle("written")

    def commit() -> str:
        pending: PendingCommit[str] = PendingCommit()
        group.commit(pending, serve)
        return pending.answer()

    group: Group = GroupCommit(new_latch)
    ends = ends_of(group, PendingCommit(), dict.fromkeys(("leader", "impatient", "third", "fourth"), commit))
    assert isinstance(ends.pop("impatient"), KeyboardInterrupt)
    assert ends == {"leader": "written", "third": "written", "fourth": "written"}
    lead(group, lambda batch: None)


def test_a_sent_request_has_an_unknown_outcome_until_its_leader_settles_it() -> None:
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


class Committers:
    """Threads that commit together. A leader settles at most ``requests_max`` requests: it has to promote a waiter."""

    def __init__(self, requests_max: int = 2) -> None:
        self._requests_max = requests_max
        self.group: Group = GroupCommit()
        self.committed: list[PendingCommit[str]] = []

    def commit(self) -> str:
        pending: PendingCommit[str] = PendingCommit()
        self.group.commit(pending, self._serve)
        return pending.answer()

    def _serve(self, batch: Batch) -> None:
        self.group.await_others(1, 0)
        while len(batch) < self._requests_max and self.group.take(batch):
            pass
        for pending in batch:
            self.committed.append(pending)
            pending.settle("written")


@pytest.mark.usefixtures("untraced")
def test_an_interrupter_interrupts_one_thread_however_the_threads_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[str] = []
    interrupts_begun: list[int] = []

    def step() -> None:
        pass

    def run() -> None:
        try:
            step()
        except KeyboardInterrupt:
            ends.append("interrupted")
        else:
            ends.append("ended")

    def current_thread() -> threading.Thread:
        """Let another thread take the same step before the interrupt of this thread."""
        interrupts_begun.append(1)
        if len(interrupts_begun) == 1:
            join_all(start_all([run]))
        return threading.current_thread()

    with Interrupter(0, [step]).active(), monkeypatch.context() as patch:
        patch.setattr(interrupts, "threading", SimpleNamespace(current_thread=current_thread))
        join_all(start_all([run]))
    assert ends == ["ended", "interrupted"]


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("requests_max", [2, 4])
def test_an_interrupt_anywhere_leaves_no_waiter_without_a_leader(requests_max: int) -> None:
    names = ("leader", "second", "third", "fourth", "fifth")
    for step in count():
        committers, interrupter = Committers(requests_max), Interrupter(step, STEPS)
        with interrupter.active():
            ends = ends_of(committers.group, PendingCommit(), dict.fromkeys(names, committers.commit))
        check_rest(committers, ends, interrupter, step)
        if interrupter.victim is None:
            break
    assert step > 400


@pytest.mark.usefixtures("untraced")
def test_an_interrupted_waiter_that_finds_the_leadership_free_leaves_no_waiter_behind() -> None:
    for step in count():
        committers, interrupter = Committers(), Interrupter(step, STEPS)
        with interrupter.active():
            ends = ends_of_late_waiters(committers)
        check_rest(committers, ends, interrupter, step)
        if interrupter.victim is None:
            break
    assert step > 100


def ends_of_late_waiters(committers: Committers) -> dict[str, object]:
    """Return the ends of two threads that find a leader, and join the queue when the leader is gone."""
    ends: dict[str, object] = {}
    arrived, gone = threading.Semaphore(0), threading.Event()
    closed = committers.group._new_latch

    def late() -> Latch:
        arrived.release()
        assert gone.wait(SECONDS_MAX)
        return closed()

    def run() -> None:
        name = threading.current_thread().name
        try:
            ends[name] = committers.commit()
        except BaseException as exc:  # noqa: BLE001 - the test checks any error
            ends[name] = exc
            arrived.release()

    def gather(batch: Batch) -> None:
        threads.extend(start_all([run, run]))
        for _ in threads:
            assert arrived.acquire(timeout=SECONDS_MAX)

    threads: list[threading.Thread] = []
    committers.group._new_latch = late
    committers.group.commit(PendingCommit(), gather)
    gone.set()
    join_all(threads)
    return ends


def check_rest(committers: Committers, ends: dict[str, object], interrupter: Interrupter, step: int) -> None:
    """Check that only the victim failed, that each request was committed once, and that the group is at rest."""
    if interrupter.victim is not None:
        assert isinstance(ends.pop(interrupter.victim), KeyboardInterrupt), step
    assert set(ends.values()) == {"written"}, step
    assert len(committers.committed) == len(set(committers.committed)), step
    assert not committers.group.waiting, step
    assert committers.commit() == "written", step


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt

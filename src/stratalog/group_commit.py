"""Group commit: if threads of one process want to commit at once, one thread, the leader, commits for the others."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Generic, Protocol, TypeVar

from stratalog.clock import Clock, Observation
from stratalog.errors import OutcomeUnknown
from stratalog.process_fork import close_in_child

__all__ = ["CommitDelay", "GroupCommit", "Latch", "Pending", "PendingCommit"]

DELAY_SHARE = 0.2
DELAY_MS_MAX = 4
DELAY_MS_MIN = 0.4
"""A shorter delay is left out. The clock counts whole milliseconds, so the time of a short commit is not known."""


class Latch(Protocol):
    """A lock that is created locked: `acquire` waits until another thread calls `release`."""

    def acquire(self) -> object: ...

    def release(self) -> None: ...


class Pending(Protocol):
    """A request to commit. Any leader may commit the request until ``settled`` is True.

    ``latch`` is None until the request waits in the queue. ``is_leader`` is None until a leader releases the latch.
    True means that the leader has promoted the waiter. False means that the leader has answered the waiter.
    """

    latch: Latch | None
    is_leader: bool | None

    @property
    def settled(self) -> bool: ...


P = TypeVar("P", bound=Pending)
Answer = TypeVar("Answer")

LEADER = "leader"


class _Open(Enum):
    WAITING = 1
    SENT = 2


_WAITING = _Open.WAITING
_SENT = _Open.SENT


class PendingCommit(Generic[Answer]):
    """A request to commit. The request waits, then a leader sends the request, then the same leader settles it.

    Each step is one assignment, so an interrupt finds the request in exactly one state. An interrupted leader leaves
    waiting requests to the next leader. The outcome of a sent request is unknown until the request is settled. So no
    leader commits a sent request again, unless its leader withdraws it.
    """

    # These defaults are class attributes, which a new instance need not set. Most threads commit their own request, and
    # never use `latch` and `is_leader`.
    latch: Latch | None = None
    is_leader: bool | None = None
    _outcome: Answer | Exception | _Open = _WAITING

    @property
    def settled(self) -> bool:
        """Whether a leader has sent or answered the request. Then no other leader may commit the request."""
        return self._outcome is not _WAITING

    def send(self) -> None:
        """Mark the request sent. The leader calls this before its commit. From then on the request may be written."""
        self._outcome = _SENT

    def withdraw(self) -> None:
        """Mark the request waiting again. The leader that sent the request calls this when nothing was written."""
        self._outcome = _WAITING

    def settle(self, outcome: Answer | Exception) -> None:
        """Settle the request with its answer, or with an exception that no other request has. The leader calls this."""
        self._outcome = outcome

    def answer(self) -> Answer:
        """Return the answer, or raise the exception. Raises OutcomeUnknown if the leader was interrupted."""
        outcome = self._outcome
        if not isinstance(outcome, (Exception, _Open)):
            return outcome
        if isinstance(outcome, Exception):
            raise outcome
        raise OutcomeUnknown("the thread that committed for others was interrupted")


def closed_latch() -> Latch:
    """Return a new latch for threads."""
    latch = threading.Lock()
    latch.acquire()
    return latch


class GroupCommit(Generic[P]):
    """Serialises commits. The leader commits for the waiters that its ``serve`` takes, then promotes the next waiter.

    If a leader only freed the leadership, the fastest thread would take it. The fastest thread is usually the previous
    leader itself, which would then commit its next request alone. So the leader promotes a waiter.

    A waiter joins the queue and then tries once more to become the leader. A leader frees the leadership and then
    checks the queue once more. If the waiter joins first, the leader finds the waiter in the queue. Otherwise the
    waiter gets the leadership. So no waiter is left without a leader.

    An interrupt may come between any two bytecodes. So one object shows who the leader is, and each request is in
    exactly one list: the batch of a thread, or the queue. One call into C makes a leader, and one moves a request. An
    interrupted thread finds in these two facts what is left to do. The class survives one interrupt of each call: a
    second interrupt, during the clean-up after the first, may leave waiters without a leader.
    """

    def __init__(self, new_latch: Callable[[], Latch] = closed_latch) -> None:
        self._leadership: dict[str, P] = {}
        """The leader's request, as the value of `LEADER`. The dictionary is empty if there is no leader."""

        close_in_child(self, "_leadership")
        self.waiting: deque[P] = deque()
        """The queue of waiters. Only this class changes the queue. A leader reads whether the queue is empty."""

        self._new_latch = new_latch
        self._wanted = 0
        self._enough = threading.Event()

    def commit(self, pending: P, serve: Callable[[list[P]], None]) -> None:
        """Commit ``pending``, in this thread or in another leader's thread. ``pending`` then has the outcome.

        The leader calls ``serve`` with a batch that contains only the leader's own request. ``serve`` adds other
        requests by `take`, and settles the batch. The next leader commits the requests that ``serve`` left unsettled,
        for example after an interrupt.
        """
        batch = [pending]
        try:
            if self._leadership.setdefault(LEADER, pending) is pending or self._wait(pending, batch):
                serve(batch)
            self._leave(pending, batch)
        except BaseException:
            self._abandon(pending, batch)
            raise

    def lead(self, new_pending: Callable[[], P], work: Callable[[], object]) -> None:
        """Run ``work`` as the leader, so that no commit runs meanwhile. ``new_pending`` makes the leader's request."""
        done: list[object] = []
        while not done:  # another leader may have answered the request
            self.commit(new_pending(), lambda _: done.append(work()))

    def await_others(self, count: int, seconds: float) -> None:
        """Wait, as the leader, until ``count`` waiters are queued, but at most ``seconds``."""
        self._enough.clear()
        self._wanted = count
        if len(self.waiting) < count:
            self._enough.wait(seconds)
        self._wanted = 0

    def take(self, batch: list[P]) -> bool:
        """As the leader, move the next waiter to the end of ``batch``. Return False if the queue is empty."""
        if not self.waiting:
            return False
        try:
            # One call into C moves the waiter: an interrupt between two calls would lose it.
            batch.extend(map(deque.popleft, (self.waiting,)))
        except IndexError:  # the last waiter was interrupted and removed itself after the check above
            return False
        return True

    def _wait(self, pending: P, batch: list[P]) -> bool:
        """Wait in the queue. Return True if the caller is the leader; False if a leader has answered ``pending``."""
        latch = pending.latch = self._new_latch()
        self.waiting.extend(map(batch.pop, (0,)))  # one call, as in `take`: an empty batch means that the caller waits
        if 0 < self._wanted <= len(self.waiting):
            self._enough.set()
        # The leader may have checked the queue just before this waiter joined it.
        if self._leadership.setdefault(LEADER, pending) is pending:
            self._withdraw(pending)
        else:
            latch.acquire()
        batch.append(pending)
        return pending.is_leader is not False

    def _leave(self, pending: P, batch: list[P]) -> None:
        """Promote a waiter, or free the leadership, if the caller is the leader.

        An interrupted caller repeats the method from the start.
        """
        while True:
            if self._leadership.get(LEADER) is pending:
                if len(batch) > 1:
                    self._let_go(batch)
                if self.waiting and self.take(batch):
                    self._leadership[LEADER] = batch[1]
                else:
                    del self._leadership[LEADER]
            if len(batch) > 1:
                _release(batch[1], is_leader=True)
                return
            # A waiter may have joined and found the leadership taken, just before it was freed. So check the queue.
            if not self.waiting or self._leadership.setdefault(LEADER, pending) is not pending:
                return

    def _let_go(self, batch: list[P]) -> None:
        """Release the waiters of ``batch`` that have an answer. Return the others to the front of the queue, in order.

        A waiter has no answer if the leader was interrupted. The first request of ``batch`` is the leader's own.

        The leader wakes each waiter itself. If each waiter woke the next, a waiter that left after a second interrupt
        would leave the waiters after it asleep.
        """
        while len(batch) > 1:
            if batch[-1].settled:
                _release(batch[-1], is_leader=False)
                batch.pop()
            else:
                self.waiting.extendleft(map(batch.pop, (-1,)))

    def _abandon(self, pending: P, batch: list[P]) -> None:
        """Clean up after an interrupt of the caller. Its request must not stay in the queue or stay the leader."""
        if not batch:
            if not self._withdraw(pending) and self._leadership.get(LEADER) is not pending:
                self._await_release(pending)
            batch.append(pending)
        self._leave(pending, batch)

    def _withdraw(self, pending: P) -> bool:
        """Remove a waiter from the queue. Return False if a leader has taken the waiter."""
        with suppress(ValueError):
            self.waiting.remove(pending)
            return True
        return False

    def _await_release(self, pending: P) -> None:
        """Wait until the leader that has taken ``pending`` releases it. Return at once if it was released before."""
        if pending.is_leader is None and pending.latch is not None:
            pending.latch.acquire()


class CommitDelay(Generic[P]):
    """The time for which a leader waits for the callers that the last commit answered, as `commit_delay` in PostgreSQL.

    Such callers usually call again at once. Without the delay they would miss this commit and join the next commit, so
    that each commit would have only half of the callers. The delay is `DELAY_SHARE` of the last commit's time,
    but at least ``ms_min`` and at most `DELAY_MS_MAX` milliseconds.
    """

    def __init__(self, clock: Clock, ms_min: float = 0) -> None:
        self._clock = clock
        self._ms_min = ms_min
        self._commit_ms = 0.0
        self.others = 0
        """The number of requests in the last commit besides the leader's own."""

    def wait(self, group_commit: GroupCommit[P]) -> None:
        """Wait, as the leader, until as many waiters are queued as the last commit had, or the delay is over."""
        delay_ms = min(max(self._commit_ms * DELAY_SHARE, self._ms_min), DELAY_MS_MAX)
        if self.others and delay_ms >= DELAY_MS_MIN:
            group_commit.await_others(self.others, delay_ms / 1000)

    def measure(self, batch: list[P], commit: Callable[[list[P]], object]) -> None:
        """Call ``commit`` with the batch. Learn the number of its requests and the time of the commit."""
        requests, begun = len(batch), Observation(self._clock)
        commit(batch)
        self.others, self._commit_ms = requests - 1, 1000 * begun.age_seconds()


def _release(waiter: Pending, is_leader: bool) -> None:
    """Wake the waiter. An interrupted leader may do it twice: the second time has no effect."""
    waiter.is_leader = is_leader
    if waiter.latch is not None:
        with suppress(RuntimeError):  # the latch is open already
            waiter.latch.release()

"""Group commit: if threads of one process want to commit at once, one thread, the leader, commits for all of them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from enum import Enum
from typing import Generic, Protocol, TypeVar

from stratalog.errors import OutcomeUnknown
from stratalog.process_fork import close_in_child

__all__ = ["GroupCommit", "Latch", "Pending", "PendingCommit", "Waiter"]


class Latch(Protocol):
    """A lock that is created locked: `acquire` waits until another thread calls `release`."""

    def acquire(self) -> object: ...

    def release(self) -> None: ...


class Waiter(Protocol):
    """A request to commit. ``latch`` is None until the request waits in the queue.

    ``is_leader`` is None until a leader releases the latch. True means that the leader has promoted the waiter. False
    means that the leader has answered the waiter.
    """

    latch: Latch | None
    is_leader: bool | None


class Pending(Waiter, Protocol):
    """A waiter for `GroupCommit.commit`. Any leader may commit the waiter's request until ``settled`` is True."""

    @property
    def settled(self) -> bool: ...


W = TypeVar("W", bound=Waiter)
P = TypeVar("P", bound=Pending)
Answer = TypeVar("Answer")


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

    def __init__(self) -> None:
        self._outcome: Answer | Exception | _Open = _WAITING

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


class GroupCommit(Generic[W]):
    """Serialises commits. The leader commits for every queued waiter, then promotes a waiter that arrived meanwhile.

    If a leader only freed the leadership, the fastest thread would take it. The fastest thread is usually the previous
    leader itself, and its queue would be empty. So the leader promotes a waiter.

    A waiter joins the queue and then tries once more to become the leader. A leader frees the leadership and then
    checks the queue once more. If the waiter joins first, the leader finds the waiter in the queue. Otherwise the
    waiter gets the leadership. So no waiter is left without a leader.
    """

    def __init__(self, new_latch: Callable[[], Latch] = closed_latch) -> None:
        self._leadership = threading.Lock()
        close_in_child(self, "_leadership")
        self.waiting: deque[W] = deque()
        """The queue of waiters. Only this class changes the queue. A leader reads whether the queue is empty."""

        self._new_latch = new_latch
        self._wanted = 0
        self._enough = threading.Event()

    def commit(self: GroupCommit[P], pending: P, serve: Callable[[list[P]], None]) -> None:
        """Commit ``pending``, in this thread or in another leader's thread. ``pending`` then has the outcome.

        The leader calls ``serve`` with a batch that contains only the leader's own request. ``serve`` adds other
        requests by `take`, and settles the batch. The next leader commits the requests that ``serve`` left unsettled,
        for example after an interrupt.
        """
        if not (self._leadership.acquire(False) or self._wait(pending)):  # the code of `enter`: a call would cost time
            return
        batch = [pending]
        try:
            serve(batch)
        finally:
            if len(batch) == 1:
                self._pass_on()
            else:
                others = batch[1:]
                self.leave(others, again=[other for other in others if not other.settled])

    def enter(self, waiter: W) -> bool:
        """Return True if the caller is the leader and must call `leave`; False if a leader has answered the waiter."""
        return self._leadership.acquire(False) or self._wait(waiter)

    def await_others(self, count: int, seconds: float) -> None:
        """Wait, as the leader, until ``count`` waiters are queued, but at most ``seconds``."""
        self._enough.clear()
        self._wanted = count
        if len(self.waiting) < count:
            self._enough.wait(seconds)
        self._wanted = 0

    def take(self, batch: list[W]) -> bool:
        """As the leader, move the next waiter to the end of ``batch``. Return False if the queue is empty."""
        if not self.waiting:
            return False
        try:
            # One call into C moves the waiter: an interrupt between two calls would lose it.
            batch.extend(map(deque.popleft, (self.waiting,)))
        except IndexError:  # the last waiter was interrupted and removed itself after the check above
            return False
        return True

    def next(self) -> W | None:
        """As the leader, take the next waiter, to be answered and passed to `leave`; None if the queue is empty."""
        taken: list[W] = []
        return taken[0] if self.take(taken) else None

    def leave(self, served: Iterable[W] = (), again: Sequence[W] = ()) -> None:
        """Release the taken waiters ``served``. Then promote a waiter, or free the leadership.

        ``again`` are the waiters of ``served`` that have no answer, because the leader was interrupted. These waiters
        return to the front of the queue, in their order.
        """
        if again:
            self.waiting.extendleft(reversed(again))
        for waiter in served:
            if waiter not in again:
                _release(waiter, is_leader=False)
        self._pass_on()

    def _pass_on(self) -> None:
        """Promote a waiter, or free the leadership."""
        while True:
            if self.waiting and (successor := self.next()) is not None:
                _release(successor, is_leader=True)
                return
            # A waiter may join just before the release and find the leadership taken. So check the queue again after
            # the release.
            self._leadership.release()
            if not self.waiting or not self._leadership.acquire(False):
                return

    def _wait(self, waiter: W) -> bool:
        latch = waiter.latch = self._new_latch()
        self.waiting.append(waiter)
        if 0 < self._wanted <= len(self.waiting):
            self._enough.set()
        # The leader may have checked the queue just before this waiter joined it.
        if self._leadership.acquire(blocking=False):
            self.leave()
        try:
            latch.acquire()
        except BaseException:
            self._abandon(waiter, latch)
            raise
        return waiter.is_leader is True

    def _abandon(self, waiter: W, latch: Latch) -> None:
        """Clean up after an interrupted caller. The caller's waiter must not stay in the queue or stay the leader."""
        with suppress(ValueError):
            self.waiting.remove(waiter)
            return
        # A leader has taken the waiter and will release the latch. Wait until the waiter is answered or promoted.
        if waiter.is_leader is None:
            latch.acquire()
        if waiter.is_leader:
            self.leave()


def _release(waiter: Waiter, is_leader: bool) -> None:
    waiter.is_leader = is_leader
    if waiter.latch is not None:
        waiter.latch.release()

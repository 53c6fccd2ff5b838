"""Group commit: threads of one process that want to commit at once, and the leader that commits for all of them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from stratalog.process_fork import close_in_child

__all__ = ["GroupCommit", "Latch", "Waiter"]


class Latch(Protocol):
    """A lock that is made closed: `acquire` waits until another thread calls `release`."""

    def acquire(self) -> object: ...

    def release(self) -> None: ...


class Waiter(Protocol):
    """A request to commit. Both attributes are None until it waits. ``is_leader`` says why its latch was opened."""

    latch: Latch | None
    is_leader: bool | None


W = TypeVar("W", bound=Waiter)


def closed_latch() -> Latch:
    """A latch for threads."""
    latch = threading.Lock()
    latch.acquire()
    return latch


class GroupCommit(Generic[W]):
    """The leader commits for every queued waiter, then promotes one that arrived meanwhile.

    The leader promotes a waiter instead of freeing the leadership for the quickest thread: the quickest would be the
    leader itself, and it would find nobody to commit for.

    A waiter joins the queue before it tries for the leadership once more. A leader frees the leadership before it looks
    at the queue once more. Whichever comes second sees the other, so no waiter is left without a leader.
    """

    def __init__(self, new_latch: Callable[[], Latch] = closed_latch) -> None:
        self._leadership = threading.Lock()
        close_in_child(self, "_leadership")
        self._waiting: deque[W] = deque()
        self._new_latch = new_latch
        self._wanted = 0
        self._enough = threading.Event()

    def enter(self, waiter: W) -> bool:
        """Whether the caller is the leader, and must `leave`. False: a leader has answered the waiter."""
        return self._leadership.acquire(blocking=False) or self._wait(waiter)

    def await_others(self, count: int, seconds: float) -> None:
        """For the leader: wait until ``count`` others are queued, ``seconds`` at most."""
        self._enough.clear()
        self._wanted = count
        if len(self._waiting) < count:
            self._enough.wait(seconds)
        self._wanted = 0

    def next(self) -> W | None:
        """For the leader: take the next waiter, to be answered and passed to `leave`. None: nobody waits."""
        try:
            return self._waiting.popleft() if self._waiting else None
        except IndexError:  # the last of them was interrupted between the two looks
            return None

    def leave(self, served: Iterable[W] = (), again: Sequence[W] = ()) -> None:
        """Release the waiters ``served``, which came from `next`. Then promote a waiter, or free the leadership.

        ``again`` are those of them that have no answer, since the leader was interrupted: they return to the front of
        the queue, in their order.
        """
        if again:
            self._waiting.extendleft(reversed(again))
        for waiter in served:
            if waiter not in again:
                _release(waiter, is_leader=False)
        while True:
            if self._waiting and (successor := self.next()) is not None:
                return _release(successor, is_leader=True)
            self._leadership.release()
            if not self._waiting or not self._leadership.acquire(blocking=False):
                return None

    def _wait(self, waiter: W) -> bool:
        latch = waiter.latch = self._new_latch()
        self._waiting.append(waiter)
        if 0 < self._wanted <= len(self._waiting):
            self._enough.set()
        if self._leadership.acquire(blocking=False):
            self.leave()
        try:
            latch.acquire()
        except BaseException:
            self._abandon(waiter, latch)
            raise
        return waiter.is_leader is True

    def _abandon(self, waiter: W, latch: Latch) -> None:
        """The caller was interrupted: nobody may answer it later, and it must not keep a leadership."""
        with suppress(ValueError):
            self._waiting.remove(waiter)
            return
        if waiter.is_leader is None:
            latch.acquire()
        if waiter.is_leader:
            self.leave()


def _release(waiter: Waiter, is_leader: bool) -> None:
    waiter.is_leader = is_leader
    if waiter.latch is not None:
        waiter.latch.release()

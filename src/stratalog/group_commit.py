"""The lane: threads of one process that want the same thing done, and the one among them whose turn it is."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from stratalog.process_fork import close_in_child

__all__ = ["Gate", "Lane", "Waiter"]


class Gate(Protocol):
    """A lock made closed: `acquire` waits until somebody calls `release`."""

    def acquire(self) -> object: ...

    def release(self) -> None: ...


class Waiter(Protocol):
    """What stands in the lane. Both are None until it has to wait; then ``leads`` says why its gate was opened."""

    gate: Gate | None
    leads: bool | None


W = TypeVar("W", bound=Waiter)


def closed_gate() -> Gate:
    """A gate of threads."""
    gate = threading.Lock()
    gate.acquire()
    return gate


class Lane(Generic[W]):
    """Whoever has the turn works for all who wait, and hands the turn on to one who came since.

    Handed on, not left to whoever is quickest: that would be the one who just had it, with nobody to work for.
    A waiter is queued before it tries for the turn once more, and the turn is freed before the queue is looked at once
    more: whichever comes second sees the other, so nobody is left behind.
    """

    def __init__(self, new_gate: Callable[[], Gate] = closed_gate) -> None:
        self._turn = threading.Lock()
        close_in_child(self, "_turn")
        self._waiting: deque[W] = deque()
        self._new_gate = new_gate
        self._wanted = 0
        self._enough = threading.Event()

    def enter(self, waiter: W) -> bool:
        """Whether it is the caller's turn, who then must `leave`. False: another has served the waiter."""
        return self._turn.acquire(blocking=False) or self._wait(waiter)

    def await_others(self, count: int, seconds: float) -> None:
        """For the one whose turn it is: wait until ``count`` others stand in the lane, ``seconds`` at most."""
        self._enough.clear()
        self._wanted = count
        if len(self._waiting) < count:
            self._enough.wait(seconds)
        self._wanted = 0

    def next(self) -> W | None:
        """For the one whose turn it is: somebody who waits, to be served and named on leaving."""
        try:
            return self._waiting.popleft() if self._waiting else None
        except IndexError:  # the last of them was interrupted between the two looks
            return None

    def leave(self, served: Iterable[W] = (), again: Sequence[W] = ()) -> None:
        """Let those go on who came from `next`. Then hand the turn on, or free it where nobody waits.

        ``again`` are those of them that have no answer yet, since the caller was interrupted: they are queued before
        all others, in their order.
        """
        if again:
            self._waiting.extendleft(reversed(again))
        for waiter in served:
            if waiter not in again:
                _open(waiter, leads=False)
        while True:
            if self._waiting and (successor := self.next()) is not None:
                return _open(successor, leads=True)
            self._turn.release()
            if not self._waiting or not self._turn.acquire(blocking=False):
                return None

    def _wait(self, waiter: W) -> bool:
        gate = waiter.gate = self._new_gate()
        self._waiting.append(waiter)
        if 0 < self._wanted <= len(self._waiting):
            self._enough.set()
        if self._turn.acquire(blocking=False):
            self.leave()
        try:
            gate.acquire()
        except BaseException:
            self._abandon(waiter, gate)
            raise
        return waiter.leads is True

    def _abandon(self, waiter: W, gate: Gate) -> None:
        """The caller was interrupted: it must neither be served unseen later nor keep a turn handed to it."""
        with suppress(ValueError):
            self._waiting.remove(waiter)
            return
        if waiter.leads is None:
            gate.acquire()
        if waiter.leads:
            self.leave()


def _open(waiter: Waiter, leads: bool) -> None:
    waiter.leads = leads
    if waiter.gate is not None:
        waiter.gate.release()

"""The lane: callers of one process who want to write to one log, and the one among them whose turn it is."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

__all__ = ["Lane", "Waiter"]


class Waiter(Protocol):
    """What stands in the lane. Its gate opens when it is served or leads; ``leads`` is None until then."""

    gate: threading.Lock
    leads: bool | None


W = TypeVar("W", bound=Waiter)


class Lane(Generic[W]):
    """Whoever has the turn works for all who wait, and hands the turn on to one who came since.

    Handed on, not left to whoever is quickest: that would be the one who just had it, with nobody to work for.
    A waiter is queued before it tries for the turn once more, and the turn is freed before the queue is looked at once
    more: whichever comes second sees the other, so nobody is left behind.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._waiting: deque[W] = deque()

    def enter(self, waiter: W) -> bool:
        """Whether it is the caller's turn, who then must `leave`. False: another has served the waiter."""
        return self._turn.acquire(blocking=False) or self._wait(waiter)

    def next(self) -> W | None:
        """For the one whose turn it is: somebody who waits, to be served and named on leaving."""
        return self._waiting.popleft() if self._waiting else None

    def leave(self, served: Iterable[W] = ()) -> None:
        """Let those go on who came from `next`. Then hand the turn on, or free it where nobody waits."""
        for waiter in served:
            waiter.leads = False
            waiter.gate.release()
        while True:
            with suppress(IndexError):
                successor = self._waiting.popleft()
                successor.leads = True
                successor.gate.release()
                return
            self._turn.release()
            if not self._waiting or not self._turn.acquire(blocking=False):
                return

    def _wait(self, waiter: W) -> bool:
        waiter.gate.acquire()
        self._waiting.append(waiter)
        if self._turn.acquire(blocking=False):
            self.leave()
        try:
            waiter.gate.acquire()
        except BaseException:
            self._abandon(waiter)
            raise
        return waiter.leads is True

    def _abandon(self, waiter: W) -> None:
        """The caller was interrupted: it must neither be served unseen later nor keep a turn handed to it."""
        with suppress(ValueError):
            self._waiting.remove(waiter)
            return
        if waiter.leads is None:
            waiter.gate.acquire()
        if waiter.leads:
            self.leave()

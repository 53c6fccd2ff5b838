"""Locks under simulation: an actor that waits for a lock is parked in the scheduler and does not block the thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from stratalog.testing.scheduler import Actor, Scheduler

__all__ = ["SimulatedLock", "simulated_locks"]


class SimulatedLock:
    """A `threading.Lock` for actors. To acquire a free lock is not a step of the scheduler."""

    __slots__ = ("_held", "_scheduler", "_waiting")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._held = False
        self._waiting: list[Actor] = []

    def acquire(self, blocking: bool = True) -> bool:
        while self._held:
            if not blocking:
                return False
            self._scheduler.counts.bump("lock waits")
            actor = self._scheduler.parking()
            self._waiting.append(actor)
            try:
                self._scheduler.park()
            except BaseException:  # interrupted or crashed: `release` must no longer wake this actor
                if actor in self._waiting:
                    self._waiting.remove(actor)
                raise
        self._held = True
        return True

    def release(self) -> None:
        """Free the lock and wake all waiters, which try again in an order that the scheduler chooses."""
        self._held = False
        waiting, self._waiting = self._waiting, []
        for actor in waiting:
            self._scheduler.wake(actor)

    def locked(self) -> bool:
        return self._held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


@contextmanager
def simulated_locks(scheduler: Scheduler) -> Iterator[None]:
    """Make every `threading.Lock()` of the block a simulated lock, also the locks that Stratalog itself makes.

    Modules that import the name ``Lock`` itself, and locks made at import, are not affected.
    """
    original = threading.Lock
    vars(threading)["Lock"] = lambda: SimulatedLock(scheduler)
    try:
        yield
    finally:
        vars(threading)["Lock"] = original

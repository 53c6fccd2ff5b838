"""A simulated network between clients and servers, which loses, repeats, delays and reorders messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from stratalog.clock import Clock
from stratalog.testing.scheduler import Scheduler

__all__ = ["Network"]

DELAY_MS_MAX = 30_000
Request = TypeVar("Request")


class Network(Generic[Request]):
    """Requests on their way to any of several servers, and answers on their way back."""

    columns = ("lost requests", "lost answers", "repeated requests")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._fault_rate = 0.3 * scheduler.random.random() ** 2
        self._arrived: list[Request] = []

    def send(self, request: Request) -> None:
        """Send a request: it is lost, or arrives after a delay, or arrives twice."""
        if self._hit("lost requests"):
            return
        for _ in range(1 + self._hit("repeated requests")):
            self._scheduler.later(self._delay_ms(), lambda: self._arrived.append(request))

    def deliver(self, request: Request) -> None:
        """Let a request arrive now, once, without faults."""
        self._arrived.append(request)

    def receive(self, clock: Clock) -> Request | None:
        """Remove one of the arrived requests at random and return it; None if there is none."""
        return self._arrived.pop(int(clock.random() * len(self._arrived))) if self._arrived else None

    def answer(self, take: Callable[[], None]) -> None:
        """Send an answer: it is lost, or ``take`` is called with a delay."""
        if not self._hit("lost answers"):
            self._scheduler.later(self._delay_ms(), take)

    def _hit(self, name: str) -> bool:
        hit = self._scheduler.stormy and self._scheduler.random.random() < self._fault_rate
        self._scheduler.counts.bump(name, hit)
        return hit

    def _delay_ms(self) -> int:
        return 1 + int(DELAY_MS_MAX * self._scheduler.random.random() ** 6)

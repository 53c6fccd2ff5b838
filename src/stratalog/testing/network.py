"""A simulated network between those who ask and any server: messages are lost, repeated, delayed, and overtake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from stratalog.clock import Clock
from stratalog.testing.scheduler import Scheduler

__all__ = ["Network"]

DELAY_MS_MAX = 30_000
Request = TypeVar("Request")


class Network(Generic[Request]):
    """Requests on their way to whichever server takes one, and answers on their way back."""

    columns = ("lost requests", "lost answers", "repeated requests")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._fault_rate = 0.3 * scheduler.random.random() ** 2
        self._arrived: list[Request] = []

    def send(self, request: Request) -> None:
        """The way there: lost, or there after a while, or there twice."""
        if self._hit("lost requests"):
            return
        for _ in range(1 + self._hit("repeated requests")):
            self._scheduler.later(self._delay_ms(), lambda: self._arrived.append(request))

    def deliver(self, request: Request) -> None:
        """A request that is there at once, and once."""
        self._arrived.append(request)

    def receive(self, clock: Clock) -> Request | None:
        """Any request that arrived, for one server alone."""
        return self._arrived.pop(int(clock.random() * len(self._arrived))) if self._arrived else None

    def answer(self, take: Callable[[], None]) -> None:
        """The way back: lost, or there after a while, when ``take`` is called."""
        if not self._hit("lost answers"):
            self._scheduler.later(self._delay_ms(), take)

    def _hit(self, name: str) -> bool:
        hit = self._scheduler.stormy and self._scheduler.random.random() < self._fault_rate
        self._scheduler.counts.bump(name, hit)
        return hit

    def _delay_ms(self) -> int:
        return 1 + int(DELAY_MS_MAX * self._scheduler.random.random() ** 6)

"""Simulated thread pools: each submitted call runs in a new actor."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, TypeVar

from stratalog.testing.scheduler import Actor, Scheduler
from tests.simulation.clusters import Process

__all__ = ["SimulatedPool"]

T = TypeVar("T")


class SimulatedPool(Executor):
    """A stand-in for `ThreadPoolExecutor`. Its threads are actors of one process, without a limit of their number."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Call ``fn`` in a new actor."""
        answer: _Answer = _Answer(self._process.scheduler)
        self._process.spawn(f"{self._process.name}+", partial(answer.find, partial(fn, *args, **kwargs)))
        return answer


class _Answer(Future[Any]):
    """The future of a call. The scheduler parks the actor that waits for the result."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._asking: Actor | None = None

    def find(self, call: Callable[[], Any]) -> None:
        """Run the call. Wake the waiting actor even after a crash, so that this actor ends with its process."""
        try:
            self.set_result(call())
        except Exception as exc:  # noqa: BLE001 - `result` raises any exception of the call
            self.set_exception(exc)
        finally:
            if self._asking is not None:
                self._scheduler.wake(self._asking)

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the answer and return it. ``timeout`` is ignored."""
        while not self.done():
            self._asking = self._scheduler.parking()
            self._scheduler.park()
        return super().result()

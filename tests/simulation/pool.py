"""Pools of threads under simulation: every call that is handed in gets an actor of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, TypeVar

from stratalog.testing.scheduler import Actor, Scheduler
from tests.simulation.places import Process

__all__ = ["SimulatedPool"]

T = TypeVar("T")


class SimulatedPool(Executor):
    """What `ThreadPoolExecutor` is to threads, for the actors of one process. As wide as it needs to be."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Call ``fn`` in an actor of its own."""
        answer: _Answer = _Answer(self._process.scheduler)
        self._process.spawn(f"{self._process.name}+", partial(answer.find, partial(fn, *args, **kwargs)))
        return answer


class _Answer(Future[Any]):
    """Of a call that may still be under way; who asks for it waits as actors do."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._asking: Actor | None = None

    def find(self, call: Callable[[], Any]) -> None:
        """What the actor runs. Who asks is woken after a crash, too: it is of the same process."""
        try:
            self.set_result(call())
        except Exception as exc:  # noqa: BLE001 - whatever it is, it is told to who asks
            self.set_exception(exc)
        finally:
            if self._asking is not None:
                self._scheduler.wake(self._asking)

    def result(self, timeout: float | None = None) -> Any:
        """The answer, once it is there. No time runs out."""
        while not self.done():
            self._asking = self._scheduler.parking()
            self._scheduler.park()
        return super().result()

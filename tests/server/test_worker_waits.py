"""The waits of a worker: without work, while a document cannot be reached, and after a failed message."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from stratalog.errors import Unavailable
from stratalog.worker.worker import Worker, WorkerSettings
from tests.server.queue_path import QueuePath, put

SETTINGS = WorkerSettings(
    visibility_seconds=10_000,
    retry_seconds_first=2,
    retry_seconds_max=16,
    failure_seconds_max=5,
    idle_seconds_first=0.25,
    idle_seconds_max=1.5,
)


class WaitingPath(QueuePath):
    """A queue path whose worker has short settings, and whose clock records each sleep."""

    def __init__(self) -> None:
        super().__init__()
        self.worker = Worker(self.store, SETTINGS)
        self.slept: list[float] = []
        self.after_sleep: Callable[[], None] = lambda: None
        sleep = self.clock.sleep

        def recorded(seconds: float) -> None:
            sleep(seconds)
            self.slept.append(seconds)
            self.after_sleep()

        vars(self.clock)["sleep"] = recorded

    def stop_after(self, sleeps: int) -> None:
        def stop() -> None:
            if len(self.slept) >= sleeps:
                self.worker.stop()

        self.after_sleep = stop

    def tries_of(self, error: Exception, count: int) -> list[int]:
        """Let the document raise ``error`` until the worker has tried ``count`` times. Return the seconds between."""
        tried: list[int] = []

        def fail(*arguments: Any, **options: Any) -> None:
            tried.append(self.clock.boot_ms())
            raise error

        self.document.apply = fail  # type: ignore[method-assign]
        while len(tried) < count:
            self.work()
            self.clock.sleep(0.001)
        return [round((later - earlier) / 1000, 1) for earlier, later in pairwise(tried)]


def test_an_idle_worker_waits_from_its_first_wait_to_its_longest_wait() -> None:
    path = WaitingPath()
    path.stop_after(5)
    path.worker.run()
    assert path.slept == [0.25, 0.5, 1, 1.5, 1.5]


def test_an_idle_worker_waits_for_its_first_wait_again_after_a_message() -> None:
    path = WaitingPath()

    def push_or_stop() -> None:
        if len(path.slept) == 3:
            path.push(put("ada", 1))
        if len(path.slept) >= 5:
            path.worker.stop()

    path.after_sleep = push_or_stop
    path.worker.run()
    assert path.document.last_mutation("ada") == 1
    assert path.slept == [0.25, 0.5, 1, 0.25, 0.5]


def test_the_waits_for_an_unreachable_document_stay_within_their_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    path = WaitingPath()
    monkeypatch.setattr(path.clock, "random", lambda: 1.0)  # the longest wait of each try
    path.push(put("ada", 1))
    assert path.tries_of(Unavailable("simulated"), 6) == [2, 4, 8, 16, 16]


def test_the_waits_of_a_failed_message_double_up_to_the_longest_wait() -> None:
    path = WaitingPath()
    path.push(put("ada", 1))
    assert path.tries_of(RuntimeError("a fault"), 5) == [1, 2, 4, 5]

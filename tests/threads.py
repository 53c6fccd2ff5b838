"""Threads and waits with a deadline. A test whose thread hangs fails, and the thread does not outlive the process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

__all__ = ["SECONDS_MAX", "CallThread", "join_all", "run_together", "start_all", "until"]

SECONDS_MAX = 120


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition. Raises AssertionError after `SECONDS_MAX` seconds."""
    ends = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < ends, "the condition did not come true"
        time.sleep(0.001)


class CallThread(threading.Thread):
    """A daemon thread that runs a call. A daemon thread does not delay the end of the process."""

    def __init__(self, call: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.failure: BaseException | None = None
        """The exception that ended the call."""

        self._call = call

    def run(self) -> None:
        """Run the call, and keep its exception. Python or pytest also reports the exception immediately."""
        try:
            self._call()
        except BaseException as exc:
            self.failure = exc
            raise


def start_all(calls: Iterable[Callable[[], object]]) -> list[CallThread]:
    """Start a thread for each call."""
    threads = [CallThread(call) for call in calls]
    for thread in threads:
        thread.start()
    return threads


def join_all(threads: Iterable[threading.Thread]) -> None:
    """Wait for the end of all threads. Raises AssertionError after `SECONDS_MAX` seconds.

    If calls of `start_all` raised exceptions, this function raises the first of them.
    """
    ends, joined = time.monotonic() + SECONDS_MAX, list(threads)
    for thread in joined:
        thread.join(max(0, ends - time.monotonic()))
        assert not thread.is_alive(), f"the thread {thread.name} still runs"
    for thread in joined:
        if isinstance(thread, CallThread) and thread.failure is not None:
            raise thread.failure


def run_together(calls: Iterable[Callable[[], object]]) -> None:
    """Run each call in its own thread, and wait for all. Raises what `join_all` raises."""
    join_all(start_all(calls))

"""Threads and waits with a deadline. A test whose thread hangs fails, and the thread does not outlive the process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

__all__ = ["SECONDS_MAX", "join_all", "run_together", "start_all", "until"]

SECONDS_MAX = 120


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition. Raises AssertionError after `SECONDS_MAX` seconds."""
    ends = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < ends, "the condition did not come true"
        time.sleep(0.001)


def start_all(calls: Iterable[Callable[[], object]]) -> list[threading.Thread]:
    """Start a daemon thread for each call. A daemon thread does not delay the end of the process."""
    threads = [threading.Thread(target=call, daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    return threads


def join_all(threads: Iterable[threading.Thread]) -> None:
    """Wait for the end of all threads. Raises AssertionError after `SECONDS_MAX` seconds."""
    ends = time.monotonic() + SECONDS_MAX
    for thread in threads:
        thread.join(max(0, ends - time.monotonic()))
        assert not thread.is_alive(), f"the thread {thread.name} still runs"


def run_together(calls: Iterable[Callable[[], object]]) -> None:
    """Run each call in its own thread, and wait for all. Raises AssertionError after `SECONDS_MAX` seconds."""
    join_all(start_all(calls))

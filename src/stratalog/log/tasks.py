"""Background tasks: work in other threads, or in the caller's thread if the caller counts or observes the work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from stratalog.clock import Clock, SystemClock
from stratalog.limits import BACKGROUND_OFFERS_MAX
from stratalog.process_fork import close_in_child

__all__ = ["BackgroundTasks", "InlineTasks", "Task", "Tasks"]

PAUSE_SECONDS = 0.000_05


class Task(Protocol):
    """Work that has begun."""

    def join(self) -> None:
        """Wait until the work has ended."""
        ...


class Tasks(Protocol):
    """Runs background work: `BackgroundTasks` in threads, `InlineTasks` in the caller's thread.

    A simulation uses its own actors.
    """

    def offer(self, work: Callable[[], None]) -> Task | None:
        """Begin ``work``, which must not raise. Return None if the work will not run, e.g. if too much work runs."""
        ...

    def pause(self) -> None:
        """Let the callers' threads run. Long work in Python calls this method after each small part."""
        ...

    def wait(self) -> None:
        """Wait for all work that has begun."""
        ...

    def close(self) -> None:
        """Accept no more offers, and wait for all work that has begun."""
        ...


class BackgroundTasks:
    """Runs work in short-lived threads. `close` and the end of the program wait for all work.

    AWS Lambda freezes a function with its threads between two calls. The threads continue at the next call or never.
    """

    def __init__(self, offers_max: int = BACKGROUND_OFFERS_MAX, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        close_in_child(self, "_lock")
        self._offers_max = offers_max
        self._closed = False
        self._threads: list[threading.Thread] = []

    def offer(self, work: Callable[[], None]) -> Task | None:
        """Begin ``work``, which must not raise. Return None if it will not run.

        The work does not run if too much work is under way, after `close`, or if no thread can start.
        """
        thread = threading.Thread(target=work, name="stratalog-background")
        with self._lock:
            # Count the threads that are alive. A counter could miss the end of a task that an interrupt ends.
            self._threads = [other for other in self._threads if other.is_alive()]
            if self._closed or len(self._threads) >= self._offers_max:
                return None
            # List the thread before its start, so that an interrupt of `start` does not hide a thread that runs.
            self._threads.append(thread)
            try:
                thread.start()
            except (RuntimeError, MemoryError):  # the system has no thread left, or the program is ending
                return None
        return thread

    def pause(self) -> None:
        """Sleep for a moment, so that a thread that waits for the interpreter lock gets the lock at once.

        Without the sleep this thread mostly gets the lock back first. A commit in another thread then waits several
        times for the interpreter's switch interval of 5 ms.
        """
        self._clock.sleep(PAUSE_SECONDS)

    def wait(self) -> None:
        """Wait for all work that has begun."""
        with self._lock:
            # A thread that could not start cannot be joined.
            threads = [thread for thread in self._threads if thread.is_alive()]
        for thread in threads:
            thread.join()

    def close(self) -> None:
        """Accept no more offers, and wait for all work that has begun."""
        with self._lock:
            self._closed = True
        self.wait()


class InlineTasks:
    """Runs work in the caller's thread: `offer` returns when the work has ended."""

    def __init__(self) -> None:
        self._closed = False

    def offer(self, work: Callable[[], None]) -> Task | None:
        """Run ``work``. Return None, and do not run it, after `close`."""
        if self._closed:
            return None
        work()
        return _Ended()

    def pause(self) -> None:
        """Do nothing: the caller's thread runs the work."""

    def wait(self) -> None:
        """Do nothing: no work is under way."""

    def close(self) -> None:
        """Accept no more offers. No work is under way."""
        self._closed = True


class _Ended:
    def join(self) -> None:
        """Return at once: the work has ended."""

"""Work beside the callers': in threads, or at once where it must be counted or looked at."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Protocol

from stratalog.limits import BACKGROUND_OFFERS_MAX
from stratalog.process_fork import close_in_child

__all__ = ["BackgroundTasks", "InlineTasks", "Task", "Tasks"]


class Task(Protocol):
    """Work that was begun."""

    def join(self) -> None:
        """Wait for its end."""
        ...


class Tasks(Protocol):
    """Runs work beside the callers'. `BackgroundTasks` does it in threads, a simulation in actors of its own."""

    def offer(self, work: Callable[[], None]) -> Task | None:
        """Begin ``work``, which raises nothing, unless too much is under way. None: it was not begun, nor will be."""
        ...

    def wait(self) -> None:
        """Wait for all that was begun."""
        ...

    def close(self) -> None:
        """Take no more offers, and wait for all that was begun."""
        ...


class BackgroundTasks:
    """Work in short-lived threads of its own. Closing the store waits for all of it, and so does the program's end.

    A function on AWS Lambda is frozen between two calls, its threads too. They go on at the next call or never.
    """

    def __init__(self, offers_max: int = BACKGROUND_OFFERS_MAX) -> None:
        self._lock = threading.Lock()
        close_in_child(self, "_lock")
        self._offers_max = offers_max
        self._offers = 0
        self._closed = False
        self._threads: list[threading.Thread] = []

    def offer(self, work: Callable[[], None]) -> Task | None:
        """Begin ``work``, which raises nothing, unless too much is under way. None: it was not begun, nor will be."""
        with self._lock:
            if self._closed or self._offers >= self._offers_max:
                return None
            self._offers += 1
        try:
            return self._start(partial(self._run_offer, work))
        except RuntimeError:  # the system has no thread left, or the program is ending
            self._end_offer()
            return None

    def wait(self) -> None:
        """Wait for all that was begun."""
        with self._lock:
            threads, self._threads = self._threads, []
        for thread in threads:
            thread.join()

    def close(self) -> None:
        """Take no more offers, and wait for all that was begun."""
        with self._lock:
            self._closed = True
        self.wait()

    def _start(self, work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=work, name="stratalog-background")
        with self._lock:
            self._threads = [other for other in self._threads if other.is_alive()]
            thread.start()
            self._threads.append(thread)
        return thread

    def _run_offer(self, work: Callable[[], None]) -> None:
        try:
            work()
        finally:
            self._end_offer()

    def _end_offer(self) -> None:
        with self._lock:
            self._offers -= 1


class InlineTasks:
    """Does all work at once, in the caller's thread, so that what is begun has ended."""

    def offer(self, work: Callable[[], None]) -> Task:
        """Do ``work``."""
        work()
        return _Ended()

    def wait(self) -> None:
        """Nothing is under way."""

    def close(self) -> None:
        """Nothing is under way."""


class _Ended:
    def join(self) -> None:
        """It has ended."""

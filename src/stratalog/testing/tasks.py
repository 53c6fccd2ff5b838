"""Tasks that run where they are begun: for tests that look at what follows, without threads."""

from __future__ import annotations

from collections.abc import Callable

from stratalog.log import Task

__all__ = ["InlineTasks"]


class InlineTasks:
    """Does all work at once, in the caller's thread, so that what is begun has ended."""

    def start(self, work: Callable[[], None]) -> Task:
        """Do ``work``."""
        work()
        return _Ended()

    def offer(self, work: Callable[[], None]) -> bool:
        """Do ``work``. True."""
        work()
        return True

    def wait(self) -> None:
        """Nothing is under way."""

    def close(self) -> None:
        """Nothing is under way."""


class _Ended:
    def join(self) -> None:
        """It has ended."""

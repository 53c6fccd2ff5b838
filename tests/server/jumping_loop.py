"""An event loop whose time jumps to the next timer when nothing else is ready."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["run_jumping"]

T = TypeVar("T")


class JumpingLoop(asyncio.SelectorEventLoop):
    """A loop in simulated time. The loop jumps to the next timer, and does not wait for threads or other processes."""

    def __init__(self) -> None:
        self.jumped_seconds = 0.0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self.jumped_seconds


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self, loop: JumpingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        events = super().select(0)
        if not events:
            self._loop.jumped_seconds += timeout
        return events


def run_jumping(story: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in simulated time that begins at 0."""
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(story)

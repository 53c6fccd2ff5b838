"""Repeats a read beside an action of another process. Run n does the action once, before call n of a port."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import TypeVar

from tests.documents.helpers import World

__all__ = ["interleaved"]

T = TypeVar("T")


def interleaved(make: Callable[[], World], read: Callable[[World], T], act: Callable[[World], object]) -> Iterator[T]:
    """Run ``read`` once for each call of a port that it makes. Run n calls ``act`` before call n. Yield the results.

    ``make`` makes a new world for each run.
    """
    for number in count():
        world = make()
        recorder = world.watched()

        def before(name: str, target: str) -> None:
            if len(recorder.calls) > number:  # noqa: B023 - called only in this round
                recorder.before = None  # noqa: B023
                act(world)  # noqa: B023

        recorder.before = before
        result = read(world)
        if recorder.before is not None:  # the read made fewer calls
            return
        yield result

"""Reads beside an action of another process: the action runs once, before each call of a port in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import TypeVar

from tests.documents.helpers import World

__all__ = ["interleaved"]

T = TypeVar("T")


def interleaved(make: Callable[[], World], read: Callable[[World], T], act: Callable[[World], object]) -> Iterator[T]:
    """Yield the result of ``read`` for each of its calls of a port. ``act`` runs before that call.

    ``make`` makes the world of one read, which has no other calls than those of ``read``.
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

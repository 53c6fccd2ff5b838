"""Workers: one push of a document at a time, and no document holds up the others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest

from stratalog.server.errors import Refused
from stratalog.server.push_threads import Workers

SECONDS_MAX = 20
BUSY = ("acme", "busy")
Story = Callable[[Workers], Coroutine[Any, Any, None]]


def tell(story: Story, threads: int = 2, waiting_max: int = 10) -> None:
    asyncio.run(asyncio.wait_for(story(Workers(threads, waiting_max)), SECONDS_MAX))


async def settle() -> None:
    """Let every task that can run do so."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_pushes_of_one_document_run_one_at_a_time_in_order() -> None:
    async def story(workers: Workers) -> None:
        running, most, order = 0, 0, []

        def push(number: int) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            order.append(number)
            running -= 1

        await asyncio.gather(*(workers.in_turn(("acme", "budget"), lambda n=number: push(n)) for number in range(10)))
        assert (most, order) == (1, list(range(10)))

    tell(story)


def test_many_who_want_one_document_leave_threads_to_another() -> None:
    async def story(workers: Workers) -> None:
        held = threading.Event()
        waiting = [asyncio.create_task(workers.in_turn(BUSY, lambda: held.wait(SECONDS_MAX))) for _ in range(8)]
        await settle()
        assert await workers.in_turn(("acme", "idle"), lambda: "done") == "done"
        held.set()
        assert await asyncio.gather(*waiting) == [True] * 8

    tell(story)


def test_too_many_who_wait_for_one_document_are_turned_away() -> None:
    async def story(workers: Workers) -> None:
        held = threading.Event()
        waiting = [asyncio.create_task(workers.in_turn(BUSY, lambda: held.wait(SECONDS_MAX))) for _ in range(3)]
        await settle()
        with pytest.raises(Refused, match="too many pushes wait") as refused:
            await workers.in_turn(BUSY, lambda: True)
        assert refused.value.status == 429
        held.set()
        await asyncio.gather(*waiting)
        assert await workers.in_turn(BUSY, lambda: "free again") == "free again"

    tell(story, waiting_max=3)


def test_one_who_goes_away_stops_nothing_and_frees_the_turn() -> None:
    async def story(workers: Workers) -> None:
        held, done = threading.Event(), []

        def push() -> None:
            held.wait(SECONDS_MAX)
            done.append("committed")

        async with anyio.create_task_group() as group:
            group.start_soon(workers.in_turn, ("acme", "budget"), push)
            await settle()
            group.cancel_scope.cancel()
            held.set()
        assert await workers.in_turn(("acme", "budget"), lambda: list(done)) == ["committed"]

    tell(story)


def test_what_a_push_raises_comes_back_and_frees_the_turn() -> None:
    async def story(workers: Workers) -> None:
        def fail() -> None:
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            await workers.in_turn(("acme", "budget"), fail)
        assert await workers.in_turn(("acme", "budget"), lambda: 1) == 1

    tell(story)

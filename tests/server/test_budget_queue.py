"""Calls wait for room in a budget, for a bounded time and in order of arrival.

A call that lacks only room in its principal's share delays no other call. A very small call does not wait behind other
calls: it waits only if the budget or its principal's share has no room for it.
"""

from __future__ import annotations

import asyncio

import pytest

from stratalog.server.budget_queue import BudgetQueue
from stratalog.server.errors import Refused
from stratalog.server.shares import Allocation, Budget, Holder
from tests.server.jumping_loop import run_jumping

ADA: Holder = ("principal", "ada")
BOB: Holder = ("principal", "bob")


class Room:
    """A budget of 100, of which one principal may use 80. `order` lists the names of the admitted calls."""

    def __init__(self) -> None:
        self.budget = Budget("bytes", 100, {"principal": 80})
        self.queue = BudgetQueue(seconds_max=10, waits_of_holder_max=2, small_max=5)
        self.order: list[str] = []

    def taken(self, amount: int, *holders: Holder) -> Allocation:
        return self.budget.take(*holders, amount=amount)

    def wait(self, name: str, amount: int, *holders: Holder) -> asyncio.Task[None]:
        async def take() -> None:
            await self.queue.add(self.budget.take(*holders, amount=0), amount)
            self.order.append(name)

        return asyncio.get_running_loop().create_task(take())

    async def release(self, allocation: Allocation) -> None:
        allocation.release()
        self.queue.wake()
        await asyncio.sleep(0)
        await asyncio.sleep(0)


def test_a_waiting_call_is_admitted_as_soon_as_the_budget_has_room() -> None:
    async def story() -> tuple[list[str], float]:
        room = Room()
        held = room.taken(60, ADA)
        waiting = room.wait("bob", 60, BOB)
        await asyncio.sleep(3)
        assert room.order == []
        await room.release(held)
        await waiting
        return room.order, asyncio.get_running_loop().time()

    assert run_jumping(story()) == (["bob"], 3)


def test_a_call_that_waits_too_long_is_refused_and_takes_nothing() -> None:
    async def story() -> None:
        room = Room()
        room.taken(60, ADA)
        with pytest.raises(Refused) as refused:
            await room.wait("bob", 60, BOB)
        assert (refused.value.status, refused.value.details["limit"]) == (503, 100)
        assert asyncio.get_running_loop().time() == 10
        with pytest.raises(Refused) as refused:
            await room.wait("ada", 60, ADA)
        assert (refused.value.status, refused.value.details["scope"]) == (429, "principal")
        assert room.budget.used == 60

    run_jumping(story())


def test_a_call_admitted_in_the_same_loop_turn_as_its_timeout_is_not_refused() -> None:
    async def story() -> tuple[list[str], int]:
        room = Room()
        held = room.taken(60, ADA)

        def release() -> None:
            held.release()
            room.queue.wake()

        # The waiting call sets its own timer after this timer. If two timers are due at the same time, the loop runs
        # the older timer first.
        asyncio.get_running_loop().call_at(10, release)
        await room.wait("bob", 60, BOB)
        return room.order, room.budget.used

    assert run_jumping(story()) == (["bob"], 60)


def test_a_smaller_call_does_not_overtake_but_a_very_small_call_does() -> None:
    async def story() -> list[str]:
        room = Room()
        held = room.taken(60, ADA)
        for name, amount in (("large", 60), ("middle", 20), ("small", 5)):
            room.wait(name, amount, (("principal", name)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert room.order == ["small"]
        await room.release(held)
        return room.order

    assert run_jumping(story()) == ["small", "large", "middle"]


def test_a_call_that_waits_for_its_principal_s_share_lets_a_waiting_call_pass() -> None:
    async def story() -> list[str]:
        room = Room()
        held = room.taken(60, ADA)
        other = room.taken(30, BOB)
        room.wait("ada", 40, ADA)
        room.wait("bob", 40, BOB)
        await asyncio.sleep(1)
        await room.release(other)
        assert room.order == ["bob"]
        await room.release(held)
        return room.order

    assert run_jumping(story()) == ["bob", "ada"]


def test_a_call_that_waits_for_its_principal_s_share_delays_no_later_caller() -> None:
    async def story() -> tuple[list[str], float]:
        room = Room()
        room.taken(60, ADA)
        waiting = room.wait("ada", 40, ADA)
        await asyncio.sleep(1)
        await room.wait("bob", 40, BOB)
        admitted_at = asyncio.get_running_loop().time()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return room.order, admitted_at

    assert run_jumping(story()) == (["bob"], 1)


def test_the_number_of_waiting_calls_of_a_principal_is_limited() -> None:
    async def story() -> list[str]:
        room = Room()
        held = room.taken(60, ADA)
        waiting = [room.wait(f"ada {number}", 50, ADA) for number in range(3)]
        room.wait("bob", 50, BOB)
        await asyncio.sleep(1)
        assert isinstance(waiting[2].exception(), Refused)
        await room.release(held)
        return room.order

    assert run_jumping(story()) == ["ada 0", "bob"]


def test_a_cancelled_call_does_not_block_the_calls_behind_it() -> None:
    async def story() -> list[str]:
        room = Room()
        room.taken(60, ADA)
        first = room.wait("first", 60, BOB)
        room.wait("second", 20, BOB)
        await asyncio.sleep(1)
        first.cancel()
        await asyncio.sleep(1)
        return room.order

    assert run_jumping(story()) == ["second"]

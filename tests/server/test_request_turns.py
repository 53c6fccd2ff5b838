"""Turns of requests: a burst of one address makes no turn of the loop long, and others begin among its requests."""

from __future__ import annotations

import asyncio

from stratalog.limits import REQUESTS_PER_TURN_MAX
from stratalog.server.request_turns import RequestTurns
from tests.server.api import run_in_time


async def begin(turns: RequestTurns, address: str, begun: list[str]) -> None:
    await turns.begin(address)
    begun.append(address)


def test_so_many_requests_begin_in_one_turn_of_the_loop() -> None:
    async def story() -> None:
        turns, begun = RequestTurns(), list[str]()
        requests = [asyncio.create_task(begin(turns, "10.0.0.1", begun)) for _ in range(5 * REQUESTS_PER_TURN_MAX)]
        before = 0
        while len(begun) < len(requests):
            await asyncio.sleep(0)
            assert len(begun) - before <= REQUESTS_PER_TURN_MAX
            before = len(begun)
        await asyncio.gather(*requests)

    run_in_time(story())


def test_a_request_of_another_address_begins_among_those_of_a_burst() -> None:
    async def story() -> None:
        turns, begun = RequestTurns(), list[str]()
        burst = [asyncio.create_task(begin(turns, "10.0.0.1", begun)) for _ in range(20 * REQUESTS_PER_TURN_MAX)]
        await asyncio.sleep(0)
        other = asyncio.create_task(begin(turns, "10.0.0.2", begun))
        await asyncio.gather(other, *burst)
        assert begun.index("10.0.0.2") < 4 * REQUESTS_PER_TURN_MAX

    run_in_time(story())


def test_a_caller_who_goes_away_takes_no_turn() -> None:
    async def story() -> None:
        turns, begun = RequestTurns(), list[str]()
        requests = [asyncio.create_task(begin(turns, "10.0.0.1", begun)) for _ in range(3 * REQUESTS_PER_TURN_MAX)]
        await asyncio.sleep(0)
        for gone in requests[REQUESTS_PER_TURN_MAX : 2 * REQUESTS_PER_TURN_MAX]:
            gone.cancel()
        await asyncio.gather(*requests, return_exceptions=True)
        assert len(begun) == 2 * REQUESTS_PER_TURN_MAX

    run_in_time(story())

"""Deadlines of callers, in simulated time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stratalog.server.application import ServerLimits
from stratalog.server.deadlines import AnswerProgress, within_deadline
from stratalog.server.errors import Refused
from tests.server.jumping_loop import run_jumping

LIMITS = ServerLimits(
    request_body_seconds_max=60,
    request_body_bytes_per_second_min=1000,
    answer_silence_seconds_max=20,
    answer_bytes_per_second_min=100,
)


def receive_body(
    bytes_each: int, pause_seconds: float, pieces: int, *, handled_seconds: float = 0
) -> tuple[int, float]:
    """Read a body that arrives in pieces. Return its size and the time at its end. Raises Refused for a late body."""

    async def story() -> tuple[int, float]:
        sent = 0

        async def receive() -> Any:
            nonlocal sent
            await asyncio.sleep(pause_seconds)
            sent += 1
            return {"type": "http.request", "body": b"x" * bytes_each, "more_body": sent < pieces}

        give, size, more = within_deadline(receive, LIMITS), 0, True
        while more:
            message: Any = await give()
            size, more = size + len(message["body"]), message["more_body"]
            await asyncio.sleep(handled_seconds)
        return size, asyncio.get_running_loop().time()

    return run_jumping(story())


def test_a_body_that_arrives_too_slowly_is_refused_with_408() -> None:
    with pytest.raises(Refused) as refused:
        receive_body(bytes_each=1, pause_seconds=1, pieces=10_000)
    assert (refused.value.status, refused.value.details["limit"]) == (408, 60)


def test_a_body_that_stops_is_refused() -> None:
    with pytest.raises(Refused) as refused:
        receive_body(bytes_each=1_000_000, pause_seconds=3600, pieces=2)
    assert refused.value.status == 408


def test_a_large_body_that_arrives_fast_enough_has_no_total_deadline() -> None:
    size, seconds = receive_body(bytes_each=1000, pause_seconds=1, pieces=5000)
    assert (size, round(seconds)) == (5_000_000, 5000)


def test_time_in_which_the_server_does_not_read_a_body_does_not_count() -> None:
    size, seconds = receive_body(bytes_each=1, pause_seconds=0.01, pieces=100, handled_seconds=10)
    assert (size, round(seconds)) == (100, 1001)


def overdue_at(read_bytes_per_second: float, waiting_bytes: int = 1000, seconds: int = 600) -> int | None:
    """Return the second at which a caller with this reading rate is overdue, or None if the caller never is overdue."""
    progress = AnswerProgress(LIMITS)
    for now in range(seconds):
        if progress.is_overdue(now, int(now * read_bytes_per_second), waiting_bytes):
            return now
    return None


def test_a_caller_that_reads_nothing_is_overdue_after_the_silence_limit() -> None:
    assert overdue_at(0) == 20


def test_a_caller_that_reads_too_slowly_is_overdue_after_a_minute() -> None:
    assert overdue_at(99) == 60


def test_a_caller_that_reads_fast_enough_is_never_overdue() -> None:
    assert overdue_at(101) is None


def test_a_caller_without_waiting_bytes_is_never_overdue() -> None:
    assert overdue_at(0, waiting_bytes=0) is None


def test_the_silence_limit_restarts_after_everything_was_read() -> None:
    progress = AnswerProgress(LIMITS)
    assert [progress.is_overdue(now, 0, 0 if now == 15 else 1000) for now in range(35)] == [False] * 35
    assert progress.is_overdue(36, 0, 1000)

"""The messages between the processes of a server: their limits, and missing answers."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest

from stratalog.limits import SIBLING_LINE_BYTES_MAX
from stratalog.ports.announcements import Announcements
from stratalog.server import siblings
from stratalog.server.metrics import with_processes
from stratalog.server.siblings import (
    Committed,
    Ended,
    MetricsRequest,
    MetricsResponse,
    PresenceRequest,
    Siblings,
    Started,
)
from stratalog.testing.announcements_contract import AnnouncementsContract
from tests.server.sibling_threads import sibling_threads


class TestSiblings(AnnouncementsContract):
    @pytest.fixture(autouse=True)
    def _entered(self) -> Iterator[None]:
        with ExitStack() as self.entered:
            yield

    def make(self, processes: int) -> Sequence[Announcements]:
        return self.entered.enter_context(sibling_threads(processes))


class Supervised:
    """One process of three, and the supervisor's end of its stream."""

    def __init__(self) -> None:
        self.stream, theirs = socket.socketpair()
        self.stream.setblocking(False)
        self.siblings = Siblings(theirs, 0, 3)

    def run(self, act: Callable[[], Awaitable[Any]]) -> Any:
        """Run the process until ``act`` ends, and return its result."""

        async def both() -> Any:
            running = asyncio.create_task(self.siblings.run())
            try:
                assert await self.line() == Started(0)
                return await act()
            finally:
                running.cancel()
                self.stream.close()
                await asyncio.gather(running, return_exceptions=True)

        return asyncio.run(both())

    async def line(self) -> Any:
        """Return the next line that the process sends."""
        text = b""
        while not text.endswith(b"\n"):
            text += await asyncio.get_running_loop().sock_recv(self.stream, 1)
        return msgspec.json.decode(text, type=siblings.Line)

    async def give(self, *lines: siblings.Line) -> None:
        for line in lines:
            await asyncio.get_running_loop().sock_sendall(self.stream, msgspec.json.encode(line) + b"\n")


def test_the_metrics_of_all_processes_are_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(siblings, "SIBLING_METRICS_SECONDS_MAX", 60)
    process = Supervised()

    async def act() -> Any:
        asking = asyncio.create_task(process.siblings.all_metrics())
        asked = await process.line()
        assert asked == MetricsRequest(0, 1)
        # The process must ignore an answer to another process, and an answer to an earlier request.
        await process.give(MetricsResponse(1, 2, 1, "x"), MetricsResponse(1, 0, 7, "x"))
        await process.give(MetricsResponse(1, 0, 1, "one"), MetricsResponse(2, 0, 1, "two"))
        return await asking

    assert process.run(act) == {0: "", 1: "one", 2: "two"}


def test_the_metrics_of_a_process_that_does_not_answer_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(siblings, "SIBLING_METRICS_SECONDS_MAX", 0.01)
    process = Supervised()

    async def act() -> Any:
        return await process.siblings.all_metrics()

    assert process.run(act) == {0: ""}


def test_a_process_sends_its_metrics_to_the_process_that_requests_them() -> None:
    process = Supervised()

    async def act() -> Any:
        await process.give(MetricsRequest(2, 5))
        return await process.line()

    assert process.run(act) == MetricsResponse(0, 2, 5, "")


def test_hints_and_presence_reach_their_callbacks() -> None:
    process = Supervised()
    heard: list[Any] = []
    process.siblings.listen(lambda organisation, name: heard.append((organisation, name)))
    process.siblings.presence = heard.append

    async def act() -> None:
        await process.give(Committed("acme", "plan"), PresenceRequest("acme", "budget"))
        while len(heard) < 2:
            await asyncio.sleep(0)
        process.siblings.announce("acme", "plan")
        assert await process.line() == Committed("acme", "plan")

    process.run(act)
    assert heard == [("acme", "plan"), PresenceRequest("acme", "budget")]


def test_metrics_that_are_too_long_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    process = Supervised()

    async def metrics() -> str:
        return "x" * SIBLING_LINE_BYTES_MAX

    process.siblings.metrics = metrics

    async def act() -> Any:
        await process.give(MetricsRequest(2, 5))
        return await process.line()

    assert process.run(act) == MetricsResponse(0, 2, 5, "")
    assert "type=MetricsResponse size=" in caplog.text


@pytest.mark.parametrize(
    "line",
    [b"x" * SIBLING_LINE_BYTES_MAX + b"\n", b"x" * (3 * SIBLING_LINE_BYTES_MAX) + b"\n", b"{}\n", b"\n"],
    ids=["longer by its end", "longer by far", "no message", "empty"],
)
def test_a_line_that_is_no_message_is_dropped(line: bytes, caplog: pytest.LogCaptureFixture) -> None:
    process = Supervised()

    async def act() -> Any:
        await asyncio.get_running_loop().sock_sendall(process.stream, line)
        await process.give(MetricsRequest(2, 5))
        return await process.line()

    assert process.run(act) == MetricsResponse(0, 2, 5, "")
    assert caplog.text.count("is dropped") == 1


def test_a_process_knows_which_processes_run() -> None:
    process = Supervised()

    async def act() -> list[set[int]]:
        seen = []
        for line in (Ended(2), Started(2)):
            await process.give(line)
            await process.give(MetricsRequest(2, 5))
            await process.line()
            seen.append(set(process.siblings.running))
        return seen

    assert process.run(act) == [{0, 1}, {0, 1, 2}]


def test_a_process_without_its_supervisor_ends_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Supervised()
    killed: list[Any] = []
    monkeypatch.setattr(siblings.os, "kill", lambda pid, number: killed.append(number))

    async def act() -> None:
        process.stream.shutdown(socket.SHUT_WR)
        while not killed:
            await asyncio.sleep(0)

    process.run(act)
    assert killed == [signal.SIGTERM]


def test_merged_metrics_have_a_label_for_the_process() -> None:
    text = '# HELP pushes_total Pushes.\n# TYPE pushes_total counter\npushes_total{{status="applied"}} {}.0\n'
    merged = with_processes({0: text.format(3), 1: text.format(4)})
    assert [line for line in merged.splitlines() if not line.startswith("#")] == [
        'pushes_total{process="0",status="applied"} 3.0',
        'pushes_total{process="1",status="applied"} 4.0',
    ]
    assert merged.count("# TYPE") == 1

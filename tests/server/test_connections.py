"""Connections without sockets, in simulated time. The tests also fail if uvicorn's internals change."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from stratalog.clock import SystemClock
from stratalog.limits import ANSWER_PIECE_BYTES, DROPS_PER_TURN_MAX
from stratalog.server.application import ServerLimits
from stratalog.server.connections import HttpProtocol, OpenConnections, WebSocketProtocol, in_pieces
from stratalog.server.metrics import Metrics
from stratalog.store import open_store
from tests.server.jumping_loop import run_jumping

REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
PING = b"\x89\xfd\0\0\0\0" + b"p" * 125  # a mask of zeros leaves the payload unchanged
LIMITS = ServerLimits(request_head_seconds_max=10, connection_idle_seconds_max=5, answer_silence_seconds_max=20)
Story = Callable[["Caller"], Awaitable[None]]


class Transport:
    """A transport that accepts ``room_bytes``, and then as many bytes as its caller reads."""

    def __init__(self, room_bytes: int) -> None:
        self.room_bytes = room_bytes
        self.received = b""
        self.waiting = b""
        self.is_reading = True
        self.is_closed = False
        self.protocol: Any = None

    def write(self, data: bytes) -> None:
        self.waiting += data
        self.read(0)
        if len(self.waiting) > 64 * 1024:
            self.protocol.pause_writing()

    def read(self, size: int) -> None:
        """Let the caller read ``size`` more bytes."""
        self.room_bytes += size
        taken, self.waiting = self.waiting[: self.room_bytes], self.waiting[self.room_bytes :]
        self.room_bytes -= len(taken)
        self.received += taken
        if size and len(self.waiting) < 16 * 1024:
            self.protocol.resume_writing()

    def get_write_buffer_size(self) -> int:
        return len(self.waiting)

    def get_extra_info(self, name: str) -> Any:
        none = SimpleNamespace(fileno=lambda: 0, getsockname=lambda: None, getpeername=lambda: None, dup=socket.socket)
        return none if name == "socket" else None

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        if not self.waiting:
            self.abort()

    def abort(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)


class Caller:
    """A caller of an ASGI application, with its transport and the server's open connections."""

    def __init__(self, app: Any, room_bytes: int) -> None:
        config = uvicorn.Config(in_pieces(app), ws=WebSocketProtocol, lifespan="off", log_config=None)
        config.timeout_keep_alive = LIMITS.connection_idle_seconds_max  # type: ignore[assignment]
        config.load()
        self.metrics = Metrics(open_store("memory:").environment)
        self.connections = OpenConnections(LIMITS, 1, self.metrics, SystemClock())
        self.transport = Transport(room_bytes)
        allocation = self.connections.budget.take()
        protocol = HttpProtocol(self.connections, allocation, config=config, server_state=ServerState(), app_state={})
        self.transport.protocol = protocol
        protocol.connection_made(self.transport)

    def send(self, data: bytes) -> None:
        if data:
            self.transport.protocol.data_received(data)

    async def wait(self, seconds: float) -> None:
        """Let time pass, and drop overdue connections every second, as the server does."""
        for _ in range(round(seconds)):
            await asyncio.sleep(1)
            await self.connections.drop_overdue(asyncio.get_running_loop().time())
        await asyncio.sleep(0.001)

    @property
    def is_dropped(self) -> bool:
        return self.transport.is_closed

    def dropped_by(self, deadline: str) -> bool:
        """Return whether the server dropped the connection for this deadline and released its allocation."""
        count = self.metrics.registry.get_sample_value("stratalog_connections_dropped_total", {"deadline": deadline})
        return self.is_dropped and count == 1 and self.connections.budget.used == 0


def tell(story: Story, app: Any = None, room_bytes: int = 1 << 30) -> None:
    async def tell_handler() -> None:
        caller = Caller(app or answering(b"answer"), room_bytes)
        try:
            await story(caller)
        finally:
            # A response that the caller has not read would wait for ever.
            caller.transport.abort()
            await asyncio.sleep(0.001)

    run_jumping(tell_handler())


def answering(body: bytes, asked: list[str] | None = None) -> Any:
    """An application that gives the same response to every request."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if asked is not None:
            asked.append(scope["path"])
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app


@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\nHost: a\r\nX-a: "])
def test_a_caller_that_sends_no_complete_head_is_dropped(sent: bytes) -> None:
    async def story(caller: Caller) -> None:
        caller.send(sent)
        await caller.wait(9)
        assert not caller.is_dropped
        await caller.wait(1)
        assert caller.dropped_by("head")

    tell(story)


async def drip(caller: Caller, byte: bytes) -> None:
    """Send one byte a second until the deadline of a head has passed."""
    for _ in range(11):
        if not caller.is_dropped:
            caller.send(byte)
        await caller.wait(1)


@pytest.mark.parametrize("before", [b"", REQUEST])
def test_a_slowly_sent_head_does_not_extend_its_deadline(before: bytes) -> None:
    async def story(caller: Caller) -> None:
        caller.send(before)
        await caller.wait(3)
        await drip(caller, b"G")
        assert caller.dropped_by("head")

    tell(story)


def test_a_caller_that_sends_its_next_request_in_time_stays_connected() -> None:
    async def story(caller: Caller) -> None:
        for number in range(1, 20):
            caller.send(REQUEST)
            await caller.wait(4)
            assert caller.transport.received.count(b"answer") == number
        await caller.wait(2)
        assert caller.is_dropped

    tell(story)


def test_the_deadline_of_the_head_does_not_limit_the_handler() -> None:
    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(100)
        await answering(b"answer")(scope, receive, send)

    async def story(caller: Caller) -> None:
        caller.send(REQUEST)
        await caller.wait(101)
        assert caller.transport.received.endswith(b"answer")

    tell(story, slow)


def test_a_body_that_arrives_slowly_after_the_answer_drops_the_connection() -> None:
    async def story(caller: Caller) -> None:
        caller.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n")
        await caller.wait(2)
        await drip(caller, b"x")
        assert caller.dropped_by("head")

    tell(story)


def test_no_more_than_two_pieces_of_an_answer_wait_for_a_slow_reader() -> None:
    body = bytes(range(256)) * 40_000

    async def story(caller: Caller) -> None:
        caller.send(REQUEST)
        await caller.wait(1)
        while not caller.transport.received.endswith(body):
            assert len(caller.transport.waiting) <= 2 * ANSWER_PIECE_BYTES
            caller.transport.read(50_000)
            await asyncio.sleep(0)
        assert not caller.is_dropped

    tell(story, answering(body), room_bytes=0)


def test_a_caller_that_does_not_read_its_answer_is_dropped() -> None:
    async def story(caller: Caller) -> None:
        caller.send(REQUEST)
        await caller.wait(20)
        assert not caller.is_dropped
        await caller.wait(2)
        assert caller.dropped_by("answer")

    tell(story, answering(b"x" * 1_000_000), room_bytes=1000)


def test_a_caller_that_does_not_read_the_last_bytes_of_an_answer_is_dropped() -> None:
    async def story(caller: Caller) -> None:
        caller.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        await caller.wait(22)
        assert caller.dropped_by("answer")

    tell(story, answering(b"x" * 1000), room_bytes=10)


def test_an_event_stream_that_its_caller_does_not_read_is_dropped() -> None:
    async def events(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": b"event: poke\n\n", "more_body": True})
            await asyncio.sleep(0.5)

    async def story(caller: Caller) -> None:
        caller.send(REQUEST)
        await caller.wait(23)
        assert caller.dropped_by("answer")

    tell(story, events, room_bytes=10)


def test_a_pipelined_request_runs_after_the_previous_answer_has_been_read() -> None:
    asked: list[str] = []

    async def story(caller: Caller) -> None:
        caller.send(REQUEST * 50)
        await caller.wait(1)
        assert len(asked) == 1
        assert not caller.transport.is_reading
        while len(asked) < 50:
            caller.transport.read(20_000)
            await asyncio.sleep(0)
        caller.transport.read(1 << 30)
        await caller.wait(1)
        assert caller.transport.received.count(b"HTTP/1.1 200 OK") == 50
        assert caller.transport.is_reading

    tell(story, answering(b"x" * ANSWER_PIECE_BYTES, asked), room_bytes=0)


async def listening(scope: Any, receive: Any, send: Any) -> None:
    """An application that accepts WebSockets and receives until they end."""
    await send({"type": "websocket.accept"})
    while (await receive())["type"] != "websocket.disconnect":
        pass


async def telling(scope: Any, receive: Any, send: Any) -> None:
    """An application that accepts WebSockets and sends without end."""
    await send({"type": "websocket.accept"})
    while True:
        await send({"type": "websocket.send", "bytes": b"x" * 1000})


async def closing(scope: Any, receive: Any, send: Any) -> None:
    """An application that accepts WebSockets and closes them."""
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.close", "code": 4401})


def test_a_websocket_counts_as_a_connection_until_it_ends() -> None:
    async def story(caller: Caller) -> None:
        caller.send(UPGRADE)
        await caller.wait(15)
        assert (caller.connections.budget.used, caller.is_dropped) == (1, False)
        caller.transport.abort()
        await caller.wait(1)
        assert (caller.connections.budget.used, len(caller.connections._open)) == (0, 0)

    tell(story, listening)


def test_an_incomplete_websocket_handshake_is_dropped() -> None:
    async def story(caller: Caller) -> None:
        caller.send(UPGRADE[:-2])
        await caller.wait(11)
        assert caller.dropped_by("head")

    tell(story, listening)


def test_a_websocket_that_does_not_read_has_bounded_waiting_bytes_and_is_dropped() -> None:
    async def story(caller: Caller) -> None:
        caller.send(UPGRADE)
        await caller.wait(10)
        assert len(caller.transport.waiting) < 70_000
        await caller.wait(12)
        assert caller.dropped_by("answer")

    tell(story, telling, room_bytes=1000)


def test_the_server_stops_reading_a_websocket_that_pings_and_does_not_read() -> None:
    async def story(caller: Caller) -> None:
        caller.send(UPGRADE)
        await caller.wait(1)
        sent = 0
        while caller.transport.is_reading and sent < 10_000:
            caller.send(PING)
            sent += 1
        assert 500 < sent < 600
        caller.transport.read(1 << 20)
        assert caller.transport.is_reading

    tell(story, listening, room_bytes=300)


def test_a_websocket_that_does_not_answer_a_close_is_closed() -> None:
    async def story(caller: Caller) -> None:
        caller.send(UPGRADE)
        await caller.wait(9)
        assert not caller.is_dropped
        await caller.wait(2)
        assert caller.is_dropped
        assert caller.connections.budget.used == 0

    tell(story, closing)


def test_a_turn_of_the_loop_drops_a_limited_number_of_overdue_connections() -> None:
    async def story() -> tuple[list[int], int]:
        metrics = Metrics(open_store("memory:").environment)
        connections = OpenConnections(LIMITS, 3 * DROPS_PER_TURN_MAX, metrics, SystemClock())
        transports = [Transport(0) for _ in range(3 * DROPS_PER_TURN_MAX)]
        for transport in transports:
            transport.protocol = SimpleNamespace(connection_lost=bool)
            connections.begin(transport, connections.budget.take(), 0)  # type: ignore[arg-type]
        dropping = asyncio.ensure_future(connections.drop_overdue(LIMITS.request_head_seconds_max))
        counts = []
        while not dropping.done():
            await asyncio.sleep(0)
            counts.append(sum(transport.is_closed for transport in transports))
        return counts, len(transports)

    counts, count = asyncio.run(story())
    assert counts[0] == DROPS_PER_TURN_MAX
    assert counts[-1] == count

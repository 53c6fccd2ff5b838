"""One turn of the event loop accepts and sets up a limited number of connections. Addresses take turns."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import pytest

from stratalog.clock import SystemClock
from stratalog.limits import ACCEPTS_PER_TURN_MAX, SETUPS_PER_TURN_MAX
from stratalog.server.acceptor import Acceptor
from stratalog.server.application import ServerLimits
from stratalog.server.connections import OpenConnections
from stratalog.server.metrics import Metrics
from stratalog.store import open_store

TURNS_MAX = 10_000


class Listening:
    """A listening socket with one pending connection from each of ``addresses``, in this order."""

    def __init__(self, *addresses: str) -> None:
        self.pending = list(addresses)
        self.accepts = 0
        self.callers = ExitStack()
        self.accepted: list[socket.socket] = []

    def setblocking(self, flag: bool) -> None:
        assert not flag

    def accept(self) -> tuple[socket.socket, tuple[str, int]]:
        if not self.pending:
            raise BlockingIOError
        self.accepts += 1
        served, caller = socket.socketpair()
        self.callers.enter_context(caller)
        self.accepted.append(served)
        return served, (self.pending.pop(0), 1)


class Caller(asyncio.Protocol):
    """A protocol that only records its transport."""

    def __init__(self, transports: list[asyncio.BaseTransport]) -> None:
        self._transports = transports

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transports.append(transport)


class Setups:
    """An acceptor of the connections of ``listening``, and the addresses of the connections that are set up so far."""

    def __init__(self, listening: Listening, connections_max: int = 1000) -> None:
        self.addresses: list[str] = []
        self.transports: list[asyncio.BaseTransport] = []
        self.turns = 0
        metrics = Metrics(open_store("memory:").environment)
        self.connections = OpenConnections(ServerLimits(), connections_max, metrics, SystemClock(), is_shared=True)
        self.acceptor = Acceptor(listening, self._protocol, self.connections, metrics)  # type: ignore[arg-type]

    @asynccontextmanager
    async def accepting(self) -> AsyncIterator[None]:
        """Run the accept loop until the end of the block, then close all transports."""
        loop = asyncio.get_running_loop()

        async def accept(listening: Any) -> Any:
            try:
                return listening.accept()
            except BlockingIOError:
                await asyncio.Event().wait()

        loop.sock_accept = accept  # type: ignore[method-assign]
        task = loop.create_task(self.acceptor.accept())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, *self.acceptor._connecting, return_exceptions=True)
            for transport in self.transports:
                transport.close()
            await asyncio.sleep(0)

    def _protocol(self, allocation: Any, received: bytes) -> asyncio.Protocol:
        self.addresses.append(allocation.holders[0][1])
        return Caller(self.transports)


@pytest.fixture
def many() -> Iterator[Listening]:
    """A hundred connections from one address, and then one connection from another address."""
    listening = Listening(*["10.0.0.1"] * 100, "10.0.0.2")
    with listening.callers:
        yield listening


def test_a_turn_of_the_loop_accepts_a_limited_number_of_connections(many: Listening) -> None:
    async def story() -> None:
        async with Setups(many).accepting():
            await asyncio.sleep(0)
            # The loop waits for the first connection, and then accepts up to ACCEPTS_PER_TURN_MAX more.
            assert many.accepts == 1 + ACCEPTS_PER_TURN_MAX

    asyncio.run(story())


def test_a_turn_of_the_loop_sets_up_a_limited_number_of_connections(many: Listening) -> None:
    async def story() -> None:
        setups = Setups(many)
        async with setups.accepting():
            await asyncio.sleep(0)
            assert len(setups.acceptor._connecting) == SETUPS_PER_TURN_MAX

    asyncio.run(story())


def test_a_new_address_does_not_wait_for_all_connections_of_another_address(many: Listening) -> None:
    async def story() -> None:
        setups = Setups(many)
        async with setups.accepting():
            while "10.0.0.2" not in setups.addresses:
                await _turn(setups)
            # The loop accepts the 101st connection in its second turn. In this turn, the loop sets up that connection
            # as the first or the second.
            assert setups.addresses.index("10.0.0.2") <= SETUPS_PER_TURN_MAX + 1

    asyncio.run(story())


def test_an_address_never_served_is_set_up_before_recently_served_addresses() -> None:
    others = [f"10.0.0.{number}" for number in range(50)]
    listening = Listening(*others, "10.0.1.1")

    async def story() -> None:
        setups = Setups(listening)
        for address in others:
            setups.connections.turns.served.add(("address", address))
        async with setups.accepting():
            while "10.0.1.1" not in setups.addresses:
                await _turn(setups)
            assert setups.addresses.index("10.0.1.1") < SETUPS_PER_TURN_MAX

    with listening.callers:
        asyncio.run(story())


def test_every_accepted_connection_is_set_up(many: Listening) -> None:
    async def story() -> None:
        setups = Setups(many)
        async with setups.accepting():
            while len(setups.transports) < 101:
                await _turn(setups)
            assert setups.connections.budget.used == 101

    asyncio.run(story())


def test_the_end_of_the_loop_closes_the_connections_that_wait_for_their_setup(many: Listening) -> None:
    async def story() -> None:
        setups = Setups(many)
        async with setups.accepting():
            await asyncio.sleep(0)
        assert setups.connections.budget.used == len(setups.transports) == SETUPS_PER_TURN_MAX
        assert all(accepted.fileno() == -1 for accepted in many.accepted)

    asyncio.run(story())


def test_a_turn_of_the_loop_refuses_a_limited_number_of_connections(many: Listening) -> None:
    async def story() -> None:
        async with Setups(many, connections_max=4).accepting():
            await asyncio.sleep(0)
            # An address may use a quarter of the four connections, so the loop refuses every connection after the
            # first.
            assert many.accepts == 1 + SETUPS_PER_TURN_MAX

    asyncio.run(story())


def test_an_error_of_accept_does_not_delay_connections_already_accepted(many: Listening) -> None:
    """The process has no free descriptor after ten connections. The loop sets up all ten before it pauses."""

    async def story() -> None:
        setups = Setups(many)
        accept = many.accept

        def exhausted() -> Any:
            if many.accepts == 10:
                raise OSError(24, "Too many open files")
            return accept()

        many.accept = exhausted  # type: ignore[method-assign]
        async with setups.accepting():
            while len(setups.transports) < 10:
                await _turn(setups)

    asyncio.run(story())


def test_any_error_of_the_listening_socket_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        closed = Listening()

        def accept() -> Any:
            raise OSError(errno.EBADF, "Bad file descriptor")

        closed.accept = accept  # type: ignore[method-assign]
        setups = Setups(closed)
        async with setups.accepting():
            while not caplog.messages:
                await _turn(setups)

    asyncio.run(story())
    assert caplog.messages == ["cannot accept connections: Bad file descriptor"]


def test_the_loop_skips_a_connection_that_its_caller_aborted() -> None:
    async def story() -> None:
        listening = Listening("10.0.0.1", "10.0.0.2")
        accept, tries = listening.accept, 0

        def aborted() -> Any:
            nonlocal tries
            tries += 1
            if tries <= 2:
                raise ConnectionAbortedError
            return accept()

        listening.accept = aborted  # type: ignore[method-assign]
        setups = Setups(listening)
        async with setups.accepting():
            while len(setups.transports) < 2:
                await _turn(setups)
        listening.callers.close()

    asyncio.run(story())


async def _turn(setups: Setups) -> None:
    """Let the event loop run once. Fail after ``TURNS_MAX`` turns, so that no test waits for ever."""
    setups.turns += 1
    assert setups.turns < TURNS_MAX
    await asyncio.sleep(0)

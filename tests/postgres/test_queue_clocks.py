"""The queue in PostgreSQL, if the clocks of its receivers are wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from stratalog.backends.postgres import PostgresStore
from stratalog.backends.postgres_address import parse_address
from stratalog.backends.postgres_connections import Connection
from stratalog.clock import SystemClock

HOUR_MS = 3_600_000
YEAR_MS = 365 * 24 * HOUR_MS

Open = Callable[[int], PostgresStore]


class WrongClock(SystemClock):
    """The machine's clock, set ahead by ``ahead_ms``."""

    def __init__(self, ahead_ms: int) -> None:
        self._ahead_ms = ahead_ms

    def wall_ms(self) -> int:
        return super().wall_ms() + self._ahead_ms


@pytest.fixture
def open_store(postgres: str) -> Iterator[Open]:
    """A function that opens the store in a process whose clock is ahead by the given time."""
    with ExitStack() as stack:

        def opened(ahead_ms: int) -> PostgresStore:
            store = PostgresStore(parse_address(postgres), WrongClock(ahead_ms))
            stack.callback(store.close)
            return store

        opened(0).create()
        yield opened


def test_a_receiver_whose_clock_is_hours_ahead_hides_messages_no_longer_than_others(open_store: Open) -> None:
    ahead, less_ahead = open_store(6 * HOUR_MS).queue, open_store(HOUR_MS).queue
    ahead.send("g", [b"1", b"2"])
    assert [message.body for message in ahead.receive(1, visibility_seconds=0.0005)] == [b"1"]
    assert [message.body for message in less_ahead.receive()] == [b"1", b"2"]


def test_a_receiver_whose_clock_is_far_ahead_can_settle_its_messages(open_store: Open) -> None:
    ahead = open_store(YEAR_MS).queue
    ahead.send("g", [b"1", b"2"])
    first, second = ahead.receive()
    assert ahead.acknowledge(first)
    assert ahead.release(second, after_seconds=30)
    assert ahead.receive() == []


def test_a_group_that_a_wrong_clock_has_hidden_for_a_year_is_delivered(open_store: Open) -> None:
    store = open_store(0)
    store.queue.send("g", [b"1", b"2"])
    store.queue.receive(1)

    def hide(connection: Connection) -> None:
        connection.execute("UPDATE messages SET hidden_until_ms = hidden_until_ms + %s WHERE receives > 0", [YEAR_MS])
        connection.execute("UPDATE message_groups SET visible_ms = visible_ms + %s", [YEAR_MS])

    store.queue._connections.transact(hide)
    assert [message.body for message in store.queue.receive()] == [b"1", b"2"]

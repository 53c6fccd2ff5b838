"""Processes send hints to each other by NOTIFY. A server that gets a hint reads the head of the document."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from queue import SimpleQueue
from typing import Any

import psycopg
import pytest

import stratalog
from stratalog.backends import postgres_announcements
from stratalog.backends.postgres import PostgresStore
from stratalog.backends.postgres_address import parse_address
from stratalog.clock import SystemClock
from stratalog.server.application import Application, ServerLimits
from tests.server.api import BUDGET, mutation, push, serving
from tests.threads import until

Name = tuple[str, str]


@pytest.fixture
def stores(postgres: str) -> Iterator[list[PostgresStore]]:
    opened = [PostgresStore(parse_address(postgres), SystemClock()) for _ in range(2)]
    opened[0].create()
    yield opened
    for store in opened:
        store.close()


def hints_of(store: PostgresStore, connection: Any) -> SimpleQueue[Name]:
    """Listen to the hints of other processes, and return them in a queue."""
    heard: SimpleQueue[Name] = SimpleQueue()
    store.announcements.listen(lambda organisation, name: heard.put((organisation, name)))
    until(lambda: bool(listening(store, connection)))
    return heard


def listening(store: PostgresStore, connection: Any) -> list[tuple[int]]:
    """Return the process ids of the sessions that listen to the store's channel."""
    # A session is active, and may miss a hint, until its LISTEN has finished.
    session = "SELECT pid FROM pg_stat_activity WHERE state = 'idle' AND query = %s"
    rows: list[tuple[int]] = connection.execute(session, (f'LISTEN "{store.announcements._channel}"',)).fetchall()
    return rows


@pytest.fixture
def connection(postgres: str) -> Iterator[psycopg.Connection[Any]]:
    with closing(psycopg.connect(parse_address(postgres).conninfo, autocommit=True)) as connection:
        yield connection


def test_a_process_receives_the_hints_of_another_process_and_not_its_own(
    stores: list[PostgresStore], connection: Any
) -> None:
    heard = hints_of(stores[1], connection)
    channel = stores[1].announcements._channel
    connection.execute(f'LISTEN "{channel}"')
    connection.execute("SELECT pg_notify(%s, 'no hint')", (channel,))
    stores[1].announcements.announce("acme", "own")
    # PostgreSQL delivers hints in the order of their commits. So the process's own hint comes before the other hint.
    assert ["own" in hint.payload for hint in connection.notifies(timeout=30, stop_after=2)] == [False, True]
    stores[0].announcements.announce("acme", "plan \0 é")
    assert heard.get(timeout=30) == ("acme", "plan \0 é")


def test_the_second_server_on_an_open_store_hears_the_hints(stores: list[PostgresStore], connection: Any) -> None:
    hints_of(stores[1], connection)
    heard = hints_of(stores[1], connection)
    stores[0].announcements.announce("acme", "plan")
    assert heard.get(timeout=30) == ("acme", "plan")


def test_hints_of_another_schema_are_not_heard(stores: list[PostgresStore], connection: Any, postgres: str) -> None:
    heard = hints_of(stores[1], connection)
    with closing(PostgresStore(parse_address(f"{postgres}_other"), SystemClock())) as other:
        other.announcements.announce("acme", "other")
    stores[0].announcements.announce("acme", "plan")
    assert heard.get(timeout=30) == ("acme", "plan")


def test_hints_are_heard_again_after_the_session_ended(
    stores: list[PostgresStore], connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_announcements, "RETRY_SECONDS", 0.01)
    heard = hints_of(stores[1], connection)
    for (pid,) in listening(stores[1], connection):
        connection.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))

    def is_heard() -> bool:
        stores[0].announcements.announce("acme", "plan")
        return not heard.empty()

    until(is_heard)
    assert heard.get() == ("acme", "plan")


def test_an_announcement_whose_thread_cannot_start_is_sent_with_the_next_announcement(
    stores: list[PostgresStore], connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit has already succeeded, so `announce` does not raise.

    `close` does not fail although a thread never ran.
    """

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    heard = hints_of(stores[1], connection)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        stores[0].announcements.announce("acme", "first")
    stores[0].announcements.announce("acme", "second")
    assert {heard.get(timeout=30), heard.get(timeout=30)} == {("acme", "first"), ("acme", "second")}
    stores[0].close()


def test_closing_ends_the_threads(stores: list[PostgresStore], connection: Any) -> None:
    hints_of(stores[0], connection)
    stores[0].announcements.announce("acme", "plan")
    stores[0].close()
    assert not [thread for thread in threading.enumerate() if thread.name in ("stratalog-listen", "stratalog-send")]


def test_closing_wakes_a_listener_that_waits_for_hints(
    stores: list[PostgresStore], connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_announcements, "CLOSE_SECONDS_MAX", 20)
    hints_of(stores[0], connection)
    stores[0].announcements.close()
    assert "stratalog-listen" not in {thread.name for thread in threading.enumerate()}


def test_closing_wakes_a_listener_that_waits_to_connect_again(
    stores: list[PostgresStore], connection: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(postgres_announcements, "RETRY_SECONDS", 3600)
    monkeypatch.setattr(postgres_announcements, "CLOSE_SECONDS_MAX", 20)
    hints_of(stores[0], connection)
    connection.execute("SELECT pg_terminate_backend(%s, 10000)", listening(stores[0], connection)[0])
    until(lambda: "cannot be received" in caplog.text)
    stores[0].announcements.close()
    assert "stratalog-listen" not in {thread.name for thread in threading.enumerate()}


def test_a_server_reports_the_commit_of_another_server_before_it_polls(postgres: str) -> None:
    """The servers poll once an hour, so only a hint can report the commit."""
    limits = ServerLimits(live_poll_seconds=3600)
    with (
        stratalog.open(postgres) as first,
        stratalog.open(postgres) as second,
        serving(Application(limits=limits), first) as writer,
        serving(Application(limits=limits), second) as reader,
    ):
        writer.put(BUDGET)
        with reader.websocket_connect(f"{BUDGET}/live") as live:
            assert live.receive_json()["version"] == 0
            push(writer, mutation("c", 1, key="k", value=1))
            assert live.receive_json() == {"type": "poke", "version": 1}

"""A store behind a pooler, such as PgBouncer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import psycopg
import pytest

from stratalog.backends import postgres_connections, postgres_session
from stratalog.backends.postgres import PostgresStore
from stratalog.backends.postgres_address import parse_address
from stratalog.backends.postgres_session import PostgresSession
from stratalog.clock import SystemClock
from stratalog.errors import Invalid, Unavailable
from stratalog.ports.index import Item, Put
from tests.postgres.pooler import pooler

CALLS: list[Callable[[PostgresStore], object]] = [
    lambda store: store.index.get("p", "s"),
    lambda store: store.index.commit([Put(Item("p", "s", {}))]),
]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a session wait long for a pooler, whose thread may be late on a busy machine."""
    monkeypatch.setattr(postgres_session, "POOLER_ANSWER_SECONDS_MAX", 30)


@pytest.mark.usefixtures("patient")
def test_a_pooler_that_gives_each_transaction_another_session_is_refused(postgres: str) -> None:
    with (
        pooler(postgres, per_transaction=True) as url,
        closing(PostgresStore(parse_address(url), SystemClock())) as store,
        pytest.raises(Invalid, match="session mode"),
    ):
        store.create()


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("call", CALLS, ids=["read", "commit"])
def test_a_call_through_a_pooler_that_gives_each_transaction_another_session_is_unavailable(
    postgres: str, call: Callable[[PostgresStore], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker and a batch of mutations would take Invalid for an error of the message, and drop it."""
    monkeypatch.setattr(postgres_connections, "POSTGRES_WAIT_SECONDS_MAX", 0.1)
    with closing(PostgresStore(parse_address(postgres), SystemClock())) as direct:
        direct.create()
    with (
        pooler(postgres, per_transaction=True) as url,
        closing(PostgresStore(parse_address(url), SystemClock())) as store,
        pytest.raises(Unavailable, match="session mode"),
    ):
        call(store)


@pytest.mark.usefixtures("patient")
def test_a_pooler_in_statement_mode_is_refused_and_its_sessions_keep_their_settings(
    postgres: str,
) -> None:
    with closing(PostgresStore(parse_address(postgres), SystemClock())) as direct:
        direct.create()
    with (
        pooler(postgres, per_transaction=True, refuses_begin=True) as url,
        closing(psycopg.connect(parse_address(url).conninfo, autocommit=True)) as other,
        closing(PostgresStore(parse_address(url), SystemClock())) as store,
    ):
        before = other.execute("SHOW search_path").fetchall()
        with pytest.raises(Invalid, match="session mode"):
            store.require()
        assert other.execute("SHOW search_path").fetchall() == before


def test_a_pooler_that_gives_each_client_one_session_is_accepted(postgres: str) -> None:
    with (
        pooler(postgres, per_transaction=False) as url,
        closing(PostgresStore(parse_address(url), SystemClock())) as store,
    ):
        store.create()
        store.index.commit([Put(Item("p", "s", {"a": 1}))])
        assert store.index.get("p", "s") == Item("p", "s", {"a": 1})


def test_a_session_waits_only_briefly_for_a_pooler_that_has_no_process_for_another_session(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_session, "POOLER_ANSWER_SECONDS_MAX", 0.1)
    limits: list[float] = []
    shut_down = PostgresSession._shut_down

    def ends(session: PostgresSession) -> None:
        limits.append(session.answer_seconds_max)
        shut_down(session)

    monkeypatch.setattr(PostgresSession, "_shut_down", ends)
    with (
        pooler(postgres, per_transaction=False, processes_max=1) as url,
        closing(PostgresStore(parse_address(url), SystemClock())) as store,
    ):
        store.create()
    assert limits == [0.1]


def test_a_session_behind_a_refused_pooler_is_closed(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool drops its last reference to the session without closing it."""
    monkeypatch.setattr(PostgresSession, "is_pooled", lambda _: True)
    address = parse_address(postgres)
    with closing(PostgresStore(address, SystemClock())) as store:
        session = PostgresSession.connect(address.conninfo, autocommit=True)
        with pytest.raises(Unavailable, match="session mode"):
            store._connections._set_up(session)
        assert session.closed

"""A primary whose synchronous standby is away. Commits wait, and the store acknowledges only what a standby has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Event, Lock
from typing import Any

import psycopg
import pytest

from stratalog.backends import postgres_connections, postgres_session
from stratalog.backends.postgres import PostgresStore
from stratalog.backends.postgres_address import parse_address
from stratalog.backends.postgres_session import REPLICATE, PostgresSession
from stratalog.clock import SystemClock
from stratalog.errors import Closed, OutcomeUnknown, Unavailable
from stratalog.limits import POSTGRES_ANSWER_SECONDS_MAX
from stratalog.ports.index import Absent, Item, Put
from tests.postgres.pooler import pooler
from tests.threads import SECONDS_MAX, until

WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
ITEM = Item("p", "s", {})
COMMITS: list[Callable[[PostgresStore], None]] = [
    lambda store: store.index.commit([Put(ITEM, Absent())]),
    lambda store: store.index.commit([Put(ITEM)]),
    lambda store: store.queue.send("g", [b"body"]),
]
NAMES = ["insert", "put", "send"]


class Primary:
    """A session of an operator."""

    def __init__(self, connection: psycopg.Connection[Any], url: str) -> None:
        self.connection = connection
        self._url = url

    def name_standby(self, name: str) -> None:
        """Set the name of the standby, and wait until the server uses it. No standby of any name exists."""
        self.connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
        self.connection.execute("SELECT pg_reload_conf()")
        until(lambda: self._do_commits_wait() == bool(name))

    def _do_commits_wait(self) -> bool:
        with closing(PostgresSession.connect(self._url, autocommit=True)) as session, ThreadPoolExecutor(1) as pool:
            running = pool.submit(session.execute, REPLICATE)
            until(lambda: running.done() or (session.info.backend_pid,) in self.waiting())
            session.cancel()  # has no effect on a statement that ended
            running.result()
            return not session.is_replicated

    def waiting(self) -> list[tuple[Any, ...]]:
        """Return the sessions that wait for a standby."""
        return self.connection.execute(WAITING).fetchall()

    def end_wait(self, function: str) -> None:
        """Call the function with the session that waits for a standby."""
        until(lambda: len(self.waiting()) == 1)
        self.connection.execute(f"SELECT {function}(pid) FROM ({WAITING}) AS waiting")


@pytest.fixture
def primary(postgres: str) -> Iterator[Primary]:
    with closing(psycopg.connect(parse_address(postgres).conninfo, autocommit=True)) as connection:
        connection.execute("SET synchronous_commit TO local")
        operator = Primary(connection, parse_address(postgres).conninfo)
        yield operator
        operator.name_standby("")


@pytest.fixture
def store(postgres: str, primary: Primary, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresStore]:
    """A store with a session for commits, one for sends and one for reads. Then its standby goes away."""
    with closing(PostgresStore(parse_address(postgres), SystemClock())) as store:
        store.create()
        store.index.commit([Put(Item("p", "before", {}))])
        sessions = [store._connections._take() for _ in range(2)]
        for session in sessions:
            store._connections._give_back(session)
        primary.name_standby("nobody")
        for module in (postgres_connections, postgres_session):
            monkeypatch.setattr(module, "POSTGRES_WAIT_SECONDS_MAX", 0.1)
        yield store
        primary.name_standby("")  # before the end of the session for commits, which may wait


@pytest.mark.parametrize("commit", COMMITS, ids=NAMES)
@pytest.mark.parametrize("function", ["pg_terminate_backend", "pg_cancel_backend"])
def test_a_commit_whose_wait_for_the_standby_ends_early_is_unknown_and_not_shown(
    store: PostgresStore, primary: Primary, commit: Callable[[PostgresStore], None], function: str
) -> None:
    """The server makes the commit visible. A read would find the commit, and a failover would lose it."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(commit, store)
        primary.end_wait(function)
        assert isinstance(running.exception(timeout=60), OutcomeUnknown)
    with pytest.raises(Unavailable, match="no standby has confirmed"):
        store.index.get("p", "s")


def test_a_commit_whose_wait_ends_early_is_unknown_although_sessions_get_no_warnings(
    postgres: str, primary: Primary
) -> None:
    """Only a warning of the server reports the end of the wait."""
    silent = f"{postgres}&options=-c%20client_min_messages%3Derror"
    with closing(PostgresStore(parse_address(silent), SystemClock())) as store, ThreadPoolExecutor(1) as pool:
        store.create()
        store.index.commit([Put(Item("p", "before", {}))])
        primary.name_standby("nobody")
        running = pool.submit(store.index.commit, [Put(ITEM, Absent())])
        primary.end_wait("pg_cancel_backend")
        assert isinstance(running.exception(timeout=60), OutcomeUnknown)


def test_a_session_that_opens_while_the_standby_is_away_is_unavailable_until_commits_need_no_standby(
    store: PostgresStore, primary: Primary, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(PostgresStore(parse_address(postgres), SystemClock())) as other:
        with pytest.raises(Unavailable, match="no standby has confirmed"):
            other.require()
        primary.name_standby("")
        monkeypatch.undo()
        other.require()


def test_a_role_without_rights_may_wait_for_a_standby(primary: Primary, postgres: str) -> None:
    primary.connection.execute("CREATE ROLE plain LOGIN")
    try:
        with closing(psycopg.connect(parse_address(postgres).conninfo, user="plain", autocommit=True)) as session:
            session.execute(REPLICATE)
    finally:
        primary.connection.execute("DROP ROLE plain")


def test_a_commit_waits_for_the_standby_for_longer_than_for_another_answer(
    store: PostgresStore, primary: Primary, monkeypatch: pytest.MonkeyPatch
) -> None:
    _wait_for_long(store, primary, monkeypatch)


def test_a_commit_through_a_pooler_waits_for_the_standby_for_longer_too(
    postgres: str, primary: Primary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pooler states a process id of its own, which the server does not know."""
    with (
        pooler(postgres, per_transaction=False) as url,
        closing(PostgresStore(parse_address(url), SystemClock())) as store,
    ):
        store.create()
        store.index.commit([Put(Item("p", "before", {}))])
        primary.name_standby("nobody")
        _wait_for_long(store, primary, monkeypatch)


def _wait_for_long(store: PostgresStore, primary: Primary, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    ask = PostgresSession._waits_for_standby

    def asks(session: PostgresSession) -> bool:
        asked.append(ask(session))
        return asked[-1]

    monkeypatch.setattr(PostgresSession, "_waits_for_standby", asks)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(store.index.commit, [Put(ITEM, Absent())])
        until(lambda: len(primary.waiting()) == 1)
        monkeypatch.setattr(PostgresSession, "answer_seconds_max", 0.1)
        until(lambda: len(asked) >= 2)
        monkeypatch.setattr(PostgresSession, "answer_seconds_max", POSTGRES_ANSWER_SECONDS_MAX)
        primary.name_standby("")
        running.result(timeout=60)
    assert all(asked)
    assert store.index.get("p", "s") == ITEM


class Question:
    """The lock of the question why no session opens. The first thread that asks waits for ``may_ask``."""

    def __init__(self, store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.threads = self.asked = 0
        self.may_ask = Event()
        self._connect = store._connections.connect
        self._lock = Lock()
        monkeypatch.setattr(store._connections, "_asking", self)
        monkeypatch.setattr(store._connections, "connect", self._ask)

    def __enter__(self) -> None:
        self.threads += 1
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def _ask(self) -> PostgresSession:
        self.asked += 1
        assert self.may_ask.wait(SECONDS_MAX)
        return self._connect()


def test_one_thread_asks_why_no_session_opens_and_others_share_the_answer(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session of each thread would exceed the pool's limit, and each would wait on the server for the standby."""
    question = Question(store, monkeypatch)
    store._connections.renew()
    with ThreadPoolExecutor(3) as pool:
        reads = [pool.submit(store.index.get, "p", "s") for _ in range(3)]
        until(lambda: question.threads == 3)
        question.may_ask.set()
        for read in reads:
            with pytest.raises(Unavailable, match="no standby has confirmed"):
                read.result(timeout=60)
    assert question.asked == 1


def test_threads_that_ask_why_no_session_opens_raise_closed_after_the_store_is_closed(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = Question(store, monkeypatch)
    store._connections.renew()
    with ThreadPoolExecutor(2) as pool:
        reads = [pool.submit(store.index.get, "p", "s") for _ in range(2)]
        until(lambda: question.threads == 2)
        store.close()
        question.may_ask.set()
        for read in reads:
            with pytest.raises(Closed):
                read.result(timeout=60)


@pytest.mark.parametrize(("seconds", "cancels"), [(0.0, 18), (5.0, 9)])
def test_a_silent_wait_for_a_standby_is_cancelled_once_in_each_time_limit(
    postgres: str, monkeypatch: pytest.MonkeyPatch, seconds: float, cancels: int
) -> None:
    """The server does not act on the requests, each of which takes ``seconds``."""
    events: list[str] = []

    def cancel() -> float:
        events.append("cancel")
        return seconds

    def silence() -> Iterator[int]:
        while True:
            yield 0

    with closing(PostgresSession.connect(parse_address(postgres).conninfo, autocommit=True)) as session:
        monkeypatch.setattr(session, "_is_replicating", True)
        monkeypatch.setattr(session, "_cancel", cancel)
        monkeypatch.setattr(session, "_waits_for_standby", lambda: False)
        monkeypatch.setattr(session, "_shut_down", lambda: events.append("shut down"))
        waiting = session._bounded(silence(), 0.5)
        next(waiting)
        while "shut down" not in events:
            waiting.send(0)
    assert events == ["cancel"] * cancels + ["shut down"]

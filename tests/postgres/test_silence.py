"""A server that keeps its connections but no longer answers, for example because a proxy stopped or a disk hangs."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from itertools import count
from tempfile import TemporaryDirectory
from threading import Timer
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import psycopg
import pytest

from stratalog.backends.postgres import PostgresStore
from stratalog.backends.postgres_address import parse_address
from stratalog.backends.postgres_session import PostgresSession, _Probe
from stratalog.clock import SystemClock
from stratalog.errors import OutcomeUnknown, StratalogError, Unavailable
from stratalog.ports.index import Absent, Item, Put
from stratalog.testing.postgres_server import SOCKETS
from tests.threads import join_all, start_all

SOCKET = ".s.PGSQL.5432"
GUARD_SECONDS = 120
ITEM = Item("p", "s", {})
numbers = count()
CALLS: dict[str, tuple[Callable[[PostgresStore], object], type[StratalogError] | None]] = {
    "insert": (lambda store: store.index.commit([Put(Item("p", f"{next(numbers)}", {}), Absent())]), OutcomeUnknown),
    "put": (lambda store: store.index.commit([Put(ITEM)]), Unavailable),
    "send": (lambda store: store.queue.send("g", [b"body"]), Unavailable),
    "read": (lambda store: store.index.get("p", "s"), None),
}


class Proxy:
    """Listens on a Unix socket in ``folder``, and forwards to the server's Unix socket in the folder ``server``.

    After `silence`, the connections that were open at the call get no answers.
    """

    def __init__(self, server: str, folder: str) -> None:
        self._server = server
        self._clients: list[socket.socket] = []
        self._silent = 0
        self.is_open = True
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(f"{folder}/{SOCKET}")
        self._listening.listen()
        self._threads = start_all([self._accept])

    def silence(self) -> None:
        self._silent = len(self._clients)

    def close(self) -> None:
        """End all connections. Closing twice is harmless."""
        self.is_open = False
        for end in (self._listening, *self._clients):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        join_all(self._threads)
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:  # the end of the test
                return
            number = len(self._clients)
            self._clients.append(client)
            server = socket.socket(socket.AF_UNIX)
            server.connect(f"{self._server}/{SOCKET}")
            self._threads += start_all([partial(self._serve, number, client, server)])

    def _serve(self, number: int, client: socket.socket, server: socket.socket) -> None:
        with client, server:
            (answers,) = start_all([partial(self._forward, server, client, lambda: number < self._silent)])
            self._forward(client, server, lambda: False)
            join_all([answers])

    def _forward(self, source: socket.socket, target: socket.socket, is_silent: Callable[[], bool]) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if not is_silent():
                    target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def folder() -> Iterator[str]:
    with TemporaryDirectory(prefix="stratalog-", dir=SOCKETS) as folder:
        yield folder


@pytest.fixture
def proxy(postgres: str, folder: str) -> Iterator[Proxy]:
    (host,) = parse_qs(urlsplit(postgres).query)["host"]
    with closing(Proxy(host, folder)) as proxy:
        yield proxy


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[PostgresSession]:
    """All sessions that this process opens."""
    sessions: list[PostgresSession] = []
    begin = PostgresSession.__init__

    def begins(session: PostgresSession, *args: Any) -> None:
        begin(session, *args)
        sessions.append(session)

    monkeypatch.setattr(PostgresSession, "__init__", begins)
    return sessions


@pytest.fixture
def url(postgres: str, proxy: Proxy, folder: str) -> str:
    """The URL of the server behind the proxy."""
    (host,) = parse_qs(urlsplit(postgres).query)["host"]
    return postgres.replace(quote(host, safe=""), quote(folder, safe=""))


@pytest.fixture
def guard(proxy: Proxy) -> Iterator[None]:
    """After `GUARD_SECONDS`, end all connections. Then a call that would wait forever ends, and the next call fails."""
    timer = Timer(GUARD_SECONDS, proxy.close)
    timer.start()
    yield
    timer.cancel()
    timer.join()


@pytest.mark.usefixtures("guard")
@pytest.mark.parametrize("name", CALLS)
def test_a_call_without_an_answer_ends_and_the_next_call_uses_another_session(
    url: str, proxy: Proxy, sessions: list[PostgresSession], name: str
) -> None:
    call, error = CALLS[name]
    with closing(PostgresStore(parse_address(url), SystemClock())) as store:
        store.create()
        store.index.commit([Put(ITEM)])
        assert store.index.get("p", "s") == ITEM
        proxy.silence()
        for session in sessions:  # the later sessions get answers, and wait as long as always
            session.answer_seconds_max = 0.1
        if error is not None:
            with pytest.raises(error):
                call(store)
        call(store)
        assert store.index.get("p", "s") == ITEM


@pytest.mark.usefixtures("guard")
def test_a_session_ends_although_the_server_does_not_answer_the_probe_either(
    url: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server accepts the login of the second session, and then does not answer that session either."""
    log_in = _Probe.connect

    def connect(**options: Any) -> PostgresSession:
        probe = log_in(**options)
        assert isinstance(probe, _Probe)
        proxy.silence()
        return probe

    monkeypatch.setattr(_Probe, "connect", connect)
    monkeypatch.setattr(_Probe, "answer_seconds_max", 0.1)
    with closing(PostgresSession.connect(parse_address(url).conninfo, autocommit=True)) as session:
        session.answer_seconds_max = 0.1
        proxy.silence()
        with pytest.raises(psycopg.OperationalError):
            session.execute("SELECT")
    assert proxy.is_open

"""A client uses the HTTP transport with a real server, and raises the right error for each response."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any, NoReturn, Self

import httpx
import msgspec
import pytest
import uvicorn

import stratalog
from stratalog.client import Client, HttpTransport, Unreached, background, connect
from stratalog.client.http import document_of, error_of
from stratalog.errors import (
    Collected,
    Conflict,
    Corrupt,
    Forbidden,
    Invalid,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    StratalogError,
    Unavailable,
)
from stratalog.protocol.messages import Mutation
from stratalog.protocol.sync import Pull, Push
from stratalog.server.app import create_app
from stratalog.server.application import Application, ServerLimits
from stratalog.server.security import Principal, StaticTokens

SECONDS_MAX = 60.0
PATH = "/v1/organisations/acme/documents/plan"


class Running(uvicorn.Server):
    """A server in a thread of the test's process."""

    def __init__(self, store: stratalog.Store, port: int = 0, tokens: StaticTokens | None = None) -> None:
        self.listening = socket.create_server(("127.0.0.1", port))
        app = create_app(store, Application(limits=ServerLimits(live_poll_seconds=0.01), authenticate=tokens))
        super().__init__(uvicorn.Config(app, log_level="error", ws="websockets-sansio"))
        self._thread = threading.Thread(target=self.run, args=([self.listening],), daemon=True)
        self._thread.start()
        self.port = self.listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}{PATH}"

    def end(self) -> None:
        """End the server. A second call does nothing."""
        self.should_exit = True
        self._thread.join(SECONDS_MAX)
        assert not self._thread.is_alive()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()


@pytest.fixture(autouse=True)
def never_pulls_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A started client pulls after a poke and after a change of its own, and not at intervals."""
    monkeypatch.setattr(background, "PULL_SECONDS", 3600)


@pytest.fixture
def store() -> Iterator[stratalog.Store]:
    with stratalog.open("memory:") as store:
        yield store


@pytest.fixture
def url(store: stratalog.Store) -> Iterator[str]:
    with Running(store) as server:
        yield server.url


def test_started_clients_synchronise_by_background_cycles(url: str, store: stratalog.Store) -> None:
    heard = threading.Event()
    with connect(url, create=True) as first, connect(url, create=True) as second:
        assert (
            first.mutate("put", {"key": "k", "value": {"raw": b"\0\xff", "text": "ü"}}).wait(SECONDS_MAX) == "applied"
        )
        second.subscribe(lambda keys: heard.set() if second.get("k") == 2 else None)
        first.mutate("put", {"key": "k", "value": 2})
        assert heard.wait(SECONDS_MAX)
    assert store.document("acme", "plan").get("k") == 2


def test_a_started_client_resumes_after_a_restart_of_the_server(store: stratalog.Store) -> None:
    heard = threading.Event()
    with ExitStack() as servers:
        server = servers.enter_context(Running(store))
        with connect(server.url, create=True) as client:
            assert client.mutate("put", {"key": "k", "value": 1}).wait(SECONDS_MAX) == "applied"
            server.end()
            handle = client.mutate("inc", {"key": "k"})
            servers.enter_context(Running(store, server.port))
            assert handle.wait(SECONDS_MAX) == "applied"
            client.subscribe(lambda keys: heard.set(), "theirs")
            store.document("acme", "plan").mutate("put", {"key": "theirs", "value": 1})
            assert heard.wait(SECONDS_MAX)


def test_a_valid_token_gives_access_to_the_document_and_its_pokes(store: stratalog.Store) -> None:
    tokens = StaticTokens({"a-good-token": Principal(id="ada")})
    heard = threading.Event()
    with Running(store, tokens=tokens) as server:
        with connect(server.url, create=True, token="a-good-token") as client:
            assert client.mutate("put", {"key": "k", "value": 1}).wait(SECONDS_MAX) == "applied"
            client.subscribe(lambda keys: heard.set(), "theirs")
            for value in range(2):  # the cycles after the client's own change may find the first of these changes
                heard.clear()
                store.document("acme", "plan").mutate("put", {"key": "theirs", "value": value})
                assert heard.wait(SECONDS_MAX)
        with Client(HttpTransport(server.url, token=lambda: " a-good-token\n")) as client:  # as read from a file
            client.sync()
        with Client(HttpTransport(server.url, token=lambda: "another")) as client, pytest.raises(Forbidden):
            client.sync()


def test_a_missing_document_is_not_found_and_the_mutation_stays_pending(url: str) -> None:
    with Client(HttpTransport(url)) as client:
        client.mutate("put", {"key": "k", "value": 1})
        with pytest.raises(NotFound):
            client.sync()
        assert len(client.pending()) == 1


def test_a_server_that_cannot_be_reached_raises_unreached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    transport = HttpTransport(f"http://127.0.0.1:{port}{PATH}")
    with pytest.raises(Unreached):
        transport.pull(Pull("group"))
    transport.close()


def test_a_server_that_hangs_up_leaves_the_outcome_unknown() -> None:
    def hang_up(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        connection.recv(10)
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        hanging_up = threading.Thread(target=hang_up, args=(listening,), daemon=True)
        hanging_up.start()
        transport = HttpTransport(f"http://127.0.0.1:{listening.getsockname()[1]}{PATH}")
        with pytest.raises(OutcomeUnknown):
            transport.push(Push("group", []))
        hanging_up.join(SECONDS_MAX)
        assert not hanging_up.is_alive()
        transport.close()


def test_a_large_push_gets_through_in_parts(url: str) -> None:
    with Client(HttpTransport(url, create=True)) as client:
        handles = [client.mutate("put", {"key": f"k/{position}", "value": "x" * 700_000}) for position in range(30)]
        client.sync()
        assert {handle.status for handle in handles} == {"applied"}


def test_a_large_push_has_the_time_that_a_slow_network_needs_to_send_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def request(*arguments: object, timeout: httpx.Timeout, **options: object) -> NoReturn:
        timeouts.append(timeout)
        raise httpx.ReadTimeout("no response")

    timeouts: list[httpx.Timeout] = []
    transport = HttpTransport(f"http://127.0.0.1:1{PATH}")
    monkeypatch.setattr(transport._http, "request", request)
    for size in (0, 262_144, 8_000_000):
        mutation = Mutation(client="c", id=1, name="put", args=bytes(size))
        with pytest.raises(OutcomeUnknown):
            transport.push(Push("group", [mutation]))
    assert [(timeout.connect, round(timeout.read or 0)) for timeout in timeouts] == [(5, 30), (5, 94), (5, 330)]


@pytest.mark.parametrize("token", ["secret\r\nX: y", "sécret", "“secret”", "sec\0ret", 5])
def test_a_token_that_no_header_can_contain_is_invalid_and_not_shown(token: Any) -> None:
    transport = HttpTransport(f"http://127.0.0.1:1{PATH}", token=lambda: token)
    with pytest.raises(Invalid, match="a token must be printable ASCII text") as caught:
        transport.push(Push("group", []))
    assert "cret" not in str(caught.value)


def test_a_mutation_too_large_for_any_request_is_rejected(url: str) -> None:
    with Client(HttpTransport(url, create=True)) as client:
        handles = [client.mutate("put", {"key": f"k/{size}", "value": "x" * size}) for size in (10, 17_000_000, 11)]
        client.sync()
        assert [handle.status for handle in handles] == ["applied", "rejected", "applied"]


def answer(status: int, body: object = None, **headers: str) -> httpx.Response:
    content = b"<html>" if body is None else msgspec.json.encode(body)
    return httpx.Response(status, content=content, headers=headers)


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (answer(400, {"code": "invalid", "message": "m"}), Invalid),
        (answer(401, {"code": "unauthenticated", "message": "m"}), Forbidden),
        (answer(403, {"code": "forbidden", "message": "m"}), Forbidden),
        (answer(404, {"code": "not-found", "message": "m"}), NotFound),
        (answer(409, {"code": "conflict", "message": "m"}), Conflict),
        (answer(410, {"code": "collected", "message": "m"}), Collected),
        (answer(413, {"code": "limit-exceeded", "message": "m"}), LimitExceeded),
        (answer(429, {"code": "too-many-requests", "message": "m"}), Unreached),
        (answer(500, {"code": "corrupt", "message": "m"}), Corrupt),
        (answer(500, {"code": "error", "message": "m"}), OutcomeUnknown),
        (answer(503, {"code": "unavailable", "message": "m"}), Unavailable),
        (answer(504, {"code": "outcome-unknown", "message": "m"}), OutcomeUnknown),
        (answer(404), NotFound),
        (answer(400), Invalid),
        (answer(408), OutcomeUnknown),
        (answer(413), LimitExceeded),
        (answer(502), OutcomeUnknown),
        (answer(503, [1]), OutcomeUnknown),
        (httpx.Response(500, content=b"[" * 100_000), OutcomeUnknown),
    ],
)
def test_an_error_response_raises_the_error_of_its_code_or_status(
    response: httpx.Response, kind: type[StratalogError]
) -> None:
    assert type(error_of(response)) is kind


def test_an_error_has_the_details_and_the_retry_time_of_the_response() -> None:
    problem = {"code": "limit-exceeded", "message": "too much", "limit": 5, "value": 6}
    error = error_of(answer(413, problem, **{"retry-after": "7"}))
    assert error.details == {"status": 413, "retry_after_seconds": 7.0, "limit": 5, "value": 6}


@pytest.mark.parametrize("text", ["", "soon", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_a_retry_after_header_without_seconds_is_ignored(text: str) -> None:
    assert "retry_after_seconds" not in error_of(answer(429, {}, **{"retry-after": text})).details


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host/v1/organisations/a/documents/d",
        "http://host/v1/organisations/a",
        "/v1/organisations/a/documents/d",
        "http://host/v1/organisations/a/logs/d",
        "http://host/v1/organisations/a/documents/d?at=1",
    ],
)
def test_a_url_that_is_not_the_url_of_a_document_is_refused(url: str) -> None:
    with pytest.raises(Invalid):
        connect(url)


def test_a_documents_name_does_not_depend_on_how_its_url_is_written() -> None:
    assert document_of("http://host/v1/organisations/a%2Fb/documents/d%65/") == "a%2Fb/de"

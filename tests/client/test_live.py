"""The events that end a client's live connection, and the events after which the client connects again."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosedError
from websockets.frames import Close
from websockets.server import ServerProtocol
from websockets.sync.client import connect

from stratalog.client.live import PokeListener, ServerAddress
from stratalog.testing.clock import ManualClock
from tests.threads import SECONDS_MAX


class Connection:
    """A connection that receives ``messages``, and then closes with ``code``."""

    def __init__(self, messages: list[str], code: int, ended: Callable[[], None]) -> None:
        self.messages, self.code, self.ended = messages, code, ended

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.ended()

    def send(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass

    def recv(self, seconds: float) -> str:
        if self.messages:
            return self.messages.pop(0)
        raise ConnectionClosedError(Close(self.code, ""), None)


class Listening:
    """A listener that does not wait between connections, and stops at the last of ``tokens``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tokens: list[str], code: int, *messages: str) -> None:
        self.connections = self.pokes = 0
        self._tokens, self._code, self._messages = tokens, code, messages
        monkeypatch.setattr("stratalog.client.live.connect", self._connect)
        listener = PokeListener(lambda: ServerAddress("ws://a"), self._token, self._poke, ManualClock())
        monkeypatch.setattr(listener._stopped, "wait", lambda seconds: None)
        self._listener = listener
        listener.run()

    def _connect(self, *_: Any, **__: Any) -> Connection:
        self.connections += 1
        return Connection(list(self._messages), self._code, lambda: None)

    def _token(self) -> str:
        if len(self._tokens) == 1:
            self._listener.stop()
        token = self._tokens.pop(0)
        if token == "failed":
            raise RuntimeError("the session has ended")
        return token

    def _poke(self) -> None:
        self.pokes += 1


def test_a_refused_token_is_not_offered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Listening(monkeypatch, ["wrong"] * 5 + ["right", "end"], 4401).connections == 2 + 1


def test_the_listener_reconnects_after_a_restart_of_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Listening(monkeypatch, ["good"] * 5, 1012).connections == 5


def test_a_token_function_that_fails_once_is_called_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Listening(monkeypatch, ["failed", "good", "end"], 1012).connections == 2


def test_a_message_of_an_unknown_type_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = ['{"type": "something-new"}', '{"type": "poke", "version": 2}']
    assert Listening(monkeypatch, ["good", "end"], 1012, *messages).pokes == 1


@pytest.mark.parametrize("message", ["no JSON", f'{{"type": "poke", "unknown": {"[" * 100_000}{"]" * 100_000}}}'])
def test_a_message_that_does_not_decode_ends_the_connection_and_logs_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, message: str
) -> None:
    listening = Listening(monkeypatch, ["first", "second"], 1000, message)
    assert listening.connections >= 1
    assert caplog.records == []


def test_a_ping_without_an_answer_ends_the_connection_and_logs_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The server's process is stopped: its socket stays open."""
    monkeypatch.setattr("stratalog.client.live.connect", partial(connect, ping_interval=0.01, ping_timeout=0.01))
    monkeypatch.setattr("stratalog.client.live.CLOSE_SECONDS_MAX", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as pool:
        address = ServerAddress(f"ws://127.0.0.1:{listening.getsockname()[1]}")
        listener = PokeListener(lambda: address, str, lambda: None, ManualClock())
        running = pool.submit(listener._connect)
        with listening.accept()[0] as accepted:
            handshake = ServerProtocol()
            handshake.receive_data(accepted.recv(65536))
            handshake.send_response(handshake.accept(handshake.events_received()[0]))  # type: ignore[arg-type]
            accepted.sendall(b"".join(handshake.data_to_send()))
            assert isinstance(running.exception(timeout=SECONDS_MAX), ConnectionClosedError)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []

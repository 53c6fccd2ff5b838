"""Live: a listener for the server's pokes over a WebSocket. The listener reconnects after each failure."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress

import msgspec
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from stratalog.clock import Clock
from stratalog.process_fork import close_in_child
from stratalog.protocol.live import SILENCE_SECONDS_MAX, SUBPROTOCOLS, FromServer, Gone, Hello, Poke, Ready
from stratalog.retry import Retry, RetryPolicy

__all__ = ["PokeListener", "ServerAddress"]

OPEN_SECONDS_MAX = 10.0
CLOSE_SECONDS_MAX = 1.0
RETRY_POLICY = RetryPolicy(wait_seconds_first=0.2, wait_seconds_max=30)

INVALID_TOKEN = 4401
_log = logging.getLogger("stratalog.client")
# At a ping without an answer, websockets logs an error with a traceback, also in a program that has not configured
# logging. The listener reports no errors of a connection.
_websockets_log = logging.getLogger("stratalog.client.websockets")
_websockets_log.setLevel(logging.CRITICAL)
_decode = msgspec.json.Decoder(FromServer).decode


class ServerAddress(msgspec.Struct, frozen=True):
    """The WebSocket's URL. If the URL does not contain the document, ``document`` names it."""

    url: str
    document: str = ""


class _Malformed(Exception):
    """The server's message does not decode."""


class PokeListener:
    """Calls ``on_poke`` at every poke, and when the document was deleted.

    Also calls ``on_poke`` when a connection becomes ready, since earlier pokes may have been lost.

    The listener calls ``address`` and ``token`` before each connection, since the address and the token may change.
    """

    def __init__(
        self, address: Callable[[], ServerAddress], token: Callable[[], str], on_poke: Callable[[], None], clock: Clock
    ) -> None:
        self._address = address
        self._token = token
        self._on_poke = on_poke
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        close_in_child(self, "_stopped", "_lock")
        self._connection: ClientConnection | None = None
        self._refused_token: str | None = None
        self._retry = Retry(clock, RETRY_POLICY)

    def run(self) -> None:
        """Listen until `stop`, and reconnect with back-off whenever a connection ends."""
        while not self._stopped.is_set():
            # The listener reports no errors of a connection, since pokes are hints and the client also pulls at
            # intervals.
            try:
                with suppress(OSError, WebSocketException, TimeoutError, _Malformed):
                    self._connect()
            except Exception:  # noqa: BLE001 - an error of the application must not end the thread
                # Without this thread the client would receive no more pokes. The application's ``token`` may fail once
                # and later succeed.
                _log.exception("a live connection failed")
            self._stopped.wait(self._retry.next_seconds())

    def stop(self) -> None:
        """Close the connection. The thread ends soon after."""
        with self._lock:
            self._stopped.set()
            connection = self._connection
        if connection is not None:
            connection.close()

    def _connect(self) -> None:
        token = self._token()
        # Do not repeat a refused token: the server would count each repetition as an attempt to guess a token.
        if token != self._refused_token:
            self._listen(token)

    def _listen(self, token: str) -> None:
        address, silence_seconds = self._address(), float(SILENCE_SECONDS_MAX)
        with connect(
            address.url,
            subprotocols=[Subprotocol(known) for known in SUBPROTOCOLS],
            open_timeout=OPEN_SECONDS_MAX,
            close_timeout=CLOSE_SECONDS_MAX,
            logger=_websockets_log,
        ) as connection:
            with self._lock:
                self._connection = connection
                if self._stopped.is_set():
                    return
            connection.send(msgspec.json.encode(Hello(token, address.document)).decode())
            while True:
                message = self._receive(connection, silence_seconds, token)
                if isinstance(message, Ready):
                    self._retry.reset()
                    silence_seconds = float(message.silence_seconds)
                if isinstance(message, Ready | Poke | Gone):
                    self._on_poke()

    def _receive(self, connection: ClientConnection, seconds: float, token: str) -> FromServer | None:
        """Return the next message; None for a message of an unknown type, which a newer server may send.

        Raises _Malformed for a message that does not decode, TimeoutError after ``seconds``, ConnectionClosed at the
        end of the connection.
        """
        try:
            message: FromServer = _decode(connection.recv(seconds))
            return message
        except msgspec.ValidationError:
            return None
        except (msgspec.DecodeError, RecursionError) as exc:
            raise _Malformed from exc
        except ConnectionClosed as exc:
            if exc.rcvd is not None and exc.rcvd.code == INVALID_TOKEN:
                self._refused_token = token
            raise

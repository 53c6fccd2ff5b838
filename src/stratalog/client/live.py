"""Live: a thread that hears the server's pokes over a WebSocket, and connects again whenever it must."""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from stratalog.clock import Clock, backoff_seconds
from stratalog.process_fork import close_in_child
from stratalog.protocol.live import SILENCE_SECONDS_MAX, SUBPROTOCOL, FromServer, Gone, Hello, Poke, Ready

__all__ = ["PokeListener", "ServerAddress"]

OPEN_SECONDS_MAX = 10.0
CLOSE_SECONDS_MAX = 1.0
BACKOFF_SECONDS_FIRST = 0.2
BACKOFF_SECONDS_MAX = 30.0

_decode = msgspec.json.Decoder(FromServer).decode


class ServerAddress(msgspec.Struct, frozen=True):
    """Where to listen, and to which document, if the URL does not say."""

    url: str
    document: str = ""


class PokeListener:
    """Calls ``on_poke`` at every poke, and whenever it is connected again, since pokes may have been missed.

    ``place`` and ``token`` are asked before each connection, since both may change.
    """

    def __init__(
        self, place: Callable[[], ServerAddress], token: Callable[[], str], on_poke: Callable[[], None], clock: Clock
    ) -> None:
        self._address = place
        self._token = token
        self._on_poke = on_poke
        self._clock = clock
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        close_in_child(self, "_stopped", "_lock")
        self._connection: ClientConnection | None = None
        self._failures = 0

    def run(self) -> None:
        """Listen until `stop`."""
        while not self._stopped.is_set():
            try:
                self._listen()
            except (OSError, WebSocketException, TimeoutError, msgspec.DecodeError):
                # Whatever it was, the document is still pulled now and then; here there is only to try again.
                self._failures += 1
            pause = backoff_seconds(self._clock, self._failures + 1, BACKOFF_SECONDS_FIRST, BACKOFF_SECONDS_MAX)
            self._stopped.wait(pause)

    def stop(self) -> None:
        """Hang up; the thread ends soon after."""
        with self._lock:
            self._stopped.set()
            connection = self._connection
        if connection is not None:
            connection.close()

    def _listen(self) -> None:
        environment, silence_seconds = self._address(), float(SILENCE_SECONDS_MAX)
        with connect(
            environment.url,
            subprotocols=[Subprotocol(SUBPROTOCOL)],
            open_timeout=OPEN_SECONDS_MAX,
            close_timeout=CLOSE_SECONDS_MAX,
        ) as connection:
            with self._lock:
                self._connection = connection
                if self._stopped.is_set():
                    return
            connection.send(msgspec.json.encode(Hello(self._token(), environment.document)).decode())
            while True:
                message = _decode(connection.recv(silence_seconds))
                if isinstance(message, Ready):
                    self._failures, silence_seconds = 0, float(message.silence_seconds)
                if isinstance(message, Ready | Poke | Gone):
                    self._on_poke()

"""Live: a thread that hears the server's pokes over a WebSocket, and connects again whenever it must."""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from stratalog.clock import Clock, backoff_seconds
from stratalog.protocol.live import SUBPROTOCOL, FromServer, Gone, Hello, Poke, Ready

__all__ = ["Listener"]

SILENCE_SECONDS_MAX = 60.0
OPEN_SECONDS_MAX = 10.0
CLOSE_SECONDS_MAX = 1.0
BACKOFF_SECONDS_FIRST = 0.2
BACKOFF_SECONDS_MAX = 30.0

_decode = msgspec.json.Decoder(FromServer).decode


class Listener:
    """Calls ``on_poke`` at every poke, and whenever it is connected again, since pokes may have been missed."""

    def __init__(self, url: str, token: Callable[[], str], on_poke: Callable[[], None], clock: Clock) -> None:
        self._url = url
        self._token = token
        self._on_poke = on_poke
        self._clock = clock
        self._stopped = threading.Event()
        self._lock = threading.Lock()
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
        with connect(
            self._url,
            subprotocols=[Subprotocol(SUBPROTOCOL)],
            open_timeout=OPEN_SECONDS_MAX,
            close_timeout=CLOSE_SECONDS_MAX,
        ) as connection:
            with self._lock:
                self._connection = connection
                if self._stopped.is_set():
                    return
            connection.send(msgspec.json.encode(Hello(self._token())).decode())
            while True:
                message = _decode(connection.recv(SILENCE_SECONDS_MAX))
                if isinstance(message, Ready):
                    self._failures = 0
                if isinstance(message, Ready | Poke | Gone):
                    self._on_poke()

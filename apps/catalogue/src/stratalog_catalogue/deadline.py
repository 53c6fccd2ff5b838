"""The time limit of a request, until its response is complete."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from stratalog import Unavailable
from stratalog.clock import Clock
from stratalog_catalogue.limits import CATALOGUE_RESPONSE_SECONDS_MAX

__all__ = ["Deadline"]

_OPENED = ("connect_tcp.complete", "start_tls.complete")
"""The ends of the events by which the client reports a new connection."""


class Deadline:
    """The time limit of each request of one client.

    The client limits only the time of each read. So a server that sends a byte now and then, or one informational
    response after another, would otherwise occupy the poll for ever.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._url = ""
        self._until_ms = 0

    def start(self, url: str) -> None:
        """Begin the time of the next request. Errors show ``url``."""
        self._url = url
        self._until_ms = self._clock.boot_ms() + CATALOGUE_RESPONSE_SECONDS_MAX * 1000

    def check(self) -> None:
        """Raise Unavailable if the request takes too long."""
        if self._clock.boot_ms() > self._until_ms:
            raise Unavailable("a response takes too long", url=self._url, limit=CATALOGUE_RESPONSE_SECONDS_MAX)

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Check the time before each read from a new connection, also if a later request uses the connection again.

        This is the `trace` extension of a request. The client calls the function for each event.
        """
        if event.endswith(_OPENED):
            stream = info["return_value"]
            stream.read = partial(self._read, stream.read)

    def _read(self, read: Callable[..., bytes], *args: Any, **options: Any) -> bytes:
        self.check()
        return read(*args, **options)

"""Transport: the narrow interface between a client and a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from stratalog.errors import Unavailable
from stratalog.protocol.sync import Pull, Pulled, Push, Pushed

__all__ = ["Stop", "Transport", "Unreached"]

Stop = Callable[[], None]


class Unreached(Unavailable):
    """The request certainly did not reach the document: there was no connection, or the server refused it unread."""


class Transport(Protocol):
    """One document on one server. Called by one thread at a time, except for the thread of `listen`."""

    def push(self, push: Push) -> Pushed:
        """Send mutations, and return the server's answer. A push may be applied in part before it fails.

        Raises Unreached, Forbidden, Invalid, LimitExceeded or NotFound only where certainly no mutation was committed:
        the client then may give them new numbers. After any other error each mutation may be committed. The client
        waits for ``retry_after_seconds`` in an error's details before the next cycle in the background.
        """
        ...

    def pull(self, pull: Pull) -> Pulled:
        """Return the changes since the cookie in ``pull``. Raises as `push` does; repeating a pull is always safe."""
        ...

    def listen(self, on_poke: Callable[[], None]) -> Stop:
        """Call ``on_poke`` on another thread whenever there may be changes, until the returned function is called.

        Pokes are hints: they may be lost, repeated or without cause. Never raises; reconnects by itself.
        """
        ...

    def close(self) -> None:
        """Close the connections. Closing twice is fine."""
        ...

"""Transport: the interface between a client and a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from stratalog.errors import Unavailable
from stratalog.protocol.sync import Pull, Pulled, Push, Pushed

__all__ = ["Stop", "Transport", "Unreached"]

Stop = Callable[[], None]


class Unreached(Unavailable):
    """The request certainly did not reach the document: the connection failed, or the server refused to execute it."""


class Transport(Protocol):
    """One document on one server. The client calls it from one thread at a time; `listen` uses another thread."""

    def push(self, push: Push) -> Pushed:
        """Send mutations, and return the server's answer. The server may apply some mutations before a push fails.

        Raises Unreached, Forbidden, Invalid, LimitExceeded or NotFound only if certainly no mutation was committed. The
        client may then give the mutations new numbers. After any other error, the server may have committed any of the
        mutations. If an error's details contain ``retry_after_seconds``, the client waits for that time before the next
        cycle in the background.
        """
        ...

    def pull(self, pull: Pull) -> Pulled:
        """Return the changes since the cookie in ``pull``. Raises the errors of `push`, and Collected.

        A repeated pull is safe.
        """
        ...

    def listen(self, on_poke: Callable[[], None]) -> Stop:
        """Call ``on_poke`` on another thread whenever there may be changes, until the returned function is called.

        Pokes are hints: they may be lost, repeated or without cause. `listen` never raises, and reconnects by itself.
        """
        ...

    def close(self) -> None:
        """Close the connections. Closing twice is fine."""
        ...

"""Transport: the narrow seam between a client and a server. Everything pleasant stands above it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from stratalog.errors import Unavailable
from stratalog.protocol.sync import Pull, Pulled, Push, Pushed

__all__ = ["Stop", "Transport", "Unreached"]

Stop = Callable[[], None]


class Unreached(Unavailable):
    """The request certainly did not get to the document: no connection was made, or it was turned away at the door."""


class Transport(Protocol):
    """One document on one server. Used by one thread at a time, but for `listen`'s own."""

    def push(self, push: Push) -> Pushed:
        """Hand over mutations; those of one push may be applied in part before it fails.

        Raises Unreached, Forbidden, Invalid, LimitExceeded or NotFound only where certainly none was committed: a
        client concludes from them that it may number its mutations anew. After any other error each of them may have
        been. ``retry_after_seconds`` in an error's details is heeded.
        """
        ...

    def pull(self, pull: Pull) -> Pulled:
        """Ask what is new. Raises what `push` raises; no outcome hangs on it."""
        ...

    def listen(self, on_poke: Callable[[], None]) -> Stop:
        """Call ``on_poke``, on another thread, whenever something may be new, until the answer is called.

        A hint: pokes may be lost, repeated or without cause. Never raises; connects again by itself.
        """
        ...

    def close(self) -> None:
        """Let go of connections. Closing twice is fine."""
        ...

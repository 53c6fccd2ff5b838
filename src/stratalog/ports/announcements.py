"""Announcements: hints from one process of a store to the others that a log has new entries.

A hint may be lost. So the processes also poll.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

__all__ = ["Announcements", "Heard"]

Heard = Callable[[str, str], None]
"""A function that a thread of the backend calls for each hint, with the organisation and name of the log."""


class Announcements(Protocol):
    """The contract. A hint may be lost, repeated or late. Safe to call from many threads."""

    def announce(self, organisation: str, name: str) -> None:
        """Send a hint to the other processes that the log has new entries. Returns at once, and never raises."""
        ...

    def listen(self, heard: Heard) -> None:
        """Call ``heard`` for each hint of another process, from now until `close`. Call `listen` at most once."""
        ...

    def close(self) -> None:
        """End the threads. Closing twice is harmless."""
        ...

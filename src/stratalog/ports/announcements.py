"""Announcements: a process gives the other processes of its store a hint when a log has new entries.

A hint may be lost, so the processes also poll the heads of logs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

__all__ = ["Announcements", "Heard"]

Heard = Callable[[str, str], None]
"""A function that the backend calls for each hint, with the organisation and name of the log."""


class Announcements(Protocol):
    """The contract. A hint may get lost, arrive twice or arrive late. Many threads may call `announce` at once."""

    def announce(self, organisation: str, name: str) -> None:
        """Send the other processes the hint that the log has new entries. Returns at once, and never raises."""
        ...

    def listen(self, heard: Heard) -> None:
        """Call ``heard`` for each hint of another process, from now until `close` or a later call.

        A later call replaces ``heard``: a new server on an open store hears the hints in place of the one before it.
        """
        ...

    def close(self) -> None:
        """Stop receiving hints, and end the backend's threads. Closing twice is harmless."""
        ...

"""The reference: plain `sqlite3`, used as a careful program would — WAL, synchronous=FULL, prepared bytes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from stratalog.codec import decode

__all__ = ["Plain"]

INSERT = "INSERT INTO events VALUES (?, ?, ?)"
SELECT = "SELECT version, body FROM events WHERE log = ? ORDER BY version"


class Plain:
    """A table of events under (log, version)."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute(
            "CREATE TABLE events(log TEXT, version INTEGER, body BLOB, PRIMARY KEY(log, version)) WITHOUT ROWID"
        )
        self._version = 0

    def append_each(self, bodies: Iterable[bytes]) -> None:
        """One durable commit an event."""
        execute = self._connection.execute
        for body in bodies:
            self._version += 1
            execute("BEGIN IMMEDIATE")
            execute(INSERT, ("log", self._version, body))
            execute("COMMIT")

    def append_all(self, bodies: Iterable[bytes]) -> None:
        """One durable commit for all events."""
        first = self._version + 1
        rows = [("log", version, body) for version, body in enumerate(bodies, first)]
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(INSERT, rows)
        self._connection.execute("COMMIT")
        self._version += len(rows)

    def select(self) -> list[tuple[int, bytes]]:
        """All rows as they are stored."""
        return self._connection.execute(SELECT, ("log",)).fetchall()

    def fold(self) -> dict[str, Any]:
        """The newest value of every key: select, decode, fold."""
        state = {}
        for _, body in self._connection.execute(SELECT, ("log",)):
            change = decode(body)
            state[change["key"]] = change["value"]
        return state

    def close(self) -> None:
        self._connection.close()

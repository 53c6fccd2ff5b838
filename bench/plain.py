"""The reference: plain `sqlite3` as in a careful program, with WAL, synchronous=FULL and already encoded bytes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["Plain"]

Decode = Callable[[bytes], Any]

FIRST_MS = 1_800_000_000_000
INSERT = "INSERT INTO events VALUES (?, ?, ?)"
RECORD = "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)"
ENTRIES = "SELECT version, created_ms, author, write_id, type, body FROM entries WHERE log = ? ORDER BY version"
SELECT = "SELECT version, body FROM events WHERE log = ? ORDER BY version"


class Plain:
    """A table of events by (log, version), and a table whose rows have the same facts as an entry."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("PRAGMA fullfsync = ON")  # on macOS, as Stratalog
        self._connection.execute(
            "CREATE TABLE events(log TEXT, version INTEGER, body BLOB, PRIMARY KEY(log, version)) WITHOUT ROWID"
        )
        self._connection.execute(
            "CREATE TABLE entries(log TEXT, version INTEGER, created_ms INTEGER, author TEXT, write_id TEXT, type TEXT,"
            " body BLOB, PRIMARY KEY(log, version)) WITHOUT ROWID"
        )
        self._version = 0

    def append_each(self, bodies: Iterable[bytes]) -> None:
        """Commit each event durably, one at a time."""
        execute = self._connection.execute
        for body in bodies:
            self._version += 1
            execute("BEGIN IMMEDIATE")
            execute(INSERT, ("log", self._version, body))
            execute("COMMIT")

    def append_all(self, bodies: Iterable[bytes]) -> None:
        """Commit all events in one durable commit."""
        first = self._version + 1
        rows = [("log", version, body) for version, body in enumerate(bodies, first)]
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(INSERT, rows)
        self._connection.execute("COMMIT")
        self._version += len(rows)

    def record_all(self, bodies: Iterable[bytes]) -> None:
        """Commit all events in one durable commit. Each row has the other facts of an entry too."""
        rows = [
            ("log", version, FIRST_MS + version, "", f"{version:016d}", "paid", body)
            for version, body in enumerate(bodies, 1)
        ]
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(RECORD, rows)
        self._connection.execute("COMMIT")

    def entries(self) -> Iterator[tuple[int, int, str, str, str, bytes]]:
        """Read the rows of `record_all` one after another, undecoded."""
        return self._connection.execute(ENTRIES, ("log",))

    def select(self) -> Iterator[tuple[int, bytes]]:
        """Read all rows one after another, undecoded."""
        return self._connection.execute(SELECT, ("log",))

    def decoded(self, decode: Decode) -> Iterator[tuple[int, Any]]:
        """Read all rows one after another, with their data decoded."""
        return ((version, decode(body)) for version, body in self._connection.execute(SELECT, ("log",)))

    def fold(self, decode: Decode) -> dict[str, Any]:
        """Return the newest data of every key."""
        state = {}
        for _, body in self._connection.execute(SELECT, ("log",)):
            data = decode(body)
            state[data["key"]] = data
        return state

    def close(self) -> None:
        self._connection.close()

"""The peer for comparison: `eventsourcing`, on SQLite or PostgreSQL. The benchmark calls only the peer's recorder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from eventsourcing.persistence import StoredEvent
from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteDatastore

from stratalog.testing.postgres_server import PostgresServer

__all__ = ["Peer", "PostgresPeer"]

AGGREGATE = UUID(int=7)


class Peer:
    """The events of one aggregate in SQLite. Its connections have synchronous=FULL, SQLite's default."""

    def __init__(self, path: Path) -> None:
        self._datastore: Any = SQLiteDatastore(str(path))
        self._begin(SQLiteApplicationRecorder(self._datastore))

    def _begin(self, recorder: Any) -> None:
        self._recorder = recorder
        self._recorder.create_table()
        self._version = 0

    def append_each(self, bodies: Iterable[bytes]) -> None:
        """Commit each event durably, one at a time."""
        for body in bodies:
            self._version += 1
            self._recorder.insert_events([_stored(self._version, body)])

    def append_all(self, bodies: Iterable[bytes]) -> None:
        """Commit all events in one durable commit."""
        first = self._version + 1
        stored = [_stored(version, body) for version, body in enumerate(bodies, first)]
        self._recorder.insert_events(stored)
        self._version += len(stored)

    def select(self) -> Sequence[StoredEvent]:
        """Return all events, with undecoded data."""
        events: Sequence[StoredEvent] = self._recorder.select_events(AGGREGATE)
        return events

    def close(self) -> None:
        self._datastore.close()


class PostgresPeer(Peer):
    """The events of one aggregate in PostgreSQL."""

    def __init__(self, server: PostgresServer) -> None:
        from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore

        names = server.environment
        self._datastore = PostgresDatastore(names["PGDATABASE"], names["PGHOST"], 5432, names["PGUSER"], "")
        self._begin(PostgresApplicationRecorder(self._datastore))


def _stored(version: int, body: bytes) -> StoredEvent:
    return StoredEvent(originator_id=AGGREGATE, originator_version=version, topic="bench:Fact", state=body)

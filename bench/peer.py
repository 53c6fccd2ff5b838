"""The peer for comparison: `eventsourcing` on SQLite. The benchmark calls the recorder, without aggregates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from uuid import UUID

from eventsourcing.persistence import StoredEvent
from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteDatastore

__all__ = ["Peer"]

AGGREGATE = UUID(int=7)


class Peer:
    """The events of one aggregate. Its connections have synchronous=FULL, SQLite's default."""

    def __init__(self, path: Path) -> None:
        self._datastore = SQLiteDatastore(str(path))
        self._recorder = SQLiteApplicationRecorder(self._datastore)
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
        return self._recorder.select_events(AGGREGATE)

    def close(self) -> None:
        self._datastore.close()


def _stored(version: int, body: bytes) -> StoredEvent:
    return StoredEvent(originator_id=AGGREGATE, originator_version=version, topic="bench:Fact", state=body)

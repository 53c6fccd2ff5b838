"""The peer for comparison: `eventsourcing`, on SQLite or PostgreSQL. The benchmarks call only the peer's recorder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from eventsourcing.persistence import Notification, StoredEvent
from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteDatastore

from stratalog.testing.postgres_server import PostgresServer

__all__ = ["Peer", "PostgresPeer"]

AGGREGATE = 7
PAGE = 1000
# The pool that the library's own factory makes for PostgreSQL. The default of the class itself is one connection.
POOL = {"pool_size": 5, "max_overflow": 10, "connect_timeout": 30}


class Peer:
    """The events of aggregates in SQLite. Its connections have synchronous=FULL, SQLite's default.

    The recorder refuses an event whose version its aggregate already has.
    """

    def __init__(self, path: Path) -> None:
        self._datastore: Any = SQLiteDatastore(str(path))
        self._begin(SQLiteApplicationRecorder(self._datastore))

    def _begin(self, recorder: Any) -> None:
        self._recorder = recorder
        self._recorder.create_table()
        self._versions: Counter[int] = Counter()

    def append_each(self, bodies: Iterable[bytes], aggregate: int = AGGREGATE) -> None:
        """Commit each event durably, one at a time."""
        for body in bodies:
            self._versions[aggregate] += 1
            self._recorder.insert_events([_stored(aggregate, self._versions[aggregate], body)])

    def append_all(self, bodies: Iterable[bytes], aggregate: int = AGGREGATE) -> None:
        """Commit all events in one durable commit."""
        first = self._versions[aggregate] + 1
        stored = [_stored(aggregate, version, body) for version, body in enumerate(bodies, first)]
        self._recorder.insert_events(stored)
        self._versions[aggregate] += len(stored)

    def select(self, aggregate: int = AGGREGATE) -> Sequence[StoredEvent]:
        """Return all events of the aggregate, with undecoded data."""
        events: Sequence[StoredEvent] = self._recorder.select_events(UUID(int=aggregate))
        return events

    def notifications(self) -> Iterator[Notification]:
        """Yield all events of all aggregates in their common order, read by pages, with undecoded data."""
        start = 1
        while page := self._recorder.select_notifications(start, PAGE):
            yield from page
            start = page[-1].id + 1

    def close(self) -> None:
        self._datastore.close()


class PostgresPeer(Peer):
    """The events of aggregates in PostgreSQL. With ``functions`` the recorder inserts events by a stored function."""

    def __init__(self, server: PostgresServer, *, functions: bool = False) -> None:
        from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore

        names = server.environment
        options = {**POOL, "enable_db_functions": functions}
        self._datastore = PostgresDatastore(names["PGDATABASE"], names["PGHOST"], 5432, names["PGUSER"], "", **options)
        self._begin(PostgresApplicationRecorder(self._datastore))


def _stored(aggregate: int, version: int, body: bytes) -> StoredEvent:
    return StoredEvent(originator_id=UUID(int=aggregate), originator_version=version, topic="bench:Fact", state=body)

"""PostgreSQL fulfils the contracts of index, commits with blobs, blobs, queue and announcements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from stratalog.backends.files import FileBlobs
from stratalog.backends.postgres import PostgresStore
from stratalog.backends.postgres_address import parse_address
from stratalog.clock import Clock, SystemClock
from stratalog.ports.announcements import Announcements
from stratalog.ports.blobs import Blobs
from stratalog.ports.index import Index
from stratalog.ports.queue import Queue
from stratalog.testing.announcements_contract import AnnouncementsContract
from stratalog.testing.blobs_contract import BlobsContract, Change
from stratalog.testing.commit_contract import CommitContract
from stratalog.testing.index_contract import IndexContract
from stratalog.testing.queue_contract import QueueContract

Open = Callable[..., PostgresStore]


@pytest.fixture
def open_postgres(postgres: str) -> Iterator[Open]:
    """Return a function that opens the store of the test. The fixture closes all opened stores after the test."""
    with ExitStack() as opened:

        def make(clock: Clock | None = None, larger: Blobs | None = None, receives_max: int = 10) -> PostgresStore:
            store = PostgresStore(parse_address(postgres), clock or SystemClock(), larger, receives_max=receives_max)
            opened.callback(store.close)
            store.create()
            return store

        yield make


class OnPostgres:
    """Gives each test of a contract the function that opens its store."""

    @pytest.fixture(autouse=True)
    def _open(self, open_postgres: Open) -> None:
        self.open = open_postgres


class TestPostgresIndex(OnPostgres, IndexContract):
    def make(self) -> Index:
        return self.open().index


class TestPostgresQueue(OnPostgres, QueueContract):
    def make(self, clock: Clock, receives_max: int) -> Queue:
        return self.open(clock, receives_max=receives_max).queue


class TestPostgresBlobs(OnPostgres, BlobsContract):
    def make(self, clock: Clock) -> Blobs:
        self.store = self.open(clock)
        return self.store.blobs

    def alter(self, blobs: Blobs, key: str, change: Change) -> bool:
        with closing(self.store._connections.connect()) as connection:
            cursor = connection.cursor(binary=True)
            rows = cursor.execute("SELECT body FROM blobs WHERE key = %s", (key.encode(),)).fetchall()
            for (body,) in rows:
                changed = change(body)
                if changed is None:
                    cursor.execute("DELETE FROM blobs WHERE key = %s", (key.encode(),))
                else:
                    cursor.execute("UPDATE blobs SET body = %s WHERE key = %s", (changed, key.encode()))
        return bool(rows)

    def rename(self, blobs: Blobs, key: str, name: str) -> bool:
        with closing(self.store._connections.connect()) as connection:
            connection.execute("UPDATE blobs SET key = %s WHERE key = %s", (name.encode(), key.encode()))
        return True


class TestPostgresCommit(OnPostgres, CommitContract):
    def make(self, clock: Clock) -> tuple[Index, Blobs]:
        store = self.open(clock)
        return store.index, store.blobs


class TestPostgresBlobsWithLargerOnesInAFolder(OnPostgres, BlobsContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def make(self, clock: Clock) -> Blobs:
        return self.open(clock, FileBlobs(self.folder, clock)).blobs


class TestPostgresAnnouncements(OnPostgres, AnnouncementsContract):
    def make(self, processes: int) -> Sequence[Announcements]:
        return [self.open().announcements for _ in range(processes)]

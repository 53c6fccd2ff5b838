"""A store in PostgreSQL: index, queue, blobs and announcements in one schema, through psycopg."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any

from stratalog.backends.hosted_turns import HostedTurns
from stratalog.backends.item_rows import bounds_of, encoded_commit, item_of, page_statements, pages, text_of
from stratalog.backends.postgres_address import PostgresAddress
from stratalog.backends.postgres_announcements import PostgresAnnouncements
from stratalog.backends.postgres_commits import PostgresCommit, PostgresWriter, put_blobs
from stratalog.backends.postgres_connections import Connection, PostgresConnections
from stratalog.backends.postgres_queue import PostgresQueue
from stratalog.backends.postgres_tables import create_tables, require_tables
from stratalog.backends.row_blobs import BlobRow, RowBlobs, StatRow, blob_rows, text_rows
from stratalog.clock import Clock
from stratalog.limits import BLOB_BYTES_MAX, BLOB_ROW_BYTES_MAX
from stratalog.ports.blobs import Blobs, Damaged
from stratalog.ports.index import NO_BLOBS, Item, Write, no_turn

__all__ = ["PostgresIndex", "PostgresStore"]

# A read of a mark costs no money here, but it costs a thread and 0.2 ms of CPU. So a lone writer reads the mark at most
# once in 10 ms.
TURNS_SCALE_MIN = 0.2

GET = "SELECT body FROM items WHERE partition = %s AND sort = %s"
PAGES = {case: f"{statement} OFFSET %s" for case, statement in page_statements("%s").items()}

BODY = "SELECT body, codec FROM blobs WHERE key = %s"
STAT = "SELECT bytes, modified_ms, stamp FROM blobs WHERE key = %s"
PAGE = "SELECT key, bytes, modified_ms, stamp FROM blobs WHERE key >= %s AND key > %s ORDER BY key LIMIT %s OFFSET %s"
DELETE_BLOB = "DELETE FROM blobs WHERE key = %s AND stamp = %s"


class PostgresStore:
    """The index, the queue, the blobs and the announcements in one schema. The constructor sends nothing.

    ``larger`` stores the blobs of more than `BLOB_ROW_BYTES_MAX` bytes. Without ``larger``, these blobs are rows too.
    """

    def __init__(
        self, address: PostgresAddress, clock: Clock, larger: Blobs | None = None, *, receives_max: int = 10
    ) -> None:
        self._address = address
        self._connections = PostgresConnections(address.conninfo, address.schema)
        writer = PostgresWriter(self._connections, clock)
        self.index = HostedTurns(PostgresIndex(self._connections, writer, clock), clock, scale_min=TURNS_SCALE_MIN)
        self.queue = PostgresQueue(self._connections, clock, receives_max)
        table = PostgresBlobTable(self._connections, writer)
        row_bytes_max = BLOB_BYTES_MAX if larger is None else BLOB_ROW_BYTES_MAX
        self.blobs = RowBlobs(table, clock, larger, row_bytes_max)
        self.announcements = PostgresAnnouncements(self._connections, address.schema, clock)

    def create(self) -> list[str]:
        """Create the missing schema and tables, and return their names. Raises Unsupported, Invalid, Unavailable."""
        return create_tables(self._connections, self._address.schema)

    def require(self) -> None:
        """Raise Invalid if the schema has no store, or behind a pooler that the store cannot use.

        Raises Unsupported for a newer format, Unavailable.
        """
        require_tables(self._connections, self._address.schema)

    def close(self) -> None:
        """Close all ports. Closing twice is harmless."""
        self.announcements.close()
        self.queue.close()
        self.blobs.close()
        self.index.close()


class PostgresIndex:
    """An index in the table ``items``. An item's attributes are one MessagePack map."""

    joint_commits = True
    blob_bytes_max = BLOB_ROW_BYTES_MAX

    def __init__(self, connections: PostgresConnections, writer: PostgresWriter, clock: Clock) -> None:
        self._connections = connections
        self._writer = writer
        self._clock = clock

    def get(self, partition: str, sort: str, *, consistent: bool = True) -> Item | None:
        rows = self._connections.read(GET, (partition.encode(), sort.encode()))
        return item_of(partition, sort, rows[0][0]) if rows else None

    def query(
        self,
        partition: str,
        *,
        after: str | None = None,
        before: str | None = None,
        reverse: bool = False,
        limit: int | None = None,
        consistent: bool = True,
    ) -> Iterator[Item]:
        def read(after: str | None, before: str | None, rows_max: int) -> list[tuple[Any, bytes]]:
            has_after, has_before, bounds, skipped = bounds_of(after, before, reverse)
            statement, keys = PAGES[has_after, has_before, reverse], [bound.encode() for bound in bounds]
            rows = self._connections.read(statement, (partition.encode(), *keys, rows_max, skipped))
            sorts = [text_of(sort) for sort, _ in rows]
            return [(sort, row[1] if type(sort) is str else b"") for sort, row in zip(sorts, rows, strict=True)]

        return chain.from_iterable(pages(read, partition, after, before, reverse, limit))

    def commit(self, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        bodies, rows = encoded_commit(writes, blobs, self.blob_bytes_max)
        stored = blob_rows(blobs, self._clock) if blobs else ()
        self._writer.commit(PostgresCommit(writes, bodies, rows, stored))

    def turn(self, partition: str) -> AbstractContextManager[bool]:
        self._connections.check_open()
        return no_turn()

    def close(self) -> None:
        """Wait for commits in flight, then close all connections."""
        self._writer.close()
        self._connections.close()


class PostgresBlobTable:
    """The blobs of the table ``blobs``; see `BlobTable`."""

    def __init__(self, connections: PostgresConnections, writer: PostgresWriter) -> None:
        self._connections = connections
        self._writer = writer

    def body(self, key: str) -> tuple[bytes | None, str] | None:
        rows = self._connections.read(BODY, (key.encode(),))
        return (rows[0][0], rows[0][1]) if rows else None

    def stat(self, key: str) -> tuple[int, int, int] | None:
        rows = self._connections.read(STAT, (key.encode(),))
        return (rows[0][0], rows[0][1], rows[0][2]) if rows else None

    def page(self, prefix: str, after: str, rows_max: int, damaged: Damaged) -> list[StatRow]:
        def read(skipped: int) -> Sequence[tuple[bytes, int, int, int]]:
            return self._connections.read(PAGE, (prefix.encode(), after.encode(), rows_max, skipped))

        return text_rows(read, rows_max, prefix, damaged)

    def put(self, rows: Sequence[BlobRow]) -> None:
        if max(row[2] for row in rows) > BLOB_ROW_BYTES_MAX:
            # A large blob has its own transaction on another connection, so that commits do not wait for its transfer.
            self._connections.transact(lambda connection: put_blobs(connection, rows))
            return
        self._writer.commit(PostgresCommit((), (), (), rows))

    def delete(self, key: str, stamp: int) -> bool:
        def work(connection: Connection) -> bool:
            return connection.execute(DELETE_BLOB, (key.encode(), stamp)).rowcount > 0

        return self._connections.transact(work)

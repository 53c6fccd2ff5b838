"""The stored items and blobs of an open store, which tests compare and damage behind the ports.

The store is in memory, or with ``pytest --on-postgresql`` in PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stratalog.backends.item_rows import item_of
from stratalog.backends.memory import MemoryBlobs, MemoryIndex
from stratalog.ports.index import Item

if TYPE_CHECKING:
    from stratalog.backends.postgres_connections import Connection

__all__ = ["StoredBlob", "stored_blobs", "stored_items"]

ITEMS = "SELECT partition, sort, body FROM items ORDER BY partition, sort"
BLOBS = "SELECT key, body FROM blobs ORDER BY key"
BLOB = "SELECT key, bytes, modified_ms, stamp, codec, body FROM blobs WHERE key = %s"


def stored_items(index: Any) -> list[Item]:
    """Return all items."""
    if isinstance(index, MemoryIndex):
        return [item for name in sorted(index._partitions) for item in index.query(name)]
    rows = index._index._connections.read(ITEMS, ())
    return [item_of(partition.decode(), sort.decode(), body) for partition, sort, body in rows]


def stored_blobs(blobs: Any) -> Mapping[str, bytes]:
    """Return the stored bytes of all blobs, by key. PostgreSQL stores most bodies compressed."""
    if isinstance(blobs, MemoryBlobs):
        return dict(blobs._bodies)
    return {key.decode(): body for key, body in blobs._table._connections.read(BLOBS, ())}


class StoredBlob:
    """A stored blob. A replaced body leaves the blob's size and age as they are."""

    def __init__(self, blobs: Any, key: str) -> None:
        self._blobs, self._key = blobs, key
        if isinstance(blobs, MemoryBlobs):
            self.body, self._stat = blobs._bodies[key], blobs._stats[key]
        else:
            [(*self._row, self.body)] = blobs._table._connections.read(BLOB, (key.encode(),))

    def replace(self, body: bytes | None) -> None:
        """Store ``body`` in place of the blob's bytes. With None, delete the blob."""
        if isinstance(self._blobs, MemoryBlobs):
            self._blobs._bodies.pop(self._key, None)
            self._blobs._stats.pop(self._key, None)
            if body is not None:
                self._blobs._bodies[self._key], self._blobs._stats[self._key] = body, self._stat
            return

        def work(connection: Connection) -> None:
            connection.execute("DELETE FROM blobs WHERE key = %s", (self._key.encode(),))
            if body is not None:
                statement = (
                    "INSERT INTO blobs(key, bytes, modified_ms, stamp, codec, body) VALUES (%s, %s, %s, %s, %s, %s)"
                )
                connection.execute(statement, (*self._row, body))

        self._blobs._table._connections.transact(work)

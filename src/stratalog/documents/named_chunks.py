"""The chunks named by the snapshots that a verification compares, and a search for lost chunks."""

from __future__ import annotations

from collections.abc import Iterator

from stratalog.documents.state import Roots
from stratalog.ports.blob_stats import stats_of
from stratalog.ports.blobs import Blobs
from stratalog.tree.chunks import Chunks
from stratalog.tree.reach import addresses

__all__ = ["NamedChunks", "names_chunk"]


class NamedChunks:
    """A set of chunk addresses, in a temporary file that SQLite deletes."""

    def __init__(self) -> None:
        import sqlite3  # only a verification uses SQLite, and its import slows the cold start of a serverless function

        self._database = sqlite3.connect("")
        self._database.execute("CREATE TABLE named(address BLOB PRIMARY KEY) WITHOUT ROWID")

    def __contains__(self, address: object) -> bool:
        return self._database.execute("SELECT 1 FROM named WHERE address = ?", (address,)).fetchone() is not None

    def add(self, chunks: Chunks, roots: Roots) -> None:
        """Add all chunks of the three trees of ``roots``.

        Reads topmost and inner chunks from ``chunks``, except chunks that were added before and the chunks below them.
        """
        for root in (roots.content, roots.clients, roots.tombstones):
            for address in addresses(chunks, root, self):
                self._database.execute("INSERT INTO named VALUES (?)", (address,))

    def lost(self, blobs: Blobs, owner: str) -> Iterator[bytes]:
        """Yield the addresses that have no blob in the store. Raises Unavailable.

        Reads the metadata of blobs, but no content.
        """
        folder = f"{owner}/chunks"
        rows: Iterator[tuple[bytes]] = self._database.execute("SELECT address FROM named ORDER BY address")
        for address, stat in stats_of(blobs, folder, ((f"{folder}/{row[0].hex()}", row[0]) for row in rows)):
            if stat is None:
                yield address

    def close(self) -> None:
        """Close and remove the temporary file."""
        self._database.close()


def names_chunk(chunks: Chunks, roots: Roots, address: bytes) -> bool:
    """Return whether one of the three trees of ``roots`` has the chunk. Reads chunks above leaves until it is found."""
    return any(address in addresses(chunks, root) for root in (roots.content, roots.clients, roots.tombstones))

"""Values that a scrub has read. The read-back of a base only checks that these values exist.

Chunks are small, and a read-back always reads them. The values of a state may have many gigabytes together. The entries
below the floor name the same blobs as the state, so they could not restore a damaged value. A second read of a scrubbed
value before the floor rises would therefore protect nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from stratalog.documents.values import Values, as_reference
from stratalog.errors import Corrupt
from stratalog.log.bodies import blob_addresses
from stratalog.ports.blob_stats import stats_of
from stratalog.ports.blobs import Blobs, BlobStat
from stratalog.ports.read_back import BlobReading

__all__ = ["ScrubbedValues"]


class ScrubbedValues:
    """Replaces `Values` while a state is read back. Call `read_rest` after the last chunk, then `close`.

    For a value of one blob, `read_back` notes the blob's key in a temporary file. `read_rest` lists the folders in
    order of keys, which is cheaper than a request for each value. `read_rest` then reads each value that no scrub has
    read, or whose blob is missing from the list.
    """

    def __init__(self, values: Values, blobs: Blobs, before_ms: int) -> None:
        """A blob stored before ``before_ms`` that still exists need not be read."""
        import sqlite3  # slow to import, and few processes scrub

        self._values = values
        self._blobs = blobs
        self._before_ms = before_ms
        self._database = sqlite3.connect("")
        self._database.execute(
            "CREATE TABLE noted(folder TEXT, key TEXT, stored BLOB NOT NULL, PRIMARY KEY (folder, key)) WITHOUT ROWID"
        )

    def read_back(self, stored: bytes) -> Iterator[BlobReading]:
        """Note a value of one blob for `read_rest`; look up or read a value of more blobs now. Raises Unavailable."""
        reference = as_reference(stored)
        if reference is None:
            return
        folder = self._values.folder(reference)
        if reference.body.digest is None:
            row = (folder, f"{folder}/{reference.body.address.hex()}", stored)
            self._database.execute("INSERT OR IGNORE INTO noted VALUES (?, ?, ?)", row)
            return
        try:
            keys = [f"{folder}/{address.hex()}" for address in blob_addresses(self._blobs, folder, reference.body)]
        except Corrupt:
            keys = []
        if not keys or not all(self._is_scrubbed(self._blobs.stat(key)) for key in keys):
            yield from self._values.read_back(stored)

    def read_rest(self) -> Iterator[BlobReading]:
        """Read the noted values that no scrub has read. Raises Unavailable."""
        for (folder,) in self._database.execute("SELECT DISTINCT folder FROM noted").fetchall():
            rows = self._database.execute("SELECT key, stored FROM noted WHERE folder = ? ORDER BY key", (folder,))
            for stored, stat in stats_of(self._blobs, folder, rows):
                if not self._is_scrubbed(stat):
                    yield from self._values.read_back(stored)

    def close(self) -> None:
        """Close and remove the temporary file."""
        self._database.close()

    def _is_scrubbed(self, stat: BlobStat | None) -> bool:
        return stat is not None and stat.modified_ms < self._before_ms

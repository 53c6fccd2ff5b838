"""Values that a scrub has read: a proof looks them up where it would else read them again.

Chunks are small and always read. Values may be gigabytes, and the blob of a value is the one that the entries below
name too: reading it once more gives back nothing that those entries could.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from stratalog.documents.values import Values, as_reference
from stratalog.errors import Corrupt
from stratalog.log.bodies import blob_addresses
from stratalog.ports.blobs import Blobs, BlobStat
from stratalog.ports.read_back import BlobReading

__all__ = ["ScrubbedValues"]

PAGE_BLOBS = 1000
"""An object store lists so many blobs in one request."""

PAGE_VALUES_MIN = 10
"""A page with fewer blobs that are looked for costs more than asking for each of them."""


class ScrubbedValues:
    """Stands for `Values` where a state is read back. `read_rest` belongs behind the last chunk; close it then.

    A value of one blob is noted in a temporary file, by its key. `read_rest` lists the folders in the order of keys,
    which is cheaper than a request for each value. It reads the values that no scrub has read, and those that are not
    listed.
    """

    def __init__(self, values: Values, blobs: Blobs, before_ms: int) -> None:
        """Blobs that were stored before ``before_ms``, and stand, need not be read."""
        self._values = values
        self._blobs = blobs
        self._before_ms = before_ms
        self._database = sqlite3.connect("")
        self._database.execute(
            "CREATE TABLE noted(folder TEXT, key TEXT, stored BLOB NOT NULL, PRIMARY KEY (folder, key)) WITHOUT ROWID"
        )

    def read_back(self, stored: bytes) -> Iterator[BlobReading]:
        """Note a large value for `read_rest`; one of several blobs is looked up or read now. Raises Unavailable."""
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
        """The values that were noted, and that have to be read. Raises Unavailable."""
        for (folder,) in self._database.execute("SELECT DISTINCT folder FROM noted").fetchall():
            rows = self._database.execute("SELECT key, stored FROM noted WHERE folder = ? ORDER BY key", (folder,))
            for stored in self._unscrubbed(folder, rows):
                yield from self._values.read_back(stored)

    def close(self) -> None:
        """Remove the temporary file."""
        self._database.close()

    def _unscrubbed(self, folder: str, rows: Iterator[tuple[str, bytes]]) -> Iterator[bytes]:
        """Compare the values noted of a folder with the blobs listed in it, both in order of keys."""
        row = next(rows, None)
        matched = 0
        listing = self._blobs.list(f"{folder}/", after=row[0][:-1] if row else "")
        for listed, stat in enumerate(listing, 1):
            while row is not None and row[0] < stat.key:
                yield row[1]
                row = next(rows, None)
            if row is None:
                return
            if row[0] == stat.key:
                if not self._is_scrubbed(stat):
                    yield row[1]
                row, matched = next(rows, None), matched + 1
            if listed % PAGE_BLOBS == 0:
                # Keys are hashes, so one page is like the others.
                if matched < PAGE_VALUES_MIN:
                    break
                matched = 0
        while row is not None:
            if not self._is_scrubbed(self._blobs.stat(row[0])):
                yield row[1]
            row = next(rows, None)

    def _is_scrubbed(self, stat: BlobStat | None) -> bool:
        return stat is not None and stat.modified_ms < self._before_ms

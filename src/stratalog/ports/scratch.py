"""Scratch blobs: a check must not write to the store, so it puts its blobs into a temporary file."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import NoReturn

from stratalog.errors import Corrupt, Invalid, NotFound
from stratalog.ports.blobs import Blobs, BlobStat, Damaged, ignore
from stratalog.process_fork import close_in_child

__all__ = ["Scratch", "ScratchBlobs"]


class Scratch:
    """Blobs by key for the duration of one check, in a temporary file that SQLite deletes."""

    def __init__(self) -> None:
        import sqlite3  # only checks need this module, and the import slows the cold start of a function

        self._lock = threading.Lock()
        close_in_child(self, "_lock")
        self._database = sqlite3.connect("", check_same_thread=False)
        self._database.execute("CREATE TABLE blobs(key TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID")

    def put(self, key: str, body: bytes) -> None:
        with self._lock:
            self._database.execute("INSERT OR IGNORE INTO blobs VALUES (?, ?)", (key, body))

    def find(self, key: str) -> bytes | None:
        """Return the bytes that were put under the key, or None."""
        with self._lock:
            row = self._database.execute("SELECT body FROM blobs WHERE key = ?", (key,)).fetchone()
        return None if row is None else row[0]

    def close(self) -> None:
        self._database.close()


class ScratchBlobs:
    """Blobs whose puts go to a scratch file. `get` reads these blobs from the file, and all other blobs from ``blobs``.

    A check reads only blobs that the store must have, so `get` raises Corrupt for a missing blob.
    """

    def __init__(self, blobs: Blobs, scratch: Scratch) -> None:
        self._blobs = blobs
        self._scratch = scratch

    def put(self, key: str, body: bytes) -> None:
        self._scratch.put(key, body)

    def get(self, key: str) -> bytes:
        body = self._scratch.find(key)
        if body is not None:
            return body
        try:
            return self._blobs.get(key)
        except NotFound as exc:
            raise Corrupt("a blob is missing", key=key) from exc

    def stat(self, key: str) -> BlobStat | None:
        """Return the metadata of the blob in the store. Puts to the scratch file do not change it."""
        return self._blobs.stat(key)

    def list(self, prefix: str, *, after: str = "", damaged: Damaged = ignore) -> Iterator[BlobStat]:
        """Yield the blobs in the store, without the blobs in the scratch file."""
        return self._blobs.list(prefix, after=after, damaged=damaged)

    def delete(self, key: str, stamp: str) -> NoReturn:
        raise Invalid("a check may not delete")

    def close(self) -> None:
        """Do nothing: the store closes its blobs, and the caller closes the scratch file."""

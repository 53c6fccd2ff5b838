"""Body spool: bodies that are being sent wait in a file, so that a caller who reads slowly holds no memory.

A store gives a body in parts of megabytes, each verified whole. One file without a name holds the parts of all callers:
a file of its own for each would take a descriptor for each connection.
"""

from __future__ import annotations

import errno
import heapq
import os
import tempfile
import threading
import weakref
from collections.abc import Generator, Iterator
from typing import IO

from stratalog.limits import BLOB_BYTES_MAX, BODY_PIECE_BYTES
from stratalog.process_fork import close_in_child
from stratalog.server.byte_budgets import RequestBytes
from stratalog.server.errors import Refused

__all__ = ["BodySpool"]

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class BodySpool:
    """A temporary file of slots, each of `BLOB_BYTES_MAX`; only what was written takes room on the disk.

    Safe to use from many threads.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._free: list[int] = []
        self._slots = 0
        self._lock = threading.Lock()
        close_in_child(self, "_lock")

    @property
    def slots_used(self) -> int:
        """How many slots hold something."""
        return self._slots - len(self._free)

    def pieces(self, parts: Iterator[bytes], taken: RequestBytes) -> Generator[bytes, None, None]:
        """The same bytes in pieces of at most `BODY_PIECE_BYTES`. A larger part waits in the file, and not in memory.

        Room in the file and a piece are counted for the request, and no longer what was taken while ``parts`` were
        made. Raises Refused, and what ``parts`` raises.
        """
        for part in parts:
            given = [part]
            del part
            taken.settle_answer(BODY_PIECE_BYTES)
            taken.cover_answer(min(len(given[0]), BODY_PIECE_BYTES))
            if len(given[0]) <= BODY_PIECE_BYTES:
                yield given.pop()
            else:
                taken.cover_file(len(given[0]))
                yield from self._by_file(given.pop())

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _by_file(self, part: bytes) -> Iterator[bytes]:
        size = len(part)
        slots = [self._take() for _ in range(0, size, BLOB_BYTES_MAX)]
        try:
            for position, slot in enumerate(slots):
                self._write(memoryview(part)[position * BLOB_BYTES_MAX :][:BLOB_BYTES_MAX], slot * BLOB_BYTES_MAX)
            del part  # what follows comes from the file alone
            for start in range(0, size, BODY_PIECE_BYTES):
                slot, offset = slots[start // BLOB_BYTES_MAX], start % BLOB_BYTES_MAX
                yield self._read(slot * BLOB_BYTES_MAX + offset, min(BODY_PIECE_BYTES, size - start))
        finally:
            self._release(slots)

    def _take(self) -> int:
        with self._lock:
            if self._file is None:
                self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - open until `close`
                # A function is frozen and thrown away, and closes nothing.
                weakref.finalize(self, self._file.close)
            if self._free:
                return heapq.heappop(self._free)
            self._slots += 1
            return self._slots - 1

    def _release(self, slots: list[int]) -> None:
        with self._lock:
            self._free.extend(slots)
            heapq.heapify(self._free)
            if len(self._free) == self._slots and self._file is not None and not self._file.closed:
                # Nobody is sent anything: the disk gets all of it back.
                self._free.clear()
                self._slots = 0
                self._file.truncate(0)

    def _write(self, unwritten: memoryview, offset: int) -> None:
        assert self._file is not None, "a slot has a file"
        try:
            while unwritten:
                count = os.pwrite(self._file.fileno(), unwritten, offset)
                unwritten, offset = unwritten[count:], offset + count
        except OSError as exc:
            if exc.errno not in NO_ROOM:
                raise
            raise Refused(507, "storage-full", "the server has no room for the body that it sends") from exc

    def _read(self, position: int, size: int) -> bytes:
        assert self._file is not None, "a slot has a file"
        piece = os.pread(self._file.fileno(), size, position)
        assert len(piece) == size, "what was written is there"
        return piece

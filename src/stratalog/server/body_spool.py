"""Body spool: a temporary file for bodies that the server sends.

While a caller reads slowly, only one small piece of its body is in memory.

A store returns a body in parts of several megabytes, and verifies each part as a whole. One unnamed file contains the
parts for all callers: a file for each caller would take one descriptor for each connection.
"""

from __future__ import annotations

import heapq
import os
import tempfile
import threading
import weakref
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import IO

from stratalog.limits import BLOB_BYTES_MAX, BODY_PIECE_BYTES
from stratalog.process_fork import close_in_child
from stratalog.server.byte_budgets import RequestBytes
from stratalog.server.temporary_files import temporary_folder_errors

__all__ = ["BodySpool"]

SENT = "the body that it sends"


class BodySpool:
    """A temporary file of slots of `BLOB_BYTES_MAX` bytes each. Only written bytes take room on the disk.

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
        """The number of slots in use."""
        return self._slots - len(self._free)

    def pieces(self, parts: Iterator[bytes], taken: RequestBytes) -> Generator[bytes, None, None]:
        """Yield the bytes of ``parts`` in pieces of at most `BODY_PIECE_BYTES`. A larger part is sent from the file.

        During the iteration, the request takes memory for one piece, and room in the file for one part. The request
        releases the memory that it took to make ``parts``. Raises Refused: 507 if the disk is full, 503 for another
        error of the file. Raises the errors of `RequestBytes.cover_answer` and `cover_file`, and of ``parts``, too.
        """
        for part in parts:
            # `pop` passes on the only reference to the part. So this frame keeps no part in memory while its pieces are
            # sent.
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
                with temporary_folder_errors(SENT):
                    self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - open until `close`
                # AWS Lambda ends a process without a call of `close`. So close the file also when this object is freed,
                # or when the interpreter exits.
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
                # No body is in transit: return all room to the disk.
                self._free.clear()
                self._slots = 0
                self._empty(self._file)

    def _empty(self, file: IO[bytes]) -> None:
        try:
            file.truncate(0)
        except OSError:
            # The disk may have become read-only. Close the file: the next body tries to open another file.
            self._file = None
            with suppress(OSError):
                file.close()

    def _write(self, unwritten: memoryview, offset: int) -> None:
        assert self._file is not None, "a slot has a file"
        with temporary_folder_errors(SENT):
            while unwritten:
                count = os.pwrite(self._file.fileno(), unwritten, offset)
                unwritten, offset = unwritten[count:], offset + count

    def _read(self, position: int, size: int) -> bytes:
        assert self._file is not None, "a slot has a file"
        with temporary_folder_errors(SENT):
            piece = os.pread(self._file.fileno(), size, position)
        assert len(piece) == size, "the file contains all bytes of the slot"
        return piece

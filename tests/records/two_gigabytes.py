"""Streams two gigabytes through a record and prints their size and the most memory used, in KB."""

from __future__ import annotations

import resource
from collections.abc import Iterator

from stratalog.backends.memory import MemoryBlobs, MemoryIndex
from stratalog.clock import SystemClock
from stratalog.codec import compress, decompress
from stratalog.limits import BLOB_BYTES_MAX
from stratalog.log.place import Place
from stratalog.records import Records

PIECE = bytes(1024 * 1024)
PIECES = 2048


class PackedBlobs(MemoryBlobs):
    """Blobs in memory as they are on a disk: compressed."""

    def put(self, key: str, body: bytes) -> None:
        self._bodies[key] = compress(body)

    def get(self, key: str) -> bytes:
        return decompress(self._bodies[key], BLOB_BYTES_MAX)


def source() -> Iterator[bytes]:
    for place in range(PIECES):
        yield place.to_bytes(8, "big") + PIECE[8:]


clock = SystemClock()
records = Records(Place(MemoryIndex(), PackedBlobs(clock), clock), "acme")
stored = records.put("large", source(), size=PIECES * len(PIECE))
size = sum(map(len, records.open("large")))
assert size == stored.size
print(size, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)

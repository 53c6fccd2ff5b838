"""Stream two gigabytes through a record. Print the number of streamed bytes and the peak memory in KB."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

from stratalog.backends.memory import MemoryBlobs, MemoryIndex
from stratalog.clock import SystemClock
from stratalog.codec import compress, decompress
from stratalog.limits import BLOB_BYTES_MAX
from stratalog.log.environment import Environment
from stratalog.records import Records

PIECE = bytes(1024 * 1024)
PIECES = 2048


class PackedBlobs(MemoryBlobs):
    """Blobs in memory that are compressed, as files on a disk are."""

    def put(self, key: str, body: bytes) -> None:
        self._bodies[key] = compress(body)

    def get(self, key: str) -> bytes:
        return decompress(self._bodies[key], BLOB_BYTES_MAX)


def source() -> Iterator[bytes]:
    for position in range(PIECES):
        yield position.to_bytes(8, "big") + PIECE[8:]


def peak_kilobytes() -> int:
    """The peak memory of this program. On Linux `getrusage` would report at least the peak of the parent."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))


clock = SystemClock()
records = Records(Environment(MemoryIndex(), PackedBlobs(clock), clock), "acme")
stored = records.put("large", source(), size=PIECES * len(PIECE))
size = sum(map(len, records.open("large")))
assert size == stored.size
print(size, peak_kilobytes())

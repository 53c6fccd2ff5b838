"""The reference in memory keeps the three contracts."""

from stratalog.backends.memory import MemoryBlobs, MemoryIndex, MemoryQueue
from stratalog.clock import Clock
from stratalog.testing.blobs_contract import BlobsContract
from stratalog.testing.index_contract import IndexContract
from stratalog.testing.queue_contract import QueueContract


class TestMemoryIndex(IndexContract):
    def make(self) -> MemoryIndex:
        return MemoryIndex()


class TestMemoryBlobs(BlobsContract):
    def make(self, clock: Clock) -> MemoryBlobs:
        return MemoryBlobs(clock)


class TestMemoryQueue(QueueContract):
    def make(self, clock: Clock, receives_max: int) -> MemoryQueue:
        return MemoryQueue(clock, receives_max)

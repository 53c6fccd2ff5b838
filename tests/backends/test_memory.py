"""The reference backend in memory fulfils the contracts of index, blobs, commits and queue."""

import msgspec
import pytest

from stratalog.backends.memory import MemoryBlobs, MemoryIndex, MemoryQueue
from stratalog.backends.metered_ports import MeteredBlobs, MeteredIndex
from stratalog.clock import Clock
from stratalog.codec import sha256
from stratalog.errors import LimitExceeded
from stratalog.limits import SORT_BYTES_MAX
from stratalog.ports.blobs import Blobs
from stratalog.ports.index import Index, Item, Put
from stratalog.ports.meter import Meter
from stratalog.testing.blobs_contract import BlobsContract, Change
from stratalog.testing.clock import ManualClock
from stratalog.testing.commit_contract import CommitContract
from stratalog.testing.index_contract import IndexContract
from stratalog.testing.queue_contract import QueueContract


class TestMemoryIndex(IndexContract):
    def make(self) -> MemoryIndex:
        return MemoryIndex()


def test_the_error_of_a_long_key_counts_bytes() -> None:
    with pytest.raises(LimitExceeded) as refusal:
        MemoryIndex().commit([Put(Item("p", "ä" * SORT_BYTES_MAX, {}))])
    assert refusal.value.details["value"] == 2 * SORT_BYTES_MAX


class TestMemoryBlobs(BlobsContract):
    def make(self, clock: Clock) -> MemoryBlobs:
        return MemoryBlobs(clock)

    def alter(self, blobs: Blobs, key: str, change: Change) -> bool:
        assert isinstance(blobs, MemoryBlobs)
        changed = change(blobs._bodies.pop(key))
        if changed is not None:
            blobs._bodies[key] = changed
        return True

    def rename(self, blobs: Blobs, key: str, name: str) -> bool:
        assert isinstance(blobs, MemoryBlobs)
        return rename_blob(blobs, key, name)


def rename_blob(blobs: MemoryBlobs, key: str, name: str) -> bool:
    """Replace a blob's key, as damage may do, and return True."""
    blobs._bodies[name] = blobs._bodies.pop(key)
    blobs._stats[name] = msgspec.structs.replace(blobs._stats.pop(key), key=name)
    return True


class TestMemoryCommit(CommitContract):
    def make(self, clock: Clock) -> tuple[Index, Blobs]:
        blobs = MemoryBlobs(clock)
        return MemoryIndex(blobs), blobs


class TestMemoryPutsFirst(CommitContract):
    def make(self, clock: Clock) -> tuple[Index, Blobs]:
        return MemoryIndex(), MemoryBlobs(clock)


class TestMeteredCommit(CommitContract):
    def make(self, clock: Clock) -> tuple[Index, Blobs]:
        meter, blobs = Meter(), MemoryBlobs(clock)
        return MeteredIndex(MemoryIndex(blobs), meter), MeteredBlobs(blobs, meter)


def test_putting_over_a_damaged_blob_restores_it() -> None:
    blobs = MemoryBlobs(ManualClock())
    key = sha256(b"body").hex()
    blobs.put(key, b"body")
    blobs._bodies[key] = b"dody"
    blobs.put(key, b"body")
    assert blobs.get(key) == b"body"


class TestMemoryQueue(QueueContract):
    def make(self, clock: Clock, receives_max: int) -> MemoryQueue:
        return MemoryQueue(clock, receives_max)

"""The contract suites over ports that wrap others: the ports of a backup, of a check and of the simulation.

A backup and a check only read. So an adapter sends the writes of a test to a store in memory, and reads from the port.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TypeVar

import msgspec
import pytest

from stratalog.backends.memory import MemoryBlobs, MemoryIndex, MemoryQueue
from stratalog.backups.cut import CutIndex
from stratalog.backups.format import BLOBS_ROW
from stratalog.backups.repository import BackupRepository, RepositoryObjects
from stratalog.backups.view import BackupBlobs, BackupIndex
from stratalog.backups.writer import BackupWriter
from stratalog.clock import Clock
from stratalog.log import Environment
from stratalog.maintenance.damage import DamageList
from stratalog.maintenance.recording_ports import RecordingBlobs, RecordingIndex
from stratalog.ports.blobs import Blobs, BlobStat, Damaged, ignore
from stratalog.ports.blobs_wrapper import BlobsWrapper
from stratalog.ports.index import NO_BLOBS, Index, Item, Write
from stratalog.ports.scratch import Scratch, ScratchBlobs
from stratalog.testing.blobs_contract import BlobsContract
from stratalog.testing.clock import ManualClock
from stratalog.testing.commit_contract import CommitContract
from stratalog.testing.faults import FaultyBlobs, FaultyIndex, FaultyLine, FaultyQueue, Weather
from stratalog.testing.index_contract import IndexContract
from stratalog.testing.queue_contract import QueueContract
from stratalog.testing.scheduler import Scheduler
from stratalog.tree.nodes import EMPTY
from tests.backends.test_memory import rename_blob

Suite = TypeVar("Suite", bound=type)
OWNER = "acme/plan@1"
PAGE_ITEMS_MAX = 3
LATER_MS = 2**50


def without(*names: str) -> Callable[[Suite], Suite]:
    """Remove tests that do not apply to a port from its suite."""

    def removed(suite: Suite) -> Suite:
        for name in names:
            assert callable(getattr(suite, name))
            setattr(suite, name, None)
        return suite

    return removed


class BackedUpIndex:
    """Commits to an index in memory, and reads from ``view`` of a backup of this index."""

    joint_commits = False
    blob_bytes_max = 0

    def __init__(self, view: Callable[[BackupIndex], Index]) -> None:
        clock = ManualClock()
        self._memory = MemoryIndex()
        self._repository = BackupRepository(MemoryBlobs(clock), clock)
        self._view = view
        self._root = EMPTY
        self._changed: set[str] = set()
        self._lock = threading.Lock()

    def get(self, partition: str, sort: str, *, consistent: bool = True) -> Item | None:
        return self._backup().get(partition, sort, consistent=consistent)

    def query(
        self,
        partition: str,
        *,
        after: str | None = None,
        before: str | None = None,
        reverse: bool = False,
        limit: int | None = None,
        consistent: bool = True,
    ) -> Iterator[Item]:
        return self._backup().query(
            partition, after=after, before=before, reverse=reverse, limit=limit, consistent=consistent
        )

    def commit(self, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        with self._lock:
            self._memory.commit(writes, blobs)
            self._changed.update(
                write.item.partition if hasattr(write, "item") else write.partition for write in writes
            )

    def turn(self, partition: str) -> AbstractContextManager[bool]:
        return self._memory.turn(partition)

    def close(self) -> None:
        self._memory.close()

    def _backup(self) -> Index:
        with self._lock:
            with BackupWriter(self._repository, MemoryBlobs(ManualClock()), self._root, lambda rows: None, 0) as writer:
                for partition in self._changed:
                    writer.put_items(partition, self._memory.query(partition))
                self._root = writer.flush()
            self._changed.clear()
            return self._view(BackupIndex(self._repository, self._root))


class BackedUpBlobs(BlobsWrapper):
    """Puts blobs of one owner into a store in memory and into a repository, and reads them from the backup.

    The keys of a test are below the owner's, since each blob of a store has an owner.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__(MemoryBlobs(clock))
        self._repository = BackupRepository(MemoryBlobs(clock), clock)

    def put(self, key: str, body: bytes) -> None:
        super().put(key, body)
        self._repository.put_copy(f"{OWNER}/{key}", body)

    def get(self, key: str) -> bytes:
        return self._backup().get(f"{OWNER}/{key}")

    def stat(self, key: str) -> BlobStat | None:
        stat = self._backup().stat(f"{OWNER}/{key}")
        return stat and msgspec.structs.replace(stat, key=key)

    def list(self, prefix: str, *, after: str = "", damaged: Damaged = ignore) -> Iterator[BlobStat]:
        for stat in self._backup().list(f"{OWNER}/{prefix}", after=f"{OWNER}/{after}"):
            yield msgspec.structs.replace(stat, key=stat.key.removeprefix(f"{OWNER}/"))

    def _backup(self) -> BackupBlobs:
        items = (Item(OWNER, stat.key, {}) for stat in self._blobs.list(""))
        with BackupWriter(self._repository, self._blobs, EMPTY, lambda rows: None, 0) as writer:
            writer.put(f"{BLOBS_ROW}{OWNER}", writer.pack(OWNER, items))
            return BackupBlobs(self._repository, BackupIndex(self._repository, writer.flush()))


class ReadingIndex(BackedUpIndex):
    """Commits to an index in memory, and reads from a wrapper of the same index."""

    def _backup(self) -> Index:
        return RecordingIndex(self._memory, DamageList())


class ReadingBlobs(BlobsWrapper):
    """Puts and deletes in a store in memory, and reads from a wrapper of the same store."""

    def __init__(self, clock: Clock, wrap: Callable[[Blobs], Blobs]) -> None:
        super().__init__(MemoryBlobs(clock))
        self._reader = wrap(self._blobs)

    def get(self, key: str) -> bytes:
        return self._reader.get(key)

    def stat(self, key: str) -> BlobStat | None:
        return self._reader.stat(key)

    def list(self, prefix: str, *, after: str = "", damaged: Damaged = ignore) -> Iterator[BlobStat]:
        return self._reader.list(prefix, after=after, damaged=damaged)


# These ports do not own the connection below them, so `close` does nothing.
CLOSING = "test_calls_after_closing_raise_closed"
# The key of a catalogue's row is a partition, in at most `KEY_BYTES_MAX` bytes. The partitions of a store are shorter:
# `tests/backups/test_backup.py::test_a_backup_has_logs_and_records_with_the_longest_ids`.
LONGEST_PARTITION = "test_a_full_commit_and_the_longest_keys_fit"
# A catalogue lists blobs without sizes, ages and stamps, so the result differs from `stat`.
LISTED_STATS = ("test_content_of_any_kind_is_one_blob_under_its_key", "test_a_list_is_in_order_of_key")
# A check reads only blobs that its store must have, and a backup only objects that its repository must have. So `get`
# raises Corrupt for a missing blob.
MISSING = ("test_a_blob_that_is_not_there_is_not_found", "test_a_delete_removes_the_generation_it_names")


@without(CLOSING, LONGEST_PARTITION)
class TestBackupIndex(IndexContract):
    def make(self) -> Index:
        return BackedUpIndex(lambda backup: backup)


@without(CLOSING, LONGEST_PARTITION)
class TestCutIndex(IndexContract):
    def make(self) -> Index:
        clock, blobs = ManualClock(), MemoryBlobs(ManualClock())
        return BackedUpIndex(lambda backup: CutIndex(Environment(backup, blobs, clock), time_ms=LATER_MS))


@without(CLOSING)
class TestRecordingIndex(IndexContract):
    def make(self) -> Index:
        return ReadingIndex(lambda backup: backup)


@without(CLOSING, *LISTED_STATS)
class TestBackupBlobs(BlobsContract):
    def make(self, clock: Clock) -> Blobs:
        return BackedUpBlobs(clock)


@without(*MISSING)
class TestRepositoryObjects(BlobsContract):
    def make(self, clock: Clock) -> Blobs:
        return RepositoryObjects(MemoryBlobs(clock))


@without(CLOSING, *MISSING)
class TestScratchBlobs(BlobsContract):
    def make(self, clock: Clock) -> Blobs:
        return ReadingBlobs(clock, lambda blobs: ScratchBlobs(blobs, Scratch()))


@without(CLOSING)
class TestRecordingBlobs(BlobsContract):
    def make(self, clock: Clock) -> Blobs:
        return ReadingBlobs(clock, lambda blobs: RecordingBlobs(blobs, Scratch(), DamageList()))


def calm_line() -> FaultyLine:
    """Return a line without faults, whose pages are short."""
    return FaultyLine(Scheduler(0), Weather(page_items_max=PAGE_ITEMS_MAX), lambda: pytest.fail("a crash"))


@without(CLOSING)
class TestFaultyIndex(IndexContract):
    def make(self) -> Index:
        return FaultyIndex(calm_line(), MemoryIndex())


@without(CLOSING)
class TestFaultyBlobs(BlobsContract):
    def make(self, clock: Clock) -> Blobs:
        self.backend = MemoryBlobs(clock)
        return FaultyBlobs(calm_line(), self.backend)

    def rename(self, blobs: Blobs, key: str, name: str) -> bool:
        return rename_blob(self.backend, key, name)


@without(CLOSING)
class TestFaultyQueue(QueueContract):
    def make(self, clock: Clock, receives_max: int) -> FaultyQueue:
        return FaultyQueue(calm_line(), MemoryQueue(clock, receives_max))


class TestFaultyCommit(CommitContract):
    def make(self, clock: Clock) -> tuple[Index, Blobs]:
        line, blobs = calm_line(), MemoryBlobs(clock)
        return FaultyIndex(line, MemoryIndex(blobs)), FaultyBlobs(line, blobs)

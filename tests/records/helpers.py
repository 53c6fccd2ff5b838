"""Helpers of the records' tests: a manual clock, an index and blobs that count calls, and `World`."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from stratalog.backends.memory import MemoryBlobs, MemoryIndex
from stratalog.clock import Clock
from stratalog.keys import number, record_key, record_partition
from stratalog.log.environment import Environment, LogSettings
from stratalog.ports.blobs import Blobs, BlobStat, Damaged, ignore
from stratalog.ports.index import NO_BLOBS, Index, Item, Write
from stratalog.records import Records

LONG_SECONDS = 1000
"""A time that is longer than the observation limit and the grace period together."""


class HandClock:
    """A clock that moves only when a test sets it or when code sleeps on it."""

    def __init__(self, now_ms: int = 1_750_000_000_000, seed: int = 1) -> None:
        self.now_ms = now_ms
        self._random = random.Random(seed)

    def wall_ms(self) -> int:
        return self.now_ms

    def boot_ms(self) -> int:
        return self.now_ms

    def sleep(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000) + 1

    def random(self) -> float:
        return self._random.random()

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)


Step = Callable[[Callable[[], None]], None]


class ScriptedIndex:
    """An index that runs the next step of ``script`` instead of a commit, until the script is empty.

    A step receives a function that makes the real commit. The index counts calls. Threads may share the index.
    """

    def __init__(self, backend: Index) -> None:
        self._backend = backend
        self.joint_commits = backend.joint_commits
        self.blob_bytes_max = backend.blob_bytes_max
        self.script: list[Step] = []
        self.calls: Counter[str] = Counter()
        self._lock = threading.Lock()

    def get(self, partition: str, sort: str, *, consistent: bool = True) -> Item | None:
        self._count("read")
        return self._backend.get(partition, sort, consistent=consistent)

    def query(self, partition: str, **options: Any) -> Iterator[Item]:
        self._count("read")
        return self._backend.query(partition, **options)

    def commit(self, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        self._count("commit")
        self._count("write", len(writes))
        with self._lock:
            step = self.script.pop(0) if self.script else None
        if step is None:
            self._backend.commit(writes, blobs)
        else:
            step(lambda: self._backend.commit(writes, blobs))

    def turn(self, partition: str) -> AbstractContextManager[bool]:
        self._count("turn")
        return self._backend.turn(partition)

    def close(self) -> None:
        self._backend.close()

    def _count(self, name: str, by: int = 1) -> None:
        with self._lock:
            self.calls[name] += by


class CountingBlobs:
    """Blobs that count puts and gets, and run a hook before each put."""

    def __init__(self, backend: Blobs) -> None:
        self._backend = backend
        self.calls: Counter[str] = Counter()
        self.before_put: Callable[[], None] | None = None
        self.stat = backend.stat
        self.list = backend.list
        self.delete = backend.delete
        self.close = backend.close

    def put(self, key: str, body: bytes) -> None:
        self.calls["put"] += 1
        if self.before_put is not None:
            self.before_put()
        self._backend.put(key, body)

    def get(self, key: str) -> bytes:
        self.calls["get"] += 1
        return self._backend.get(key)


class DatedBlobs:
    """Blobs of a service whose clock cannot be set. The age of each blob follows the test's clock instead."""

    def __init__(self, backend: Blobs, clock: Clock, put_ms: dict[str, int]) -> None:
        """``put_ms`` maps each key to the time of its put. All writers to the service share this mapping."""
        self._backend = backend
        self._clock = clock
        self._put_ms = put_ms
        self.get = backend.get
        self.delete = backend.delete
        self.close = backend.close

    def put(self, key: str, body: bytes) -> None:
        self._backend.put(key, body)
        self._put_ms[key] = self._clock.wall_ms()

    def stat(self, key: str) -> BlobStat | None:
        stat = self._backend.stat(key)
        return self._dated(stat) if stat else None

    def list(self, prefix: str, *, after: str = "", damaged: Damaged = ignore) -> Iterator[BlobStat]:
        return map(self._dated, self._backend.list(prefix, after=after, damaged=damaged))

    def _dated(self, stat: BlobStat) -> BlobStat:
        return msgspec.structs.replace(stat, modified_ms=self._put_ms[stat.key])


Ends = Callable[[Clock], tuple[Index, Blobs]]
"""Opens the backends of a `World`. Each call opens the backends as another process would."""


def in_memory() -> Ends:
    """Return a function that opens backends in memory. Each call of that function returns the same backends."""
    made: list[tuple[Index, Blobs]] = []

    def open_ends(clock: Clock) -> tuple[Index, Blobs]:
        if not made:
            made.append((MemoryIndex(), MemoryBlobs(clock)))
        return made[0]

    return open_ends


class World:
    """Records on the given backends, or on backends in memory, wrapped by a scripted index and counting blobs."""

    def __init__(
        self, settings: LogSettings | None = None, *, ends: Ends | None = None, organisation: str = "acme"
    ) -> None:
        self.clock = HandClock()
        self.organisation = organisation
        self._settings = settings
        self._ends = ends or in_memory()
        self.backend, blobs = self._ends(self.clock)
        self._opened: list[Index | Blobs] = [self.backend, blobs]
        self.index = ScriptedIndex(self.backend)
        self.blobs = CountingBlobs(blobs)
        self.environment = Environment(self.index, self.blobs, self.clock, settings)
        self.records = self.handle()

    def handle(self, **options: Any) -> Records:
        """A new `Records` handle, on the same connections."""
        return Records(self.environment, self.organisation, **options)

    def elsewhere(self, **options: Any) -> Records:
        """A `Records` handle with newly opened backends, as in another process. No call is scripted or counted."""
        index, blobs = self._ends(self.clock)
        self._opened += [index, blobs]
        return Records(Environment(index, blobs, self.clock, self._settings), self.organisation, **options)

    def close(self) -> None:
        """Close all backends that were opened."""
        for end in self._opened:
            end.close()

    def pass_seconds(self, seconds: float = LONG_SECONDS) -> None:
        """Advance the clock, by default beyond the observation limit and the grace period."""
        self.clock.now_ms += int(seconds * 1000)

    def partition(self, id: str = "b1") -> str:
        """The partition of a record's versions."""
        return record_partition(self.organisation, record_key(id))

    def item(self, version: int, id: str = "b1") -> Item | None:
        """The item of a version, or None."""
        return self.backend.get(self.partition(id), number(version))

    def blob_keys(self) -> list[str]:
        """The keys of all blobs of the organisation."""
        return [stat.key for stat in self.blobs.list(f"{self.organisation}/")]

    def lose_blobs(self) -> None:
        """Delete all blobs of the organisation directly, as if the storage had lost them."""
        for stat in list(self.blobs.list(f"{self.organisation}/")):
            self.blobs.delete(stat.key, stat.stamp)

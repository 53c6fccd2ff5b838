"""Fakes for the records' tests: a clock set by hand, an index that loses answers, counting ports."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from stratalog.backends.memory import MemoryBlobs, MemoryIndex
from stratalog.log.place import Place, Settings
from stratalog.ports.blobs import Blobs
from stratalog.ports.index import Index, Item, Write
from stratalog.records import Records

LONG_SECONDS = 1000
"""Longer than the observation and the grace together."""


class HandClock:
    """A clock that moves only when told to, or slept on."""

    def __init__(self, seed: int = 1) -> None:
        self.now_ms = 1_750_000_000_000
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
    """An index whose next commits go as scripted; each step is given the real commit. Counts the calls."""

    joint_commits = True

    def __init__(self, backend: Index) -> None:
        self._backend = backend
        self.script: list[Step] = []
        self.calls: Counter[str] = Counter()

    def get(self, partition: str, sort: str, *, consistent: bool = True) -> Item | None:
        self.calls["read"] += 1
        return self._backend.get(partition, sort, consistent=consistent)

    def query(self, partition: str, **options: Any) -> Iterator[Item]:
        self.calls["read"] += 1
        return self._backend.query(partition, **options)

    def commit(self, writes: Sequence[Write]) -> None:
        self.calls["commit"] += 1
        self.calls["write"] += len(writes)
        if self.script:
            self.script.pop(0)(lambda: self._backend.commit(writes))
        else:
            self._backend.commit(writes)

    def close(self) -> None:
        self._backend.close()


class CountingBlobs:
    """Blobs that count their calls, and run a hook before each put."""

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


class World:
    """A place with all of the above, in memory unless it is given backends, and records on it."""

    def __init__(
        self, settings: Settings | None = None, *, index: Index | None = None, blobs: Blobs | None = None
    ) -> None:
        self.clock = HandClock()
        self.backend = index or MemoryIndex()
        self.index = ScriptedIndex(self.backend)
        self.blobs = CountingBlobs(blobs or MemoryBlobs(self.clock))
        self.place = Place(self.index, self.blobs, self.clock, settings)
        self.records = self.handle()

    def handle(self, **options: Any) -> Records:
        """Records as another process would have them: nothing is remembered."""
        return Records(self.place, "acme", **options)

    def pass_seconds(self, seconds: float = LONG_SECONDS) -> None:
        """Let time go by."""
        self.clock.now_ms += int(seconds * 1000)

    def blob_keys(self) -> list[str]:
        """All blobs there are."""
        return [stat.key for stat in self.blobs.list("")]

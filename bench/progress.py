"""Benchmarks of commits during snapshots, of polls of a long queue, and of documents with many clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial

from bench.figures import Measured
from bench.measure import alternated, median_ms
from bench.workplace import DOCUMENT, FULL, ORGANISATION, Workplace
from stratalog import Document, LogSettings, Mutation
from stratalog.backends.memory import MemoryBlobs, MemoryIndex, MemoryQueue
from stratalog.backends.sqlite import SqliteDatabase
from stratalog.clock import SystemClock
from stratalog.errors import Unavailable
from stratalog.log import Environment
from stratalog.ports.blobs_wrapper import BlobsWrapper
from stratalog.ports.index import NO_BLOBS, Item, Write
from stratalog.store import Store

__all__ = ["MEASURES"]

INDEX_SECONDS = 0.005
BLOB_SECONDS = 0.03
AWAY_SECONDS = 1.0
INTERVAL = 50
NEVER = 10**9
ROUNDS = 5
ITEMS_FULL = 2000
ITEMS_QUICK = 200
GROUPS = 20
BACKLOG = 50_000
NEWCOMERS = 10_000
CLIENTS = 60_000


class HostedIndex:
    """An index in memory with the latency of a hosted index. A commit cannot contain blobs."""

    joint_commits = False
    blob_bytes_max = 0

    def __init__(self, index: MemoryIndex) -> None:
        self._index = index

    def get(self, partition: str, sort: str, *, consistent: bool = True) -> Item | None:
        time.sleep(INDEX_SECONDS)
        return self._index.get(partition, sort)

    def query(self, partition: str, **options: object) -> Iterator[Item]:
        time.sleep(INDEX_SECONDS)
        return self._index.query(partition, **options)  # type: ignore[arg-type]

    def commit(self, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        time.sleep(INDEX_SECONDS)
        self._index.commit(writes, blobs)

    def turn(self, partition: str) -> AbstractContextManager[bool]:
        return self._index.turn(partition)

    def close(self) -> None:
        self._index.close()


class HostedBlobs(BlobsWrapper):
    """Blobs in memory. `put` and `get` have the latency of a hosted store, and fail after 1 s while ``is_away``."""

    def __init__(self, clock: SystemClock) -> None:
        super().__init__(MemoryBlobs(clock))
        self.is_away = False

    def put(self, key: str, body: bytes) -> None:
        self._reach()
        self._blobs.put(key, body)

    def get(self, key: str) -> bytes:
        self._reach()
        return self._blobs.get(key)

    def _reach(self) -> None:
        time.sleep(AWAY_SECONDS if self.is_away else BLOB_SECONDS)
        if self.is_away:
            raise Unavailable("the blob store is away")


def hosted(work: Workplace, interval: int) -> tuple[Store, Document, HostedBlobs]:
    """Return a store, its document of several chunks with a snapshot, and its blobs. The ports have latency."""
    clock = SystemClock()
    index, blobs = MemoryIndex(), HostedBlobs(clock)
    settings = LogSettings(snapshot_entries_interval=interval)
    store = Store(Environment(HostedIndex(index), blobs, clock, settings), MemoryQueue(clock))
    document = store.create(ORGANISATION, DOCUMENT)
    items = _items(work)
    for start in range(0, items, 1000):
        document.apply([_put(f"items/{number}") for number in range(start, min(items, start + 1000))])
    document.snapshot()
    return store, document, blobs


def commit_away(work: Workplace) -> Measured:
    """Small commits a second while a snapshot is due and the blob store fails, compared with no snapshot due."""
    store, away, blobs = hosted(work, 1)
    other, quiet, _ = hosted(work, NEVER)
    blobs.is_away = True
    commits = work.scale.commits
    seconds = alternated(_rounds(work), partial(_increment, away, commits), partial(_increment, quiet, commits))
    blobs.is_away = False
    store.close()
    other.close()
    return Measured(commits / seconds[0], commits / seconds[1])


def commit_slow(work: Workplace) -> Measured:
    """The 99th percentile of small commits, compared with no snapshots. Every 50th commit begins a snapshot."""
    slow, commits = [], work.scale.commits * (5 if work.scale is FULL else 1)
    for interval in (INTERVAL, NEVER):
        store, document, _ = hosted(work, interval)
        times = sorted(median_ms(1, partial(_spread, document, n * 7919 % _items(work))) for n in range(commits))
        slow.append(times[len(times) * 99 // 100])
        store.close()
    return Measured(*slow)


def poll_backlog(work: Workplace) -> Measured:
    """An empty poll with many messages behind the messages in flight, compared with a twentieth of the messages."""
    backlog = BACKLOG if work.scale is FULL else 2000
    deep, shallow = (_poll(work, messages) for messages in (backlog, backlog // 20))
    return Measured(deep, shallow)


def newcomers(work: Workplace) -> Measured:
    """The CPU of a new client's first push in a new group, after many groups, compared with the first groups."""
    count, before = (NEWCOMERS, CLIENTS) if work.scale is FULL else (100, 600)
    clock = SystemClock()
    settings = LogSettings(snapshot_entries_interval=NEVER)
    with Store(Environment(MemoryIndex(), MemoryBlobs(clock), clock, settings), MemoryQueue(clock)) as store:
        document = store.create(ORGANISATION, DOCUMENT)
        first = _join(document, 0, count)
        _join(document, count, before)
        last = _join(document, before, before + count)
    return Measured(last / count * 1e6, first / count * 1e6)


def _rounds(work: Workplace) -> int:
    return ROUNDS if work.scale is FULL else 1


def _items(work: Workplace) -> int:
    return ITEMS_FULL if work.scale is FULL else ITEMS_QUICK


def _increment(document: Document, count: int) -> None:
    for _ in range(count):
        document.mutate("inc", {"key": "count"})


def _spread(document: Document, number: int) -> None:
    """Commit to another chunk each time, so that the next snapshot has several chunks to write."""
    document.apply([_put(f"items/{number}")])


def _put(key: str) -> Mutation:
    return Mutation(client="bench", name="put", args={"key": key, "value": f"{time.time()} {'x' * 60}"})


def _poll(work: Workplace, messages: int) -> float:
    database = SqliteDatabase(work.fresh() / "queue.sqlite", SystemClock(), synchronous="OFF")
    for number in range(messages // 10):
        database.queue.send(f"group-{number % GROUPS}", [b"x" * 600] * 10)
    while database.queue.receive(10, visibility_seconds=3600):
        pass
    milliseconds = median_ms(work.scale.commits, database.queue.receive)
    database.close()
    return milliseconds


def _join(document: Document, first: int, last: int) -> float:
    """Let each client from ``first`` to ``last - 1`` push once, and return the CPU seconds."""
    begun = time.process_time()
    for number in range(first, last):
        push = Mutation(client=f"client-{number}", id=1, name="inc", args={"key": "count"})
        document.apply([push], group=f"group-{number}", owner="ann")
    return time.process_time() - begun


MEASURES: dict[str, Callable[[Workplace], Measured]] = {
    "commit-away": commit_away,
    "commit-slow": commit_slow,
    "poll-backlog": poll_backlog,
    "newcomers": newcomers,
}

"""Index, blobs and queue in memory. They are the reference for the behaviour of all other backends."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

from stratalog.clock import Clock, new_id
from stratalog.errors import Closed, ConditionFailed, NotFound
from stratalog.limits import BLOB_ROW_BYTES_MAX
from stratalog.ports.blobs import Blobs, BlobStat, Damaged, check_put, ignore, sound_keys, verified
from stratalog.ports.index import NO_BLOBS, Delete, Item, Put, Write, check_commit, holds, no_turn
from stratalog.ports.queue import DeadMessage, Message, check_receive, check_send, hidden_seconds
from stratalog.process_fork import close_in_child

__all__ = ["MemoryBlobs", "MemoryIndex", "MemoryQueue"]

PAGE_ITEMS = 100


class MemoryIndex:
    """An index in a dictionary of partitions, each with a sorted list of its sort keys.

    Commits store their blobs in ``blobs``. If ``blobs`` is None, a commit accepts no blobs.
    """

    joint_commits = True

    def __init__(self, blobs: Blobs | None = None, blob_bytes_max: int = BLOB_ROW_BYTES_MAX) -> None:
        self.blob_bytes_max = blob_bytes_max if blobs is not None else 0
        self._blobs = blobs
        self._lock = threading.Lock()
        close_in_child(self, "_lock")
        self._partitions: dict[str, _Partition] = {}
        self._closed = False

    def get(self, partition: str, sort: str, *, consistent: bool = True) -> Item | None:
        self._check_open()
        contents = self._partitions.get(partition)
        return contents.items.get(sort) if contents else None

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
        left = PAGE_ITEMS if limit is None else limit
        while left > 0:
            page = self._page(partition, after, before, reverse, min(left, PAGE_ITEMS))
            yield from page
            if len(page) < min(left, PAGE_ITEMS):
                return
            if reverse:
                before = page[-1].sort
            else:
                after = page[-1].sort
            left -= len(page) if limit is not None else 0

    def commit(self, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        self._check_open()
        check_commit(writes, blobs, self.blob_bytes_max)
        with self._lock:
            failed = {
                position: item
                for position, write in enumerate(writes)
                if not self._holds(write, item := self._at(write))
            }
            if failed:
                raise ConditionFailed(failed)
            self._put_blobs(blobs)
            for write in writes:
                self._do(write)

    def turn(self, partition: str) -> AbstractContextManager[bool]:
        self._check_open()
        return no_turn()

    def close(self) -> None:
        self._closed = True

    def _put_blobs(self, blobs: Mapping[str, bytes]) -> None:
        """Store the blobs of a commit before its items, so that no reader sees an item without its blobs."""
        if self._blobs is not None:
            for key, body in blobs.items():
                self._blobs.put(key, body)

    def _page(self, partition: str, after: str | None, before: str | None, reverse: bool, limit: int) -> list[Item]:
        self._check_open()
        with self._lock:
            contents = self._partitions.get(partition)
            return contents.page(after, before, reverse, limit) if contents else []

    def _at(self, write: Write) -> Item | None:
        partition, sort = (
            (write.item.partition, write.item.sort) if isinstance(write, Put) else (write.partition, write.sort)
        )
        contents = self._partitions.get(partition)
        return contents.items.get(sort) if contents else None

    @staticmethod
    def _holds(write: Write, item: Item | None) -> bool:
        return holds(write.condition, item)

    def _do(self, write: Write) -> None:
        if isinstance(write, Put):
            item = write.item
            copied = Item(item.partition, item.sort, dict(item.attributes))  # the caller may change its dictionary
            self._partitions.setdefault(item.partition, _Partition()).put(copied)
        elif isinstance(write, Delete) and (contents := self._partitions.get(write.partition)):
            contents.delete(write.sort)

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the index is closed")


class _Partition:
    """The items of one partition, and their sort keys in order."""

    __slots__ = ("items", "sorts")

    def __init__(self) -> None:
        self.items: dict[str, Item] = {}
        self.sorts: list[str] = []

    def put(self, item: Item) -> None:
        if item.sort not in self.items:
            insort(self.sorts, item.sort)
        self.items[item.sort] = item

    def delete(self, sort: str) -> None:
        if self.items.pop(sort, None) is not None:
            del self.sorts[bisect_left(self.sorts, sort)]

    def page(self, after: str | None, before: str | None, reverse: bool, limit: int) -> list[Item]:
        start = 0 if after is None else bisect_right(self.sorts, after)
        stop = len(self.sorts) if before is None else bisect_left(self.sorts, before)
        wanted = (
            range(stop - 1, max(start, stop - limit) - 1, -1) if reverse else range(start, min(stop, start + limit))
        )
        return [self.items[self.sorts[position]] for position in wanted]


class MemoryBlobs:
    """Blobs in a dictionary. Ages start at the wall time of ``clock``."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        close_in_child(self, "_lock")
        self._bodies: dict[str, bytes] = {}
        self._stats: dict[str, BlobStat] = {}
        self._generation = 0
        self._closed = False

    def put(self, key: str, body: bytes) -> None:
        self._check_open()
        check_put(key, body)
        with self._lock:
            self._generation += 1
            self._bodies[key] = body
            self._stats[key] = BlobStat(key, len(body), self._clock.wall_ms(), str(self._generation))

    def get(self, key: str) -> bytes:
        self._check_open()
        body = self._bodies.get(key)
        if body is None:
            raise NotFound("blob not found", key=key)
        return verified(key, body)

    def stat(self, key: str) -> BlobStat | None:
        self._check_open()
        return self._stats.get(key)

    def list(self, prefix: str, *, after: str = "", damaged: Damaged = ignore) -> Iterator[BlobStat]:
        self._check_open()
        keys = [key for key in sorted(self._stats) if key.startswith(prefix) and key > after]
        yield from sound_keys(filter(None, map(self._stats.get, keys)), damaged)

    def delete(self, key: str, stamp: str) -> bool:
        self._check_open()
        with self._lock:
            stat = self._stats.get(key)
            if stat is not None and stat.stamp != stamp:
                return False
            self._stats.pop(key, None)
            self._bodies.pop(key, None)
            return True

    def close(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the blobs are closed")


class MemoryQueue:
    """A queue in a dictionary of groups. ``receives_max`` is the number of receives before a dead letter."""

    def __init__(self, clock: Clock, receives_max: int = 10) -> None:
        self._clock = clock
        self._receives_max = receives_max
        self._lock = threading.Lock()
        close_in_child(self, "_lock")
        self._groups: dict[str, list[_QueuedMessage]] = {}
        self._dead: list[DeadMessage] = []
        self._sent = 0
        self._closed = False

    def send(self, group: str, bodies: Sequence[bytes]) -> None:
        self._check_open()
        check_send(group, bodies)
        with self._lock:
            for body in bodies:
                self._sent += 1
                self._groups.setdefault(group, []).append(_QueuedMessage(f"{self._sent:016d}", group, body))

    def receive(self, limit: int = 10, *, visibility_seconds: float = 30) -> list[Message]:
        self._check_open()
        check_receive(limit, visibility_seconds)
        with self._lock:
            now = self._clock.boot_ms()
            given: list[Message] = []
            for group in sorted(self._groups, key=lambda name: self._groups[name][0].id):
                given += self._give(group, limit - len(given), now, int(visibility_seconds * 1000))
            return given

    def acknowledge(self, message: Message) -> bool:
        self._check_open()
        with self._lock:
            queued = self._find(message)
            if queued is None:
                return False
            self._remove(queued)
            return True

    def release(self, message: Message, *, after_seconds: float = 0) -> bool:
        self._check_open()
        with self._lock:
            queued = self._find(message)
            if queued is None:
                return False
            queued.hidden_until_ms = self._clock.boot_ms() + int(hidden_seconds(after_seconds) * 1000)
            return True

    def dead_letters(self, *, after: str = "") -> Iterator[DeadMessage]:
        self._check_open()
        yield from sorted((letter for letter in self._dead if letter.id > after), key=lambda letter: letter.id)

    def oldest_ms(self) -> int:
        self._check_open()
        with self._lock:
            return 0 if self._groups or self._dead else self._clock.wall_ms()

    def close(self) -> None:
        self._closed = True

    def _give(self, group: str, limit: int, now: int, visibility_ms: int) -> list[Message]:
        waiting = self._groups[group]
        if limit < 1 or any(queued.hidden_until_ms > now for queued in waiting):
            return []
        given: list[Message] = []
        for queued in list(waiting):
            if len(given) == limit:
                break
            if queued.receives == self._receives_max:
                self._dead.append(DeadMessage(queued.id, group, queued.body, queued.receives, self._clock.wall_ms()))
                self._remove(queued)
                continue
            queued.receives += 1
            queued.hidden_until_ms = now + visibility_ms
            queued.receipt = new_id(self._clock)
            given.append(Message(queued.id, group, queued.body, queued.receives, queued.receipt))
        return given

    def _find(self, message: Message) -> _QueuedMessage | None:
        now = self._clock.boot_ms()
        for queued in self._groups.get(message.group, []):
            if queued.id == message.id:
                return queued if queued.receipt == message.receipt and queued.hidden_until_ms > now else None
        return None

    def _remove(self, queued: _QueuedMessage) -> None:
        waiting = self._groups[queued.group]
        waiting.remove(queued)
        if not waiting:
            del self._groups[queued.group]

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the queue is closed")


class _QueuedMessage:
    """A message in the queue, with the receipt and visibility of its latest receive."""

    __slots__ = ("body", "group", "hidden_until_ms", "id", "receipt", "receives")

    def __init__(self, id: str, group: str, body: bytes) -> None:
        self.id = id
        self.group = group
        self.body = body
        self.receives = 0
        self.receipt = ""
        self.hidden_until_ms = 0

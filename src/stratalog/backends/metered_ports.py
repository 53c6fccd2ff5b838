"""The ports with a meter: wrappers around any backend. They count the units that DynamoDB, S3 and SQS would bill.

A wrapper only counts, but two of its attributes make callers behave as on AWS. `joint_commits` is False, so that a log
commits each entry alone, as on DynamoDB. `blob_bytes_max` is 0, so that blobs are put on their own, as on S3. Each
request is counted once, as if the network never failed. A request that raises an error is not counted, except for a
commit whose condition fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice

from stratalog.backends.billed_units import (
    LIST_KEYS,
    QUERY_PAGE_BYTES,
    billed_requests,
    commit_operation,
    count_commit,
    count_read,
    message_bytes,
)
from stratalog.codec import compress
from stratalog.errors import ConditionFailed
from stratalog.ports.blobs import Blobs, BlobStat, Damaged, ignore
from stratalog.ports.index import NO_BLOBS, Absent, Check, Index, Item, Put, Write, check_commit, item_bytes
from stratalog.ports.meter import Meter
from stratalog.ports.queue import DeadMessage, Message, Queue

__all__ = ["MeteredBlobs", "MeteredIndex", "MeteredQueue"]

LETTERS_A_REQUEST = 10


class MeteredIndex:
    """An index that counts the units that DynamoDB would bill.

    Before a commit, the index reads the item at the key of each write, since the item's size may decide the price. It
    skips a write with the condition `Absent`. The meter does not count these reads. A query reads a page of 1 MB ahead,
    as DynamoDB does. The meter counts the whole page, even if the caller stops midway.
    """

    joint_commits = False
    blob_bytes_max = 0

    def __init__(self, index: Index, meter: Meter) -> None:
        self.meter = meter
        self._index = index

    def get(self, partition: str, sort: str, *, consistent: bool = True) -> Item | None:
        item = self._index.get(partition, sort, consistent=consistent)
        self._count_read("GetItem", [item] if item else [], consistent)
        return item

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
        items = self._index.query(
            partition, after=after, before=before, reverse=reverse, limit=limit, consistent=consistent
        )
        if limit == 0 or (before is not None and (after or "") >= before):
            return
        left, more = limit, True
        while more:
            page, more = _page(items, left)
            self._count_read("Query", page, consistent)
            yield from page
            left = None if left is None else left - len(page)

    def commit(self, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        check_commit(writes, blobs)
        standing = {position: self._at(write) for position, write in enumerate(writes) if _may_stand_on(write)}
        alone = len(writes) == 1 and isinstance(writes[0], Check)
        try:
            self._index.commit(writes)
        except ConditionFailed as exc:
            self._count_commit(writes, {**standing, **exc.items}, alone, wasted=True)
            raise
        self._count_commit(writes, standing, alone, wasted=False)

    def turn(self, partition: str) -> AbstractContextManager[bool]:
        return self._index.turn(partition)

    def close(self) -> None:
        self._index.close()

    def _at(self, write: Write) -> Item | None:
        if isinstance(write, Put):
            return self._index.get(write.item.partition, write.item.sort)
        return self._index.get(write.partition, write.sort)

    def _count_commit(
        self, writes: Sequence[Write], standing: dict[int, Item | None], alone: bool, *, wasted: bool
    ) -> None:
        """Count a commit. A lone check counts as a read, since `DynamoIndex` sends it as a read."""
        if alone:
            self._count_read("GetItem", [item for item in standing.values() if item], consistent=True)
        else:
            self.meter.add(commit_operation(writes), "requests")
            count_commit(self.meter, writes, standing, wasted=wasted)

    def _count_read(self, operation: str, items: Sequence[Item], consistent: bool) -> None:
        self.meter.add(operation, "requests")
        count_read(self.meter, operation, items, consistent=consistent)


class MeteredBlobs:
    """Blobs that count the requests that `ObjectBlobs` would send to a bucket of S3 with versioning.

    The size of a put or get is counted after compression. With ``retains_freed`` a delete counts the copy of the blob
    too, as with `freed=retain` in the store's URL. The template of `deploy/aws` has that option.
    """

    def __init__(self, blobs: Blobs, meter: Meter, *, retains_freed: bool = True) -> None:
        self.meter = meter
        self._blobs = blobs
        self._retains_freed = retains_freed
        self._versioning_checked = False

    def put(self, key: str, body: bytes) -> None:
        self._blobs.put(key, body)
        self._count("PutObject", len(compress(body)))

    def get(self, key: str) -> bytes:
        body = self._blobs.get(key)
        self._count("GetObject", len(compress(body)))
        return body

    def stat(self, key: str) -> BlobStat | None:
        stat = self._blobs.stat(key)
        self._count("HeadObject")
        return stat

    def list(self, prefix: str, *, after: str = "", damaged: Damaged = ignore) -> Iterator[BlobStat]:
        stats = self._blobs.list(prefix, after=after, damaged=damaged)
        self._count_versioning_check()
        while True:
            page = list(islice(stats, LIST_KEYS))
            self._count("ListObjectVersions")
            yield from page
            if len(page) < LIST_KEYS:
                return

    def delete(self, key: str, stamp: str) -> bool:
        stood = self._blobs.stat(key) is not None
        removed = self._blobs.delete(key, stamp)
        self._count_versioning_check()
        self._count("ListObjectVersions")
        if stood and removed:
            if self._retains_freed:
                self._count("CopyObject")
            self._count("DeleteObject")
        return removed

    def close(self) -> None:
        self._blobs.close()

    def _count_versioning_check(self) -> None:
        if not self._versioning_checked:
            self._versioning_checked = True
            self._count("GetBucketVersioning")

    def _count(self, operation: str, size: int | None = None) -> None:
        self.meter.add(operation, "requests")
        if size is not None:
            self.meter.add(operation, "bytes", size)


class MeteredQueue:
    """A queue that counts the requests that SQS would bill. A send or receive counts by the size of its messages."""

    def __init__(self, queue: Queue, meter: Meter) -> None:
        self.meter = meter
        self._queue = queue

    def send(self, group: str, bodies: Sequence[bytes]) -> None:
        self._queue.send(group, bodies)
        self._count("SendMessageBatch", sum(message_bytes(group, len(body)) for body in bodies))

    def receive(self, limit: int = 10, *, visibility_seconds: float = 30) -> list[Message]:
        given = self._queue.receive(limit, visibility_seconds=visibility_seconds)
        self._count("ReceiveMessage", sum(message_bytes(message.group, len(message.body)) for message in given))
        return given

    def acknowledge(self, message: Message) -> bool:
        done = self._queue.acknowledge(message)
        self._count("DeleteMessage")
        return done

    def release(self, message: Message, *, after_seconds: float = 0) -> bool:
        done = self._queue.release(message, after_seconds=after_seconds)
        self._count("ChangeMessageVisibility")
        return done

    def dead_letters(self, *, after: str = "") -> Iterator[DeadMessage]:
        """Count the requests of `SqsQueue`: it receives all letters, ten per request, and then releases all letters."""
        letters = list(self._queue.dead_letters())
        for start in range(0, len(letters), LETTERS_A_REQUEST):
            some = letters[start : start + LETTERS_A_REQUEST]
            self._count("ReceiveMessage", sum(message_bytes(letter.group, len(letter.body)) for letter in some))
            self._count("ChangeMessageVisibilityBatch")
        self._count("ReceiveMessage")
        yield from (letter for letter in letters if letter.id > after)

    def oldest_ms(self) -> int:
        return self._queue.oldest_ms()

    def close(self) -> None:
        self._queue.close()

    def _count(self, operation: str, size: int = 0) -> None:
        self.meter.add(operation, "requests")
        self.meter.add(operation, "billed requests", billed_requests(size))


def _may_stand_on(write: Write) -> bool:
    """Return whether an item may be stored at the key of a write before the write succeeds."""
    return not isinstance(write.condition, Absent)


def _page(items: Iterator[Item], limit: int | None) -> tuple[list[Item], bool]:
    """Return the items of one query page, and whether `DynamoIndex` would request another page."""
    page: list[Item] = []
    size = 0
    for item in items:
        page.append(item)
        size += item_bytes(item)
        if len(page) == limit:
            return page, False
        if size >= QUERY_PAGE_BYTES:
            return page, True
    return page, False

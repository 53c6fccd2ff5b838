"""A mirror copies items and blobs of one store to another store. It skips items and blobs that the target already has.

An item has the same form on all backends, so a mirror copies items without decoding them. In a mirrored partition the
mirror deletes the items that the source lacks. The source verifies each copied blob against the hash in the blob's key.

A damaged item of the source does not stop a mirror. The mirror names it, leaves the item at that key in the target as
it is, and copies the others. If the sort key of an item is damaged, the mirror deletes nothing in its partition: any
item that the source lacks may be the damaged one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import NoReturn, TypeVar

import msgspec

from stratalog.errors import Corrupt, NotFound, OutcomeUnknown, StratalogError, Unavailable
from stratalog.limits import COMMIT_BYTES_MAX, COMMIT_WRITES_MAX
from stratalog.log.callbacks import Report
from stratalog.log.commit import commit_once
from stratalog.log.environment import Environment
from stratalog.log.listed_items import ListedItem, get_listed, list_items
from stratalog.maintenance.checked_items import get_checked, has_damaged_key, list_checked
from stratalog.maintenance.damage import item_key
from stratalog.ports.blobs import Blobs
from stratalog.ports.index import Delete, Index, Item, Put, Write, item_bytes

__all__ = ["Fail", "Mirror", "Written", "last_item", "missing", "raise_failure"]

T = TypeVar("T")

WORKERS = 16


Fail = Callable[[str, StratalogError], None]
"""Called with a damaged part of the source, which is a blob, item, log or record, and its error."""


def raise_failure(what: str, error: StratalogError) -> NoReturn:
    """Raise the error of a damaged part."""
    raise error


class Written(msgspec.Struct):
    """The numbers of items and blobs written to the target, and of items deleted there."""

    items: int = 0
    deleted: int = 0
    blobs: int = 0


class Mirror:
    """Makes parts of ``target`` equal to parts of ``source``. No other process may write these parts meanwhile.

    ``report`` is called with the number of items or blobs just written. After a crash at any point, call the same
    methods again: they write only the differences. ``fail`` is called with the key of a damaged blob or item of the
    source, and its error. Unless ``fail`` raises the error, the mirror leaves the blob or item out. Use a mirror in a
    ``with`` statement.
    """

    def __init__(
        self,
        source: Environment,
        target: Environment,
        report: Report,
        fail: Fail = raise_failure,
    ) -> None:
        self._fail = fail
        self._damaged_keys: dict[str, bool] = {}
        self.source = source
        self.target = target
        self.written = Written()
        self._report = report
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="stratalog-copy")

    def __enter__(self) -> Mirror:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def read(self, partition: str, *, after: str | None = None, before: str | None = None) -> Iterator[ListedItem]:
        """Yield the items of a partition of the source. Call ``fail`` for each damaged item, which is None."""
        for listed in list_checked(self.source.index, partition, after=after, before=before):
            self._check(partition, listed.sort, listed.fault)
            yield listed

    def has_damaged_key(self, partition: str) -> bool:
        """Return whether a partition of the source has an item with a damaged sort key. Lists the partition once."""
        if partition not in self._damaged_keys:
            self._damaged_keys[partition] = has_damaged_key(self.source.index, partition)
        return self._damaged_keys[partition]

    def require_keys(self, partition: str) -> None:
        """Raise Corrupt if a sort key of the partition is damaged: the source may have what it seems to lack."""
        if self.has_damaged_key(partition):
            raise Corrupt("the sort key of an item is damaged", partition=partition)

    def items(
        self,
        partition: str,
        items: Iterable[ListedItem] | None = None,
        *,
        after: str | None = None,
        before: str | None = None,
        ahead: Callable[[Sequence[Write]], None] | None = None,
    ) -> None:
        """Mirror a partition, or its items between the sort keys ``after`` and ``before``.

        ``items`` are the wanted items, in order; by default they are those of `read`. The mirror makes the last change,
        in order of key, after all others. So if source and target have the same last item, an earlier call has
        finished. But the source may have changed another item since that call, for example by a redaction. The mirror
        calls ``ahead`` with each batch of at most `COMMIT_WRITES_MAX` writes before it writes the batch.
        """
        wanted = self.read(partition, after=after, before=before) if items is None else items
        standing = list_items(self.target.index, partition, after=after, before=before)
        for writes in _batches(_differences(partition, wanted, standing)):
            if ahead is not None:
                ahead(writes)
            self._write(writes)

    def item(self, partition: str, sort: str, anew: Callable[[], Item | None] = lambda: None) -> None:
        """Copy one item. If the source lacks it, delete it in the target.

        In place of a damaged item the mirror writes the item that ``anew`` returns, if any.
        """
        listed = get_checked(self.source.index, partition, sort)
        self._check(partition, sort, listed.fault)
        item = anew() if listed.fault else listed.item
        if item is None and (listed.fault or self._may_be_damaged(partition, sort)):
            return
        self.put(partition, sort, item)

    def put(self, partition: str, sort: str, item: Item | None) -> None:
        """Write one item. If ``item`` is None, delete the target's item."""
        standing = get_listed(self.target.index, partition, sort)
        if item is not None:
            if standing.item != item:
                self._write([Put(item)])
        elif standing.item is not None or standing.fault:
            self._write([Delete(partition, sort)])

    def is_complete(self, partition: str, before: str | None = None) -> bool:
        """Return whether the target's last item equals the source's last item below ``before``. See `items`.

        Return False if the source has no such item, or one of the two cannot be decoded.
        """
        try:
            ours = last_item(self.source.index, partition, before)
            return ours is not None and ours == last_item(self.target.index, partition)
        except Corrupt:
            return False

    def blobs(
        self, prefix: str, target_prefix: str = "", copied: Callable[[str, bytes], None] = lambda key, body: None
    ) -> None:
        """Copy the blobs under the prefix, except those that the target has. Other blobs of the target stay.

        In the target ``target_prefix``, if given, replaces the prefix. The mirror calls ``copied`` with the key in the
        target and the body of each blob that it has copied.
        """
        there = target_prefix or prefix

        def damaged(key: str) -> None:
            self._fail(key, Corrupt("the key of a blob is damaged; an item may refer to this blob", key=key))

        stats = self.source.blobs.list(prefix, damaged=damaged)
        ours = (there + stat.key.removeprefix(prefix) for stat in stats)
        theirs = (stat.key for stat in self.target.blobs.list(there))
        for keys in _grouped(missing(ours, theirs), WORKERS):
            source_keys = [prefix + key.removeprefix(there) for key in keys]
            for key, body in zip(keys, self._pool.map(self._copy_blob, source_keys, keys), strict=True):
                if body is not None:
                    self.written.blobs += 1
                    copied(key, body)
            self._report(len(keys))

    def bodies(self, blobs: Blobs, keys: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Yield the keys and bodies of blobs of one of the two stores, without those that cannot be read."""
        for group in _grouped(iter(keys), WORKERS):
            for key, body in zip(group, self._pool.map(partial(_body, blobs), group), strict=True):
                if body is not None:
                    yield key, body

    def _may_be_damaged(self, partition: str, sort: str) -> bool:
        """Return whether the target has an item that the source may have under a damaged key."""
        standing = get_listed(self.target.index, partition, sort)
        return (standing.item is not None or standing.fault != "") and self.has_damaged_key(partition)

    def _check(self, partition: str, sort: str, fault: str) -> None:
        if fault:
            self._fail(item_key(partition, sort), Corrupt(fault, partition=partition, sort=sort))

    def _copy_blob(self, source_key: str, key: str) -> bytes | None:
        """Copy a blob, and return its body; None if the source does not have it, or it is damaged."""
        try:
            body = self.source.blobs.get(source_key)
        except NotFound:
            return None  # the blob was collected after the listing, so nothing refers to it
        except Corrupt as exc:
            self._fail(source_key, exc)
            return None
        retry = self.target.retry()
        while True:
            try:
                self.target.blobs.put(key, body)
                return body
            except (Unavailable, OutcomeUnknown) as exc:
                if not retry.wait(exc):
                    raise

    def _write(self, writes: Sequence[Write]) -> None:
        """Commit the writes jointly if the index has joint commits; otherwise in parallel, but the last write at the
        end.
        """
        if self.target.index.joint_commits:
            self._commit(writes)
        else:
            # The last item must not exist before the others: `is_complete` relies on this order.
            *others, last = [[write] for write in writes]
            list(self._pool.map(self._commit, others))
            self._commit(last)
        puts = sum(isinstance(write, Put) for write in writes)
        self.written.items += puts
        self.written.deleted += len(writes) - puts
        self._report(puts)

    def _commit(self, writes: Sequence[Write]) -> None:
        """Commit writes. If the answer is lost, commit them again: they have no conditions."""
        commit_once(self.target, writes, lambda: False)


def _body(blobs: Blobs, key: str) -> bytes | None:
    with suppress(NotFound, Corrupt):
        return blobs.get(key)
    return None


def last_item(index: Index, partition: str, before: str | None = None) -> Item | None:
    """Return the last item of a partition, or the last below the sort key ``before``."""
    return next(index.query(partition, before=before, reverse=True, limit=1), None)


def _differences(partition: str, wanted: Iterable[ListedItem], standing: Iterator[ListedItem]) -> Iterator[Write]:
    """Yield the writes that turn ``standing`` into ``wanted``. Both inputs are in order, except for damaged sort keys.

    A damaged item of ``wanted`` stays as it is in ``standing``. If a sort key of ``wanted`` is damaged, all items stay.
    So the deletions come after all other writes but the last one.
    """
    theirs = (listed for listed in standing if listed.position is None)
    there, last, extra, is_key_damaged = next(theirs, None), None, list[str](), False
    for listed in wanted:
        if listed.position is not None:
            is_key_damaged = True
            continue
        while there is not None and there.sort < listed.sort:
            extra.append(there.sort)
            there = next(theirs, None)
        is_there = there is not None and there.sort == listed.sort
        if listed.item is not None and not (is_there and there is not None and there.item == listed.item):
            if last is not None:
                yield last
            last = Put(listed.item)
        if is_there:
            there = next(theirs, None)
    if not is_key_damaged:
        yield from (Delete(partition, sort) for sort in extra)
        while there is not None:
            yield Delete(partition, there.sort)
            there = next(theirs, None)
    if last is not None:
        yield last


def _batches(writes: Iterator[Write]) -> Iterator[list[Write]]:
    """Group the writes into batches that fit one commit."""
    batch, size = list[Write](), 0
    for write in writes:
        more = item_bytes(write.item) if isinstance(write, Put) else 0
        if batch and (len(batch) == COMMIT_WRITES_MAX or size + more > COMMIT_BYTES_MAX):
            yield batch
            batch, size = [], 0
        batch.append(write)
        size += more
    if batch:
        yield batch


def missing(ours: Iterator[str], theirs: Iterator[str]) -> Iterator[str]:
    """Yield the keys in ``ours`` that are not in ``theirs``. Both inputs are in order."""
    there = next(theirs, None)
    for key in ours:
        while there is not None and there < key:
            there = next(theirs, None)
        if there != key:
            yield key


def _grouped(things: Iterator[T], size: int) -> Iterator[list[T]]:
    group = list[T]()
    for thing in things:
        group.append(thing)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group

"""A backup as a read-only store: ports that read the items and blobs of a backup."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from heapq import heappop, heappush
from itertools import islice
from typing import NoReturn

import msgspec

from stratalog.backups.format import BLOBS_ROW, ITEMS_ROW, BackupManifest
from stratalog.backups.repository import COPIES, BackupRepository
from stratalog.errors import Invalid, NotFound, Unavailable
from stratalog.log import Environment, LogSettings
from stratalog.ports.blobs import BlobStat, Damaged, ignore
from stratalog.ports.index import NO_BLOBS, Index, Item, Write, no_turn
from stratalog.ports.queue import Queue
from stratalog.store import Store
from stratalog.tree.lookup import get, scan
from stratalog.tree.nodes import Root

__all__ = ["BackupBlobs", "BackupIndex", "store_over"]


class BackupIndex:
    """The items of a catalogue as an `Index`. Commits raise Invalid."""

    joint_commits = True
    blob_bytes_max = 0

    def __init__(self, repository: BackupRepository, root: Root) -> None:
        self._repository = repository
        self.root = root

    def get(self, partition: str, sort: str, *, consistent: bool = True) -> Item | None:
        row = self.row(f"{ITEMS_ROW}{partition}")
        return next(iter(self._repository.items_at(partition, row, sort)), None) if row is not None else None

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
        row = self.row(f"{ITEMS_ROW}{partition}")
        if row is None:
            return iter(())
        return islice(self._repository.items(partition, row, after=after, before=before, reverse=reverse), limit)

    def commit(self, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        _refuse()

    def turn(self, partition: str) -> AbstractContextManager[bool]:
        return no_turn()

    def close(self) -> None:
        """Do nothing: this object does not own the repository's connection."""

    def row(self, key: str) -> bytes | None:
        """Return a row of the catalogue, or None."""
        slot = get(self._repository.chunks, self.root, key)
        return None if slot is None else slot.value


class BackupBlobs:
    """The blobs that a catalogue lists. Puts and deletes raise Invalid."""

    def __init__(self, repository: BackupRepository, index: BackupIndex) -> None:
        self._repository = repository
        self._index = index

    def put(self, key: str, body: bytes) -> None:
        _refuse()

    def get(self, key: str) -> bytes:
        if self._item(key) is None:
            raise NotFound("the backup does not hold the blob", key=key)
        return self._repository.read_copy(key)

    def stat(self, key: str) -> BlobStat | None:
        """Return the metadata of the repository's copy, under the blob's own key; None also for a missing copy."""
        stat = None if self._item(key) is None else self._repository.blobs.stat(f"{COPIES}/{key}")
        return stat and msgspec.structs.replace(stat, key=key)

    def list(self, prefix: str, *, after: str = "", damaged: Damaged = ignore) -> Iterator[BlobStat]:
        """Yield the listed blobs without sizes, ages and stamps, which the catalogue does not contain."""
        rows = scan(self._repository.chunks, self._index.root, prefix=f"{BLOBS_ROW}{_owner(prefix)}")
        for folder, row in _in_order_of_keys((key.removeprefix(BLOBS_ROW), slot.value) for key, slot in rows):
            for item in self._repository.items(folder[:-1], row):
                key = f"{folder}{item.sort}"
                if key.startswith(prefix) and key > after:
                    yield BlobStat(key, 0, 0, "")

    def delete(self, key: str, stamp: str) -> bool:
        _refuse()

    def close(self) -> None:
        """Do nothing: this object does not own the repository's connection."""

    def _item(self, key: str) -> Item | None:
        owner = _owner(key)
        row = self._index.row(f"{BLOBS_ROW}{owner}")
        name = key.removeprefix(f"{owner}/")
        return next(iter(self._repository.items_at(owner, row, name)), None) if row is not None else None


def store_over(
    index: Index, repository: BackupRepository, manifest: BackupManifest, settings: LogSettings | None = None
) -> Store:
    """Return the backup as a read-only store. ``index`` is a `BackupIndex`, or a view of a `BackupIndex`."""
    blobs = BackupBlobs(repository, BackupIndex(repository, manifest.root))
    return Store(Environment(index, blobs, repository.clock, settings), _no_queue)


def _in_order_of_keys(rows: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
    """Yield each owner with a slash, and the owner's row, in the order of the blobs' keys.

    ``rows`` are in order of owner. The orders differ if the id of one record begins with the id of another: `r`
    precedes `r-1`, but `r-1/` precedes `r/`. So an owner waits until no later owner can precede it.
    """
    waiting: list[tuple[str, bytes]] = []
    for owner, row in rows:
        while waiting and waiting[0][0] < owner:
            yield heappop(waiting)
        heappush(waiting, (f"{owner}/", row))
    yield from sorted(waiting)


def _owner(key: str) -> str:
    """Return the owner of a blob from its key, or from a prefix of keys that includes the owner."""
    parts = key.split("/")
    return "/".join(parts[: 3 if parts[1:2] == ["records"] else 2])


def _refuse() -> NoReturn:
    raise Invalid("a backup is read-only; restore it to write")


def _no_queue() -> Queue:
    raise Unavailable("a backup has no queue")

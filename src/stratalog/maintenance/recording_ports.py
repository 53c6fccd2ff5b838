"""A read-only index and read-only blobs that bypass every cache and record damage.

A put goes to a scratch file, so a rebuilt state never reaches the store with which it is compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NoReturn

from stratalog.errors import Corrupt, Invalid, NotFound
from stratalog.log.listed_items import list_items
from stratalog.maintenance.damage import BLOB_KINDS, DamageList, blob_kind, item_key, item_kind
from stratalog.maintenance.shapes import shape_fault
from stratalog.ports.blobs import Blobs, verified
from stratalog.ports.index import NO_BLOBS, Index, Item, Write, no_turn
from stratalog.ports.read_back import BlobDamage, read_blob_back
from stratalog.ports.scratch import Scratch, ScratchBlobs

__all__ = ["RecordingBlobs", "RecordingIndex", "ScratchFirst"]


class RecordingIndex:
    """Reads ``index``. Records an item as damaged, and omits it, if the item does not decode or has a `shape_fault`."""

    joint_commits = False
    blob_bytes_max = 0

    def __init__(self, index: Index, damages: DamageList) -> None:
        self._index = index
        self._damages = damages

    def get(self, partition: str, sort: str, *, consistent: bool = True) -> Item | None:
        try:
            item = self._index.get(partition, sort, consistent=consistent)
        except Corrupt as exc:
            self._note(Item(partition, sort, {}), exc.message)
            return None
        return None if item is None or not self._is_sound(item) else item

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
        left = limit
        while left is None or left > 0:
            asked, read = left, 0
            for listed in list_items(
                self._index,
                partition,
                after=after,
                before=before,
                reverse=reverse,
                limit=asked,
                consistent=consistent,
            ):
                read += 1
                after, before = (after, listed.bound) if reverse else (listed.bound, before)
                if listed.item is None:
                    self._note(Item(partition, listed.sort, {}), listed.fault)
                elif self._is_sound(listed.item):
                    left = None if left is None else left - 1
                    yield listed.item
            if asked is None or read < asked:
                return
            # The index has returned all items that it was asked for. Read on in place of the damaged items.

    def commit(self, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> NoReturn:
        raise Invalid("a check may not write")

    def turn(self, partition: str) -> AbstractContextManager[bool]:
        return no_turn()

    def close(self) -> None:
        """Do nothing: the store closes its own index."""

    def _is_sound(self, item: Item) -> bool:
        if fault := shape_fault(item):
            self._note(item, fault)
        return not fault

    def _note(self, item: Item, reason: str) -> None:
        self._damages.add(item_kind(item), item_key(item.partition, item.sort), "damaged", reason)


class RecordingBlobs(ScratchBlobs):
    """Reads ``blobs``. Records a damaged or missing blob, and returns its bytes if `derive` finds them."""

    def __init__(self, blobs: Blobs, scratch: Scratch, damages: DamageList) -> None:
        super().__init__(blobs, scratch)
        self._damages = damages
        self.scratch = scratch
        self.bytes_read = 0

    def get(self, key: str) -> bytes:
        body = read_blob_back(self._blobs, key)
        if not isinstance(body, BlobDamage):
            self.bytes_read += len(body)
            return body
        known = self.derive(key)
        self._damages.add_blob(blob_kind(key), key, body, derivable=known is not None)
        if known is not None:
            return known
        if body.is_missing:
            raise NotFound("blob not found", key=key)
        raise Corrupt(body.reason, key=key)

    def derive(self, key: str) -> bytes | None:
        """Return a blob's bytes from the rebuilt state or another folder of its owner; None if neither has them."""
        body = self.scratch.find(key)
        if body is not None:
            return body
        owner, _, rest = key.partition("/")
        parts = rest.split("/")
        if len(parts) < 3 or "@" not in parts[0]:
            return None
        for folder in BLOB_KINDS:
            other = f"{owner}/{parts[0]}/{folder}/{parts[-1]}"
            other_body = None if other == key else read_blob_back(self._blobs, other)
            if isinstance(other_body, bytes):
                return other_body
        return None

    def put(self, key: str, body: bytes) -> None:
        self.scratch.put(key, verified(key, body))


class ScratchFirst(RecordingBlobs):
    """The blobs of a rebuild: reads a blob from the scratch file if it was put there, and otherwise from storage."""

    def get(self, key: str) -> bytes:
        body = self.scratch.find(key)
        return super().get(key) if body is None else body

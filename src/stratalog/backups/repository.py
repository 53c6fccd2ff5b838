"""The repository of backups: a folder or bucket. The repository uses only objects under `!backup/`.

The manifest of a backup is written last. Only `prune_backups` removes chunks, packs and copies that no manifest needs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from threading import Lock

import msgspec

from stratalog.backups.format import (
    PACKS,
    BackupFailure,
    BackupManifest,
    decode_manifest,
    decode_row,
    inline_items,
    listed_packs,
    read_pack,
)
from stratalog.clock import Clock, new_id
from stratalog.codec import sha256
from stratalog.errors import Conflict, Corrupt, NotFound, Unavailable
from stratalog.keys import number, parse_number
from stratalog.log.bodies import BodyRef, read_body, write_body
from stratalog.ports.blobs import Blobs
from stratalog.ports.blobs_wrapper import BlobsWrapper
from stratalog.ports.index import Item
from stratalog.process_fork import close_in_child
from stratalog.tree.chunks import Chunks

__all__ = ["ABANDONED_SECONDS", "COPIES", "MANIFESTS", "ROOT", "UNFINISHED", "BackupRepository"]

ROOT = "!backup"
COPIES = f"{ROOT}/blobs"
MANIFESTS = f"{ROOT}/manifests"
UNFINISHED = f"{ROOT}/unfinished"
ID_CHARACTERS = 6
# A younger object that no manifest needs may belong to a backup in progress. A backup saves its progress more often.
ABANDONED_SECONDS = 7 * 86_400
PACKS_HELD_MAX = 64


class RepositoryObjects(BlobsWrapper):
    """The objects of a repository, with a count of the objects and uncompressed bytes that were put. Safe for threads.

    A backup names each object that is read. So `get` raises Corrupt for a missing object.
    """

    def __init__(self, blobs: Blobs) -> None:
        super().__init__(blobs)
        self.count = 0
        self.size = 0
        self._lock = Lock()
        close_in_child(self, "_lock")

    def get(self, key: str) -> bytes:
        try:
            return self._blobs.get(key)
        except NotFound as exc:
            raise Corrupt("an object of the backup repository is missing", key=key) from exc

    def put(self, key: str, body: bytes) -> None:
        self._blobs.put(key, body)
        with self._lock:
            self.count += 1
            self.size += len(body)


class BackupRepository:
    """Backups stored in ``blobs``.

    `objects` counts the puts of all objects but manifests and saved progress.
    """

    def __init__(self, blobs: Blobs, clock: Clock) -> None:
        self.blobs = blobs
        self.clock = clock
        self.objects = RepositoryObjects(blobs)
        self.chunks = Chunks(self.objects, ROOT)
        self._lock = Lock()
        close_in_child(self, "blobs", "_lock")
        self._packs: OrderedDict[tuple[str, bytes], list[Item]] = OrderedDict()

    def new_id(self, started_ms: int, before: str = "") -> str:
        """Return a new id of a backup. Ids are in order of time, and the new id sorts after ``before``."""
        number_before = parse_number(before.partition("-")[0]) if before else 0
        return f"{number(max(started_ms, number_before + 1))}-{new_id(self.clock, ID_CHARACTERS)}"

    def manifests(self) -> list[BackupManifest]:
        """Return the manifests of all backups, oldest first. Raises Corrupt, Unsupported."""
        return self._read_manifests(MANIFESTS)

    def intact_manifests(self) -> tuple[list[BackupManifest], list[BackupFailure]]:
        """Return the manifests that are not damaged, oldest first, and the damaged ones by key. Raises Unsupported."""
        manifests, damaged = list[BackupManifest](), list[BackupFailure]()
        for key in self._manifest_keys():
            try:
                manifests.append(self.read_manifest(key))
            except Corrupt as exc:
                damaged.append(BackupFailure(key, exc.code, str(exc)))
            except NotFound:
                continue  # another process has just pruned this backup
        return manifests, damaged

    def newest_id(self) -> str:
        """Return the id of the newest backup, also if its manifest is damaged; empty if there is no backup."""
        return max((key.split("/")[2] for key in self._manifest_keys()), default="")

    def manifest(self, id: str | None = None) -> BackupManifest:
        """Return the manifest of a backup, by default of the newest. Raises NotFound, Corrupt, Unsupported."""
        manifests = self._read_manifests(f"{MANIFESTS}/{id}" if id else MANIFESTS, newest=1)
        if not manifests:
            if id:
                raise NotFound("backup not found", id=id)
            raise NotFound("this folder or bucket has no backup; to make one: stratalog backup TO")
        return manifests[0]

    def publish(self, manifest: BackupManifest, progress: str = "") -> None:
        """Write a manifest, which makes the backup visible. Then drop the backup's ``progress``, which is a key.

        Raises Conflict, and removes the manifest, if the base was pruned or the progress was dropped meanwhile: needed
        objects may be gone.
        """
        key = self._put_json(f"{MANIFESTS}/{manifest.id}", manifest)
        # Check the base after the put. A prune removes manifests before it lists them again, so either the prune sees
        # this manifest or this check sees that the base is gone. The same applies to the progress, which another backup
        # drops if this process was suspended for `ABANDONED_SECONDS`.
        try:
            self.require_backup(manifest.base)
            self._require_progress(progress)
        except Conflict:
            self.remove(key)
            self.drop_progress(progress)
            raise
        self._drop_unfinished(progress)

    def require_backup(self, id: str) -> None:
        """Raise Conflict if the backup ``id`` was pruned. An empty ``id`` means that there is no backup to require."""
        if id and not list(self.blobs.list(f"{MANIFESTS}/{id}/")):
            raise Conflict("a backup was pruned meanwhile; run the command again", backup=id)

    @contextmanager
    def reading(self, id: str) -> Iterator[None]:
        """Raise Conflict instead of Corrupt or NotFound if the backup ``id`` was pruned meanwhile.

        A prune removes the manifest of a backup before the objects. So a missing object is damage only if the manifest
        exists after the read of the object.
        """
        try:
            yield
        except (Corrupt, NotFound):
            self.require_backup(id)
            raise

    def note_unfinished(self, manifest: BackupManifest, before: str = "") -> str:
        """Save the progress of an unfinished backup, from which the next backup resumes. Return its key.

        ``before`` is the key of the progress that the same backup saved before. Another backup may be in progress and
        rely on its own saved progress, so this call drops no progress but ``before``. Raises Conflict if ``before`` was
        dropped meanwhile.
        """
        key = self._put_json(UNFINISHED, manifest)
        if before not in ("", key):
            try:
                self._require_progress(before)
            except Conflict:
                self.drop_progress(key)
                raise
            self.drop_progress(before)
        return key

    def _require_progress(self, key: str) -> None:
        """Raise Conflict if another backup dropped the progress ``key``: a prune may have deleted objects of it."""
        if key and self.blobs.stat(key) is None:
            raise Conflict("this backup was suspended for too long; run the command again", key=key)

    def unfinished(self, base: str) -> tuple[str, BackupManifest] | None:
        """Return the newest saved progress of a backup with this base, and its key; or None.

        Damaged progress is removed: only the progress is lost.
        """
        saved = list[tuple[str, BackupManifest]]()
        for stat in list(self.blobs.list(f"{UNFINISHED}/")):
            try:
                manifest = self.read_manifest(stat.key)
            except Corrupt:
                self.drop_progress(stat.key)
            except NotFound:
                continue  # another process has just dropped this progress
            else:
                saved += [(stat.key, manifest)] if manifest.base == base else []
        return max(saved, key=lambda each: each[1].id, default=None)

    def drop_progress(self, key: str) -> None:
        """Delete saved progress. A bucket without versioning refuses deletes; the remaining progress does no harm."""
        with suppress(Unavailable):
            self.remove(key)

    def newest(self) -> BackupManifest | None:
        """Return the manifest of the newest backup, or None."""
        return next(iter(self._read_manifests(MANIFESTS, newest=1)), None)

    def put_copy(self, key: str, body: bytes) -> None:
        """Store a copy of a blob. Its key is the blob's key below `!backup/blobs`."""
        self.objects.put(f"{COPIES}/{key}", body)

    def read_copy(self, key: str) -> bytes:
        """Read and verify the copy of a blob that a catalogue lists. Raises Corrupt."""
        return self.objects.get(f"{COPIES}/{key}")

    def write_pack(self, body: bytes) -> BodyRef:
        """Store a pack and return the reference to the pack."""
        return write_body(self.objects, PACKS, body)

    def read_pack(self, ref: BodyRef) -> bytes:
        """Read and verify the bytes of a pack. Raises Corrupt."""
        return read_body(self.blobs, PACKS, ref)

    def items(
        self,
        partition: str,
        row: bytes,
        *,
        after: str | None = None,
        before: str | None = None,
        reverse: bool = False,
        spared: Collection[bytes] = (),
    ) -> Iterator[Item]:
        """Yield the items of a row with ``after`` < sort < ``before``. Reads only packs that may contain them.

        The packs whose addresses are ``spared`` are left out.
        """
        decoded = decode_row(row)
        if decoded.items is not None:
            yield from _within(inline_items(partition, decoded), after, before, reverse)
            return
        packs = listed_packs(decoded, self.read_pack)
        first = bisect_right([pack.last for pack in packs], after or "")
        stop = len(packs) if before is None else bisect_left([pack.last for pack in packs], before) + 1
        chosen = [pack for pack in packs[first:stop] if pack.ref.address not in spared]
        for pack in reversed(chosen) if reverse else chosen:
            yield from _within(self._pack_items(partition, pack.ref), after, before, reverse)

    def items_at(self, partition: str, row: bytes, sort: str) -> list[Item]:
        """Return a list with the item whose sort key is ``sort``, or an empty list. Reads at most one pack of items."""
        decoded = decode_row(row)
        items = inline_items(partition, decoded)
        if decoded.items is None:
            packs = listed_packs(decoded, self.read_pack)
            position = bisect_left([pack.last for pack in packs], sort)
            items = self._pack_items(partition, packs[position].ref) if position < len(packs) else []
        return [item for item in items if item.sort == sort]

    def _pack_items(self, partition: str, ref: BodyRef) -> list[Item]:
        key = (partition, ref.address)
        with self._lock:
            if key in self._packs:
                self._packs.move_to_end(key)
                return self._packs[key]
        items = read_pack(partition, self.read_pack(ref))
        with self._lock:
            self._packs[key] = items
            if len(self._packs) > PACKS_HELD_MAX:
                self._packs.popitem(last=False)
        return items

    def _read_manifests(self, folder: str, newest: int | None = None) -> list[BackupManifest]:
        """Return the manifests below a folder, oldest first, or only the ``newest``."""
        while True:
            keys = self._manifest_keys(folder)
            keys = keys if newest is None else keys[-newest:]
            try:
                return [self.read_manifest(key) for key in keys]
            except NotFound:
                if all(map(self.blobs.stat, keys)):
                    raise
                # Another process removed a manifest after the listing. List the manifests again.

    def _manifest_keys(self, folder: str = MANIFESTS) -> list[str]:
        """Return the keys of the manifests below a folder, oldest first.

        Look again if there is none: a backup may have been published, and the older ones pruned, during the first list.
        """
        lists = ([stat.key for stat in self.blobs.list(f"{folder}/")] for _ in range(2))
        return next(filter(None, lists), [])

    def read_manifest(self, key: str) -> BackupManifest:
        """Return the manifest stored under ``key``. Raises NotFound, Unsupported, and Corrupt, which names the key."""
        try:
            return decode_manifest(self.blobs.get(key))
        except Corrupt as exc:
            raise Corrupt("the manifest of a backup is damaged", key=key, reason=exc.message) from exc

    def _put_json(self, folder: str, manifest: BackupManifest) -> str:
        body = msgspec.json.encode(manifest)
        key = f"{folder}/{sha256(body).hex()}"
        self.blobs.put(key, body)
        return key

    def _drop_unfinished(self, key: str) -> None:
        """Delete the progress ``key``, and all progress that no backup has saved again for `ABANDONED_SECONDS`."""
        oldest_ms = self.clock.wall_ms() - ABANDONED_SECONDS * 1000
        with suppress(Unavailable):
            for stat in list(self.blobs.list(f"{UNFINISHED}/")):
                if stat.key == key or stat.modified_ms < oldest_ms:
                    self.blobs.delete(stat.key, stat.stamp)

    def remove(self, key: str) -> None:
        """Remove the present generation of an object, if it exists."""
        stat = self.blobs.stat(key)
        if stat is not None:
            self.blobs.delete(key, stat.stamp)


def _within(items: list[Item], after: str | None, before: str | None, reverse: bool) -> Iterator[Item]:
    chosen = (
        item
        for item in (reversed(items) if reverse else items)
        if (after is None or item.sort > after) and (before is None or item.sort < before)
    )
    yield from chosen

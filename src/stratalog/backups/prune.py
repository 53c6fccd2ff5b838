"""The removal of old backups and of the objects that no backup needs. Objects outside `!backup/` are never read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from stratalog.backups.format import BLOBS_ROW, HISTORY_ROW, PACKS, decode_row, listed_packs
from stratalog.backups.repository import ABANDONED_SECONDS, COPIES, MANIFESTS, ROOT, UNFINISHED, BackupRepository
from stratalog.codec import sha256
from stratalog.errors import Conflict, Corrupt, Invalid, NotFound
from stratalog.log.bodies import BodyRef, blob_addresses
from stratalog.log.callbacks import Report
from stratalog.ports.blobs import BlobStat
from stratalog.tree.lookup import scan
from stratalog.tree.nodes import Root
from stratalog.tree.reach import addresses

__all__ = ["Pruned", "needed_keys", "prune_backups"]

REMEMBERED_BYTES = 16


class Pruned(msgspec.Struct, frozen=True):
    """The backups and blobs that a prune removed, or in a dry run would remove.

    ``stored_bytes`` is the size of the blobs as stored, without the small manifests of the backups.
    """

    backups: tuple[str, ...]
    blobs: int
    stored_bytes: int


def prune_backups(
    repository: BackupRepository, retain: int, *, dry_run: bool = False, progress: Report | None = None
) -> Pruned:
    """Remove all but the newest ``retain`` backups, and the objects that no remaining backup needs.

    Objects younger than `ABANDONED_SECONDS` stay, because a backup may be in progress. ``progress`` is called after
    each removed object, in a dry run for each object that would be removed. The call may be repeated.

    Raises Invalid for ``retain`` below 1. Raises Corrupt if the manifest, the catalogue or a pack list of a remaining
    backup is damaged: then nothing is removed, since an older backup may be intact. Raises Conflict if another prune
    removes a backup or a backup saves its progress meanwhile: then at most the old manifests are removed.
    """
    if retain < 1:
        raise Invalid("retain must be at least 1: the newest backup is never pruned", retain=retain)
    keys = [stat.key for stat in repository.blobs.list(f"{MANIFESTS}/")]
    gone, needed = keys[:-retain], _Needed(repository, dry_run=dry_run)
    # Read what remains before the removal: the removed backups may be the only intact ones.
    needed.add(keys[-retain:])
    if not dry_run:
        for key in gone:
            repository.remove(key)
    # List the manifests after the removal: a backup published meanwhile must keep its objects. List them after the
    # saved progress: a backup publishes its manifest before it drops its progress, so one of them is listed. List the
    # saved progress twice: a backup that saves its progress anew during one list may be missing in that list.
    folders = (UNFINISHED, UNFINISHED, MANIFESTS)
    listed = [stat.key for folder in folders for stat in list(repository.blobs.list(f"{folder}/"))]
    needed.add(key for key in listed if key not in gone)
    blobs = stored_bytes = 0
    for stat in list(_removable(repository, needed.keys)):
        if dry_run or repository.blobs.delete(stat.key, stat.stamp):
            blobs, stored_bytes = blobs + 1, stored_bytes + stat.stored_bytes
            if progress:
                progress(1)
    return Pruned(tuple(key.split("/")[2] for key in gone), blobs, stored_bytes)


def needed_keys(repository: BackupRepository, root: Root) -> Iterator[str]:
    """Yield the keys of all objects that a catalogue needs, including its chunks. A key may repeat. Raises Corrupt."""
    for address in addresses(repository.chunks, root):
        yield f"{ROOT}/chunks/{address.hex()}"
    for key, slot in scan(repository.chunks, root):
        if key.startswith(HISTORY_ROW):
            continue
        row = decode_row(slot.value)
        refs: list[BodyRef] = [pack.ref for pack in listed_packs(row, repository.read_pack)]
        for ref in [*refs, *([row.listed] if row.listed else [])]:
            yield from (f"{PACKS}/{address.hex()}" for address in blob_addresses(repository.blobs, PACKS, ref))
        if key.startswith(BLOBS_ROW):
            owner = key.removeprefix(BLOBS_ROW)
            yield from (f"{COPIES}/{owner}/{item.sort}" for item in repository.items(owner, slot.value))


class _Needed:
    """Digests of the keys that manifests and interrupted backups need."""

    def __init__(self, repository: BackupRepository, *, dry_run: bool) -> None:
        self._repository = repository
        self._dry_run = dry_run
        self._read = set[str]()
        self.keys = set[bytes]()

    def add(self, manifests: Iterable[str]) -> None:
        """Add what the manifests need, each of which is read once. Drop damaged progress.

        Raises Corrupt if another manifest is damaged, and Conflict if a manifest is gone.
        """
        for manifest in manifests:
            if manifest in self._read:
                continue
            self._read.add(manifest)
            try:
                root = self._repository.read_manifest(manifest).root
                self.keys.update(_remembered(key) for key in needed_keys(self._repository, root))
            except (Corrupt, NotFound):
                if self._repository.blobs.stat(manifest) is None:
                    raise Conflict(
                        "a backup was pruned or finished meanwhile; run the prune again", key=manifest
                    ) from None
                if not manifest.startswith(f"{UNFINISHED}/"):
                    raise
                # Nothing can resume damaged progress. A backup in progress that has saved it ends with Conflict.
                if not self._dry_run:
                    self._repository.drop_progress(manifest)


def _removable(repository: BackupRepository, needed: set[bytes]) -> Iterator[BlobStat]:
    oldest_ms = repository.clock.wall_ms() - ABANDONED_SECONDS * 1000
    for stat in repository.blobs.list(f"{ROOT}/"):
        is_manifest = stat.key.startswith((f"{MANIFESTS}/", f"{UNFINISHED}/"))
        if not is_manifest and stat.modified_ms < oldest_ms and _remembered(stat.key) not in needed:
            yield stat


def _remembered(key: str) -> bytes:
    return sha256(key.encode())[:REMEMBERED_BYTES]

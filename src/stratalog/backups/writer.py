"""The writer of a catalogue: copies blobs, and replaces rows of the base."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from heapq import merge
from itertools import groupby, islice

import msgspec

from stratalog.backups.format import (
    BLOBS_ROW,
    ITEMS_ROW,
    BackupFailure,
    decode_row,
    listed_packs,
    pack_rows,
)
from stratalog.backups.repository import BackupRepository
from stratalog.backups.view import BackupIndex
from stratalog.codec import sha256
from stratalog.errors import Corrupt, Invalid, NotFound
from stratalog.limits import BODY_PART_BYTES, DAMAGED_PARTS_NAMED_MAX
from stratalog.log.bodies import BodyRef
from stratalog.log.callbacks import Report
from stratalog.log.listed_items import ListedItem
from stratalog.maintenance.checked_items import list_checked
from stratalog.maintenance.checkpoint import read_line
from stratalog.maintenance.damage import item_key
from stratalog.maintenance.mirror import missing
from stratalog.ports.blobs import Blobs
from stratalog.ports.blobs_wrapper import BlobsWrapper
from stratalog.ports.index import Index, Item
from stratalog.tree.lookup import scan
from stratalog.tree.nodes import EMPTY, Root, Slot
from stratalog.tree.update import update

__all__ = ["WORKERS", "BackupWriter", "packed"]

WORKERS = 16
GROUP = 128
ROWS_MAX = 1000


class BackupWriter:
    """The catalogue of a backup in progress, a changed copy of its base's catalogue.

    ``root`` covers the rows written so far, and everything that they need is stored. Use the writer in a ``with``
    statement.
    """

    def __init__(
        self,
        repository: BackupRepository,
        source: Blobs,
        base: Root,
        report: Report,
        workers: int = WORKERS,
        base_failures: Collection[str] = (),
        *,
        are_all: bool = True,
        checks_blobs: bool = False,
        newest: Root = EMPTY,
    ) -> None:
        """``workers`` is the number of threads that copy blobs; 0 copies in the caller's thread.

        ``base_failures`` are the parts that the base could not read, and ``are_all`` whether these are all.
        ``checks_blobs`` means that the blobs of unchanged items are listed too. ``newest`` is the catalogue of the
        newest backup: an interrupted backup is a base too, but its failures are in no backup.
        """
        self.repository = repository
        self.base = BackupIndex(repository, base)
        self.newest = BackupIndex(repository, newest)
        self.root = base
        self.failures: dict[str, BackupFailure] = {}
        """The failures by the part that could not be read. A part that was read several times has one failure."""

        self.more_failures = 0
        """The number of failures after `DAMAGED_PARTS_NAMED_MAX`, which are not in ``failures``."""

        self.base_failures = base_failures
        self._are_all = are_all
        self._checks_blobs = checks_blobs
        self.readable: Blobs = _SourceOrCopy(source, repository)
        """The blobs of the source. If the source has lost a blob, and the repository has a copy, the copy is read."""

        self._source = source
        self._report = report
        self._patch: dict[str, Slot | None] = {}
        self._changed: set[str] = set()
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="stratalog-backup") if workers else None

    def __enter__(self) -> BackupWriter:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    @property
    def may_skip_blobs(self) -> bool:
        """Whether the blobs of unchanged items need not be listed again: the base has no failures, and nobody asked."""
        return self._are_all and not self.base_failures and not self._checks_blobs

    def pack(self, partition: str, items: Iterable[Item]) -> bytes:
        """Put the packs of a partition's items and return its row. A pack that the base has is not put again."""
        known = self._known_packs(f"{ITEMS_ROW}{partition}")
        return pack_rows(items, lambda body: self._write_pack(body, known))

    def unshared(self, partition: str, row: bytes) -> tuple[Iterator[Item], Iterator[Item]]:
        """Return the items of a partition's row, and those of the base's row, without the packs that both rows have."""
        base = self.base.row(f"{ITEMS_ROW}{partition}")
        if base is None:
            return self.repository.items(partition, row), iter(())
        spared = self._packs(row).keys() & self._packs(base).keys()
        ours, theirs = (self.repository.items(partition, each, spared=spared) for each in (row, base))
        return ours, theirs

    def put(self, key: str, value: bytes) -> None:
        """Put a row. Everything that the row refers to must be stored already."""
        if key in self._changed or self.base.row(key) != value:
            self._changed.add(key)
            self._patch[key] = Slot(value, 0)
        self._report(1)
        if len(self._patch) >= ROWS_MAX:
            self.flush()

    def put_items(self, partition: str, items: Iterable[Item]) -> None:
        """Put the packs and the row of a partition."""
        self.put(f"{ITEMS_ROW}{partition}", self.pack(partition, items))

    def copy_blobs(
        self, owner: str, spared: Collection[str] = (), note: Callable[[str, bytes], None] = lambda name, body: None
    ) -> bytes:
        """Copy every blob of an owner that the base lacks, and return the row that lists all blobs of the owner.

        Read the items that refer to the blobs before this call: a blob exists before any item that refers to it. Blobs
        in the folders ``spared`` are left out. A damaged blob is left out and is a failure of the backup. ``note`` is
        called with the key, without the owner, and the content of each copied blob, in several threads.
        """
        known = self._known_packs(f"{BLOBS_ROW}{owner}")
        return pack_rows(self._copied(owner, spared, note), lambda body: self._write_pack(body, known))

    def with_base(self, owner: str, listed: bytes, only: Collection[str] | None = None) -> bytes:
        """Return the row that lists the blobs of the row ``listed`` and the blobs of the owner that the base lists.

        The repository may have the only copies of these blobs. If it is known which of them the owner needs, ``only``
        names those: the others may be of redacted or forgotten content.
        """
        known = self._known_packs(f"{BLOBS_ROW}{owner}")
        base = (item.sort for item in self.base_blobs(owner) if only is None or item.sort in only)
        names = groupby(merge(self._names(owner, listed), base))
        return pack_rows((Item(owner, name, {}) for name, _ in names), lambda body: self._write_pack(body, known))

    def unlisted(self, owner: str, listed: bytes, needed: Collection[str]) -> set[str]:
        """Return those ``needed`` blobs of an owner that the row ``listed`` does not list."""
        return set(needed).difference(self._names(owner, listed)) if needed else set()

    def lists_all_of_base(self, owner: str, listed: bytes) -> bool:
        """Return whether the row ``listed`` has all blobs of the owner that the base lists, and the base lost none.

        Then no item of the base refers to a lost blob.
        """
        return not self.base_lost_blobs(owner) and next(self.gone(owner, listed), None) is None

    def base_lost_blobs(self, owner: str) -> bool:
        """Return whether the base may lack blobs of the owner that its items refer to."""
        return not self._are_all or any(what.startswith(owner) for what in self.base_failures)

    def gone(self, owner: str, listed: bytes) -> Iterator[str]:
        """Yield the blobs of an owner that the base lists and the row ``listed`` does not."""
        if self.base.row(f"{BLOBS_ROW}{owner}") == listed:
            return iter(())
        return missing((item.sort for item in self.base_blobs(owner)), self._names(owner, listed))

    def fail_lost(self, owner: str, names: Collection[str]) -> None:
        """Note that blobs of an owner are missing."""
        for key in sorted(f"{owner}/{name}" for name in names):
            self.fail(key, Corrupt.code, "an item refers to a missing blob")

    def fail(self, what: str, code: str, message: str, *, is_complete: bool = False) -> None:
        """Note that a part could not be read. The first reason of a part stays.

        ``is_complete`` means that the backup has the part nevertheless. One such call for a part is enough.
        """
        known = self.failures.get(what)
        if known is None and len(self.failures) >= DAMAGED_PARTS_NAMED_MAX:
            self.more_failures += 1
        elif known is None:
            self.failures[what] = BackupFailure(what, code, message, is_complete)
        elif is_complete and not known.is_complete:
            self.failures[what] = msgspec.structs.replace(known, is_complete=True)

    def is_shorter(self, key: str, line: bytes) -> bool:
        """Return whether a history, by its row ``key`` and value ``line``, ends before the newest backup's version."""
        standing = self.newest.row(key)
        if standing is None or standing == line:
            return False
        try:
            ours, theirs = read_line(line.decode()), read_line(standing.decode())
        except Invalid:
            return False  # a damaged hash has another length, so the line cannot be decoded
        return ours.origin == theirs.origin and ours.version < theirs.version

    def fail_shorter(self, what: str) -> None:
        """Note that a log or record ends before the version that the newest backup has.

        The new backup has the shorter history: after a restore of an older backup, a store continues with it.
        """
        reason = "the newest versions that the last backup has are missing, as after a loss or a restore"
        self.fail(what, Corrupt.code, reason)

    def list_sound(self, index: Index, partition: str, *, is_made_anew: bool = False) -> Iterator[ListedItem]:
        """Yield the items of a partition. A damaged item is None and a failure of the backup; its sort key is known.

        ``is_made_anew`` means that the caller makes a damaged item anew.
        """
        for listed in list_checked(index, partition):
            if listed.fault:
                self.fail(item_key(partition, listed.sort), Corrupt.code, listed.fault, is_complete=is_made_anew)
            yield listed

    def flush(self) -> Root:
        """Write the rows that were put, and return the root of the catalogue with them."""
        if self._patch:
            self.root = update(self.repository.chunks, self.root, self._patch)
            self._patch = {}
        return self.root

    def drop(self, is_dropped: Callable[[str], bool]) -> None:
        """Remove the rows whose key satisfies ``is_dropped``."""
        self.flush()
        gone = [key for key, _ in scan(self.repository.chunks, self.root) if is_dropped(key)]
        for start in range(0, len(gone), ROWS_MAX):
            self.root = update(self.repository.chunks, self.root, dict.fromkeys(gone[start : start + ROWS_MAX]))

    def _names(self, owner: str, listed: bytes) -> Iterator[str]:
        return (item.sort for item in self.repository.items(owner, listed))

    def _copied(self, owner: str, spared: Collection[str], note: Callable[[str, bytes], None]) -> Iterator[Item]:
        known = self.base_blobs(owner)
        standing = next(known, None)
        names = (stat.key.removeprefix(f"{owner}/") for stat in self._source.list(f"{owner}/"))
        wanted = (name for name in names if name.split("/")[0] not in spared)
        while group := list(islice(wanted, GROUP)):
            lacking = []
            for name in group:
                while standing is not None and standing.sort < name:
                    standing = next(known, None)
                if standing is None or standing.sort != name:
                    lacking.append(name)
            copied = dict(zip(lacking, self._copy_all(owner, lacking, note), strict=True))
            yield from (Item(owner, name, {}) for name in group if copied.get(name, True))

    def base_blobs(self, owner: str, *, after: str | None = None, before: str | None = None) -> Iterator[Item]:
        """Return the blobs of an owner that the base lists between two names, one item for each."""
        row = self.base.row(f"{BLOBS_ROW}{owner}")
        return iter(()) if row is None else self.repository.items(owner, row, after=after, before=before)

    def _copy_all(self, owner: str, names: list[str], note: Callable[[str, bytes], None]) -> list[bool]:
        copy = partial(self._copy, owner, note)
        return list(self._pool.map(copy, names) if self._pool else map(copy, names))

    def _copy(self, owner: str, note: Callable[[str, bytes], None], name: str) -> bool:
        key = f"{owner}/{name}"
        try:
            body = self._source.get(key)
        except NotFound:
            return False  # a collector deleted the blob after the listing; the caller reads changed histories again
        except Corrupt as exc:
            self.fail(key, exc.code, exc.message)
            return False
        self.repository.put_copy(key, body)
        note(name, body)
        self._report(1)
        return True

    def _known_packs(self, key: str) -> dict[bytes, BodyRef]:
        row = self.base.row(key)
        return {} if row is None else self._packs(row)

    def _packs(self, row: bytes) -> dict[bytes, BodyRef]:
        decoded = decode_row(row)
        refs = [pack.ref for pack in listed_packs(decoded, self.repository.read_pack)]
        return {ref.address: ref for ref in [*refs, *([decoded.listed] if decoded.listed else [])]}

    def _write_pack(self, body: bytes, known: dict[bytes, BodyRef]) -> BodyRef:
        ref = known.get(sha256(body)) if len(body) <= BODY_PART_BYTES else None
        return ref or self.repository.write_pack(body)


class _SourceOrCopy(BlobsWrapper):
    def __init__(self, source: Blobs, repository: BackupRepository) -> None:
        super().__init__(source)
        self._repository = repository

    def get(self, key: str) -> bytes:
        try:
            return super().get(key)
        except (NotFound, Corrupt):
            return self._repository.read_copy(key)


def packed(items: Iterable[Item]) -> bytes:
    """Return the row of the items, but put nothing."""
    return pack_rows(items, lambda body: BodyRef(sha256(body), len(body)))

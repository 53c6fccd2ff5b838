"""The blobs that items of a backup refer to, and the search for those that the backup lacks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain, islice

import msgspec

from stratalog.backups.format import ITEMS_ROW
from stratalog.backups.writer import BackupWriter
from stratalog.documents.values import ValueReference
from stratalog.errors import Corrupt, StratalogError
from stratalog.limits import BACKUP_BLOBS_REMEMBERED_MAX, COLLECT_CHUNKS_SEEN_MAX
from stratalog.log.bodies import BodyRef, blob_addresses
from stratalog.log.entries import decode_events
from stratalog.log.environment import Environment
from stratalog.maintenance.marks import Marking, Reached, references_in
from stratalog.maintenance.shapes import shape_fault
from stratalog.ports.blobs import Blobs
from stratalog.ports.index import Item

__all__ = ["BodyReferences", "LostBlobs", "blobs_of_bodies"]

BODIES = "bodies"
NO_VALUES = {"app-snapshots", "archive", BODIES, "chunks"}
"""The folders of blobs that the body of an entry never refers to."""

CHUNKS = "chunks/"
AFTER_CHUNKS = "chunks0"


def blobs_of_bodies(blobs: Blobs, owner: str, bodies: Iterable[BodyRef]) -> tuple[set[str], bool]:
    """Return the keys, without the owner, of the blobs of bodies, and whether these are all.

    The parts of a lost manifest are unknown.
    """
    names, are_known = set[str](), True
    for body in bodies:
        try:
            for address in blob_addresses(blobs, f"{owner}/bodies", body):
                names.add(f"bodies/{address.hex()}")
        except Corrupt:
            are_known = False
    return names, are_known


class BodyReferences:
    """The references in the entry bodies that were copied, so that the search need not read these bodies again.

    Remembers at most `BACKUP_BLOBS_REMEMBERED_MAX` bodies. Does not remember bodies in several parts, and bodies that
    cannot be decoded as events.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[ValueReference, ...]] = {}

    def note(self, name: str, body: bytes) -> None:
        """Remember the references in the blob ``name``, if it is the body of an entry. Safe for threads."""
        folder, _, address = name.partition("/")
        if folder == BODIES and len(self._known) < BACKUP_BLOBS_REMEMBERED_MAX:
            with suppress(StratalogError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self._known[bytes.fromhex(address)] = tuple(references_in(decode_events(body), 0))

    def add_base(self, catalogue: BackupWriter, owner: str) -> None:
        """Treat bodies of the base as if they had no references: the search of the base has followed these."""
        for item in catalogue.base_blobs(owner, after=f"{BODIES}/", before=f"{BODIES}0"):
            if len(self._known) >= BACKUP_BLOBS_REMEMBERED_MAX:
                return
            self._known[bytes.fromhex(item.sort.removeprefix(f"{BODIES}/"))] = ()

    def of(self, body: BodyRef) -> tuple[ValueReference, ...] | None:
        """Return the references in a body; None if they are unknown."""
        return self._known.get(body.address)


class LostBlobs:
    """Searches for the blobs of a family that its items in a backup refer to, and that the row ``listed`` lacks."""

    def __init__(
        self, environment: Environment, catalogue: BackupWriter, owner: str, listed: bytes, bodies: BodyReferences
    ) -> None:
        self._catalogue = catalogue
        self._owner = owner
        self._listed = listed
        # If the base has lost no blob, and the source still lists all blobs of the base, the items and chunks of the
        # base need no search: the search of the base has followed them. So the search of most backups reads little.
        is_complete = not catalogue.base_lost_blobs(owner)
        gone = {name.partition("/")[0] for name in catalogue.gone(owner, listed)}
        self._only_new = is_complete and not gone
        # A body refers only to values. If all values of the base are there, the bodies of the base need not be read.
        if is_complete and gone and gone <= NO_VALUES:
            bodies.add_base(catalogue, owner)
        self._needed = set[str]()
        self._lost = set[str]()
        # Below an item or blob that cannot be read, other blobs may be lost. Then it is unknown which blobs are needed.
        self._are_known = True
        readable = Environment(environment.index, catalogue.readable, environment.clock)
        self._seen = set[bytes]()
        self._marking = Marking(readable, owner, self._need, Reached(), self._seen, lambda: None, self._fail, bodies.of)

    def run(self, rows: Mapping[str, bytes], retained: Collection[str]) -> bytes:
        """Note each lost blob as a failure. Return the row ``listed``, together with the lost blobs that the base has.

        If an item or blob cannot be read, or too many blobs are lost, the row has all blobs of the base.

        ``rows`` are the new rows of the family, and ``retained`` the keys of the rows that stay as in the base.
        """
        items = self._items(rows, retained)
        first = list(islice(items, 1))
        if first and self._only_new:
            self._seen |= self._base_chunks()
        for item in chain(first, items):
            if shape_fault(item):
                self._are_known = False
            else:
                self._marking.mark_item(item)
        self._settle()
        self._catalogue.fail_lost(self._owner, self._lost)
        if self._are_known and not self._lost:
            return self._listed
        return self._catalogue.with_base(self._owner, self._listed, self._lost if self._are_known else None)

    def _items(self, rows: Mapping[str, bytes], retained: Collection[str]) -> Iterator[Item]:
        for key in (key for key in (*rows, *retained) if key.startswith(ITEMS_ROW)):
            partition, base = key.removeprefix(ITEMS_ROW), self._catalogue.base.row(key)
            row = rows.get(key, base)
            if row is None or (self._only_new and row == base):
                continue
            if not self._only_new:
                yield from self._catalogue.repository.items(partition, row)
                continue
            ours, theirs = self._catalogue.unshared(partition, row)
            known = {item.sort: item for item in theirs}
            yield from (item for item in ours if known.get(item.sort) != item)

    def _base_chunks(self) -> set[bytes]:
        """Return chunks of the base, at most `COLLECT_CHUNKS_SEEN_MAX` / 2.

        The marking forgets all chunks when it has `COLLECT_CHUNKS_SEEN_MAX`, so leave it room for new chunks.
        """
        blobs = self._catalogue.base_blobs(self._owner, after=CHUNKS, before=AFTER_CHUNKS)
        return {bytes.fromhex(item.sort.removeprefix(CHUNKS)) for item in islice(blobs, COLLECT_CHUNKS_SEEN_MAX // 2)}

    def _fail(self, error: Exception) -> None:
        self._are_known = False

    def _need(self, name: str) -> None:
        self._needed.add(name)
        if len(self._needed) >= BACKUP_BLOBS_REMEMBERED_MAX:
            self._settle()

    def _settle(self) -> None:
        self._lost |= self._catalogue.unlisted(self._owner, self._listed, self._needed)
        self._needed.clear()
        if len(self._lost) >= BACKUP_BLOBS_REMEMBERED_MAX:
            # Note these blobs now, and keep all blobs of the base, since no list of the lost blobs remains.
            self._catalogue.fail_lost(self._owner, self._lost)
            self._lost.clear()
            self._are_known = False

"""Reading the failures of an organisation's records, and its dead letters, for a backup while writers continue.

A record that has failed too often has two items with the same attributes: its failures and its dead letter. Each commit
writes or deletes both. So if one item was the same before and after a read of the other, and the other was not there,
the other is lost. The backup makes it anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress

from stratalog.backups.format import BLOBS_ROW
from stratalog.backups.references import blobs_of_bodies
from stratalog.backups.writer import BackupWriter
from stratalog.errors import Corrupt
from stratalog.keys import RecordKey, dead_letters_partition, failures_partition, record_key, record_owner, unescape
from stratalog.log.bodies import BodyRef
from stratalog.log.environment import Environment
from stratalog.maintenance.damage import item_key
from stratalog.ports.index import Item
from stratalog.records.versions import decode_ref

__all__ = ["FailuresBackup"]


class FailuresBackup:
    """Puts the failures and dead letters into a catalogue. Call `copy_bodies` before the records are read, then `put`.

    A failure that was resolved in between is left out, because its body may be collected.
    """

    def __init__(self, environment: Environment, catalogue: BackupWriter, organisation: str) -> None:
        self._environment = environment
        self._catalogue = catalogue
        self._organisation = organisation
        self._letters_partition = dead_letters_partition(organisation)
        self._failures_partition = failures_partition(organisation)
        self._letters: dict[RecordKey, Item] = {}
        self._failures: dict[RecordKey, Item] = {}

    def copy_bodies(self) -> None:
        """Read the items, and copy the blobs of their records.

        The row of blobs has the base's blobs too. If the record cannot be read later, the base's items stay.
        """
        self._letters = self._read(self._letters_partition)
        self._failures = self._read(self._failures_partition)
        for key in self._letters | self._failures:
            if self.bodies(key):
                owner = record_owner(self._organisation, key)
                blobs = self._catalogue.with_base(owner, self._catalogue.copy_blobs(owner))
                self._catalogue.put(f"{BLOBS_ROW}{owner}", blobs)

    def bodies(self, key: RecordKey) -> Collection[BodyRef]:
        """Return the bodies of a record's failures and dead letter that are in blobs."""
        return _bodies_of(items[key] for items in (self._failures, self._letters) if key in items)

    def put(self) -> None:
        """Put the failures that are unchanged since `copy_bodies`, and their dead letters."""
        letters, failures = self._read(self._letters_partition), self._read(self._failures_partition)
        retained, dead = list[Item](), list[Item]()
        for key in sorted(self._letters | self._failures):
            for item in (pair := self._standing(key, failures.get(key), letters.get(key))):
                (dead if item.partition == self._letters_partition else retained).append(item)
            self._note_lost_bodies(key, pair)
        self._catalogue.put_items(self._failures_partition, retained)
        self._catalogue.put_items(self._letters_partition, sorted(dead, key=lambda item: item.sort))

    def _read(self, partition: str) -> dict[RecordKey, Item]:
        """Return the items of a partition that are not damaged. A damaged item is a failure of the backup."""
        key_of = record_key if partition == self._letters_partition else RecordKey
        listed = self._catalogue.list_sound(self._environment.index, partition)
        return {key_of(line.sort): line.item for line in listed if line.item is not None}

    def _standing(self, key: RecordKey, failure: Item | None, letter: Item | None) -> list[Item]:
        """Return a record's failures, and its dead letter if it has one. Make a lost item, or a lost attribute, anew.

        ``letter`` was read again before ``failure``, so each was read before and after a read of the other.
        """
        if key not in self._failures:
            if letter is None or letter != self._letters[key]:
                return []
            return [self._lost(self._failures_partition, key, letter), letter]
        if failure is None or failure != self._failures[key]:
            return []
        if not failure.attributes["d"]:
            return [failure]
        if letter is not None and failure.attributes.items() < letter.attributes.items():
            failure = self._lost(self._failures_partition, key, letter)
        elif letter is None or letter.attributes != failure.attributes:
            letter = self._lost_letter(key, failure)
        return [failure, letter] if letter is not None else []

    def _lost_letter(self, key: RecordKey, failure: Item) -> Item | None:
        """Return a lost dead letter; None if its sort, which is the record's id, cannot be computed from the key."""
        id = unescape(key)
        if record_key(id) == key:
            return self._lost(self._letters_partition, id, failure)
        self._catalogue.fail(item_key(failure.partition, key), Corrupt.code, "the dead letter of a record is missing")
        return None

    def _lost(self, partition: str, sort: str, twin: Item) -> Item:
        """Note that an item is lost, and make it anew."""
        what = item_key(partition, sort)
        reason = f"the item is missing or incomplete; {twin.partition} has its attributes"
        self._catalogue.fail(what, Corrupt.code, reason, is_complete=True)
        return Item(partition, sort, twin.attributes)

    def _note_lost_bodies(self, key: RecordKey, items: Collection[Item]) -> None:
        """Note the missing blobs of the items' bodies. If the items changed meanwhile, the blobs may be collected."""
        owner, index = record_owner(self._organisation, key), self._environment.index
        needed, _ = blobs_of_bodies(self._catalogue.readable, owner, _bodies_of(items))
        lost = [name for name in needed if self._environment.blobs.stat(f"{owner}/{name}") is None]
        if lost and any(index.get(item.partition, item.sort) == item for item in items):
            self._catalogue.fail_lost(owner, lost)


def _bodies_of(items: Iterable[Item]) -> set[BodyRef]:
    bodies = set[BodyRef]()
    for item in items:
        with suppress(Corrupt):  # such an item is copied as it is
            bodies |= {decode_ref(item.attributes["x"])} if "x" in item.attributes else set()
    return bodies

"""Bugs planted in backups. Each bug breaks one rule that keeps backups complete while writers run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from stratalog.backups import family as backup_family
from stratalog.backups.backup import _Backup
from stratalog.backups.family import FamilyBackup, FamilyRead, _Log
from stratalog.backups.records import RecordsBackup
from stratalog.backups.writer import BackupWriter
from stratalog.keys import family_partition, record_key, record_owner
from stratalog.log.names import NameRecord
from stratalog.ports.index import Item
from tests.simulation.mutants import Mutant, replaced
from tests.simulation.world_backup import BackupWorld

__all__ = ["MUTANTS"]

_read: Callable[[FamilyBackup, str, Iterable[NameRecord]], FamilyRead] = FamilyBackup._read
_read_family: Callable[[_Backup, str, list[NameRecord]], list[Item]] = _Backup._read_family
_run: Callable[[_Backup], Any] = _Backup.run


def _read_blobs_first(self: FamilyBackup, owner: str, listed: Iterable[NameRecord]) -> FamilyRead:
    """List the blobs before reading the items that refer to them."""
    with _listed_before(self._catalogue, self._catalogue.copy_blobs(owner, backup_family.COLLECTING)):
        return _read(self, owner, listed)


@contextmanager
def _listed_before(catalogue: BackupWriter, row: bytes) -> Iterator[None]:
    """Let `copy_blobs` return ``row``, an earlier list of blobs, until the end of the block."""
    copy, catalogue.copy_blobs = catalogue.copy_blobs, lambda *args, **options: row  # type: ignore[method-assign]
    try:
        yield
    finally:
        catalogue.copy_blobs = copy  # type: ignore[method-assign]


def _read_members_last(self: FamilyBackup, owner: str, listed: Iterable[NameRecord]) -> list[_Log]:
    """Read the heads, pause, then list the forks.

    A fork that is created during the pause may begin at a version of its parent that the backup has not read.
    """
    members = list(self._index.query(family_partition(owner)))
    logs = {member.sort: self._read_log(member) for member in members}
    self._environment.clock.sleep(600)
    for member in self._index.query(family_partition(owner)):
        logs.setdefault(member.sort, self._read_log(member))
    alive = [log for log in logs.values() if log.head is not None]
    needed = {log.prefix for log in alive}
    for log in alive:
        needed.update(parent.prefix for parent in log.record.lineage if log.record)  # type: ignore[union-attr]
    return [log for prefix, log in sorted(logs.items()) if prefix in needed]


def _trust(self: FamilyBackup, log: _Log) -> None:
    """Do not check whether the items that refer to the blobs have changed."""


def _reuse_open_segment(self: FamilyBackup, prefix: str, item: Item, following: Item) -> bool:
    """Reuse the pack of a segment even if the segment was open when the pack was made."""
    return self._catalogue.base.get(item.partition, item.sort) == backup_family.unmarked(item)


def _end_at_failure(self: _Backup, owner: str, listed: list[NameRecord]) -> list[Item]:
    """Skip all families after a family that the backup could not read."""
    return [] if self._catalogue.failures else _read_family(self, owner, listed)


def _publish_first(self: _Backup) -> Any:
    """Publish the manifest before the files that it needs."""
    self._repository.publish(self._manifest(1, 0))
    return _run(self)


def _read_record_blobs_first(self: RecordsBackup, id: str) -> int:
    """List a record's blobs before reading its versions."""
    with _listed_before(self._catalogue, self._catalogue.copy_blobs(record_owner(self._organisation, record_key(id)))):
        return _read_record(self, id)


_read_record: Callable[[RecordsBackup, str], int] = RecordsBackup._read_record


def _skip_changed(self: BackupWriter, key: str, value: bytes) -> None:
    """Skip every row whose key is in the base backup, even if the value has changed."""
    if self.base.row(key) is None:
        _put(self, key, value)


_put: Callable[[BackupWriter, str, bytes], None] = BackupWriter.put


def _mutant(name: str, owner: Any, attribute: str, bug: object, *caught_by: str) -> Mutant:
    return Mutant(name, BackupWorld, replaced(owner, attribute, bug), caught_by)


READS, COMPLETE = "backup reads back", "backup complete"
MUTANTS = (
    _mutant("backup: blobs listed before items", FamilyBackup, "_read", _read_blobs_first, READS, COMPLETE),
    _mutant("backup: fork ahead of its parent", FamilyBackup, "_read_logs", _read_members_last, READS, "backup cut"),
    _mutant("backup: blobs freed during the read", FamilyBackup, "_check_unchanged", _trust, READS, COMPLETE),
    _mutant("backup: open pack reused", FamilyBackup, "_is_sealed_in_base", _reuse_open_segment, READS, COMPLETE),
    _mutant("backup: families after a failed one skipped", _Backup, "_read_family", _end_at_failure, COMPLETE),
    _mutant("backup: manifest first", _Backup, "run", _publish_first, READS, COMPLETE),
    _mutant("backup: record's blobs first", RecordsBackup, "_read_record", _read_record_blobs_first, READS, COMPLETE),
    _mutant("backup: changed rows skipped", BackupWriter, "put", _skip_changed, READS, COMPLETE),
)

"""The making of a backup: copy a store to a folder or bucket while its writers continue.

The backup contains each log and record at a head that was read after the backup began, with everything that this head
needs. The store has no transactions across logs, so a backup does not show the whole store at one moment. But no fork
in a backup begins after the head that its parent has in the backup. Queued messages, the attempt records of workers and
the other items that `formats/backup.md` names are not part of a backup.
"""

from __future__ import annotations

from collections import defaultdict

import msgspec

from stratalog.backups.family import FamilyBackup
from stratalog.backups.format import BLOBS_ROW, HISTORY_ROW, ITEMS_ROW, BackupManifest
from stratalog.backups.records import RecordsBackup
from stratalog.backups.repository import BackupRepository
from stratalog.backups.writer import WORKERS, BackupWriter
from stratalog.clock import Observation
from stratalog.errors import Conflict, Corrupt
from stratalog.keys import (
    ORGANISATIONS_PARTITION,
    REJECTED_PARTITION,
    deleted_partition,
    directory_partition,
    family_partition,
    name_partition,
    names_partition,
    split_prefix,
)
from stratalog.log.callbacks import Report, quiet
from stratalog.log.directory import LOGS, SHARDS, directory_put, name_line_put
from stratalog.log.listed_items import list_items
from stratalog.log.names import NameRecord, read_name
from stratalog.maintenance.damage import item_key
from stratalog.ports.index import Item
from stratalog.store import Store
from stratalog.tree.lookup import scan
from stratalog.tree.nodes import EMPTY, Root

__all__ = ["BackupReport", "back_up"]

SAVE_SECONDS = 60


class BackupReport(msgspec.Struct, frozen=True):
    """The manifest of a new backup, and the objects and bytes that this run wrote to the repository besides manifests.

    The bytes are counted before compression.
    """

    manifest: BackupManifest
    written_blobs: int
    written_bytes: int


def back_up(
    store: Store,
    repository: BackupRepository,
    progress: Report | None = None,
    *,
    anew: bool = False,
    checks_blobs: bool = False,
    workers: int = WORKERS,
) -> BackupReport:
    """Back up a store. Every write that was committed before the call is in the backup, except what the failures name.

    The backup shares rows with its base, which is the newest backup. If the last backup was interrupted, the call
    resumes that backup. With ``anew`` there is no base: the call reads and writes everything, and so replaces damaged
    objects of the repository. It reads no manifest, which may be damaged too. A record that cannot be read is one of
    the manifest's failures. If the base has this record, the new backup has the same rows for it. The same applies to a
    log that cannot be read, together with all logs of its family, also intact ones. With ``checks_blobs`` the call
    lists the blobs of unchanged logs and records too, and names the lost ones. It does not read the blobs that the base
    has.
    ``progress`` is called after each row or blob that was put, with 1. ``workers`` is the number of threads that copy
    blobs.

    Raises Conflict if the base was pruned meanwhile, the interrupted backup was finished by another call as this call
    began, or this process was suspended for days: call `back_up` again. Raises Corrupt if the repository is damaged:
    there is no new backup.
    After Unavailable or OutcomeUnknown the new backup may exist; call `back_up` again.
    """
    newest = None if anew else repository.newest()
    newest_id = newest.id if newest else repository.newest_id()
    # Progress with an older base has older rows of what it did not reach than the newest backup has.
    saved = None if anew else repository.unfinished(newest_id)
    resumed, begun = saved or ("", newest)
    root = EMPTY if begun is None else begun.root
    report = progress or quiet
    # An interrupted backup has rows of its own base for the parts that it did not reach. So the base's failures count.
    failures = [failure.what for made in (newest, begun) if made for failure in made.failures]
    are_all = not any(made is not None and made.more_failures for made in (newest, begun))
    with BackupWriter(
        repository,
        store.environment.blobs,
        root,
        report,
        workers,
        failures,
        are_all=are_all,
        checks_blobs=checks_blobs,
        newest=newest.root if newest else EMPTY,
    ) as catalogue:
        try:
            return _Backup(store, catalogue, newest_id, resumed, begun.id if begun else newest_id, is_anew=anew).run()
        except Corrupt:
            # A prune of the base deletes objects of the base, so a missing object may be no damage.
            repository.require_backup(newest_id)
            raise


class _Backup:
    def __init__(
        self, store: Store, catalogue: BackupWriter, newest: str, resumed: str, before: str, *, is_anew: bool
    ) -> None:
        """``resumed`` is the key of the progress that this backup resumes, if any. The id sorts after ``before``."""
        self._environment = store.environment
        self._index = store.environment.index
        self._catalogue = catalogue
        self._repository = catalogue.repository
        self._base = "" if is_anew else newest
        self._before = self._repository.objects.count, self._repository.objects.size
        self._families = FamilyBackup(store.environment, catalogue)
        self._started_ms = self._repository.clock.wall_ms()
        self._id = self._repository.new_id(self._started_ms, before)
        self._saved = Observation(self._repository.clock)
        self._resumed = resumed
        self._progress = ""
        """The key of the progress that this backup saved last."""
        self._logs: dict[str, NameRecord] = {}
        """The live logs, by prefix."""
        self._current: set[str] = set()
        """The keys of the rows of logs that belong to this backup."""
        self._later_names: dict[str, bytes] = {}
        """See `FamilyRead.later_names`."""
        self._records = 0

    def run(self) -> BackupReport:
        self._begin()
        organisations = self._organisations()
        for organisation in organisations:
            self._read_logs(organisation)
            records = RecordsBackup(self._environment, self._catalogue, organisation, self._save_seldom)
            records.read()
            self._records += records.count
            self._save_seldom()
        self._put_names()
        self._put_later_names()
        items = [Item(ORGANISATIONS_PARTITION, organisation, {}) for organisation in organisations]
        self._catalogue.put_items(ORGANISATIONS_PARTITION, items)
        rejected = self._catalogue.list_sound(self._index, REJECTED_PARTITION)
        self._catalogue.put_items(REJECTED_PARTITION, (listed.item for listed in rejected if listed.item is not None))
        self._catalogue.drop(self._is_of_a_gone_log)
        manifest = self._manifest(len(organisations), self._count_blobs(self._catalogue.root))
        self._repository.publish(manifest, self._progress)
        written = self._repository.objects
        return BackupReport(manifest, written.count - self._before[0], written.size - self._before[1])

    def _begin(self) -> None:
        """Save the progress for the first time, and read nothing before. From then on no prune deletes what it needs.

        Raises Conflict if the base, or the progress that this backup resumes, was removed before: a prune that listed
        the saved progress before this call may have deleted objects of it.
        """
        self._save()
        try:
            self._repository.require_backup(self._base)
            if self._resumed and self._repository.blobs.stat(self._resumed) is None:
                raise Conflict("another process finished the interrupted backup meanwhile; run the command again")
        except Conflict:
            self._repository.drop_progress(self._progress)
            raise

    def _organisations(self) -> list[str]:
        """Return the store's organisations. It is a failure if one of the base has content and is not listed."""
        lines = self._catalogue.list_sound(self._index, ORGANISATIONS_PARTITION, is_made_anew=True)
        organisations = {line.sort for line in lines if line.position is None}
        for item in self._catalogue.base.query(ORGANISATIONS_PARTITION):
            if item.sort not in organisations and self._has_content(item.sort):
                self._catalogue.fail(
                    item_key(ORGANISATIONS_PARTITION, item.sort),
                    Corrupt.code,
                    "the list of organisations lacks an organisation with content",
                    is_complete=True,
                )
                organisations.add(item.sort)
        return sorted(organisations)

    def _has_content(self, organisation: str) -> bool:
        """Return whether the directory of an organisation lists a log or record."""
        partitions = [
            directory_partition(organisation, shelf, shard) for shelf in SHARDS for shard in range(SHARDS[shelf])
        ]
        return any(next(list_items(self._index, partition, limit=1), None) for partition in partitions)

    def _read_logs(self, organisation: str) -> None:
        families, deleted, damaged = defaultdict[str, list[NameRecord]](list), list[Item](), dict[str, Corrupt]()
        partition = directory_partition(organisation, LOGS, 0)
        # The backup makes a log's item in the directory from its name record, so it needs only the keys of these items.
        directory = self._catalogue.list_sound(self._index, partition, is_made_anew=True)
        names = {line.sort for line in directory}
        unlisted = {line.sort for line in self._catalogue.base.query(partition)} - names
        for name in [*sorted(names), *sorted(unlisted)]:
            try:
                record = self._live_record(partition, organisation, name, is_listed=name in names)
            except Corrupt as exc:
                damaged[name] = exc
                continue
            if record is not None:
                families[record.owner].append(record)
        retained = set[str]()
        for name, error in damaged.items():
            deleted += self._retain_log(organisation, name, error, retained)
        for owner, listed in families.items():
            if owner not in retained:
                deleted += self._read_family(owner, listed)
                self._save_seldom()
        ours = [record for record in self._logs.values() if record.organisation == organisation]
        lines = [directory_put(organisation, LOGS, record.name, record.kind, record.created_ms).item for record in ours]
        self._catalogue.put_items(partition, sorted(lines, key=_sort))
        self._put_log_row(deleted_partition(organisation), sorted(deleted, key=_sort))

    def _live_record(self, partition: str, organisation: str, name: str, *, is_listed: bool) -> NameRecord | None:
        """Return the name record of a log that the directory, or else only the base, lists; None for a deleted log.

        A live log that the directory does not list is a failure of the backup. Raises Corrupt for a listed log without
        a live name record.
        """
        record = read_name(self._index, organisation, name)
        if _is_alive(record) is is_listed:
            return record if is_listed else None
        # A creation and a deletion of a log change its line and its name record in one commit. So if the record is
        # the same before and after a read of the line, and the line contradicts it, one of the two is lost.
        line = self._index.get(partition, name)
        again = read_name(self._index, organisation, name)
        if (line is not None) is not is_listed or _life_of(again) != _life_of(record):
            return None
        if is_listed:
            raise Corrupt("a listed log has no live name record", organisation=organisation, log=name)
        what = item_key(partition, name)
        self._catalogue.fail(what, Corrupt.code, "the directory does not list a live log", is_complete=True)
        return record

    def _read_family(self, owner: str, listed: list[NameRecord]) -> list[Item]:
        """Put the rows of a family. Return the items of `deleted_partition` for its deleted logs."""
        try:
            read = self._families.read(owner, listed)
        except (Corrupt, Conflict) as exc:
            self._catalogue.fail(owner, exc.code, str(exc))
            return self._retain_family(owner)
        for key, value in read.rows.items():
            self._catalogue.put(key, value)
        self._current.update(read.rows, read.retained)
        self._later_names.update(read.later_names)
        self._logs.update((record.prefix, record) for record in read.logs)
        for record in read.logs:
            self._check_length(record, read.rows)
        return read.deleted

    def _check_length(self, record: NameRecord, rows: dict[str, bytes]) -> None:
        """Note that a log lost its newest versions. A log that was restored under its name has another incarnation."""
        key = f"{HISTORY_ROW}log/{name_partition(record.organisation, record.name)}"
        if self._catalogue.is_shorter(key, rows[key]):
            standing = read_name(self._catalogue.newest, record.organisation, record.name)
            if standing is not None and standing.incarnation == record.incarnation:
                self._catalogue.fail_shorter(f"{record.organisation}/{record.name}")

    def _retain_log(self, organisation: str, name: str, error: Corrupt, retained: set[str]) -> list[Item]:
        """Retain the base's rows of the family of a log without a readable name record. Add the owner to ``retained``.

        If the base does not have the log, note only the failure. Return the items of `deleted_partition` for the
        family's deleted logs.
        """
        self._catalogue.fail(f"{organisation}/{name}", error.code, str(error))
        record = read_name(self._catalogue.base, organisation, name)
        if record is None or record.deleted_ms or record.owner in retained:
            return []
        retained.add(record.owner)
        self._catalogue.fail(record.owner, error.code, f"the family of {organisation}/{name} is as in the last backup")
        return self._retain_family(record.owner)

    def _retain_family(self, owner: str) -> list[Item]:
        """Retain the base's rows of a family that could not be read.

        Return the items of `deleted_partition` for its deleted logs.
        """
        base, deleted = self._catalogue.base, list[Item]()
        self._current |= {f"{BLOBS_ROW}{owner}"}
        for member in base.query(family_partition(owner)):
            organisation, name = split_prefix(member.sort)
            record = read_name(base, organisation, name)
            if record is not None and record.prefix == member.sort:
                self._current |= {
                    f"{kind}{name_partition(organisation, name)}" for kind in (ITEMS_ROW, f"{HISTORY_ROW}log/")
                }
                if not record.deleted_ms:
                    self._logs[record.prefix] = record
            rows = scan(self._repository.chunks, base.root, prefix=f"{ITEMS_ROW}{member.sort}/")
            self._current.update(key for key, _ in rows)
            line = base.get(deleted_partition(organisation), member.sort)
            deleted += [line] if line else []
        return deleted

    def _put_names(self) -> None:
        """Put the name lines: for each name, the organisations that have a log with that name."""
        lines = defaultdict[str, list[Item]](list)
        for record in self._logs.values():
            lines[record.name].append(name_line_put(record.organisation, record.name, record.kind).item)
        for name, items in lines.items():
            self._put_log_row(names_partition(name), sorted(items, key=_sort))

    def _put_later_names(self) -> None:
        """Put the name records of logs that are not in the backup, unless a log in the backup has the name."""
        for key, value in self._later_names.items():
            if key not in self._current:
                self._catalogue.put(key, value)
                self._current.add(key)

    def _put_log_row(self, partition: str, items: list[Item]) -> None:
        if items:
            self._catalogue.put_items(partition, items)
            self._current.add(f"{ITEMS_ROW}{partition}")

    def _is_of_a_gone_log(self, key: str) -> bool:
        """Return whether a row belongs to a log that is not in this backup. Rows of records are never dropped."""
        return _is_of_a_log(key) and key not in self._current

    def _count_blobs(self, root: Root) -> int:
        rows = scan(self._repository.chunks, root, prefix=BLOBS_ROW)
        return sum(sum(1 for _ in self._repository.items(key, slot.value)) for key, slot in rows)

    def _save_seldom(self) -> None:
        if self._saved.age_seconds() > SAVE_SECONDS:
            self._save()

    def _save(self) -> None:
        """Write the rows so far and save the progress, so that an interrupted backup resumes."""
        self._catalogue.flush()
        self._saved = Observation(self._repository.clock)
        self._progress = self._repository.note_unfinished(self._manifest(0, 0), self._progress)

    def _manifest(self, organisations: int, blobs: int) -> BackupManifest:
        return BackupManifest(
            id=self._id,
            started_ms=self._started_ms,
            finished_ms=self._repository.clock.wall_ms(),
            root=self._catalogue.root,
            organisations=organisations,
            logs=len(self._logs),
            records=self._records,
            blobs=blobs,
            failures=tuple(self._catalogue.failures.values()),
            more_failures=self._catalogue.more_failures,
            base=self._base,
        )


def _is_alive(record: NameRecord | None) -> bool:
    return record is not None and not record.deleted_ms


def _life_of(record: NameRecord | None) -> tuple[str, int] | None:
    """Return the fields of a name record that only a creation and a deletion change."""
    return None if record is None else (record.incarnation, record.deleted_ms)


def _is_of_a_log(key: str) -> bool:
    """Return whether a row has a log's checkpoint, name lines or name record, its items or blobs, or deleted logs.

    Only the prefix of a log contains `@`.
    """
    if key.startswith((f"{HISTORY_ROW}log/", f"{ITEMS_ROW}!names/")):
        return True
    if key.startswith(HISTORY_ROW):
        return False
    parts = key.split("/")[1:]
    return len(parts) > 1 and ("@" in parts[1] or parts[1] == "!deleted" or (len(parts) == 2 and parts[1][:1] != "!"))


def _sort(item: Item) -> str:
    return item.sort

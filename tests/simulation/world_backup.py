"""The world of backups: a process makes backups while other processes change, fork, forget, delete and collect.

The checks open each backup as a store, since a restore copies this store. The backup must contain every change that was
acknowledged before the backup began, except in a family or record that the backup reports as skipped. Every value of
every version must be readable. The newest hash of each log in the backup must agree with the live store, if the live
store still has that version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import ClassVar, NoReturn

import msgspec

from stratalog.backends.memory import MemoryBlobs
from stratalog.backups import family as backup_family
from stratalog.backups import records as backup_records
from stratalog.backups.backup import back_up
from stratalog.backups.cut import CutIndex
from stratalog.backups.repository import BackupRepository
from stratalog.backups.view import BackupIndex, store_over
from stratalog.documents import Document
from stratalog.errors import Conflict, Corrupt, NotFound, OutcomeUnknown, StratalogError, Unavailable, VersionForgotten
from stratalog.log import LogSettings, create_log, delete_log, open_log
from stratalog.log.directory import LOGS, RECORDS, list_directory
from stratalog.log.sweep import sweep_deleted
from stratalog.maintenance.collection import collect
from stratalog.maintenance.verification import HistoryName, list_histories, verify_history
from stratalog.protocol import Mutation
from stratalog.records import Records
from stratalog.store import Store
from stratalog.testing.checkers import Violation
from stratalog.testing.faults import FAULT_RATES, draw_weather
from stratalog.testing.scheduler import Scheduler
from tests.simulation.actors import Turns, choose, log_environment
from tests.simulation.clusters import Cluster, Process
from tests.simulation.mutants import replaced

__all__ = ["BackupWorld"]

ORGANISATION = "acme"
SETTINGS = LogSettings(segment_entries_target=4, snapshot_entries_interval=4, body_inline_bytes_max=400)
NAMES = ("budget", "plan")
KEYS = ("notes/a", "notes/b", "plans/c")
RECORD_IDS = ("one", "two")
TURNS = {"writer-a": 20, "writer-b": 20, "keeper": 16, "forker": 8, "collector": 12, "recorder": 16, "backer": 5}
SLOW_RATE = 0.1
SLOW_SECONDS_MAX = 600.0
PAUSE_SECONDS_MAX = 900.0
BURST_SECONDS_MAX = 0.2


class _Begun(msgspec.Struct, frozen=True):
    """The state of a log or record when a backup begins.

    ``part`` is the name of the log's family, or of the record, in the backup's list of failures.
    """

    part: str
    incarnation: str
    version: int


class BackupWorld:
    """Two writers, and processes that archive and forget, fork, collect, write records, and make backups."""

    columns: ClassVar[tuple[str, ...]] = (
        "backups",
        "backups broken off",
        "families read again",
        "backed up logs",
        "backed up forks",
        "backed up records",
        "backups cut at a time",
        "parts skipped",
    )

    @staticmethod
    @contextmanager
    def surroundings(scheduler: Scheduler) -> Iterator[None]:
        """In half of the seeds, let a backup skip a family or record that changed once during the backup's read."""
        if scheduler.random.random() < 0.5:
            yield
            return
        with replaced(backup_family, "ATTEMPTS_MAX", 1)(), replaced(backup_records, "ATTEMPTS_MAX", 1)():
            yield

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        weather = draw_weather(scheduler.random)
        frozen = dict.fromkeys((rate for rate in FAULT_RATES if rate.startswith("freeze")), 0.0)
        self.cluster = Cluster(scheduler, msgspec.structs.replace(weather, **frozen))
        self.copies = MemoryBlobs(self.cluster.clock)
        self.left = Turns(TURNS)
        self.forks: list[str] = []
        for name in NAMES:
            document = Document(create_log(log_environment(self.cluster, SETTINGS), ORGANISATION, name, "document"))
            document.mutate("put", {"key": "notes/a", "value": "first"})
        for name, main in self._actors().items():
            self.cluster.start(name, main)

    def _actors(self) -> Mapping[str, Callable[[Process], None]]:
        return {
            "writer-a": self.write,
            "writer-b": self.write,
            "keeper": self.maintain,
            "forker": self.fork,
            "collector": self.collect,
            "recorder": self.record,
            "backer": self.back_up,
        }

    def write(self, process: Process) -> None:
        """Put large and small values, sometimes in a fork."""
        while self._next(process):
            name = choose(process.clock, (*NAMES, *self.forks))
            key, large = choose(process.clock, KEYS), process.clock.random() < 0.5
            value = f"{process.clock.random()} " * (100 if large else 1)
            mutation = Mutation(client=process.name, name="put", args={"key": key, "value": value})
            self._try(partial(_change, process, name, mutation))

    def maintain(self, process: Process) -> None:
        """Archive, free and forget history, and sweep deleted logs."""
        while self._next(process):
            retained = self._open(process)
            if retained is None:
                continue
            self._try(retained.archive)
            self._try(retained.free_segments)
            if process.clock.random() < 0.5:
                self._try(partial(self._forget, retained))
            self._try(partial(sweep_deleted, log_environment(process, SETTINGS), ORGANISATION))

    def fork(self, process: Process) -> None:
        """Fork the newest version of a document or a fork, or delete a fork."""
        while self._next(process):
            if self.forks and process.clock.random() < 0.3:
                name = self.forks.pop(0)
                self._try(partial(_delete, process, name))
                continue
            name = f"copy-{self.left[process.name]}"
            source = choose(process.clock, (*NAMES, *self.forks))
            self._try(partial(_fork, process, source, name))
            self.forks.append(name)

    def collect(self, process: Process) -> None:
        """Collect the unreferenced blobs of the organisation."""
        while self._next(process):
            self._try(partial(collect, log_environment(process, SETTINGS), ORGANISATION))

    def record(self, process: Process) -> None:
        """Put, prune and free records, some with bodies in blobs."""
        while self._next(process):
            records, id = Records(log_environment(process, SETTINGS), ORGANISATION), choose(process.clock, RECORD_IDS)
            size = choose(process.clock, (10, 9000, 9000))
            body = f"{process.clock.random()}".encode() * (size // 10)
            actions: tuple[Callable[[], object], ...] = (
                partial(records.put, id, body),
                partial(records.put, id, body),
                partial(records.prune, id, retain=1),
                partial(records.free, id),
            )
            self._try(choose(process.clock, actions))

    def back_up(self, process: Process) -> None:
        """Make backups, and check each backup. After a failed backup, try again at the next turn."""
        while self._next(process):
            begun = self._heads()
            environment = log_environment(process, SETTINGS)
            repository = BackupRepository(_SlowBlobs(self.copies, process), process.clock)
            try:
                manifest = back_up(Store(environment, _no_queue), repository, workers=0).manifest
            except (Unavailable, OutcomeUnknown, Conflict, NotFound):
                self.scheduler.counts.bump("backups broken off")
                continue
            self.scheduler.counts.bump("families read again", environment.counters["family read again"])
            for failure in manifest.failures:
                if failure.code != Conflict.code:
                    raise Violation("backup complete", f"{failure}")
            self.scheduler.counts.bump("backups")
            self.scheduler.counts.bump("parts skipped", len(manifest.failures))
            self._check_backup(begun, {failure.what for failure in manifest.failures})

    def check(self) -> None:
        """Check that a backup of the store at rest is complete."""
        begun = self._heads()
        store = Store(log_environment(self.cluster, SETTINGS), _no_queue)
        back_up(store, BackupRepository(self.copies, self.cluster.clock), workers=0)
        self._check_backup(begun, set())

    def _heads(self) -> dict[HistoryName, _Begun]:
        """Return each log and record with its newest version now. A record has no incarnation."""
        environment = log_environment(self.cluster, SETTINGS)
        heads: dict[HistoryName, _Begun] = {}
        for line in list_directory(self.cluster.index, ORGANISATION, LOGS):
            log = open_log(environment, ORGANISATION, line.id)
            begun = _Begun(log.record.owner, log.record.incarnation, log.head().version)
            heads[HistoryName("log", ORGANISATION, line.id)] = begun
        for line in list_directory(self.cluster.index, ORGANISATION, RECORDS):
            latest = Records(environment, ORGANISATION).stat(line.id)
            begun = _Begun(f"{ORGANISATION}/{line.id}", "", latest.version)
            heads[HistoryName("record", ORGANISATION, line.id)] = begun
        return heads

    def _check_backup(self, begun: Mapping[HistoryName, _Begun], spared: set[str]) -> None:
        repository = BackupRepository(self.copies, self.cluster.clock)
        manifest = repository.manifest()
        backup = store_over(BackupIndex(repository, manifest.root), repository, manifest, SETTINGS)
        alive = self._heads()
        try:
            self._check_readable(backup)
            for history, then in begun.items():
                now = alive.get(history)
                if now is None or now.incarnation != then.incarnation:
                    continue  # the log or record was deleted meanwhile
                if then.part in spared:
                    continue  # the part was contended, so the backup may have the state of its base backup
                self._check_history(backup, history, then.version)
            self._check_cut(backup, repository)
        except (Corrupt, NotFound) as exc:
            raise Violation("backup reads back", f"{exc!r} {exc}") from exc

    def _check_readable(self, backup: Store) -> None:
        for history in list_histories(backup):
            report = verify_history(backup, history)
            if report.findings:
                raise Violation("backup reads back", f"{history} {report.findings}")
            if history.kind == "record":
                self._check_bodies(backup, history)
                continue
            document = backup.document(ORGANISATION, history.name)
            self.scheduler.counts.bump("backed up logs")
            self.scheduler.counts.bump("backed up forks", 1 if document.log.record.lineage else 0)
            for version in range(max(document.log.floor(), document.log.first, 1), document.version + 1):
                document.at(version).to_dict()

    def _check_bodies(self, backup: Store, history: HistoryName) -> None:
        records = backup.records(ORGANISATION)
        self.scheduler.counts.bump("backed up records")
        for version in records.versions(history.name):
            if not version.deleted:
                records.get(history.name, version.version)

    def _check_history(self, backup: Store, history: HistoryName, version: int) -> None:
        """Check that the backup contains the history up to ``version``, which was acknowledged before the backup began.

        The newest hash of a log in the backup must equal the hash in the live store.
        """
        try:
            if history.kind == "record":
                restored = backup.records(ORGANISATION).stat(history.name).version
            else:
                copied = backup.log(ORGANISATION, history.name)
                restored = copied.head().version
        except NotFound as exc:
            raise Violation("backup complete", f"{history} is missing") from exc
        if restored < version:
            raise Violation(
                "backup complete", f"{history} ends at version {restored}, but version {version} was acknowledged"
            )
        if history.kind == "log":
            try:
                now = open_log(log_environment(self.cluster, SETTINGS), ORGANISATION, history.name).hash_at(restored)
            except VersionForgotten:
                return
            if now != copied.hash_at(restored):
                raise Violation(
                    "backup is the history", f"{history} has another hash than the live store at {restored}"
                )

    def _check_cut(self, backup: Store, repository: BackupRepository) -> None:
        """Check the backup as of the median time of its entries, if all logs still have their history of that time."""
        logs = [backup.log(ORGANISATION, line.id) for line in backup.list(ORGANISATION)]
        times = [entry.created_ms for log in logs for entry in log.read(max(log.floor(), log.first))]
        if not times:
            return
        time_ms = sorted(times)[len(times) // 2]
        cut = store_over(CutIndex(backup.environment, time_ms=time_ms), repository, repository.manifest(), SETTINGS)
        try:
            # Open all documents first. A log that forgot its history of that time raises VersionForgotten, and so do
            # its forks.
            documents = {line.id: cut.document(ORGANISATION, line.id) for line in cut.list(ORGANISATION)}
            for name, document in documents.items():
                wanted = backup.log(ORGANISATION, name).version_at(time_ms)
                report = verify_history(cut, HistoryName("log", ORGANISATION, name))
                if report.findings or document.version != wanted:
                    raise Violation("backup cut", f"{name} ends at {document.version}, not {wanted}: {report.findings}")
        except VersionForgotten:
            return
        self.scheduler.counts.bump("backups cut at a time")

    def _open(self, process: Process) -> Document | None:
        try:
            return _document(process, choose(process.clock, (*NAMES, *self.forks)))
        except StratalogError:
            return None

    def _forget(self, retained: Document) -> None:
        version = retained.version - 2
        if version > 0:
            retained.forget_below(version)

    def _next(self, process: Process) -> bool:
        long = process.clock.random() < 0.3
        process.clock.sleep((PAUSE_SECONDS_MAX if long else BURST_SECONDS_MAX) * process.clock.random())
        return self.left.take(process.name)

    def _try(self, action: Callable[[], object]) -> None:
        """Run ``action``. A fault ends this try, not the actor."""
        try:
            action()
        except (Unavailable, OutcomeUnknown, Conflict, NotFound):
            self.scheduler.counts.bump("tries failed")


class _SlowBlobs:
    """The blobs of the backups. Some puts are so slow that other processes may free items that the backup has read."""

    def __init__(self, copies: MemoryBlobs, process: Process) -> None:
        self._copies = copies
        self._clock = process.clock
        self.get = copies.get
        self.stat = copies.stat
        self.list = copies.list
        self.delete = copies.delete
        self.close = copies.close

    def put(self, key: str, body: bytes) -> None:
        if self._clock.random() < SLOW_RATE:
            self._clock.sleep(SLOW_SECONDS_MAX * self._clock.random())
        self._copies.put(key, body)


def _document(process: Process, name: str) -> Document:
    return Document(open_log(log_environment(process, SETTINGS), ORGANISATION, name))


def _change(process: Process, name: str, mutation: Mutation) -> object:
    return _document(process, name).apply([mutation])


def _delete(process: Process, name: str) -> None:
    delete_log(_document(process, name).log)


def _fork(process: Process, source: str, name: str) -> object:
    return _document(process, source).fork(name)


def _no_queue() -> NoReturn:
    raise Unavailable("there is no queue")

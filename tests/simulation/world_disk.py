"""The world of one machine's disk: threads that share a SQLite database and a folder of blobs, and power failures.

A client changes a document in the same store. Every acknowledged write must be durable. So every seed ends with one
more power failure, and the checkers read the store after that failure.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import ClassVar

import apsw
import msgspec

from stratalog.backends.files import FileBlobs
from stratalog.backends.sqlite import SqliteDatabase
from stratalog.codec import sha256
from stratalog.errors import ConditionFailed, Corrupt, NotFound, OutcomeUnknown, StratalogError, Unavailable
from stratalog.ports.blobs import Blobs
from stratalog.ports.index import NO_BLOBS, Absent, Item, Put
from stratalog.testing.checkers import Answered, Violation
from stratalog.testing.disk import Disk, SimulatedMachine, draw_disk_weather
from stratalog.testing.scheduler import Scheduler, SimulatedClock
from tests.simulation.actors import Turns, choose
from tests.simulation.disk_document import DiskDocument
from tests.simulation.scratch import scratch_folder

__all__ = ["DiskWorld"]

LOG_BYTES = 64 * 1024
BLOB_BYTES_MAX = 1500
WRITES = 50
PUTS = 14
DELETES = 4
READS = 8
REOPENS = 2
CHANGES = 4
CONTESTED = 25
RESTART_MS_MAX = 5_000
BODIES = tuple(
    bytes((position * 7 + at * at) % 251 for at in range(300 * position)) * position for position in range(1, 6)
)
KEYS = tuple(f"owner/{sha256(body).hex()}" for body in BODIES)


class Commit(msgspec.Struct):
    """One commit, and its outcome for the caller. A power failure may have ended the caller before the answer."""

    write_id: str
    sorts: Sequence[str]
    blob: bytes = b""
    """The blob that the commit stores, or empty bytes if it stores no blob."""

    reported: Answered = Answered.UNKNOWN


class BlobPut(msgspec.Struct, frozen=True):
    """An acknowledged put of a blob."""

    key: str
    sent_step: int
    sent_ms: int


class DiskWorld:
    """Actors on a failing machine: they write and read items, put and delete blobs, reopen, and change a document."""

    columns: ClassVar[tuple[str, ...]] = (
        "sqlite.write",
        "sqlite.sync",
        "files.sync",
        "power failure",
        "write error",
        "disk full",
        "sync error",
        "lock waits",
        "acknowledged",
        "refused",
        "unknown",
        "conflicts",
        "commits with blobs",
        "reopened",
        "blobs put",
        "blobs deleted",
        "changes",
        "body rows",
        "inspected",
    )

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.clock = SimulatedClock(scheduler)
        self.weather = draw_disk_weather(scheduler.random)
        self.commits: list[Commit] = []
        self.witnessed: dict[str, Item] = {}
        self.puts: list[BlobPut] = []
        self.looked: dict[str, int] = {}
        self.opened: list[SqliteDatabase] = []
        self.document = DiskDocument()
        writers = scheduler.random.randrange(2, 7)
        self.left = Turns({f"writer-{position}": WRITES // writers for position in range(writers)})
        self.left |= {"reader": READS, "reopener": REOPENS, "putter-a": PUTS, "putter-b": PUTS, "deleter": DELETES}
        self.left["client"] = CHANGES
        self._root, self._remove = scratch_folder(self, "disk")
        self._lives = 0
        self._boot(Disk(self._folder(), scheduler.random))

    def check(self) -> None:
        """Simulate one more power failure, then check that the store agrees with every answer."""
        self.machine.turn_off()
        disk = self.machine.disk.fail(self._folder())
        machine = SimulatedMachine(self.scheduler, disk, self.weather, lambda _: None)
        try:
            life = _Life(self, machine)
            life.open()
            self._check_index({item.sort: item for item in life.database.index.query("p")}, life.blobs)
            self._check_blobs(life.blobs)
            self.document.check(life.database, life.blobs, self.clock, self.scheduler.counts)
        finally:
            for database in self.opened:
                database.close()
            self._remove()

    def _boot(self, disk: Disk) -> None:
        self.machine = SimulatedMachine(self.scheduler, disk, self.weather, self._failed)
        self.machine.spawn("boot", _Life(self, self.machine).main)

    def _failed(self, machine: SimulatedMachine) -> None:
        delay_ms = 1 + int(self.scheduler.random.random() * RESTART_MS_MAX)
        disk = machine.disk.fail(self._folder())
        self.scheduler.later(delay_ms, lambda: self._boot(disk))

    def _folder(self) -> str:
        self._lives += 1
        return os.path.join(self._root, str(self._lives))

    def _check_index(self, items: Mapping[str, Item], blobs: Blobs) -> None:
        brought = {stat.key for stat in blobs.list("commits/")}
        for commit in self.commits:
            standing = [sort for sort in commit.sorts if sort in items and _own(items[sort], commit)]
            if commit.blob and (_blob_key(commit) in brought) != bool(standing):
                raise Violation("brought blob", "only one of a commit and its blob is stored", commit=commit)
            if commit.reported is Answered.ACKNOWLEDGED and len(standing) < len(commit.sorts):
                raise Violation("acknowledged", "an acknowledged commit is lost", commit=commit, standing=standing)
            if commit.reported is Answered.REFUSED and standing:
                raise Violation("refused", "a refused commit took effect", commit=commit, standing=standing)
            if 0 < len(standing) < len(commit.sorts):
                raise Violation("atomic", "a commit is only partly stored", commit=commit, standing=standing)
        for sort, item in self.witnessed.items():
            if items.get(sort) != item:
                raise Violation("witnessed", "an item that a reader saw is lost", item=item)

    def _check_blobs(self, blobs: Blobs) -> None:
        try:
            standing = {stat.key: stat for stat in blobs.list("")}
            for key in standing:
                blobs.get(key)
        except (Corrupt, NotFound) as exc:
            raise Violation("whole blobs", str(exc)) from exc
        for put in self.puts:
            if self.looked.get(put.key, -1) >= put.sent_step:
                continue
            if put.key not in standing:
                raise Violation("acknowledged blob", "an acknowledged blob is lost", put=put)
            if standing[put.key].modified_ms < put.sent_ms:
                raise Violation("blob's age", "a put did not durably restart a blob's age", put=put)


class _Life:
    """The program on the machine, from one power failure to the next."""

    def __init__(self, world: DiskWorld, machine: SimulatedMachine) -> None:
        self.world = world
        self.machine = machine
        self.clock = world.clock
        self.database: SqliteDatabase
        self.blobs: Blobs

    def main(self) -> None:
        self._retry(self.open)
        actors: dict[str, Callable[[], None]] = {
            "reader": self.read,
            "reopener": self.reopen,
            "putter-a": self.put,
            "putter-b": self.put,
            "deleter": self.delete,
            "client": self.change,
        }
        for name in self.world.left:
            self.machine.spawn(name, partial(self._go_on, name, actors.get(name, self.write)))

    def open(self) -> None:
        """Open the store, which must be undamaged.

        Open the database last, so that a failed try leaves no database open.
        """
        folder = self.machine.disk.folder
        try:
            large = FileBlobs(os.path.join(folder, "blobs"), self.clock, sync=self.machine.sync)
            self.database = SqliteDatabase(
                os.path.join(folder, "store.db"),
                self.clock,
                vfs=self.machine.vfs,
                log_bytes=LOG_BYTES,
                blob_bytes_max=BLOB_BYTES_MAX,
            )
            self.blobs = self.database.blobs(large)
            self.world.opened.append(self.database)
        except Corrupt as exc:
            raise Violation("opens", str(exc)) from exc
        problem = self._integrity()
        if problem != "ok":
            raise Violation("integrity", problem)

    def _integrity(self) -> str:
        connection = apsw.Connection(self.database.path, vfs=self.machine.vfs)
        try:
            return str(connection.pragma("integrity_check"))
        except apsw.CorruptError as exc:
            return str(exc)
        finally:
            connection.close()

    def write(self) -> None:
        """Commit one or two items, some at contested keys."""
        number = len(self.world.commits)
        sorts = [f"own/{number:04d}"]
        if self.clock.random() < 0.6:
            sorts.append(f"contested/{int(self.clock.random() * CONTESTED):04d}")
        if self.clock.random() < 0.3:
            sorts.reverse()
            sorts = sorts[:1]
        commit = Commit(f"w{number}", sorts, f"blob {number} ".encode() * 100 if self.clock.random() < 0.5 else b"")
        self.world.commits.append(commit)
        commit.reported = self._reported(commit)
        self.world.scheduler.counts.bump(commit.reported.value)

    def read(self) -> None:
        """Read all items and record them for the checks. A reader may see only durable items."""
        for item in self.database.index.query("p"):
            self.world.witnessed[item.sort] = item
        self._pause()

    def reopen(self) -> None:
        """Close the database, which writes its log back into the file. Then open the database again."""
        self._pause()
        with suppress(apsw.Error):  # apsw raises if SQLite cannot write the log back
            self.database.close()
        self._retry(self.open)
        self.world.scheduler.counts.bump("reopened")

    def put(self) -> None:
        position = int(self.clock.random() * len(KEYS))
        sent = self.world.scheduler.steps
        put = BlobPut(KEYS[position], sent, self.clock.wall_ms())
        self.blobs.put(KEYS[position], BODIES[position])
        self.world.puts.append(put)
        self.world.scheduler.counts.bump("blobs put")

    def delete(self) -> None:
        """Read a blob's stamp, wait, and delete by that stamp. A put that began after the read must survive."""
        self._pause()
        key = choose(self.clock, KEYS)
        stat = self.blobs.stat(key)
        if stat is not None:
            self.world.looked[key] = self.world.scheduler.steps
            self._pause()
            self.world.scheduler.counts.bump("blobs deleted", self.blobs.delete(key, stat.stamp))

    def change(self) -> None:
        """Change the document."""
        self._pause()
        self.world.document.write(self.database, self.blobs, self.clock)
        self.world.scheduler.counts.bump("changes")

    def _reported(self, commit: Commit) -> Answered:
        try:
            blobs = {_blob_key(commit): commit.blob} if commit.blob else NO_BLOBS
            self.world.scheduler.counts.bump("commits with blobs", len(blobs))
            self.database.index.commit([Put(_item(sort, commit), Absent()) for sort in commit.sorts], blobs)
        except ConditionFailed as exc:
            self.world.scheduler.counts.bump("conflicts")
            self.world.witnessed |= {item.sort: item for item in exc.items.values() if item is not None}
            return Answered.REFUSED
        except OutcomeUnknown:
            return Answered.UNKNOWN
        except StratalogError:
            return Answered.REFUSED
        return Answered.ACKNOWLEDGED

    def _go_on(self, name: str, act: Callable[[], None]) -> None:
        """Run the actor's turns. A fault ends one turn, but not the actor."""
        while self.world.left.take(name):
            try:
                act()
            except Corrupt as exc:
                raise Violation("corrupt", str(exc)) from exc
            except StratalogError:
                self.world.scheduler.counts.bump("tries failed")
            self.world.scheduler.switch()

    def _retry(self, act: Callable[[], None]) -> None:
        while True:
            try:
                return act()
            except (Unavailable, OutcomeUnknown):
                self.clock.sleep(0.1)

    def _pause(self) -> None:
        self.clock.sleep(0.5 * self.clock.random())


def _item(sort: str, commit: Commit) -> Item:
    return Item("p", sort, {"w": commit.write_id, "b": commit.write_id * 60})


def _blob_key(commit: Commit) -> str:
    return f"commits/{sha256(commit.blob).hex()}"


def _own(item: Item, commit: Commit) -> bool:
    return item.attributes["w"] == commit.write_id

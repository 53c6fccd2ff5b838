"""The world of a shared folder of blobs: processes open it, put, read and delete blobs, and may be killed.

The files are real. Each change, listing, lock, sync and opening of a file is a step. Before a step the simulation may
kill the process. A new process then opens the folder and removes unfinished files. The world `disk` tests power
failures.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

import msgspec

from stratalog.backends.files import NEW, FileBlobs
from stratalog.codec import sha256
from stratalog.errors import Corrupt, NotFound, StratalogError
from stratalog.testing.checkers import Violation
from stratalog.testing.faults import Weather
from stratalog.testing.scheduler import Actor, Scheduler
from tests.simulation.actors import Turns, choose
from tests.simulation.clusters import Cluster, Process
from tests.simulation.file_steps import FileSteps
from tests.simulation.scratch import scratch_folder

__all__ = ["FolderWorld"]

TURNS = 14
BODIES = tuple(bytes((position * 7 + at * at) % 251 for at in range(200 * position)) for position in range(1, 4))
KEYS = tuple(f"acme/plan/{sha256(body).hex()}" for body in BODIES)
PAUSE_SECONDS_MAX = 0.2
_steps: weakref.WeakKeyDictionary[Scheduler, FileSteps] = weakref.WeakKeyDictionary()


class FolderPut(msgspec.Struct, frozen=True):
    """An acknowledged put."""

    key: str
    sent_step: int
    answered_step: int
    sent_ms: int


class FolderWorld:
    """Three or four processes on one folder."""

    columns: ClassVar[tuple[str, ...]] = (
        "files.link",
        "files.unlink",
        "files.flock",
        "files.utime",
        "files.fsync",
        "killed",
        "killed with a lock",
        "folders opened",
        "blobs put",
        "blobs deleted",
        "blobs read",
        "blobs not found",
        "lock was taken",
    )

    @staticmethod
    @contextmanager
    def surroundings(scheduler: Scheduler) -> Iterator[None]:
        """Turn file operations into steps of the scheduler during the run."""
        _steps[scheduler] = FileSteps(scheduler)
        with _steps[scheduler].active():
            yield

    def __init__(self, scheduler: Scheduler) -> None:
        draw = scheduler.random
        self.scheduler = scheduler
        self.steps = _steps[scheduler]
        self.steps.operation = self._operate
        self.cluster = Cluster(scheduler, Weather(storm_calls=draw.randrange(100, 600)))
        self.kill_rate = draw.choice((0.0, 0.01, 0.02, 0.05))
        self.keys = KEYS[: draw.choice((1, 1, 2, 3))]
        self.processes: dict[Actor, Process] = {}
        self.puts: list[FolderPut] = []
        self.looked: dict[str, int] = {}
        self.folder, self._remove = scratch_folder(self, "folder")
        self.left = Turns({f"process-{position}": TURNS for position in range(draw.choice((3, 4)))})
        for name in self.left:
            self.cluster.start(name, self.run)

    def run(self, process: Process) -> None:
        """Open the folder and act on it while turns are left."""
        self.processes[self.scheduler.parking()] = process
        acts = (self.put, self.put, self.put, self.read, self.read, self.delete, self.delete, self.look_around)
        blobs: FileBlobs | None = None
        while self.left.take(process.name):
            process.clock.sleep(PAUSE_SECONDS_MAX * process.clock.random() ** 2)
            try:
                if blobs is None or process.clock.random() < 0.1:
                    blobs = FileBlobs(self.folder, process.clock, sync=lambda _: self.steps.step("fsync"))
                    self.scheduler.counts.bump("folders opened")
                choose(process.clock, acts)(process, blobs)
            except Corrupt as exc:
                raise Violation("whole blobs", str(exc)) from exc
            except OSError as exc:
                raise Violation("errors", "unexpected file system error", error=repr(exc)) from exc
            except StratalogError as exc:
                self.scheduler.counts.bump(f"turn ended by {exc.code}")

    def put(self, process: Process, blobs: FileBlobs) -> None:
        """Put one of the blobs. The blob may exist already."""
        position = int(len(self.keys) * process.clock.random())
        sent, sent_ms = self.scheduler.steps, process.clock.wall_ms()
        blobs.put(KEYS[position], BODIES[position])
        self.puts.append(FolderPut(KEYS[position], sent, self.scheduler.steps, sent_ms))
        self.scheduler.counts.bump("blobs put")

    def read(self, process: Process, blobs: FileBlobs) -> None:
        """Read a blob. The blob must exist if no deletion has read its stamp since an acknowledged put began."""
        key, sent = choose(process.clock, self.keys), self.scheduler.steps
        try:
            blobs.get(key)
        except NotFound:
            self.scheduler.counts.bump("blobs not found")
            if any(put.answered_step < sent for put in self._standing(key)):
                raise Violation("acknowledged blob", "an existing blob was not found", key=key) from None
        else:
            self.scheduler.counts.bump("blobs read")

    def delete(self, process: Process, blobs: FileBlobs) -> None:
        """Read a blob's stamp, wait, and delete by that stamp. A put that began after the read must survive."""
        key = choose(process.clock, self.keys)
        stat = blobs.stat(key)
        if stat is not None:
            self.looked[key] = self.scheduler.steps
            process.clock.sleep(PAUSE_SECONDS_MAX * process.clock.random())
            self.scheduler.counts.bump("blobs deleted", blobs.delete(key, stat.stamp))

    def look_around(self, process: Process, blobs: FileBlobs) -> None:
        """List all blobs."""
        for _ in blobs.list("acme/"):
            pass

    def check(self) -> None:
        """Open the folder again.

        Check that no needed blob is missing or too old, and that no temporary files remain.
        """
        try:
            self._check()
        finally:
            self._remove()

    def _check(self) -> None:
        try:
            blobs = FileBlobs(self.folder, self.cluster.clock, sync=lambda _: None)
            standing = {stat.key: stat for stat in blobs.list("")}
            for key in standing:
                blobs.get(key)
        except (Corrupt, NotFound) as exc:
            raise Violation("whole blobs", str(exc)) from exc
        for key in self.keys:
            for put in self._standing(key):
                if key not in standing:
                    raise Violation("acknowledged blob", "an acknowledged blob is lost", put=put)
                if standing[key].modified_ms < put.sent_ms:
                    raise Violation("blob's age", "a put did not durably restart a blob's age", put=put)
        if left := self._left_over(NEW):
            raise Violation("left over", "temporary files remain", files=left)

    def _standing(self, key: str) -> list[FolderPut]:
        """Return the acknowledged puts of a blob that began after a deletion last read the blob's stamp."""
        looked = self.looked.get(key, -1)
        return [put for put in self.puts if put.key == key and put.sent_step > looked]

    def _operate(self, label: str) -> None:
        """Take a step before a file operation. The step may kill the process."""
        scheduler = self.scheduler
        scheduler.switch()
        scheduler.calls += 1
        scheduler.counts.bump(f"files.{label}")
        actor = scheduler.parking()
        if scheduler.report is not None:
            scheduler.report(f"{scheduler.steps:>6} {scheduler.now_ms:>10} ms  {actor.name:<16} {label}")
        if scheduler.calls > self.cluster.weather.storm_calls:
            scheduler.calm()
        if scheduler.stormy and scheduler.random.random() < self.kill_rate:
            scheduler.counts.bump("killed")
            scheduler.counts.bump("killed with a lock", actor in self.steps.holders)
            self.processes[actor].crash()

    def _left_over(self, folder: str) -> list[str]:
        return sorted(name for _, _, names in os.walk(os.path.join(self.folder, folder)) for name in names)

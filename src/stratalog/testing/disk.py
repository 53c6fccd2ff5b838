"""A simulated disk: real files in a folder, and a power failure that may undo everything that was not synced.

A `Disk` is one life of the machine's disk, between two failures. A `Disk` stores the content of each file and folder
at its last sync. After a failure the next life begins in a new folder. In the new folder each sector and each name has
either its synced or its latest state. A rename is atomic, as on file systems with a journal. Programs of the previous
life end in the old folder, where their writes have no effect.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import NamedTuple

import apsw
import msgspec

from stratalog.testing.scheduler import Actor, Crash, Scheduler

__all__ = ["Disk", "DiskWeather", "SimulatedMachine", "draw_disk_weather"]

SECTOR_BYTES = 512
# The suffix of SQLite's shared-memory file. The file does not survive a failure, because SQLite makes it anew. The file
# contains random numbers, which would make the simulation differ from run to run.
SHARED_MEMORY = "-shm"
NEW_NAMES = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL


class DiskWeather(msgspec.Struct, frozen=True):
    """The rates of the faults, and the number of calls after which faults end.

    A power failure may happen at each step of the machine, a full disk or a write error at each write of SQLite, and a
    sync error at each sync.
    """

    power_failure: float = 0
    write_error: float = 0
    full: float = 0
    sync_error: float = 0
    storm_calls: int = 400


def draw_disk_weather(random: Random) -> DiskWeather:
    """Draw the rates of one seed: a tenth of the seeds have no faults, most other seeds have a few."""
    if random.random() < 0.1:
        return DiskWeather()
    return DiskWeather(
        power_failure=0.04 * random.random(),
        write_error=0.02 * random.random() ** 2,
        full=0.02 * random.random() ** 2,
        sync_error=0.12 * random.random() ** 2,
        storm_calls=random.randrange(100, 500),
    )


class Synced(NamedTuple):
    """The content and modification time of a file at its last sync, which survive a failure."""

    content: bytes
    time_ns: int


class Disk:
    """One life of a disk. Everything that is in ``folder`` at the start is durable."""

    def __init__(self, folder: str, random: Random) -> None:
        self.folder = folder
        self._random = random
        self._links = folder + ".kept"
        self._files: dict[int, Synced] = {}
        self._names: dict[int, dict[str, int]] = {}
        # An open descriptor of each folder, so that its inode number is not used again in this life.
        self._folders: dict[int, int] = {}
        weakref.finalize(self, _close_all, self._folders)
        os.makedirs(folder, exist_ok=True)
        os.mkdir(self._links)
        for path, _, names in os.walk(folder):
            for name in names:
                self.sync_file(os.path.join(path, name))
            self._sync_names(path)

    def sync(self, descriptor: int) -> None:
        """Make the file or folder behind the descriptor durable, as `os.fsync` does."""
        inode = os.fstat(descriptor).st_ino
        for path, _, names in os.walk(self.folder):
            if os.stat(path).st_ino == inode:
                self._sync_names(path)
            for name in names:
                if os.stat(os.path.join(path, name)).st_ino == inode:
                    self.sync_file(os.path.join(path, name))

    def sync_file(self, path: str) -> None:
        """Make the content and time of a file durable. A sync of its folder makes its name durable."""
        status = os.stat(path)
        self._link(path, status.st_ino)
        self._files[status.st_ino] = Synced(Path(path).read_bytes(), status.st_mtime_ns)

    def sync_root(self) -> None:
        """Make the names in the disk's root folder durable."""
        self._sync_names(self.folder)

    def fail(self, folder: str) -> Disk:
        """Return the next life of the disk, in the new folder ``folder``.

        Synced data survive. Unsynced data survive completely, in a random part, or not at all.
        """
        share = self._random.choice((0.0, 0.5, 0.9, 1.0))
        os.mkdir(folder)
        self._restore(self.folder, os.stat(self.folder).st_ino, folder, share, {})
        return Disk(folder, self._random)

    def _link(self, path: str, inode: int) -> None:
        """Add another name for a file, so that its inode number is not used again in this life."""
        link = os.path.join(self._links, str(inode))
        if not os.path.exists(link) and not os.path.isdir(path):
            os.link(path, link)

    def _sync_names(self, path: str) -> None:
        """Make the names in a folder durable.

        A rename is durable as a whole: a file that has durably left this folder is durable in its new folder too, and a
        file that has durably come has durably left its old folder.
        """
        inode = os.stat(path).st_ino
        if inode not in self._folders:
            self._folders[inode] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        before = set(self._names.get(inode, {}).values())
        self._names[inode] = _names(path)
        for name, number in self._names[inode].items():
            self._link(os.path.join(path, name), number)
        after = set(self._names[inode].values())
        if before == after:
            return
        present = {os.stat(other).st_ino: _names(other) for other, _, _ in os.walk(self.folder)}
        for folder, names in present.items():
            moved = {name: number for name, number in names.items() if number in before - after}
            self._names.setdefault(folder, {}).update(moved)
        for folder, durable in self._names.items():
            names = present.get(folder, {})
            for name in [name for name, number in durable.items() if number in after - before]:
                if names.get(name) != durable[name]:
                    del durable[name]

    def _restore(self, source: str, folder: int, target: str, share: float, moved: dict[int, bool]) -> None:
        """Restore in ``target`` the folder with inode ``folder``, whose path was ``source``.

        The folder may have been removed since, or another folder may have its path.
        """
        present = _names(source) if _is_folder(source, folder) else {}
        durable = self._names.get(folder, {})
        for name in sorted(name for name in {*present, *durable} if not name.endswith(SHARED_MEMORY)):
            inode = self._survivor(present.get(name, 0), durable.get(name, 0), share, moved)
            path = os.path.join(target, name)
            if inode in self._folders or (inode and _is_folder(os.path.join(source, name), inode)):
                os.mkdir(path)
                self._restore(os.path.join(source, name), inode, path, share, moved)
            elif inode:
                self._restore_file(inode, os.path.join(source, name), path, share)

    def _survivor(self, present: int, durable: int, share: float, moved: dict[int, bool]) -> int:
        """Return the inode that a name has after the failure; 0 for none.

        The unsynced names of one file survive together or not at all, which makes renames atomic.
        """
        if present == durable:
            return present
        changed = present or durable
        if changed not in moved:
            moved[changed] = self._random.random() < share
        return present if moved[changed] else durable

    def _restore_file(self, inode: int, source: str, target: str, share: float) -> None:
        link = os.path.join(self._links, str(inode))
        source = link if os.path.exists(link) else source
        present = Synced(Path(source).read_bytes(), os.stat(source).st_mtime_ns)
        synced = self._files.get(inode, Synced(b"", 0))
        content = self._mixed(synced.content, present.content, share)
        Path(target).write_bytes(content)
        time_ns = present.time_ns if self._random.random() < share else synced.time_ns
        os.utime(target, ns=(time_ns, time_ns))

    def _mixed(self, synced: bytes, present: bytes, share: float) -> bytes:
        """Return content with the synced or the present state of each sector. The length is between the two lengths.

        A sector added since the last sync may be zeros. A sector truncated since the last sync has its synced content.
        """
        if synced == present or share in (0.0, 1.0):
            return present if share else synced
        lengths = sorted((len(synced), len(present)))
        length = self._random.choice((*lengths, self._random.randint(*lengths)))
        old, new = synced.ljust(lengths[1], b"\0"), present + synced[len(present) :]
        sectors = [
            (new if self._random.random() < share else old)[start : start + SECTOR_BYTES]
            for start in range(0, length, SECTOR_BYTES)
        ]
        return b"".join(sectors)[:length]


class SimulatedMachine:
    """One life of a machine: its actors, which crash together, and the faults of its disk.

    ``vfs`` is the name of its VFS for SQLite. At a power failure, the machine marks all its actors as crashed and then
    calls ``failed`` with itself. ``failed`` may start another machine on the disk that `Disk.fail` returns.
    """

    def __init__(
        self, scheduler: Scheduler, disk: Disk, weather: DiskWeather, failed: Callable[[SimulatedMachine], None]
    ) -> None:
        self.scheduler = scheduler
        self.disk = disk
        self.on = True
        self.vfs = f"simulated-{id(self):x}"
        self._weather = weather
        self._failed = failed
        self._actors: list[Actor] = []
        self._layer = _Layer(self)

    def spawn(self, name: str, function: Callable[[], None], *, background: bool = False) -> None:
        """Start another actor of this machine: a thread of the real program."""

        def run() -> None:
            if not self.on:
                raise Crash
            function()

        self._actors.append(self.scheduler.spawn(name, run, background=background))

    def sync(self, descriptor: int) -> None:
        """Sync a descriptor as `os.fsync` does. Raises OSError for a simulated error, and Crash if the power fails."""
        self.step("files.sync")
        if self.meets("sync error", self._weather.sync_error):
            raise OSError(5, "simulated")
        self.disk.sync(descriptor)
        self.step("files.synced")

    def step(self, label: str) -> None:
        """Let another actor run. Raises Crash if the power fails now.

        In set-up and checks, and after the failure, the method does nothing.
        """
        scheduler = self.scheduler
        if scheduler.current is None or not self.on:
            return
        scheduler.switch()
        scheduler.calls += 1
        scheduler.counts.bump(label)
        if scheduler.report is not None:
            scheduler.report(f"{scheduler.steps:>6} {scheduler.now_ms:>10} ms  {scheduler.current.name:<16} {label}")
        if scheduler.calls > self._weather.storm_calls:
            scheduler.calm()
        if self.meets("power failure", self._weather.power_failure):
            self._fail()

    def meets(self, fault: str, rate: float) -> bool:
        """Return whether a fault with this rate happens now; if so, count it under its name."""
        scheduler = self.scheduler
        if not (self.on and scheduler.stormy and scheduler.current) or scheduler.random.random() >= rate:
            return False
        scheduler.counts.bump(fault)
        return True

    def write_fault(self) -> None:
        """Raise FullError or IOError as simulated faults, at the weather's rates."""
        if self.meets("disk full", self._weather.full):
            raise apsw.FullError("simulated")
        if self.meets("write error", self._weather.write_error):
            raise apsw.IOError("simulated write error")

    def sync_fault(self) -> None:
        """Raise IOError as a simulated fault of a sync, at the weather's rate."""
        if self.meets("sync error", self._weather.sync_error):
            raise apsw.IOError("simulated sync error")

    def turn_off(self) -> None:
        """Mark all actors as crashed. Each ends when the scheduler would let it continue."""
        self.on = False
        for actor in self._actors:
            actor.crashed = True

    def _fail(self) -> None:
        self.turn_off()
        self._failed(self)
        raise Crash


class _Layer(apsw.VFS):
    """A VFS between SQLite and the operating system: each change is a step, and each sync goes to the `Disk`."""

    def __init__(self, machine: SimulatedMachine) -> None:
        self._machine = machine
        super().__init__(machine.vfs, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        return _File(self._machine, path or "", name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self._machine.step("sqlite.delete")
        super().xDelete(filename, syncdir)
        if syncdir and self._machine.on:
            self._machine.disk.sync_root()

    def xSleep(self, microseconds: int) -> int:  # noqa: N802
        self._machine.scheduler.sleep(max(1, microseconds // 1000))
        return microseconds


class _File(apsw.VFSFile):
    def __init__(
        self, machine: SimulatedMachine, path: str, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        self._machine = machine
        self._path = path
        self._new = bool(flags[0] & NEW_NAMES)
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._machine.step("sqlite.write")
        self._machine.write_fault()
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._machine.step("sqlite.truncate")
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        """Sync the file. The first sync of a journal also syncs its folder, as in SQLite's own VFS."""
        self._machine.step("sqlite.sync")
        self._machine.sync_fault()
        if self._machine.on:
            self._machine.disk.sync_file(self._path)
            if self._new:
                self._machine.disk.sync_root()
                self._new = False
        self._machine.step("sqlite.synced")


def _names(folder: str) -> dict[str, int]:
    return {entry.name: entry.inode() for entry in os.scandir(folder)}


def _is_folder(path: str, inode: int) -> bool:
    return os.path.isdir(path) and os.stat(path).st_ino == inode


def _close_all(folders: Mapping[int, int]) -> None:
    for descriptor in folders.values():
        os.close(descriptor)

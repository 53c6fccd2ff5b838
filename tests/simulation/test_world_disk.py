"""The simulated disk may lose unsynced data, but keeps synced data. A seed of the world `disk` repeats exactly."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random

import apsw
import pytest

from stratalog.backends.files import FileBlobs
from stratalog.backends.sqlite import SqliteDatabase
from stratalog.codec import sha256
from stratalog.errors import OutcomeUnknown, Unavailable
from stratalog.ports.index import Item, Put
from stratalog.testing.clock import ManualClock
from stratalog.testing.disk import SECTOR_BYTES, Disk, DiskWeather, SimulatedMachine
from stratalog.testing.scheduler import Scheduler
from tests.simulation.world_disk import DiskWorld
from tests.simulation.worlds import run_seed

LIVES = range(40)
OLD = b"o" * SECTOR_BYTES * 3
NEW = b"n" * SECTOR_BYTES * 3


def contents(folder: Path, change: Callable[[Disk, Path], None], name: str = "file") -> set[bytes | None]:
    """Return the contents that a file may have after ``change`` and a power failure."""
    results = set()
    for seed in LIVES:
        disk = Disk(str(folder / str(seed)), Random(seed))
        change(disk, Path(disk.folder))
        path = Path(disk.fail(str(folder / f"{seed}.next")).folder) / name
        results.add(path.read_bytes() if path.exists() else None)
    return results


def write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def sync(disk: Disk, path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    disk.sync(descriptor)
    os.close(descriptor)


def test_a_file_that_was_synced_with_its_name_survives(tmp_path: Path) -> None:
    def change(disk: Disk, folder: Path) -> None:
        write(folder / "file", OLD)
        sync(disk, folder / "file")
        sync(disk, folder)

    assert contents(tmp_path, change) == {OLD}


def test_a_file_may_lose_its_name_although_its_content_was_synced(tmp_path: Path) -> None:
    def change(disk: Disk, folder: Path) -> None:
        write(folder / "file", OLD)
        sync(disk, folder / "file")

    assert contents(tmp_path, change) == {OLD, None}


def test_an_overwritten_file_may_be_old_or_new_or_torn(tmp_path: Path) -> None:
    def change(disk: Disk, folder: Path) -> None:
        write(folder / "file", OLD)
        sync(disk, folder / "file")
        sync(disk, folder)
        write(folder / "file", NEW)

    results = contents(tmp_path, change)
    assert {OLD, NEW} < results
    assert all(content is not None and set(content) <= set(OLD + NEW) for content in results)


@pytest.mark.parametrize("synced", [None, "first", "second"])
def test_a_rename_is_durable_in_both_folders_or_in_none(tmp_path: Path, synced: str | None) -> None:
    for seed in LIVES:
        disk = Disk(str(tmp_path / str(seed)), Random(seed))
        first, second = Path(disk.folder) / "first", Path(disk.folder) / "second"
        for folder in (first, second):
            folder.mkdir()
        write(first / "file", OLD)
        for path in (first / "file", first, second, first.parent):
            sync(disk, path)
        (first / "file").rename(second / "file")
        if synced is not None:
            sync(disk, first.parent / synced)
        after = Path(disk.fail(str(tmp_path / f"{seed}.next")).folder)
        assert (after / "first/file").exists() != (after / "second/file").exists()


def test_a_blob_survives_though_its_folder_was_new(tmp_path: Path) -> None:
    for seed in LIVES:
        disk = Disk(str(tmp_path / str(seed)), Random(seed))
        key = f"owner/{sha256(OLD).hex()}"
        FileBlobs(Path(disk.folder) / "blobs", ManualClock(), sync=disk.sync).put(key, OLD)
        after = disk.fail(str(tmp_path / f"{seed}.next"))
        assert FileBlobs(Path(after.folder) / "blobs", ManualClock()).get(key) == OLD


def test_a_reopened_database_makes_a_commit_with_a_failed_sync_durable_before_a_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in LIVES:
        disk = Disk(str(tmp_path / str(seed)), Random(seed))
        machine = SimulatedMachine(Scheduler(seed), disk, DiskWeather(), lambda _: None)
        first = SqliteDatabase(Path(disk.folder) / "store.db", ManualClock(), vfs=machine.vfs)
        first.index.commit([Put(Item("p", "before", {}))])
        with monkeypatch.context() as broken:
            broken.setattr(machine, "sync_fault", fail_sync)
            with pytest.raises(OutcomeUnknown):
                first.index.commit([Put(Item("p", "s", {}))])
            with suppress(apsw.Error):
                first.close()
        second = SqliteDatabase(Path(disk.folder) / "store.db", ManualClock(), vfs=machine.vfs)
        shown = second.index.get("p", "s")
        after = SqliteDatabase(Path(disk.fail(str(tmp_path / f"{seed}.next")).folder) / "store.db", ManualClock())
        assert after.index.get("p", "s") == shown == Item("p", "s", {})
        after.close()
        second.close()


def test_a_new_database_opens_after_any_run_of_failed_syncs_and_power_failures(tmp_path: Path) -> None:
    for seed in (*range(30), 411, 902):  # 411 and 902 fail if the database is created in place
        chance = Random(seed)
        disk = Disk(str(tmp_path / str(seed)), Random(seed))
        for life in range(8):
            with suppress(Unavailable):
                open_on(disk, sync_fails_at=chance.randrange(4))
            if chance.random() < 0.7:
                disk = disk.fail(str(tmp_path / f"{seed}.{life}"))
        open_on(disk)


def open_on(disk: Disk, *, sync_fails_at: int = -1) -> None:
    """Open and close the database. The sync with the index ``sync_fails_at`` fails; by default, no sync fails."""
    machine = SimulatedMachine(Scheduler(1), disk, DiskWeather(), lambda _: None)
    syncs = count()
    machine.sync_fault = lambda: fail_sync() if next(syncs) == sync_fails_at else None  # type: ignore[method-assign]
    database = SqliteDatabase(Path(disk.folder) / "store.db", ManualClock(), vfs=machine.vfs)
    with suppress(apsw.Error):
        database.close()


def fail_sync() -> None:
    raise apsw.IOError("simulated")


def test_a_seed_runs_the_same_way_twice() -> None:
    first = [run_seed(DiskWorld, seed).fingerprint for seed in range(10)]
    assert [run_seed(DiskWorld, seed).fingerprint for seed in range(10)] == first


def test_the_shared_memory_file_of_sqlite_is_gone_after_a_power_failure(tmp_path: Path) -> None:
    """SQLite creates its shared memory again. Random numbers in the old file would make runs of a seed differ."""

    def change(disk: Disk, folder: Path) -> None:
        write(folder / "store.db-shm", OLD)
        sync(disk, folder)

    assert contents(tmp_path, change, "store.db-shm") == {None}


def test_a_truncated_file_has_no_zeros_after_a_power_failure(tmp_path: Path) -> None:
    def change(disk: Disk, folder: Path) -> None:
        write(folder / "file", OLD)
        sync(disk, folder / "file")
        sync(disk, folder)
        os.truncate(folder / "file", SECTOR_BYTES)

    results = contents(tmp_path, change)
    assert {OLD, OLD[:SECTOR_BYTES]} < results
    assert all(content is not None and set(content) == set(OLD) for content in results)

"""A cache of blobs in a folder fulfils the contract of blobs, bounds its files, and adds no error."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest

from stratalog.backends.cached_blobs import FOLDERS, CachedBlobs
from stratalog.backends.memory import MemoryBlobs
from stratalog.clock import Clock
from stratalog.codec import sha256
from stratalog.errors import Corrupt, NotFound
from stratalog.ports.blobs import Blobs
from stratalog.testing.blobs_contract import BlobsContract, Change
from stratalog.testing.clock import ManualClock
from tests.backends.test_files import alter_file
from tests.backends.test_memory import rename_blob

BODY = b"a chunk " * 50
KEY = f"acme/plan@abc/chunks/{sha256(BODY).hex()}"


class CountedBlobs(MemoryBlobs):
    """Counts the gets."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.gets = 0

    def get(self, key: str) -> bytes:
        self.gets += 1
        return super().get(key)


class TestCachedBlobs(BlobsContract):
    """The contract. Damage changes the stored blob and its cached file alike."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def make(self, clock: Clock) -> CachedBlobs:
        self.blobs = MemoryBlobs(clock)
        return CachedBlobs(self.blobs, self.folder, clock)

    def alter(self, blobs: Blobs, key: str, change: Change) -> bool:
        assert isinstance(blobs, CachedBlobs)
        changed = change(self.blobs._bodies.pop(key))
        if changed is not None:
            self.blobs._bodies[key] = changed
        if Path(blobs._path(key)).exists():
            alter_file(Path(blobs._path(key)), change)
        return True

    def rename(self, blobs: Blobs, key: str, name: str) -> bool:
        return rename_blob(self.blobs, key, name)


class Machine:
    """Stored blobs, and the processes of a machine that share a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "cache"
        self.clock = ManualClock()
        self.stored = CountedBlobs(self.clock)
        self.stored.put(KEY, BODY)

    def process(self, bytes_max: int = FOLDERS * 1024 * 1024) -> CachedBlobs:
        return CachedBlobs(self.stored, self.folder, self.clock, bytes_max=bytes_max)

    def files(self) -> list[Path]:
        return sorted(path for path in self.folder.rglob("*") if path.is_file())

    def keys_of_a_folder(self, many: int) -> Iterator[str]:
        """Store blobs whose files are in one folder, and yield their keys."""
        path = self.process()._path
        bodies = (number.to_bytes(8, "big") for number in count())
        keys = ((f"acme/plan@abc/chunks/{sha256(body).hex()}", body) for body in bodies)
        for key, body in islice((pair for pair in keys if "/00/" in path(pair[0])), many):
            self.stored.put(key, body)
            yield key

    def put(self, number: int, size: int = 3000) -> str:
        """Store a blob of random bytes, and return its key."""
        body = number.to_bytes(4, "big") + self.clock.random_bytes(size - 4)
        key = f"acme/plan@abc/chunks/{sha256(body).hex()}"
        self.stored.put(key, body)
        return key


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_blob_that_any_process_has_read_is_read_from_the_folder(machine: Machine) -> None:
    assert not machine.process().is_near(KEY)
    assert machine.process().get(KEY) == machine.process().get(KEY) == BODY
    assert machine.stored.gets == 1
    assert machine.process().is_near(KEY)


def test_only_a_get_reads_the_cache(machine: Machine) -> None:
    blobs = machine.process()
    blobs.get(KEY)
    stat = blobs.stat(KEY)
    assert stat is not None
    assert [*blobs.list("acme/")] == [stat]
    machine.stored.delete(KEY, stat.stamp)  # another process collects the blob
    assert blobs.get(KEY) == BODY
    assert blobs.stat(KEY) is None
    assert [*blobs.list("")] == []
    assert blobs.delete(KEY, stat.stamp)
    with pytest.raises(NotFound):
        blobs.get(KEY)


def test_a_put_is_a_new_generation_in_the_store(machine: Machine) -> None:
    blobs = machine.process()
    blobs.get(KEY)
    before = machine.stored.stat(KEY)
    blobs.put(KEY, BODY)
    assert machine.stored.stat(KEY) != before


@pytest.mark.parametrize("damage", [b"", b"no frame", None])
def test_a_damaged_file_is_replaced_from_the_store(machine: Machine, damage: bytes | None) -> None:
    blobs = machine.process()
    blobs.get(KEY)
    (file,) = machine.files()
    other = machine.put(1)
    blobs.get(other)
    file.write_bytes(Path(blobs._path(other)).read_bytes() if damage is None else damage)
    assert blobs.get(KEY) == BODY
    assert machine.stored.gets == 3
    assert blobs.get(KEY) == BODY
    assert machine.stored.gets == 3


def test_damage_in_the_store_is_reported_and_not_cached(machine: Machine) -> None:
    machine.stored._bodies[KEY] = b"damaged"
    with pytest.raises(Corrupt):
        machine.process().get(KEY)
    assert machine.files() == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("call", ["open", "mkdir", "rename", "utime", "scandir"])
def test_an_error_of_the_folder_fails_no_read_and_leaves_no_part_of_a_file(
    machine: Machine, code: int, call: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*arguments: Any, **options: Any) -> Any:
        raise OSError(code, os.strerror(code), arguments[0])

    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(os, call, fail)
        patched.setattr(machine.clock, "random", lambda: 0.0)
        blobs = machine.process()
        assert blobs.get(KEY) == BODY
        assert blobs.get(KEY) == BODY
    assert all(path.name == Path(blobs._path(KEY)).name for path in machine.files())
    assert len(caplog.messages) == 1, "one warning for each process"


def test_a_file_in_place_of_the_folder_fails_no_read(machine: Machine) -> None:
    machine.folder.write_bytes(b"")
    assert machine.process().get(KEY) == BODY


def test_a_file_that_cannot_be_read_fails_no_read(machine: Machine) -> None:
    blobs = machine.process()
    path = Path(blobs._path(KEY))
    path.mkdir(parents=True)
    assert blobs.get(KEY) == BODY


def test_no_other_user_can_read_the_files(machine: Machine) -> None:
    machine.process().get(KEY)
    (file,) = machine.files()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_the_files_of_all_processes_stay_below_the_limit_on_average(machine: Machine) -> None:
    folder_bytes_max = 64 * 4096
    processes = [machine.process(FOLDERS * folder_bytes_max) for _ in range(3)]
    totals = []
    for number, key in enumerate(machine.keys_of_a_folder(400)):
        machine.clock.sleep(1)
        processes[number % 3].get(key)
        totals.append(len(machine.files()) * 4096)
    steady = totals[100:]
    # One folder may exceed its share for a while, but the many folders do not do so at the same time.
    assert sum(steady) / len(steady) <= folder_bytes_max
    assert folder_bytes_max / 2 < min(steady) < max(steady) < 1.5 * folder_bytes_max


def test_the_least_recently_read_files_are_removed_first(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.clock, "random", lambda: 0.0)
    blobs = machine.process(FOLDERS * 10 * 4096)
    keys = [*machine.keys_of_a_folder(10)]
    for key in [*keys[:8], keys[0], *keys[8:]]:
        machine.clock.sleep(1)
        blobs.get(key)
    left = {file.name for file in machine.files()}
    assert [Path(blobs._path(key)).name in left for key in keys] == [True, False, False, *[True] * 7]


def test_a_blob_larger_than_a_folder_is_not_cached_and_removes_no_file(machine: Machine) -> None:
    key, blobs = machine.put(1, 50_000), machine.process(FOLDERS * 40 * 1024)
    small = Path(blobs._path(key)).parent / "small"
    small.parent.mkdir(parents=True)
    small.write_bytes(b"small")
    assert blobs.get(key) == machine.stored.get(key)
    assert machine.files() == [small]


def test_an_unfinished_file_of_a_crashed_process_is_removed_like_any_other(machine: Machine) -> None:
    blobs = machine.process(FOLDERS * 4096)
    folder = Path(blobs._path(KEY)).parent
    folder.mkdir(parents=True)
    (folder / "unfinished").write_bytes(bytes(4096))
    os.utime(folder / "unfinished", (0, 0))
    machine.clock.random = lambda: 0.0  # type: ignore[method-assign]
    blobs.get(KEY)
    assert not (folder / "unfinished").exists()


def test_threads_and_processes_may_read_and_remove_concurrently(machine: Machine) -> None:
    keys = [machine.put(number) for number in range(300)]
    bodies = {key: machine.stored.get(key) for key in keys}
    processes = [machine.process(FOLDERS * 8192) for _ in range(4)]

    def read(number: int) -> bool:
        blobs = processes[number % 4]
        return all(blobs.get(key) == bodies[key] for key in keys[number % 7 :] + keys)

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(read, range(16)))

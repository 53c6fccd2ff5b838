"""`FileBlobs` fulfils the contract of blobs, and handles the failures of a file system."""

from __future__ import annotations

import fcntl
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pytest

from stratalog.backends import files
from stratalog.backends.files import FileBlobs
from stratalog.clock import Clock
from stratalog.codec import compress, sha256
from stratalog.errors import Corrupt, Invalid, StorageFull, Unavailable
from stratalog.limits import FILE_LOCK_WAIT_MS_MAX, OBSERVATION_SECONDS_MAX
from stratalog.ports.blobs import Blobs
from stratalog.testing.blobs_contract import BlobsContract, Change
from stratalog.testing.clock import ManualClock
from tests.threads import SECONDS_MAX, join_all

BODY = os.urandom(100_000)
KEY = f"organisation/document/{sha256(BODY).hex()}"
FILE = f"{KEY}.bin.zst"


class TestFileBlobs(BlobsContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def make(self, clock: Clock) -> FileBlobs:
        return FileBlobs(self.folder, clock)

    def alter(self, blobs: Blobs, key: str, change: Change) -> bool:
        alter_file(self.folder / f"{key}.bin.zst", change)
        return True

    def rename(self, blobs: Blobs, key: str, name: str) -> bool:
        (self.folder / f"{key}.bin.zst").rename(self.folder / f"{name}.bin.zst")
        return True


def alter_file(path: Path, change: Change) -> None:
    """Change a file and keep its modification time, as damage does."""
    status, changed = path.stat(), change(path.read_bytes())
    if changed is None:
        path.unlink()
    else:
        path.write_bytes(changed)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_a_list_names_a_folder_whose_name_is_not_utf8_and_has_the_blobs_of_others(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path, ManualClock())
    keys = [f"{folder}/{sha256(folder.encode()).hex()}" for folder in ("a", "b", "c")]
    for key, folder in zip(keys, ("a", "b", "c"), strict=True):
        blobs.put(key, folder.encode())
    os.rename(tmp_path / "b", os.fsencode(tmp_path / "b") + b"\xff")
    named = list[str]()
    assert [stat.key for stat in blobs.list("", damaged=named.append)] == [keys[0], keys[2]]
    assert named == [keys[1].replace("b/", "b\\xff/", 1)]


class ClockThatWaits(ManualClock):
    """A clock whose sleep sets ``waits``, and then lasts until ``done`` is set."""

    def __init__(self, wall_ms: int) -> None:
        super().__init__(wall_ms=wall_ms)
        self.waits, self.done = threading.Event(), threading.Event()

    def sleep(self, seconds: float) -> None:
        self.waits.set()
        assert self.done.wait(SECONDS_MAX)


class ClockThatIsFrozen(ManualClock):
    """A clock that calls ``meanwhile`` during its second read of the time, before it returns the time.

    A put reads the time to check the existing file, and reads the time again for the blob's new modification time.
    """

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self.meanwhile: Callable[[], object] | None = meanwhile
        self._times = 0

    def wall_ms(self) -> int:
        taken = super().wall_ms()
        self._times += 1
        if self.meanwhile is not None and self._times == 2:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        return taken


@pytest.mark.parametrize("damage", [b"", b"no frame", compress(b"another body")])
def test_putting_over_a_damaged_file_restores_it(tmp_path: Path, damage: bytes) -> None:
    blobs = FileBlobs(tmp_path, ManualClock())
    blobs.put(KEY, BODY)
    (tmp_path / FILE).write_bytes(damage)
    blobs.put(KEY, BODY)
    assert blobs.get(KEY) == BODY


def test_blobs_survive_reopening_the_folder(tmp_path: Path) -> None:
    FileBlobs(tmp_path, ManualClock()).put(KEY, BODY)
    assert FileBlobs(tmp_path, ManualClock()).get(KEY) == BODY


@pytest.mark.parametrize("folder", ["..", "a/../b", ".", ".new", "a/.hidden", "a\0b"])
def test_a_key_that_would_leave_the_folder_is_invalid(tmp_path: Path, folder: str) -> None:
    blobs = FileBlobs(tmp_path / "blobs", ManualClock())
    key = f"{folder}/{sha256(b'x').hex()}"
    calls: list[Callable[[], object]] = [
        lambda: blobs.put(key, b"x"),
        lambda: blobs.get(key),
        lambda: blobs.stat(key),
        lambda: blobs.delete(key, "any"),
    ]
    for call in calls:
        with pytest.raises(Invalid):
            call()
    assert [path.name for path in tmp_path.iterdir()] == ["blobs"]


@pytest.mark.parametrize("damage", [b"", b"garbage", None])
def test_a_damaged_file_is_corrupt(tmp_path: Path, damage: bytes | None) -> None:
    blobs = FileBlobs(tmp_path, ManualClock())
    blobs.put(KEY, BODY)
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes()[:-10] if damage is None else damage)
    with pytest.raises(Corrupt):
        blobs.get(KEY)


def test_a_file_with_the_bytes_of_another_blob_is_corrupt(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path, ManualClock())
    other = f"organisation/{sha256(b'other').hex()}"
    blobs.put(KEY, BODY)
    blobs.put(other, b"other")
    (tmp_path / FILE).write_bytes((tmp_path / f"{other}.bin.zst").read_bytes())
    with pytest.raises(Corrupt):
        blobs.get(KEY)


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path, ManualClock())
    with _no_room(), pytest.raises(StorageFull) as raised:
        blobs.put(KEY, BODY)
    assert raised.value.details["path"] == str(tmp_path)
    assert blobs.stat(KEY) is None
    assert list((tmp_path / ".new").iterdir()) == []
    blobs.put(KEY, BODY)
    assert blobs.get(KEY) == BODY


def test_a_put_refreshes_an_existing_blob_on_a_full_disk(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path, ManualClock())
    blobs.put(KEY, BODY)
    before = blobs.stat(KEY)
    with _no_room():
        blobs.put(KEY, BODY)
    assert blobs.stat(KEY) != before


def test_a_folder_at_the_path_of_a_blob_is_unavailable(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path, ManualClock())
    (tmp_path / FILE).mkdir(parents=True)
    with pytest.raises(Unavailable):
        blobs.get(KEY)


def test_a_list_ignores_temporary_and_foreign_files(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path, ManualClock())
    blobs.put(KEY, BODY)
    (tmp_path / ".new" / "left").write_bytes(b"half")
    (tmp_path / "organisation" / ".DS_Store").write_bytes(b"theirs")
    (tmp_path / "organisation" / "notes.txt").write_bytes(b"theirs")
    assert [stat.key for stat in blobs.list("")] == [KEY]


def test_a_delete_spares_a_blob_refreshed_before_the_delete_gets_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = FileBlobs(tmp_path, ManualClock())
    blobs.put(KEY, BODY)
    seen = blobs.stat(KEY)
    assert seen is not None
    lock = fcntl.flock

    def refresh_then_lock(file: BinaryIO, how: int) -> None:
        os.utime(tmp_path / FILE, ns=(1, 1))
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", refresh_then_lock)
    assert not blobs.delete(KEY, seen.stamp)
    assert blobs.get(KEY) == BODY
    assert modified_ms(tmp_path) == 0


@pytest.mark.parametrize("deletes", [False, True], ids=["put", "delete and put"])
def test_a_put_that_froze_does_not_replace_the_newer_time_of_a_later_put(tmp_path: Path, deletes: bool) -> None:
    later = ClockThatWaits(wall_ms=1_700_000_900_000)

    def put_later() -> None:
        blobs = FileBlobs(tmp_path, later)
        seen = blobs.stat(KEY)
        assert seen is not None
        assert not (deletes and blobs.delete(KEY, seen.stamp))
        blobs.put(KEY, BODY)
        later.waits.set()  # without a lock the put does not sleep, and only this line sets the event

    def let_the_other_in() -> None:
        other.start()
        assert later.waits.wait(SECONDS_MAX)

    FileBlobs(tmp_path, ManualClock()).put(KEY, BODY)
    other = threading.Thread(target=put_later, daemon=True)
    FileBlobs(tmp_path, ClockThatIsFrozen(let_the_other_in)).put(KEY, BODY)
    later.done.set()
    join_all([other])
    assert modified_ms(tmp_path) == later.wall_ms()


def test_a_put_and_a_delete_stop_waiting_for_a_locked_file_at_the_limit(tmp_path: Path) -> None:
    clock = ManualClock()
    blobs = FileBlobs(tmp_path, clock)
    blobs.put(KEY, BODY)
    stat = blobs.stat(KEY)
    assert stat is not None
    with (tmp_path / FILE).open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        begun = clock.boot_ms()
        with pytest.raises(Unavailable, match="locked"):
            blobs.put(KEY, BODY)
        with pytest.raises(Unavailable, match="locked"):
            blobs.delete(KEY, stat.stamp)
        assert clock.boot_ms() - begun == 2 * FILE_LOCK_WAIT_MS_MAX
        assert blobs.get(KEY) == BODY
    assert blobs.delete(KEY, stat.stamp)


def test_opening_moves_back_a_blob_that_a_crash_left_in_the_aside_folder(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path, ManualClock())
    blobs.put(KEY, BODY)
    aside = tmp_path / ".aside" / f"{FILE}.id"
    aside.parent.mkdir(parents=True)
    os.rename(tmp_path / FILE, aside)
    assert FileBlobs(tmp_path, ManualClock()).get(KEY) == BODY
    assert not aside.exists()


def modified_ms(folder: Path) -> int:
    stat = FileBlobs(folder, ManualClock()).stat(KEY)
    assert stat is not None
    return stat.modified_ms


@contextmanager
def _no_room() -> Iterator[None]:
    """Make writes beyond the first 1,000 bytes of a file fail, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


HOLD_AND_LIST = """
import sys
from stratalog.backends import files
from stratalog.backends.files import FileBlobs
from stratalog.clock import SystemClock
from stratalog.codec import sha256
assert sys.getfilesystemencoding() == sys.argv[2], sys.getfilesystemencoding()
blobs = FileBlobs(sys.argv[1], SystemClock())
body = b"body"
key = f"\\u8a08\\u753b/\\xe9/{sha256(body).hex()}"
blobs.put(key, body)
[stat] = blobs.list("\\u8a08\\u753b/")
assert (stat.key, blobs.get(key)) == (key, body)
assert not blobs.delete(key, "another") and len(sys.argv) == 3
"""


def test_names_of_files_are_utf_8_whatever_the_locale_says(tmp_path: Path) -> None:
    plain = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
    for encoding, environment in (("ascii", {**plain, "PYTHONUTF8": "0"}), ("utf-8", {**plain, "PYTHONUTF8": "1"})):
        command = [sys.executable, "-c", HOLD_AND_LIST, str(tmp_path / "blobs"), encoding]
        subprocess.run(command, check=True, env={**os.environ, **environment})
    assert [os.fsencode(path.name) for path in (tmp_path / "blobs" / "計画").iterdir()] == ["é".encode()]


def test_a_put_checks_an_existing_file_once_per_observation_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    blobs = FileBlobs(tmp_path, clock)
    read: list[str] = []
    is_intact = files._is_intact
    monkeypatch.setattr(files, "_is_intact", lambda path, data: read.append(path) or is_intact(path, data))
    blobs.put(KEY, BODY)
    for _ in range(5):
        blobs.put(KEY, BODY)
    assert len(read) == 1
    clock.sleep(OBSERVATION_SECONDS_MAX + 1)
    for _ in range(5):
        blobs.put(KEY, BODY)
    assert len(read) == 2
    alter_file(tmp_path / FILE, lambda stored: stored[:-1])
    blobs.put(KEY, BODY)
    assert blobs.get(KEY) == BODY

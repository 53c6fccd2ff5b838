"""Processes share a folder of blobs. Some processes die during a change, or change the same files at the same time."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, BinaryIO

import pytest

from stratalog.backends.files import FileBlobs
from stratalog.codec import sha256
from stratalog.errors import Unavailable
from stratalog.testing.clock import ManualClock
from stratalog.testing.disk import Disk

BODY = os.urandom(100_000)
KEY = f"organisation/document/items/{sha256(BODY).hex()}"

KILLED_WHILE_DELETING = """
import os, signal, sys
from stratalog.backends.files import FileBlobs
from stratalog.clock import SystemClock
folder, key, stamp = sys.argv[1:]
blobs = FileBlobs(folder, SystemClock())
os.unlink = lambda path: os.kill(os.getpid(), signal.SIGKILL)
blobs.delete(key, stamp)
"""
KILLED_WHILE_WRITING = """
import os, signal, sys
from stratalog.backends.files import FileBlobs
from stratalog.clock import SystemClock
from stratalog.codec import sha256
body = os.urandom(100_000)
blobs = FileBlobs(sys.argv[1], SystemClock())
os.link = lambda source, target: os.kill(os.getpid(), signal.SIGKILL)
blobs.put(f"organisation/{sha256(body).hex()}", body)
"""


def made(folder: Path) -> FileBlobs:
    return FileBlobs(folder, ManualClock())


def stamp_of(blobs: FileBlobs) -> str:
    stat = blobs.stat(KEY)
    assert stat is not None
    return stat.stamp


def run_killed(program: str, *arguments: str) -> None:
    ended = subprocess.run([sys.executable, "-c", program, *arguments], check=False)
    assert ended.returncode == -signal.SIGKILL


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("[!.]*") if path.is_file()]


def test_a_process_that_is_killed_while_it_deletes_leaves_the_blob_and_no_lock(tmp_path: Path) -> None:
    blobs = made(tmp_path)
    blobs.put(KEY, BODY)
    before = stamp_of(blobs)
    run_killed(KILLED_WHILE_DELETING, str(tmp_path), KEY, before)
    assert blobs.get(KEY) == BODY
    assert [stat.stamp for stat in blobs.list("organisation/")] == [before]
    blobs.put(KEY, BODY)
    assert blobs.delete(KEY, before) is False
    assert blobs.delete(KEY, stamp_of(blobs)) is True
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    ("others_do", "deleted"),
    [(["put"], False), (["delete"], True), (["delete", "put"], False)],
    ids=["put it", "delete it", "delete it and put it"],
)
def test_a_delete_removes_only_the_generation_of_the_given_stamp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others_do: list[str], deleted: bool
) -> None:
    """Other processes act after the delete has compared the stamp and before the delete locks the file."""
    clock = ManualClock()
    blobs, others = (FileBlobs(tmp_path, clock) for _ in range(2))
    blobs.put(KEY, BODY)
    stamp, lock = stamp_of(blobs), fcntl.flock

    def others_first(file: BinaryIO, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        for act in others_do:
            others.put(KEY, BODY) if act == "put" else others.delete(KEY, stamp)
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", others_first)
    assert blobs.delete(KEY, stamp) is deleted
    assert (blobs.stat(KEY) is None) is deleted


def test_a_delete_with_an_outdated_stamp_never_hides_the_blob(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blob's file is at its path after each operation of the delete."""
    blobs, lock = made(tmp_path), fcntl.flock
    blobs.put(KEY, BODY)
    stamp = stamp_of(blobs)
    (path,) = files(tmp_path / "organisation")
    seen: list[bool] = []

    def refresh_then_lock(file: BinaryIO, how: int) -> None:
        os.utime(path, ns=(1, 1))
        lock(file, how)

    def watched(operation: Callable[..., None]) -> Callable[..., None]:
        def watch(*paths: str) -> None:
            operation(*paths)
            seen.append(path.exists())

        return watch

    monkeypatch.setattr(fcntl, "flock", watched(refresh_then_lock))
    for name in ("link", "rename", "unlink"):
        monkeypatch.setattr(os, name, watched(getattr(os, name)))
    assert blobs.delete(KEY, stamp) is False
    assert seen
    assert all(seen)


def test_a_put_stores_a_blob_that_another_process_deletes_during_the_put(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs, others, lock = made(tmp_path), made(tmp_path), fcntl.flock
    blobs.put(KEY, BODY)
    # With this second blob, no delete removes the folder.
    blobs.put(f"organisation/document/items/{sha256(b'stays').hex()}", b"stays")

    def others_first(file: BinaryIO, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        assert others.delete(KEY, stamp_of(others))
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", others_first)
    blobs.put(KEY, BODY)
    assert blobs.get(KEY) == BODY


def test_opening_the_folder_removes_temporary_files_of_killed_processes(tmp_path: Path) -> None:
    for _ in range(3):
        run_killed(KILLED_WHILE_WRITING, str(tmp_path))
    assert len(files(tmp_path / ".new")) == 1
    made(tmp_path)
    assert files(tmp_path) == []


def test_opening_the_folder_leaves_temporary_files_of_running_puts(tmp_path: Path) -> None:
    opened: list[int] = []

    def open_beside(descriptor: int) -> None:
        if files(tmp_path / ".new") and not opened:
            opened.append(1)
            made(tmp_path)
            assert len(files(tmp_path / ".new")) == 1

    blobs = FileBlobs(tmp_path, ManualClock(), sync=open_beside)
    blobs.put(KEY, BODY)
    assert opened
    assert blobs.get(KEY) == BODY


def test_a_put_rewrites_its_temporary_file_if_another_process_removes_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs, link = made(tmp_path), os.link

    def taken(source: str, target: str) -> None:
        monkeypatch.setattr(os, "link", link)
        made(tmp_path)
        link(source, target)

    monkeypatch.setattr(os, "link", taken)
    blobs.put(KEY, BODY)
    assert blobs.get(KEY) == BODY


def test_deleting_the_last_blob_removes_its_folders(tmp_path: Path) -> None:
    blobs = made(tmp_path)
    blobs.put(KEY, BODY)
    other = f"organisation/other/items/{sha256(b'other').hex()}"
    blobs.put(other, b"other")
    assert blobs.delete(KEY, stamp_of(blobs))
    assert not (tmp_path / "organisation/document").exists()
    assert blobs.get(other) == b"other"
    stat = blobs.stat(other)
    assert stat is not None
    assert blobs.delete(other, stat.stamp)
    assert sorted(path.relative_to(tmp_path).name for path in tmp_path.rglob("*")) == [".new"]


def test_a_put_succeeds_while_another_process_removes_its_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs, link = made(tmp_path), os.link
    folder = tmp_path / "organisation/document/items"

    def removed_first(source: str, target: str) -> None:
        monkeypatch.setattr(os, "link", link)
        folder.rmdir()
        link(source, target)

    monkeypatch.setattr(os, "link", removed_first)
    blobs.put(KEY, BODY)
    assert blobs.get(KEY) == BODY


def test_a_put_is_unavailable_if_its_folder_disappears_in_each_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(source: str, target: str) -> Any:
        raise FileNotFoundError

    monkeypatch.setattr(os, "link", gone)
    with pytest.raises(Unavailable):
        made(tmp_path).put(KEY, BODY)


@pytest.mark.parametrize("seed", range(5))
def test_a_put_syncs_a_folder_that_another_process_has_recreated(tmp_path: Path, seed: int) -> None:
    """A third process makes the folder without a sync of its name. Then the first process puts the blob again."""
    disk = Disk(str(tmp_path / "disk"), Random(seed))
    clock = ManualClock()
    first = FileBlobs(Path(disk.folder) / "blobs", clock, sync=disk.sync)
    first.put(KEY, BODY)
    second = FileBlobs(Path(disk.folder) / "blobs", clock, sync=disk.sync)
    assert second.delete(KEY, stamp_of(second))
    (Path(disk.folder) / "blobs/organisation/document/items").mkdir(parents=True)
    first.put(KEY, BODY)
    after = disk.fail(str(tmp_path / "next"))
    assert FileBlobs(Path(after.folder) / "blobs", clock).get(KEY) == BODY


@pytest.mark.parametrize("seed", range(5))
def test_a_folder_recreated_during_a_put_does_not_count_as_durable(tmp_path: Path, seed: int) -> None:
    """Another process deletes the blob and makes the folder again while the put syncs the folders above."""
    disk = Disk(str(tmp_path / "disk"), Random(seed))
    clock = ManualClock()
    folder = Path(disk.folder) / "blobs"
    other = FileBlobs(folder, clock, sync=disk.sync)
    above = folder / "organisation"
    replaced: list[Path] = []

    def replaced_meanwhile(descriptor: int) -> None:
        if not replaced and above.exists() and os.path.samestat(os.fstat(descriptor), above.stat()):
            replaced.append(above)
            assert other.delete(KEY, stamp_of(other))
            (above / "document/items").mkdir(parents=True)
        disk.sync(descriptor)

    blobs = FileBlobs(folder, clock, sync=replaced_meanwhile)
    blobs.put(KEY, BODY)
    blobs.put(KEY, BODY)
    assert replaced
    after = disk.fail(str(tmp_path / "next"))
    assert FileBlobs(Path(after.folder) / "blobs", clock).get(KEY) == BODY


def test_a_second_put_into_a_folder_does_not_sync_the_parent_folders_again(tmp_path: Path) -> None:
    synced: list[int] = []
    blobs = FileBlobs(tmp_path, ManualClock(), sync=synced.append)
    blobs.put(KEY, BODY)
    before = len(synced)
    another = f"organisation/document/items/{sha256(b'another').hex()}"
    blobs.put(another, b"another")
    assert len(synced) - before == 2  # the file and its folder


@pytest.mark.parametrize("error", [FileExistsError, FileNotFoundError])
def test_a_put_recreates_a_folder_that_another_process_removes_during_its_creation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[OSError]
) -> None:
    """Another process removes the folder after `mkdir` found it, or removes the parent folder before `mkdir`."""
    blobs, mkdir, removed = made(tmp_path), os.mkdir, []

    def beside_a_remover(path: str, *rest: Any) -> None:
        if path not in removed:
            removed.append(path)
            raise error(path)
        mkdir(path, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(os, "mkdir", beside_a_remover)
        blobs.put(KEY, BODY)
    assert removed
    assert blobs.get(KEY) == BODY


def test_a_file_at_the_path_of_a_folder_is_unavailable_and_left_unchanged(tmp_path: Path) -> None:
    (tmp_path / "organisation").write_text("not ours")
    blobs = made(tmp_path)
    with pytest.raises(Unavailable):
        blobs.put(KEY, BODY)
    assert (tmp_path / "organisation").read_text() == "not ours"

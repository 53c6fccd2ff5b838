"""What processes that end amid a change leave in a folder of blobs, and what others make of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

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
blobs, rename = FileBlobs(folder, SystemClock()), os.rename

def refresh_and_die(source, target):
    os.utime(source)  # another writer puts the same content in the moment before
    rename(source, target)
    os.kill(os.getpid(), signal.SIGKILL)

os.rename = refresh_and_die
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
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("look", ["get", "stat", "list", "put"], ids=lambda look: f"who {look}s it finds it")
def test_a_blob_that_a_killed_process_had_aside_is_there_for_processes_that_run(tmp_path: Path, look: str) -> None:
    blobs = made(tmp_path)
    blobs.put(KEY, BODY)
    run_killed(KILLED_WHILE_DELETING, str(tmp_path), KEY, stamp_of(blobs))
    assert len(files(tmp_path / ".aside")) == 1
    if look == "list":
        assert [stat.key for stat in blobs.list("organisation/")] == [KEY]
    elif look == "stat":
        assert blobs.stat(KEY) is not None
    elif look == "put":
        blobs.put(KEY, BODY)
    assert blobs.get(KEY) == BODY
    assert files(tmp_path / ".aside") == [] or look == "put"
    assert list(blobs.list("")) != []
    assert list((tmp_path / ".aside").iterdir()) == []


@pytest.mark.parametrize("moment", ["after the rename", "before the unlink", "between its link and its unlink"])
def test_a_delete_goes_on_beside_a_process_that_opens_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    blobs = made(tmp_path)
    blobs.put(KEY, BODY)
    stamp, rename, unlink = stamp_of(blobs), os.rename, os.unlink

    def rename_then_open(source: str, target: str) -> None:
        rename(source, target)
        if moment == "after the rename":
            made(tmp_path)

    def killed(path: str) -> None:
        raise KeyboardInterrupt

    def open_then_unlink(path: str) -> None:
        if ".aside" in path and moment != "after the rename":
            monkeypatch.setattr(os, "unlink", unlink if moment == "before the unlink" else killed)
            with suppress(KeyboardInterrupt):
                made(tmp_path)
            monkeypatch.setattr(os, "unlink", unlink)
        unlink(path)

    monkeypatch.setattr(os, "rename", rename_then_open)
    monkeypatch.setattr(os, "unlink", open_then_unlink)
    assert blobs.delete(KEY, stamp) is False
    assert blobs.get(KEY) == BODY
    monkeypatch.undo()
    assert blobs.delete(KEY, stamp) is True
    assert files(tmp_path) == []


def test_what_killed_processes_began_to_write_goes_when_the_folder_is_opened(tmp_path: Path) -> None:
    for _ in range(3):
        run_killed(KILLED_WHILE_WRITING, str(tmp_path))
    assert len(files(tmp_path / ".new")) == 1
    made(tmp_path)
    assert files(tmp_path) == []


def test_what_somebody_writes_just_now_stays_when_the_folder_is_opened(tmp_path: Path) -> None:
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


def test_a_file_that_was_taken_for_a_left_one_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs, link = made(tmp_path), os.link

    def taken(source: str, target: str) -> None:
        monkeypatch.setattr(os, "link", link)
        made(tmp_path)
        link(source, target)

    monkeypatch.setattr(os, "link", taken)
    blobs.put(KEY, BODY)
    assert blobs.get(KEY) == BODY


def test_folders_go_with_their_last_blob(tmp_path: Path) -> None:
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
    assert sorted(path.relative_to(tmp_path).name for path in tmp_path.rglob("*")) == [".aside", ".new"]


def test_a_put_beside_the_removal_of_its_empty_folder_stores_its_blob(
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


def test_a_folder_that_never_stays_ends_a_put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(source: str, target: str) -> Any:
        raise FileNotFoundError

    monkeypatch.setattr(os, "link", gone)
    with pytest.raises(Unavailable):
        made(tmp_path).put(KEY, BODY)


@pytest.mark.parametrize("seed", range(5))
def test_a_folder_that_others_removed_and_made_again_is_made_durable_again(tmp_path: Path, seed: int) -> None:
    """The third process has made the folder, and has not synced its name when the first puts there again."""
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


def test_a_folder_that_stays_is_synced_once_with_those_above_it(tmp_path: Path) -> None:
    synced: list[int] = []
    blobs = FileBlobs(tmp_path, ManualClock(), sync=synced.append)
    blobs.put(KEY, BODY)
    before = len(synced)
    another = f"organisation/document/items/{sha256(b'another').hex()}"
    blobs.put(another, b"another")
    assert len(synced) - before == 2  # the file, and its folder


@pytest.mark.parametrize("error", [FileExistsError, FileNotFoundError])
def test_a_folder_that_others_remove_while_it_is_made_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[OSError]
) -> None:
    """It stood at the attempt and is gone at the look; or the one above it went between the two attempts."""
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


def test_a_file_in_the_place_of_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "organisation").write_text("not ours")
    blobs = made(tmp_path)
    with pytest.raises(Unavailable):
        blobs.put(KEY, BODY)
    assert (tmp_path / "organisation").read_text() == "not ours"

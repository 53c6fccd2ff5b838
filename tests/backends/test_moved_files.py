"""A store or client whose files were moved, deleted or replaced, while open or before, loses no acknowledged commit."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import stratalog
from stratalog.backends.cached_blobs import CachedBlobs
from stratalog.backends.memory import MemoryBlobs
from stratalog.client import Client
from stratalog.client.file import ClientFile
from stratalog.clock import SystemClock
from stratalog.codec import sha256
from stratalog.errors import Corrupt, Unavailable
from stratalog.testing.clock import ManualClock
from tests.client.helpers import InProcess, new_document


def _replace(folder: Path) -> None:
    shutil.copytree(folder, folder.with_name("copy"))
    shutil.rmtree(folder)
    folder.with_name("copy").rename(folder)


def _move(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))


def _replace_file(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").rename(path)


@pytest.mark.parametrize("change", [_replace, _move, shutil.rmtree], ids=["replaced", "moved", "deleted"])
def test_a_store_whose_files_are_gone_acknowledges_no_commit_and_answers_no_read(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    folder = tmp_path / "data"
    with stratalog.open(folder, clock=ManualClock()) as store:
        document = store.create("acme", "plan")
        document.put("a", 1)
        change(folder)
        with pytest.raises(Unavailable, match="moved, deleted or replaced"):
            document.put("b", 2)
        with pytest.raises(Unavailable, match="moved, deleted or replaced"):
            store.document("acme", "plan")


def test_a_store_that_is_moved_and_moved_back_works(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with stratalog.open(folder, clock=ManualClock()) as store:
        document = store.create("acme", "plan")
        _move(folder)
        with pytest.raises(Unavailable):
            document.put("a", 1)
        (tmp_path / "moved").rename(folder)
        document.put("a", 1)
        assert document.get("a") == 1


def test_a_store_of_a_relative_path_is_the_same_after_a_change_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with stratalog.open("data") as store:
        store.create("acme", "plan").put("a", 1)
        os.chdir("elsewhere")
        store.records("acme").put("r", bytes(1_000_000))
        # No connection for reads is open now, so the next read opens one.
        store.environment.index._file._close_readers()  # type: ignore[attr-defined]
        assert store.document("acme", "plan").get("a") == 1
    assert list((tmp_path / "elsewhere").iterdir()) == []
    with stratalog.open(tmp_path / "data") as again:
        assert again.records("acme").get("r").body == bytes(1_000_000)


def test_a_cache_of_a_relative_path_is_the_same_after_a_change_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    blobs, key = MemoryBlobs(SystemClock()), f"a/{sha256(b'body').hex()}"
    cached = CachedBlobs(blobs, "cache", SystemClock())
    os.chdir("elsewhere")
    blobs.put(key, b"body")
    assert cached.get(key) == b"body"
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("loss", [os.unlink, lambda path: os.truncate(path, 0)], ids=["missing", "empty"])
def test_a_store_whose_database_is_lost_keeps_the_commits_in_its_write_ahead_log(
    tmp_path: Path, loss: Callable[[Path], None]
) -> None:
    """The store was copied while it was open, or its process was killed, so its write-ahead log has commits."""
    database, log = tmp_path / "copy" / "index.sqlite", tmp_path / "copy" / "index.sqlite-wal"
    with stratalog.open(tmp_path / "data") as store:
        store.create("acme", "plan").put("a", 1)
        shutil.copytree(tmp_path / "data", tmp_path / "copy")
    before = database.read_bytes()
    loss(database)
    with pytest.raises(Corrupt, match="write-ahead log has commits"):
        stratalog.open(tmp_path / "copy")
    database.write_bytes(before)
    with stratalog.open(tmp_path / "copy") as found:
        assert found.document("acme", "plan").get("a") == 1
    database.unlink()
    log.write_bytes(b"")  # a log without commits, as after a close that could not delete it
    with stratalog.open(tmp_path / "copy") as new:
        assert list(new.list("acme")) == []


def test_a_client_s_file_that_is_lost_keeps_the_mutations_in_its_write_ahead_log(tmp_path: Path) -> None:
    path, copy = str(tmp_path / "client.sqlite"), str(tmp_path / "copy.sqlite")
    file = ClientFile(path)
    with file.transaction() as connection:
        connection.execute("INSERT INTO facts VALUES ('a', x'01')")
    for suffix in ("", "-wal"):
        shutil.copy(path + suffix, copy + suffix)
    file.close()
    os.rename(copy, path)
    with pytest.raises(Corrupt, match="write-ahead log has commits"):
        ClientFile(copy)
    os.rename(path, copy)
    again = ClientFile(copy)
    assert again.first("SELECT value FROM facts WHERE name = 'a'") == b"\x01"
    again.close()


@pytest.mark.parametrize("change", [_replace_file, _move, os.unlink], ids=["replaced", "moved", "deleted"])
def test_a_client_whose_file_is_gone_acknowledges_no_mutation_and_sends_those_that_it_has(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    path, document = tmp_path / "client.sqlite", new_document()
    with Client(InProcess(document), str(path)) as client:
        stored = client.mutate("put", {"key": "a", "value": 1})
        change(path)
        with pytest.raises(Unavailable, match="moved, deleted or replaced"):
            client.mutate("put", {"key": "b", "value": 2})
        assert dict(client.scan()) == {"a": 1}
        client.sync()
        assert stored.status == "applied"
    assert document.get("a") == 1

"""A store or client whose files are moved, deleted or replaced, before or while it is open, loses no commit."""

from __future__ import annotations

import errno
import os
import pwd
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import apsw
import pytest

import stratalog
from stratalog.backends.cached_blobs import CachedBlobs
from stratalog.backends.files import FileBlobs
from stratalog.backends.memory import MemoryBlobs
from stratalog.backends.sqlite_file import SqliteFile
from stratalog.backends.turnstile import open_lock_file
from stratalog.client import Client
from stratalog.client.file import ClientFile
from stratalog.clock import SystemClock
from stratalog.codec import sha256
from stratalog.errors import Corrupt, Unavailable
from stratalog.folders import OpenPath, make_folder
from stratalog.maintenance.scrub import last_scrub_ms, scrub
from stratalog.testing.clock import ManualClock
from tests.client.helpers import InProcess, new_document

BODY = b"body"
KEY = f"acme/{sha256(BODY).hex()}"


class _Replacing(apsw.VFS):
    """Replaces the next database by a copy, before or after SQLite opens it, as `moment` says."""

    def __init__(self) -> None:
        self.moment = ""
        super().__init__("replacing", "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        moment, self.moment = self.moment, ""
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if path and moment == "before":
            _replace_file(Path(path))
        file = apsw.VFSFile("", name, flags)
        if path and moment == "after":
            _replace_file(Path(path))
        return file


@pytest.fixture
def replacing() -> Iterator[_Replacing]:
    vfs = _Replacing()
    yield vfs
    vfs.unregister()


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


def test_an_error_of_the_file_system_is_not_reported_as_a_moved_file(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with stratalog.open(folder, clock=ManualClock()) as store:
        document = store.create("acme", "plan")
        _move(folder)
        folder.symlink_to(folder)
        with pytest.raises(Unavailable, match="the file system refused the operation"):
            document.put("a", 1)
        folder.unlink()
        (tmp_path / "moved").rename(folder)
        document.put("a", 1)


@pytest.mark.parametrize("call", ["make_folder", "open_lock_file"])
def test_an_error_of_permission_names_the_owner_if_this_is_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path, owner = str(tmp_path / "store" / "index.sqlite.lock"), os.geteuid()

    def refused(*_: object, **__: object) -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    def message() -> str:
        with monkeypatch.context() as patch:
            patch.setattr(os, "mkdir" if call == "make_folder" else "open", refused)
            with pytest.raises(Unavailable, match="Permission denied") as caught:
                make_folder(tmp_path / "store") if call == "make_folder" else open_lock_file(path)
        return str(caught.value)

    assert "owner=" not in message()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    monkeypatch.setattr(pwd, "getpwuid", lambda id: pwd.struct_passwd((f"user {id}", "", 0, 0, "", "", "")))
    assert f"owner='user {owner}' user='user {owner + 1}'" in message()


def test_a_file_that_is_replaced_while_sqlite_opens_it_is_not_accepted(tmp_path: Path, replacing: _Replacing) -> None:
    path = str(tmp_path / "index.sqlite")
    SqliteFile(path, ManualClock(), "full", None).close()
    replacing.moment = "after"
    with pytest.raises(Unavailable, match="moved, deleted or replaced"):
        SqliteFile(path, ManualClock(), "full", None, "replacing")


@pytest.mark.parametrize(
    ("module", "open_file"),
    [
        ("backends.sqlite_connections", lambda path: SqliteFile(path, ManualClock(), "full", None)),
        ("client.file", ClientFile),
    ],
    ids=["store", "client"],
)
def test_a_file_that_is_moved_while_it_is_opened_leaves_no_empty_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, open_file: Callable[[str], object]
) -> None:
    """The next open would take an empty file for a new one."""

    class Moving(OpenPath):
        def __init__(self, path: str, what: str) -> None:
            super().__init__(path, what)
            _move(Path(path))

    monkeypatch.setattr(f"stratalog.{module}.OpenPath", Moving)
    path = tmp_path / "index.sqlite"
    with pytest.raises(Unavailable):
        open_file(str(path))
    assert not path.exists()


def test_a_read_uses_no_file_that_replaced_the_store_s_file_while_the_read_began(
    tmp_path: Path, replacing: _Replacing
) -> None:
    with closing(SqliteFile(str(tmp_path / "index.sqlite"), ManualClock(), "full", None, "replacing")) as file:
        replacing.moment = "before"
        with pytest.raises(Unavailable, match="moved, deleted or replaced"):
            file.read("SELECT 1", ())


@pytest.mark.parametrize("is_remade", [False, True], ids=["moved", "replaced"])
def test_blobs_whose_folder_is_gone_are_not_reported_as_missing_and_none_is_acknowledged(
    tmp_path: Path, is_remade: bool
) -> None:
    blobs = FileBlobs(tmp_path / "blobs", ManualClock())
    blobs.put(KEY, BODY)
    _move(tmp_path / "blobs")
    if is_remade:
        (tmp_path / "blobs/.new").mkdir(parents=True)
    calls: list[Callable[[], object]] = [
        lambda: blobs.get(KEY),
        lambda: blobs.stat(KEY),
        lambda: list(blobs.list("")),
        lambda: blobs.delete(KEY, "stamp"),
        lambda: blobs.put(KEY, BODY),
    ]
    for call in calls:
        with pytest.raises(Unavailable, match="folder of the blobs was moved, deleted or replaced"):
            call()
    shutil.rmtree(tmp_path / "blobs", ignore_errors=True)
    (tmp_path / "moved").rename(tmp_path / "blobs")
    assert blobs.get(KEY) == BODY
    blobs.put(KEY, BODY)


def test_a_put_during_the_move_of_its_folder_does_not_make_the_folder_again(tmp_path: Path) -> None:
    folder = tmp_path / "blobs"
    moving = False

    def sync(descriptor: int) -> None:
        if moving and folder.exists():
            _move(folder)

    blobs = FileBlobs(folder, ManualClock(), sync=sync)
    moving = True
    with pytest.raises(Unavailable, match="moved, deleted or replaced"):
        blobs.put(KEY, BODY)
    assert not folder.exists()


class ReplacedOnce(FileBlobs):
    """Blobs whose folder is replaced by another folder during the first write, and is then put back."""

    writes = 0

    def _write(self, path: str, data: bytes) -> bool:
        self.writes += 1
        if self.writes > 1:
            return super()._write(path, data)
        folder = Path(self._folder)
        _move(folder)
        (folder / ".new").mkdir(parents=True)
        assert super()._write(path, data)
        shutil.rmtree(folder)
        folder.with_name("moved").rename(folder)
        return True


def test_a_put_during_which_its_folder_was_replaced_for_a_moment_is_in_the_folder(tmp_path: Path) -> None:
    blobs = ReplacedOnce(tmp_path / "blobs", ManualClock())
    blobs.put(KEY, BODY)
    assert (blobs.writes, blobs.get(KEY)) == (2, BODY)


def test_a_store_at_a_path_with_two_dots_after_a_link_is_where_the_system_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real/inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real/inner")
    monkeypatch.chdir(tmp_path)
    with stratalog.open("link/../data") as store:
        store.records("acme").put("r", bytes(1_000_000))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]
    with stratalog.open(tmp_path / "real/data", create=False) as again:
        assert again.records("acme").get("r").body == bytes(1_000_000)


def test_a_scrub_of_blobs_whose_folder_is_gone_finishes_no_round(tmp_path: Path) -> None:
    with stratalog.open(tmp_path / "data", clock=ManualClock()) as store:
        store.records("acme").put("r", bytes(1_000_000))
        (tmp_path / "data/blobs").rename(tmp_path / "moved")
        with pytest.raises(Unavailable):
            scrub(store.environment, 30)
        assert last_scrub_ms(store.environment) == 0


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
    with stratalog.open(tmp_path / "copy") as store:
        assert store.document("acme", "plan").get("a") == 1
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

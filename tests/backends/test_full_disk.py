"""Stores and clients' files on a full disk, over a quota, and on a file system that has become read-only."""

from __future__ import annotations

import errno
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

import stratalog
from stratalog.backends.sqlite_file import SqliteFile
from stratalog.client.file import ClientFile
from stratalog.errors import OutcomeUnknown, StorageFull, StratalogError, Unavailable
from stratalog.process_fork import delay_forks
from stratalog.testing.clock import ManualClock
from tests.threads import join_all, start_all

DEFAULT = apsw.vfs_names()[0]


class FullDisk(apsw.VFS):
    """The default file system of SQLite while a test runs. While ``full``, a write to a file fails for want of room.

    With another ``errno`` than ENOSPC, SQLite reports the failed write as an I/O error.
    """

    full = False
    errno = errno.ENOSPC

    def __init__(self) -> None:
        super().__init__("full disk", DEFAULT, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return FullFile(self, name, flags)

    def xGetLastError(self) -> tuple[int, str]:  # noqa: N802
        return self.errno, ""

    def check_write(self) -> None:
        """Raise the error of a write while the disk is full."""
        if self.full:
            raise apsw.exception_for(apsw.SQLITE_FULL if self.errno == errno.ENOSPC else apsw.SQLITE_IOERR_WRITE)


class FullFile(apsw.VFSFile):
    def __init__(self, disk: FullDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._disk = disk
        super().__init__(DEFAULT, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.check_write()
        super().xWrite(data, offset)


@pytest.fixture
def disk() -> Iterator[FullDisk]:
    disk = FullDisk()
    yield disk
    disk.unregister()


NO_ROOM = [
    pytest.param(errno.ENOSPC, id="full"),
    pytest.param(errno.EDQUOT, id="quota"),
    pytest.param(errno.EFBIG, id="file-too-large"),
]


@pytest.mark.parametrize("reason", NO_ROOM)
def test_a_store_whose_process_was_killed_can_be_read_on_a_full_disk(
    tmp_path: Path, disk: FullDisk, reason: int
) -> None:
    with stratalog.open(tmp_path / "data") as store:
        store.create("acme", "plan").put("a", 1)
        shutil.copytree(tmp_path / "data", tmp_path / "killed")
    disk.errno, disk.full = reason, True
    with stratalog.open(tmp_path / "killed", clock=ManualClock()) as store:
        assert store.document("acme", "plan").get("a") == 1
        with pytest.raises(StorageFull):
            store.document("acme", "plan").put("b", 2)
        assert store.document("acme", "plan").version == 1
        disk.full = False
        store.document("acme", "plan").put("b", 2)


@pytest.mark.parametrize("reason", NO_ROOM)
def test_a_client_s_file_can_be_opened_on_a_full_disk(tmp_path: Path, disk: FullDisk, reason: int) -> None:
    path, killed = str(tmp_path / "client.sqlite"), str(tmp_path / "killed.sqlite")
    file = ClientFile(path)
    with file.transaction() as connection:
        connection.execute("INSERT INTO facts VALUES ('a', x'01')")
    for suffix in ("", "-wal"):
        shutil.copy(path + suffix, killed + suffix)
    file.close()
    disk.errno, disk.full = reason, True
    with closing(ClientFile(killed)) as again:
        assert again.first("SELECT value FROM facts WHERE name = 'a'") == b"\x01"
        disk.full = False


@pytest.mark.parametrize("create", [stratalog.open, ClientFile])
@pytest.mark.parametrize("reason", NO_ROOM)
def test_the_creation_of_a_file_on_a_full_disk_raises_storage_full(
    tmp_path: Path, disk: FullDisk, reason: int, create: Callable[[str], stratalog.Store | ClientFile]
) -> None:
    disk.errno, disk.full = reason, True
    with pytest.raises(StorageFull):
        create(str(tmp_path / "new"))
    disk.full = False
    create(str(tmp_path / "new")).close()


REFUSALS = [
    pytest.param(errno.ENOSPC, StorageFull, id="full"),
    pytest.param(errno.EDQUOT, StorageFull, id="quota"),
    pytest.param(errno.EFBIG, StorageFull, id="file-too-large"),
    pytest.param(errno.EROFS, Unavailable, id="read-only"),
    pytest.param(errno.EIO, OutcomeUnknown, id="unknown"),
]


@pytest.mark.parametrize(("reason", "kind"), REFUSALS)
def test_a_commit_that_the_file_system_refuses_has_the_error_of_its_reason(
    tmp_path: Path, disk: FullDisk, reason: int, kind: type[StratalogError]
) -> None:
    with stratalog.open(tmp_path, clock=ManualClock()) as store:
        disk.errno, disk.full = reason, True
        with pytest.raises(StratalogError) as raised:
            store.queue.send("ada", [b"1"])
        disk.full = False
        assert type(raised.value) is kind
        assert store.queue.receive() == []
        store.queue.send("ada", [b"2"])
        assert [message.body for message in store.queue.receive()] == [b"2"]


@pytest.mark.parametrize(("reason", "kind"), REFUSALS)
def test_a_refused_transaction_of_a_client_s_file_has_the_error_of_its_reason(
    tmp_path: Path, disk: FullDisk, reason: int, kind: type[StratalogError]
) -> None:
    with closing(ClientFile(tmp_path / "client.sqlite")) as file:
        disk.errno, disk.full = reason, True
        with pytest.raises(StratalogError) as raised, file.transaction() as connection:
            connection.execute("INSERT INTO facts VALUES ('a', x'01')")
        disk.full = False
        assert type(raised.value) is kind
        assert file.first("SELECT value FROM facts WHERE name = 'a'") is None


def test_a_closed_store_is_read_without_room_for_shared_memory_and_a_write_says_so(tmp_path: Path) -> None:
    with stratalog.open(tmp_path) as store:
        store.create("acme", "plan").put("a", 1)
    with ExitStack() as full:
        full.enter_context(_file_bytes_max(4096))
        store = full.enter_context(stratalog.open(tmp_path, clock=ManualClock()))  # a commit is tried for ten seconds
        plan = store.document("acme", "plan")
        assert plan.get("a") == 1
        with pytest.raises(StorageFull):
            plan.put("a", 2)
    with stratalog.open(tmp_path) as store:
        assert store.document("acme", "plan").get("a") == 1


def test_a_store_opened_without_room_for_shared_memory_is_written_once_there_is_room(tmp_path: Path) -> None:
    with stratalog.open(tmp_path) as store:
        store.create("acme", "plan")
    with _file_bytes_max(4096):
        store = stratalog.open(tmp_path)
    with store, stratalog.open(tmp_path) as other:
        store.document("acme", "plan").put("a", 1)
        assert other.document("acme", "plan").get("a") == 1


def test_threads_read_a_killed_store_without_room_for_shared_memory(tmp_path: Path) -> None:
    with stratalog.open(tmp_path / "data") as store:
        store.create("acme", "plan").put("a", 1)
        shutil.copytree(tmp_path / "data", tmp_path / "killed")
    assert (tmp_path / "killed" / "index.sqlite-wal").stat().st_size > 0
    with _file_bytes_max(4096), stratalog.open(tmp_path / "killed") as store:
        values = list[object]()
        join_all(start_all([lambda: values.append(store.document("acme", "plan").get("a"))] * 4))
        assert values == [1] * 4
    with stratalog.open(tmp_path / "killed") as store:
        assert store.document("acme", "plan").get("a") == 1


def test_a_read_that_waits_for_another_read_without_room_delays_no_fork(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fork would wait for the reader, the reader for a thread that opens the writer, and that thread for the fork."""
    path, owned = tmp_path / "index.sqlite", list[bool]()
    SqliteFile(str(path), ManualClock(), "full", None).close()

    class Lock:
        def __enter__(self) -> None:
            own: Any = delay_forks()
            owned.append(own._is_owned())

        def __exit__(self, *_: object) -> None:
            pass

    with _file_bytes_max(4096), closing(SqliteFile(str(path), ManualClock(), "full", None)) as file:
        monkeypatch.setattr(file, "_writer_lock", Lock())
        assert file.read("SELECT 1", ()) == [(1,)]
    assert owned == [False, False]


def test_a_failed_creation_of_a_file_leaves_no_unfinished_database(tmp_path: Path, disk: FullDisk) -> None:
    disk.full = True
    with pytest.raises(StorageFull):
        stratalog.open(tmp_path / "data")
    with pytest.raises(StorageFull):
        ClientFile(tmp_path / "client.sqlite")
    assert [path for path in tmp_path.rglob("*.sqlite*") if path.stat().st_size] == []
    assert list(tmp_path.rglob("*.new*")) == []


@pytest.mark.parametrize("opened", [stratalog.open, ClientFile], ids=["store", "client"])
def test_a_lock_file_that_finds_no_room_is_a_lack_of_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Callable[[Path], object]
) -> None:
    usual = os.open

    def refuse(path: str, flags: int, mode: int = 0o777, **where: int) -> int:
        if str(path).endswith(".lock"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return usual(path, flags, mode, **where)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StorageFull):
        opened(tmp_path / "data")


@contextmanager
def _file_bytes_max(limit: int) -> Iterator[None]:
    """Limit the size of the files that this process writes during the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

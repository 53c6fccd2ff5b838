"""A store whose folder cannot be written is read, and is not changed.

The tests refuse to open the lock file, as a read-only file system does. SQLite itself could write the folder.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

import stratalog
from stratalog.backends import turnstile
from stratalog.backends.sqlite import SqliteDatabase
from stratalog.backends.sqlite_read_only import ReadOnlyFile
from stratalog.codec import sha256
from stratalog.errors import Closed, Unavailable, Unsupported
from stratalog.limits import BLOB_ROW_BYTES_MAX
from stratalog.maintenance.store_copy import copy_store
from stratalog.ports.index import Item, Put
from stratalog.testing.clock import ManualClock

LARGE = bytes(BLOB_ROW_BYTES_MAX + 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with stratalog.open(tmp_path / "data", clock=ManualClock()) as store:
        store.create("acme", "plan").put("a", 1)
        store.records("acme").put("large", LARGE)
    return tmp_path / "data"


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    def refuse(number: int) -> None:
        opened = os.open

        def refused(path: Any, *rest: Any, **options: Any) -> int:
            if os.fspath(path).endswith(".lock"):
                raise OSError(number, os.strerror(number), path)
            return opened(path, *rest, **options)

        monkeypatch.setattr(turnstile.os, "open", refused)

    return refuse


def read_only(folder: Path) -> stratalog.Store:
    return stratalog.open(folder, create=False, clock=ManualClock())


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EPERM])
def test_a_store_whose_folder_cannot_be_written_is_read_verified_and_copied_and_stays_as_it_is(
    folder: Path, tmp_path: Path, refuse: Callable[[int], None], number: int
) -> None:
    before = files_in(folder)
    refuse(number)
    with read_only(folder) as store, stratalog.open("memory:", clock=ManualClock()) as target:
        assert store.document("acme", "plan").get("a") == 1
        assert store.records("acme").get("large").body == LARGE
        assert stratalog.verify(store.document("acme", "plan")).version == 1
        copy_store(store, target)
        assert target.document("acme", "plan").log.head().hash == store.document("acme", "plan").log.head().hash
    assert files_in(folder) == before


def test_a_write_to_such_a_store_is_unavailable_and_names_the_reason(
    folder: Path, refuse: Callable[[int], None]
) -> None:
    before = files_in(folder)
    refuse(errno.EROFS)
    with read_only(folder) as store:
        for _ in range(2):
            with pytest.raises(Unavailable, match="Read-only file system"):
                store.document("acme", "plan").put("a", 2)
        with pytest.raises(Unavailable, match="Read-only file system"):
            store.create("acme", "other")
        with pytest.raises(Unavailable, match="Read-only file system"):
            store.environment.blobs.put(f"acme/plan/{sha256(b'small').hex()}", b"small")
        with pytest.raises(Unavailable, match="Read-only file system"):
            store.queue.send("group", [b"message"])
    assert files_in(folder) == before


def test_a_store_that_may_be_created_is_not_opened_for_reads_only(folder: Path, refuse: Callable[[int], None]) -> None:
    refuse(errno.EROFS)
    with pytest.raises(Unavailable, match="cannot be written"):
        stratalog.open(folder, clock=ManualClock())


def test_a_lack_of_room_is_no_reason_to_open_a_store_for_reads_only(
    folder: Path, refuse: Callable[[int], None]
) -> None:
    refuse(errno.EIO)
    with pytest.raises(Unavailable, match="cannot be written"):
        read_only(folder)


def test_commits_of_a_process_that_may_write_the_store_are_read(folder: Path, refuse: Callable[[int], None]) -> None:
    with stratalog.open(folder, clock=ManualClock()) as writer:
        refuse(errno.EROFS)
        with read_only(folder) as store:
            document = store.document("acme", "plan")
            for value in range(2, 5):
                writer.document("acme", "plan").put("a", value)
                assert document.get("a") == value
    with read_only(folder) as store:
        assert store.document("acme", "plan").get("a") == 4


def test_a_closed_store_that_is_opened_and_written_between_two_reads_is_read_anew(
    folder: Path, monkeypatch: pytest.MonkeyPatch, refuse: Callable[[int], None]
) -> None:
    with monkeypatch.context():
        refuse(errno.EROFS)
        store = read_only(folder)
        assert store.document("acme", "plan").get("a") == 1
    monkeypatch.undo()
    put(folder, 2)
    with store:
        assert store.document("acme", "plan").get("a") == 2


def test_a_read_during_which_the_file_is_written_is_repeated(
    folder: Path, monkeypatch: pytest.MonkeyPatch, refuse: Callable[[int], None]
) -> None:
    def write(value: int) -> None:
        with closing(SqliteDatabase(folder / "index.sqlite", ManualClock())) as database:
            database.index.commit([Put(Item("p", "s", {"v": value}))])

    write(1)
    refuse(errno.EROFS)
    database = SqliteDatabase(folder / "index.sqlite", ManualClock(), allow_read_only=True)
    monkeypatch.undo()
    take, taken = ReadOnlyFile._take, list[str]()

    def take_and_write(file: ReadOnlyFile, state: tuple[int, ...]) -> apsw.Connection | None:
        connection = take(file, state)
        if not taken:
            assert connection
            connection.execute("SELECT body FROM items").fetchall()  # the connection remembers the pages
            write(2)
            taken.append("taken")
        return connection

    monkeypatch.setattr(ReadOnlyFile, "_take", take_and_write)
    with closing(database):
        assert database.index.get("p", "s") == Item("p", "s", {"v": 2})
    assert taken


def put(folder: Path, value: int) -> None:
    with stratalog.open(folder, clock=ManualClock()) as store:
        store.document("acme", "plan").put("a", value)


def test_a_log_that_sqlite_cannot_read_is_named_and_no_older_state_is_shown(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuse: Callable[[int], None]
) -> None:
    """The folder is a copy of a store in use. On a read-only file system SQLite cannot make the shared memory."""
    with stratalog.open(folder, clock=ManualClock()) as store:
        store.document("acme", "plan").put("a", 2)
        shutil.copytree(folder, tmp_path / "copy", ignore=shutil.ignore_patterns("*-shm"))
    connect = ReadOnlyFile._connect

    def connect_without_shared_memory(file: ReadOnlyFile, how: str) -> apsw.Connection:
        if how == "mode=ro":
            raise apsw.CantOpenError
        return connect(file, how)

    monkeypatch.setattr(ReadOnlyFile, "_connect", connect_without_shared_memory)
    refuse(errno.EROFS)
    with pytest.raises(Unavailable, match="commits in a write-ahead log"):
        read_only(tmp_path / "copy")


def test_a_database_that_cannot_be_read_either_has_the_error_of_the_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, refuse: Callable[[int], None]
) -> None:
    refuse(errno.EACCES)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(Unavailable, match="the database's folder cannot be written"):
        read_only(folder)


@pytest.mark.parametrize(("version", "error"), [(2, Unavailable), (99, Unsupported)])
def test_a_file_of_another_format_is_refused(
    folder: Path, refuse: Callable[[int], None], version: int, error: type[Exception]
) -> None:
    with closing(apsw.Connection(str(folder / "index.sqlite"))) as connection:
        connection.pragma("user_version", version)
    refuse(errno.EROFS)
    with pytest.raises(error):
        read_only(folder)


def test_a_closed_file_is_closed(folder: Path, refuse: Callable[[int], None]) -> None:
    refuse(errno.EROFS)
    database = SqliteDatabase(folder / "index.sqlite", ManualClock(), allow_read_only=True)
    database.close()
    database.close()
    for call in (
        lambda: database.index.get("p", "s"),
        lambda: database.index.turn("p"),
        lambda: database.queue.send("g", [b"m"]),
    ):
        with pytest.raises(Closed):
            call()


def test_a_forked_child_has_a_closed_file(folder: Path, refuse: Callable[[int], None]) -> None:
    refuse(errno.EROFS)
    with closing(SqliteDatabase(folder / "index.sqlite", ManualClock(), allow_read_only=True)) as database:
        child = os.fork()
        if not child:
            try:
                database.index.get("p", "s")
            except Closed:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert database.index.get("p", "s") is None

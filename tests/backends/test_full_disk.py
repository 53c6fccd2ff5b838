"""On a full disk a store or a client's file whose process was killed can be opened and read."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

import stratalog
from stratalog.client.file import ClientFile
from stratalog.errors import StorageFull
from stratalog.testing.clock import ManualClock

DEFAULT = apsw.vfs_names()[0]


class FullDisk(apsw.VFS):
    """The default file system of SQLite while a test runs. While ``full``, a write to a file fails for want of room."""

    full = False

    def __init__(self) -> None:
        super().__init__("full disk", DEFAULT, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return FullFile(self, name, flags)


class FullFile(apsw.VFSFile):
    def __init__(self, disk: FullDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._disk = disk
        super().__init__(DEFAULT, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        if self._disk.full:
            raise apsw.FullError("simulated")
        super().xWrite(data, offset)


@pytest.fixture
def disk() -> Iterator[FullDisk]:
    disk = FullDisk()
    yield disk
    disk.unregister()


def test_a_store_whose_process_was_killed_can_be_read_on_a_full_disk(tmp_path: Path, disk: FullDisk) -> None:
    with stratalog.open(tmp_path / "data") as store:
        store.create("acme", "plan").put("a", 1)
        shutil.copytree(tmp_path / "data", tmp_path / "killed")
    disk.full = True
    with stratalog.open(tmp_path / "killed", clock=ManualClock()) as found:
        assert found.document("acme", "plan").get("a") == 1
        with pytest.raises(StorageFull):
            found.document("acme", "plan").put("b", 2)
        assert found.document("acme", "plan").version == 1
        disk.full = False
        found.document("acme", "plan").put("b", 2)


def test_a_client_s_file_can_be_opened_on_a_full_disk(tmp_path: Path, disk: FullDisk) -> None:
    path, killed = str(tmp_path / "client.sqlite"), str(tmp_path / "killed.sqlite")
    file = ClientFile(path)
    with file.transaction() as connection:
        connection.execute("INSERT INTO facts VALUES ('a', x'01')")
    for suffix in ("", "-wal"):
        shutil.copy(path + suffix, killed + suffix)
    file.close()
    disk.full = True
    with closing(ClientFile(killed)) as again:
        assert again.first("SELECT value FROM facts WHERE name = 'a'") == b"\x01"
        disk.full = False

"""Which syncs SQLite requests. The tests do not see a drive's cache, so they check the kind of each sync."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from stratalog import Event
from stratalog.client.file import ClientFile
from stratalog.store import open_store

FULL = apsw.SQLITE_SYNC_FULL
KIND = apsw.SQLITE_SYNC_NORMAL | FULL


@pytest.fixture
def syncs() -> Iterator[list[int]]:
    """Yield the list that gets the kind of each sync of a SQLite file."""
    kinds, usual = list[int](), apsw.vfs_names()[0]

    class File(apsw.VFSFile):
        def __init__(self, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
            super().__init__(usual, name, flags)

        def xSync(self, flags: int) -> None:  # noqa: N802
            kinds.append(flags & KIND)
            super().xSync(flags)

    class Vfs(apsw.VFS):
        def __init__(self) -> None:
            super().__init__("kinds of syncs", usual, makedefault=True)

        def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
            return File(name, flags)

    vfs = Vfs()
    try:
        yield kinds
    finally:
        apsw.set_default_vfs(usual)
        vfs.unregister()


def test_all_syncs_of_a_store_are_full_syncs(syncs: list[int], tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        log = store.create_log("acme", "log")
        for _ in range(20):
            log.append(Event("paid", None))
    assert len(syncs) > 20
    assert set(syncs) == {FULL}


def test_all_syncs_of_a_clients_file_are_full_syncs(syncs: list[int], tmp_path: Path) -> None:
    with closing(ClientFile(str(tmp_path / "client.sqlite"))) as file, file.transaction() as connection:
        connection.execute("INSERT INTO facts VALUES ('name', 'value')")
    assert syncs
    assert set(syncs) == {FULL}

"""Open sheets notice that the server was restored from an older backup, and keep each text that was not yet saved."""

from __future__ import annotations

import shutil
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from apps.sheet.tests.helpers import ENGINES, put, revision
from apps.sheet.tests.test_e2e import HERE, WITH_RESTORE
from stratalog.errors import HistoryChanged, VersionConflict
from stratalog.keys import entries_partition
from stratalog.ports.index import Delete
from stratalog.server.app import create_app
from stratalog.store import open_store
from stratalog_sheet import Sheet, Sheets
from stratalog_sheet.branches import Standing, VersionLost
from stratalog_sheet.engine_files import install_engine
from stratalog_sheet.http import application
from tests.e2e.serving import Storyteller, node_with, serving


class Restored:
    """A server whose folder can be backed up and restored. The server keeps its port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "store"
        self._backup = folder / "backup"
        self._port = 0
        self._running = ExitStack()

    def start(self) -> str:
        store = self._running.enter_context(open_store(self._folder))
        url = self._running.enter_context(serving(create_app(store, application(engines=ENGINES)), port=self._port))
        self._port = urlsplit(url).port or 0
        return url

    def backup(self) -> None:
        self.stop()
        shutil.copytree(self._folder, self._backup)
        self.start()

    def restore(self) -> None:
        self.stop()
        shutil.rmtree(self._folder)
        shutil.copytree(self._backup, self._folder)
        self.start()

    def stop(self) -> None:
        self._running.close()


@pytest.mark.slow
@pytest.mark.parametrize("story", WITH_RESTORE)
def test_open_pages_follow_a_server_restored_from_a_backup(story: str, tmp_path: Path) -> None:
    install_engine()
    server = Restored(tmp_path)
    url = server.start()
    try:
        with closing(Storyteller(HERE, node_with(HERE))) as teller, teller.telling(url, story, tmp_path) as person:
            for wanted in ("backup", "restore"):
                assert person.read_line() == f"{wanted}\n"
                getattr(server, wanted)()
                person.write_line("done")
    finally:
        server.stop()


def lose_newest(sheet: Sheet) -> None:
    """Delete the newest entry while the sheet is open, as a restore from an older backup does."""
    index, record = sheet.log.environment.index, sheet.log.record
    *_, newest = index.query(entries_partition(record.prefix, record.segment))
    index.commit([Delete(newest.partition, newest.sort)])


def message(sheet: Sheet, content: str) -> dict[str, Any]:
    return revision(sheet, put(0, 0, content))


def test_a_reader_ahead_of_the_sheet_gets_a_version_lost_error(sheets: Sheets) -> None:
    sheet = sheets.create("acme", "plan")
    with pytest.raises(VersionLost) as caught:
        sheet.since(5)
    assert caught.value.code == "version-lost"


def test_a_reader_of_another_history_gets_a_version_lost_error(sheets: Sheets) -> None:
    sheet = sheets.create("acme", "plan")
    lost = sheet.append(message(sheet, "lost"))
    assert sheet.since(lost.version, lost.hash).entries == []
    lose_newest(sheet)
    again = Sheets(sheets.store, sheets.engines).open("acme", "plan")
    here = again.append(message(again, "here"))
    assert here.version == lost.version
    with pytest.raises(VersionLost):
        again.since(lost.version, lost.hash)
    assert again.since(here.version, here.hash).entries == []
    assert [change.version for change in again.since(1).entries] == [2]


def test_a_message_from_a_lost_version_is_refused_even_at_the_current_revision(sheets: Sheets) -> None:
    sheet = sheets.create("acme", "plan")
    made = message(sheet, "typed")
    renamed = sheet.rename("Lost")
    with pytest.raises(VersionLost):
        sheet.append(made, reader=Standing(renamed.version, "00" * 32))
    with pytest.raises(VersionConflict):
        sheet.append(made, reader=Standing(renamed.version + 1))
    reader = Standing(renamed.version, renamed.hash)
    done = sheet.append(made, reader=reader)
    assert done == sheet.append(made, reader=reader)


def test_a_handle_that_detects_another_history_is_replaced_at_the_next_open(sheets: Sheets) -> None:
    sheet = sheets.create("acme", "plan")
    sheet.set("A1", "kept")
    sheet.set("A2", "lost")
    made = message(sheet, "on a lost version")
    lose_newest(sheet)
    with pytest.raises(HistoryChanged):
        sheet.append(made)
    again = sheets.open("acme", "plan")
    assert again is not sheet
    again.set("A3", "goes on")
    assert [again.get(cell).content for cell in ("A1", "A2", "A3")] == ["kept", "", "goes on"]
    assert sheets.open("acme", "plan") is again

"""After an undo of a loaded message, the engine's views are complete, in the page and in the server's engines."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from apps.sheet.tests.helpers import put, revision, undo
from stratalog_sheet import Sheet
from stratalog_sheet.engine import install_engine
from tests.node import node_program

HERE = Path(__file__).parent
PAGE = HERE.parent / "src/stratalog_sheet/web"
CASES = (
    "deletedSheet",
    "twoDeletedSheets",
    "rowsAddedBeforeADeletion",
    "rowsRemovedBeforeADeletion",
    "sheetDuplicatedBeforeADeletion",
    "rowsAddedAboveALargeText",
    "largeText",
    "deletedSubtotal",
    "viewedDeletion",
    "viewedLargeText",
)
SECONDS_MAX = 60


@pytest.mark.parametrize("case", CASES)
def test_a_page_shows_the_same_however_many_messages_it_has_loaded(case: str) -> None:
    arguments = [str(HERE / "loaded.mjs"), str(install_engine()), str(PAGE), case]
    done = subprocess.run([node_program(), *arguments], capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_warm_model_follows_the_undo_of_a_deletion_that_it_has_loaded(sheet: Sheet) -> None:
    sheet.append(revision(sheet, {"type": "CREATE_SHEET", "sheetId": "two", "position": 1, "name": "Two"}))
    sheet.append(revision(sheet, put(0, 0, "text", "two")))
    sheet.append(deletion := revision(sheet, {"type": "DELETE_SHEET", "sheetId": "two", "sheetName": "Two"}))
    assert len(json.loads(sheet.state())["sheets"]) == 1
    sheet.append(undo(sheet, deletion["nextRevisionId"], rebase="ordered"))
    assert json.loads(sheet.state())["sheets"][1]["cells"] == {"A1": "text"}

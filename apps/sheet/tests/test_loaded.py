"""The engine's views are complete, also after an undo of a loaded message, in the page and in the server's engines."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from apps.sheet.tests.helpers import put, revision, undo
from stratalog_sheet import EnginePool, Sheet
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
SECONDS_MAX = 120


def test_a_chart_with_more_values_than_groups_shows_its_groups() -> None:
    arguments = [str(HERE / "charts.mjs"), str(install_engine()), str(PAGE)]
    done = subprocess.run([node_program(), *arguments], capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"sunburst": ["a", "b", "c"], "treemap": ["a", "b", "c"]}


@pytest.mark.parametrize("case", CASES)
def test_a_page_that_loaded_messages_has_the_heights_and_subtotals_of_a_page_that_received_them(case: str) -> None:
    arguments = [str(HERE / "loaded.mjs"), str(install_engine()), str(PAGE), case]
    done = subprocess.run([node_program(), *arguments], capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stdout + done.stderr


def test_loading_the_removal_of_a_merges_first_column_removes_the_style_of_the_merge(
    sheet: Sheet, engines: EnginePool
) -> None:
    """The removal of the merge's first column removes the style, also for a user that loaded the merge before."""
    on = {"sheetId": "sheet1"}
    merged = {"left": 3, "right": 4, "top": 1, "bottom": 2}
    first = {"left": 3, "right": 3, "top": 1, "bottom": 1}
    sheet.append(revision(sheet, {"type": "ADD_MERGE", **on, "target": [merged]}))
    sheet.append(revision(sheet, {"type": "SET_FORMATTING", **on, "target": [first], "style": {"bold": True}}))
    earlier = sheet.state()
    removed = {"type": "REMOVE_COLUMNS_ROWS", **on, "sheetName": "Sheet1", "dimension": "COL", "elements": [3]}
    sheet.append(message := revision(sheet, removed))
    with engines.lend("loaded") as models:
        models.engine.call("open", key="loaded", data=earlier, messages=[message], client="loaded")
        loaded = json.loads(models.engine.raw("export", key="loaded"))
        models.engine.call("close", key="loaded")
    own = json.loads(sheet.state())
    assert own["sheets"][0]["merges"] == loaded["sheets"][0]["merges"] == ["D2:D3"]
    assert own["sheets"][0]["styles"] == loaded["sheets"][0]["styles"] == {}


def test_a_loaded_state_has_the_borders_of_the_open_model(sheet: Sheet, engines: EnginePool) -> None:
    on = {"sheetId": "sheet1"}
    red, blue = ({"style": "thin", "color": color} for color in ("#ff0000", "#0000ff"))
    merged = {"left": 3, "right": 4, "top": 4, "bottom": 4}
    sheet.append(revision(sheet, {"type": "ADD_MERGE", **on, "target": [merged]}))
    for column, row, border in ((3, 4, {"top": red}), (0, 0, {"right": red}), (2, 0, {"left": blue})):
        sheet.append(revision(sheet, {"type": "SET_BORDER", **on, "col": column, "row": row, "border": border}))
    removed = {"type": "REMOVE_COLUMNS_ROWS", **on, "sheetName": "Sheet1", "dimension": "COL", "elements": [1]}
    sheet.append(revision(sheet, removed))
    own = json.loads(sheet.state())
    with engines.lend("loaded") as models:
        models.engine.call("open", key="loaded", data=own, messages=[], client="loaded")
        loaded = json.loads(models.engine.raw("export", key="loaded"))
        models.engine.call("close", key="loaded")
    assert (loaded["sheets"][0]["borders"], loaded["borders"]) == (own["sheets"][0]["borders"], own["borders"])
    assert own["sheets"][0]["borders"].keys() == {"A1", "B1", "C5"}


def test_an_open_model_applies_the_undo_of_a_loaded_tab_deletion(sheet: Sheet) -> None:
    sheet.append(revision(sheet, {"type": "CREATE_SHEET", "sheetId": "two", "position": 1, "name": "Two"}))
    sheet.append(revision(sheet, put(0, 0, "text", "two")))
    sheet.append(deletion := revision(sheet, {"type": "DELETE_SHEET", "sheetId": "two", "sheetName": "Two"}))
    assert len(json.loads(sheet.state())["sheets"]) == 1
    sheet.append(undo(sheet, deletion["nextRevisionId"], rebase="ordered"))
    assert json.loads(sheet.state())["sheets"][1]["cells"] == {"A1": "text"}

"""Texts stay in their cells when users insert or remove rows and columns, and when users undo these changes."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from apps.sheet.tests.helpers import put, revision, rows, undo
from stratalog import Invalid, Store
from stratalog_sheet import EnginePool, Sheet, Sheets
from stratalog_sheet.engine import install_engine
from tests.node import node_program

HERE = Path(__file__).parent
PAGE = HERE.parent / "src/stratalog_sheet/web"
SEEDS = 60
UNDO_SEEDS = 120
SECONDS_MAX = 300
READS_MAX = 40
"""The maximum number of times that a case of `large.mjs` reads one command. The largest number seen is 17."""


@pytest.mark.parametrize(
    ("program", "seeds"), [("rebase.mjs", SEEDS), ("undo.mjs", UNDO_SEEDS)], ids=["waits", "undone"]
)
def test_texts_stay_in_their_cells_when_rows_and_columns_are_inserted_and_removed(program: str, seeds: int) -> None:
    arguments = [str(HERE / program), str(install_engine()), str(PAGE), "1", str(seeds)]
    done = subprocess.run([node_program(), *arguments], capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{seeds} runs, 0 with texts in wrong cells" in done.stdout


@pytest.mark.parametrize(
    ("case", "listed", "names"),
    [
        ("position", [["deleted", "SHEET", "New"]], ["Other"]),
        ("name", [["deleted", "SHEET", "New"]], ["New", "Other"]),
        ("copy", [["deleted", "SHEET", "Copy"]], ["Sheet1", "Copy", "Other"]),
        ("none", [], ["Sheet1", "New", "New~", "Other"]),
    ],
)
def test_texts_of_a_new_tab_refused_by_the_engine_are_listed_as_conflicts(
    case: str, listed: list[Any], names: list[str]
) -> None:
    arguments = [str(HERE / "refused.mjs"), str(install_engine()), str(PAGE)]
    done = subprocess.run([node_program(), *arguments], capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[case] == {"listed": listed, "sheets": names}


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("row", [["ROW", "ROW"], [["Sheet1", 5, 3]], [[13, 12]], [None]]),
        ("rows", [["ROW", "ROW"], [["Sheet1", 5, 3]], [[13, 12]], ["ROW"]]),
        ("column", [["COL"], [["Sheet1", 3, 5]], [[12, 13]], []]),
        ("neighbour", [[None], [["Sheet1", 3, 5]], [[12, 12]], []]),
        ("sheet", [["SHEET"], [["Later", 1, 2]], [[12, 12], [100, 26]], []]),
    ],
)
def test_a_text_lost_in_cells_that_an_undo_removed_is_restored_into_new_cells(case: str, expected: list[Any]) -> None:
    arguments = [str(HERE / "undone.mjs"), str(install_engine()), str(PAGE)]
    done = subprocess.run([node_program(), *arguments], capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)[case]
    assert result.pop("isRestored")
    assert [result[field] for field in ("lost", "texts", "sizes", "left")] == expected


def test_the_conflicts_of_a_large_table_take_few_reads_of_each_command() -> None:
    """If the reads of each command grew with the number of commands, there would be more than 300 for each command."""
    done = subprocess.run(
        [node_program(), str(HERE / "large.mjs"), str(PAGE)], capture_output=True, text=True, timeout=SECONDS_MAX
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    listed = {case: result["listed"] for case, result in results.items()}
    assert listed == {"committed": 0, "waiting": 0, "overwritten": 500, "deleted": 600, "refused": 600}
    assert {case: result["reads"] for case, result in results.items() if result["reads"] > READS_MAX} == {}


def test_a_page_reports_once_that_a_command_moves_cut_cells() -> None:
    arguments = [str(HERE / "cut.mjs"), str(install_engine()), str(PAGE)]
    done = subprocess.run([node_program(), *arguments], capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["The cells that you cut have changed. Cut them again."]


def test_the_message_of_a_rule_has_the_formula_from_before_a_later_insertion() -> None:
    arguments = [str(HERE / "rules.mjs"), str(install_engine()), str(PAGE)]
    done = subprocess.run([node_program(), *arguments], capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"format": "=$A$3", "validation": "=$A$3"}


def test_a_stored_command_that_waits_for_an_undo_is_sent_with_the_id_under_which_it_is_stored() -> None:
    """Otherwise the page that opens after a crash could send a command of which the server already has the message."""
    arguments = [str(HERE / "queued.mjs"), str(install_engine()), str(PAGE)]
    done = subprocess.run([node_program(), *arguments], capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    [stored] = printed["stored"]
    assert printed["again"] == [stored]
    assert (stored["typedAt"], stored["commands"][0]["content"]) == (7, "queued")
    assert printed["sent"]["nextRevisionId"] == stored["nextRevisionId"]
    assert printed["sent"]["commands"] == stored["commands"]


def test_an_inserted_row_moves_the_formulas_of_its_own_sheet_and_not_those_of_a_copy(sheet: Sheet) -> None:
    ranges = [{"_sheetId": "sheet1", "_zone": {"left": 0, "right": 0, "top": 0, "bottom": 9}}]
    point = {"type": "formula", "operator": "gt", "value": "=$A$3", "color": 0}
    icons = {"upper": "arrowGood", "middle": "arrowNeutral", "lower": "arrowBad"}
    rules: list[dict[str, Any]] = [
        {"type": "CellIsRule", "operator": "isEqual", "values": ["=$A$3"], "style": {}},
        {"type": "ColorScaleRule", "minimum": point, "midpoint": point, "maximum": point},
        {"type": "IconSetRule", "icons": icons, "upperInflectionPoint": point, "lowerInflectionPoint": point},
    ]
    for number, rule in enumerate(rules):
        format_ = {"type": "ADD_CONDITIONAL_FORMAT", "sheetId": "sheet1", "ranges": ranges}
        sheet.append(revision(sheet, {**format_, "cf": {"id": f"rule-{number}", "rule": rule}}))
    copied = {"type": "DUPLICATE_SHEET", "sheetId": "sheet1", "sheetIdTo": "copy", "sheetNameTo": "Copy"}
    sheet.append(revision(sheet, copied, rows(0)))
    formulas = [
        re.findall(r"=\$A\$\d", json.dumps(each["conditionalFormats"])) for each in json.loads(sheet.state())["sheets"]
    ]
    assert formulas == [["=$A$4"] * 6, ["=$A$3"] * 6]


def test_a_duplication_refused_by_the_engine_leaves_an_open_model_unchanged(sheet: Sheet) -> None:
    copied = {"type": "DUPLICATE_SHEET", "sheetId": "sheet1", "sheetNameTo": "Copy"}
    sheet.set("A1", "text")
    for sheet_id in ("one", "two"):
        sheet.append(revision(sheet, {**copied, "sheetIdTo": sheet_id}))
    assert [tab["name"] for tab in sheet.sheets()] == ["Sheet1", "Copy"]
    assert sheet.get("A1").formatted == "text"


def removed_row(sheet: Sheet) -> str:
    """Remove row 6, insert three rows before row 4, and write in two moved rows. Return the id of the removal."""
    for row in (6, 8):
        sheet.set(f"A{row}", f"row {row}")
    lines = {"sheetId": "sheet1", "sheetName": "Sheet1", "dimension": "ROW", "elements": [5]}
    removal = revision(sheet, {"type": "REMOVE_COLUMNS_ROWS", **lines})
    sheet.append(removal)
    sheet.append(revision(sheet, rows(3, 3)))
    assert sheet.get("A10").formatted == "row 8"
    sheet.append(revision(sheet, put(1, 9, "beside row 8")))
    sheet.append(revision(sheet, put(1, 6, "above row 6")))
    return str(removal["nextRevisionId"])


def texts(sheet: Sheet) -> dict[str, str]:
    cells: dict[str, str] = json.loads(sheet.state())["sheets"][0]["cells"]
    return cells


BEFORE_REDO = {"A9": "row 6", "A11": "row 8", "B11": "beside row 8", "B7": "above row 6"}
AFTER_REDO = {"A10": "row 8", "B10": "beside row 8", "B7": "above row 6"}


def test_texts_written_after_a_row_removal_stay_in_their_rows_when_the_removal_is_undone(
    sheet: Sheet, store: Store, engines: EnginePool
) -> None:
    removal = removed_row(sheet)
    sheet.append(undo(sheet, removal, rebase="ordered"))
    assert texts(sheet) == BEFORE_REDO
    assert texts(Sheets(store, engines).open("acme", "plan")) == BEFORE_REDO
    assert [change.after for change in sheet.blame("B11")] == ["beside row 8"]
    assert {change.cell: change.after for change in sheet.changes(1, sheet.version)} == BEFORE_REDO
    sheet.set("C11", "later")
    sheet.append(undo(sheet, removal, again=True))
    assert texts(sheet) == {**AFTER_REDO, "C10": "later"}


def test_an_undo_without_ordered_rebase_is_applied_by_the_older_rule(sheet: Sheet) -> None:
    sheet.append(undo(sheet, removed_row(sheet)))
    assert texts(sheet) == {"A9": "row 6", "A11": "row 8", "B11": "beside row 8", "B8": "above row 6"}


def test_an_invalid_rebase_value_is_refused(sheet: Sheet) -> None:
    sheet.append(written := revision(sheet, put(0, 0, "text")))
    with pytest.raises(Invalid, match="value of `rebase`"):
        sheet.append(undo(sheet, written["nextRevisionId"], rebase="backwards"))
    with pytest.raises(Invalid, match="value of `rebase`"):
        sheet.append(revision(sheet, put(0, 0, "text"), rebase="ordered"))

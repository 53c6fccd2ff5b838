"""A comparison of versions reads their entries, without a model. A cell that moved is still the same cell."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from apps.sheet.tests.helpers import put, revision, rows, undo
from stratalog_sheet import Sheet, Sheets
from stratalog_sheet.cells import cell_name
from stratalog_sheet.contents import read_sheets
from stratalog_sheet.events import Created
from stratalog_sheet.state import BLANK

ROWS, COLUMNS = 4000, 23
LINES = {"sheetId": "sheet1", "sheetName": "Sheet1"}


def compared(sheet: Sheet, source: int, target: int) -> list[tuple[str, str, str, str]]:
    return [(change.cell, change.earlier_cell, change.before, change.after) for change in sheet.changes(source, target)]


def removed(sheet: Sheet, dimension: str, *elements: int) -> dict[str, Any]:
    command = {"type": "REMOVE_COLUMNS_ROWS", **LINES, "dimension": dimension, "elements": list(elements)}
    return revision(sheet, command)


@pytest.fixture
def large(sheets: Sheets) -> Sheet:
    """Return a sheet of 92,000 cells, of which 4,000 are formulas."""
    cells = {cell_name(column, row): str(row * column) for row in range(ROWS) for column in range(COLUMNS - 1)}
    cells |= {cell_name(COLUMNS - 1, row): f"=SUM(A{row + 1}:V{row + 1})" for row in range(ROWS)}
    (blank,) = BLANK["sheets"]  # type: ignore[misc]
    state = {**BLANK, "revisionId": "r", "sheets": [{**blank, "rowNumber": ROWS + 100, "cells": cells}]}
    return sheets._make("acme", "large", Created("Large", "r", msgspec.json.encode(state)), "ann")


def test_many_changes_of_a_large_sheet_are_compared_without_an_engine(large: Sheet, sheets: Sheets) -> None:
    on = "r"
    for number in range(600):
        message = revision(large, rows(0) if number % 100 == 50 else put(number % 20, number, f"new {number}"), on=on)
        on = message["nextRevisionId"]
        large.append(message)
    with sheets.engines.without():
        changes = large.changes(1, large.version)
    # Six rows were inserted above the formulas. The moved formulas do not count as changes.
    assert len(changes) == 594
    assert all(change.after.startswith("new ") for change in changes)
    assert {change.after for change in changes if not change.earlier_cell} == set()
    assert changes[0].cell == "A7"
    assert changes[0].earlier_cell == "A1"


def test_a_removed_cell_has_its_earlier_name_and_an_added_cell_its_later_name(sheet: Sheet) -> None:
    for row, content in enumerate("abcd", 1):
        sheet.set(f"A{row}", content)
    sheet.append(removed(sheet, "ROW", 1))
    sheet.append(revision(sheet, rows(0)))
    sheet.set("A1", "new")
    assert compared(sheet, 5, 8) == [("A1", "", "", "new"), ("A2", "A2", "b", "")]
    assert compared(sheet, 8, 5) == [("A1", "", "new", ""), ("A2", "A2", "", "b")]


def test_a_comparison_lists_all_cells_of_a_removed_column(large: Sheet) -> None:
    large.append(removed(large, "COL", 1))
    changes = large.changes(1, 2)
    assert len(changes) == ROWS
    assert (changes[5].cell, changes[5].before, changes[5].after) == ("B6", "5", "")


def test_a_comparison_matches_cells_across_an_undone_insertion(sheet: Sheet) -> None:
    sheet.set("A3", "x")
    inserted = revision(sheet, rows(0, 2))
    sheet.append(inserted)
    sheet.append(revision(sheet, put(0, 4, "y")))
    sheet.append(undo(sheet, inserted["nextRevisionId"]))
    assert compared(sheet, 2, 5) == [("A3", "A3", "x", "y")]
    assert compared(sheet, 4, 5) == []
    assert compared(sheet, 3, 4) == [("A5", "A5", "x", "y")]


def test_a_comparison_matches_cells_across_a_restore(sheet: Sheet) -> None:
    sheet.set("A2", "x")
    sheet.append(revision(sheet, rows(0)))
    sheet.set("A3", "y")
    sheet.set("C1", "in the row that came")
    sheet.restore(2)
    sheet.set("B2", "z")
    assert compared(sheet, 3, 6) == []
    assert compared(sheet, 4, 7) == [("A2", "A3", "y", "x"), ("B2", "B3", "", "z")]
    assert compared(sheet, 5, 6) == [("C1", "C1", "in the row that came", ""), ("A2", "A3", "y", "x")]


def test_cells_hidden_by_a_merge_count_as_emptied(sheet: Sheet) -> None:
    for cell in ("A1", "B1", "A2"):
        sheet.set(cell, cell)
    zone = {"left": 0, "right": 1, "top": 0, "bottom": 1}
    sheet.append(revision(sheet, {"type": "ADD_MERGE", "sheetId": "sheet1", "target": [zone]}))
    assert compared(sheet, 4, 5) == [("B1", "B1", "B1", ""), ("A2", "A2", "A2", "")]
    assert [change.after for change in sheet.blame("B1")] == ["", "B1"]


def test_a_comparison_lists_all_cells_of_an_added_or_deleted_tab(sheet: Sheet) -> None:
    sheet.set("A1", "x")
    copied = {"type": "DUPLICATE_SHEET", "sheetId": "sheet1", "sheetIdTo": "copy", "sheetNameTo": "Copy"}
    sheet.append(revision(sheet, copied))
    assert [(change.sheet, change.cell, change.after) for change in sheet.changes(2, 3)] == [("Copy", "A1", "x")]
    sheet.append(revision(sheet, {"type": "DELETE_SHEET", "sheetId": "copy", "sheetName": "Copy"}))
    assert [(change.sheet, change.before, change.after) for change in sheet.changes(3, 4)] == [("Copy", "x", "")]
    assert compared(sheet, 2, 4) == []


def test_a_formula_is_shown_as_it_was_written(sheet: Sheet) -> None:
    sheet.set("B1", "=A1")
    sheet.append(revision(sheet, rows(0)))
    sheet.set("B2", "=A2*2")
    assert compared(sheet, 2, 4) == [("B2", "B1", "=A1", "=A2*2")]


def test_a_comparison_lists_each_cell_of_a_filled_range(sheet: Sheet) -> None:
    filled = [
        {"type": "SQUISHED_UPDATE_CELL", "sheetId": "sheet1", "targetRange": "A1:A1", "content": "=B1"},
        {"type": "SQUISHED_UPDATE_CELL", "sheetId": "sheet1", "targetRange": "A2:A3", "content": {"R": "+R1"}},
    ]
    sheet.append(revision(sheet, *filled))
    assert [(change.cell, change.after) for change in sheet.changes(1, 2)] == [
        ("A1", "=B1"),
        ("A2", "=B2"),
        ("A3", "=B3"),
    ]


def created(sheet_id: str, name: str, position: int = 1) -> dict[str, Any]:
    return {"type": "CREATE_SHEET", "sheetId": sheet_id, "name": name, "position": position}


def deleted(sheet_id: str) -> dict[str, Any]:
    return {"type": "DELETE_SHEET", "sheetId": sheet_id, "sheetName": sheet_id}


def without(dimension: str, count: int) -> dict[str, Any]:
    return {"type": "REMOVE_COLUMNS_ROWS", **LINES, "dimension": dimension, "elements": list(range(count))}


COPIED = {"type": "DUPLICATE_SHEET", "sheetId": "sheet1", "sheetNameTo": "Copy"}


@pytest.mark.parametrize(
    "commands",
    [
        [created("new", "New"), deleted("sheet1"), deleted("new"), put(0, 0, "x", "new")],
        [created("new", "New"), {"type": "HIDE_SHEET", "sheetId": "new"}, deleted("new"), deleted("sheet1")],
        [
            created("new", "New"),
            {"type": "HIDE_SHEET", "sheetId": "new"},
            {"type": "HIDE_SHEET", "sheetId": "sheet1"},
            {"type": "SHOW_SHEET", "sheetId": "new"},
            deleted("sheet1"),
        ],
        [created("new", "New"), created("other", " new "), put(0, 0, "x", "other")],
        [created("new", "New"), created("new", "Other"), put(0, 0, "x", "new")],
        [created("new", "New", 2), put(0, 0, "x", "new")],
        [{**COPIED, "sheetIdTo": "one"}, {**COPIED, "sheetIdTo": "two"}, put(0, 0, "x", "two")],
        [{**COPIED, "sheetId": "none", "sheetIdTo": "one"}, put(0, 0, "x", "one")],
        [created("new", "New"), {"type": "RENAME_SHEET", "sheetId": "sheet1", "newName": "New"}],
        [without("ROW", 100), without("COL", 26), put(0, 0, "x")],
        [without("ROW", 101), {**rows(100), "base": 100}, put(0, 99, "x")],
    ],
    ids=[
        "theLastSheet",
        "theLastVisibleSheet",
        "aSheetThatIsShownAgain",
        "aNameTwice",
        "anIdTwice",
        "aPositionBeyondTheLast",
        "aCopyTwice",
        "aCopyOfAMissingSheet",
        "aNameThatIsTaken",
        "allLines",
        "linesBeyondTheLast",
    ],
)
def test_a_comparison_agrees_with_the_engine_on_tabs_rows_columns_and_cells(
    sheet: Sheet, commands: list[dict[str, Any]]
) -> None:
    for command in [put(1, 1, "known"), *commands]:
        sheet.append(revision(sheet, command))
    state = msgspec.json.decode(sheet.state())["sheets"]
    there = {(each["id"], each["name"], each["colNumber"], each["rowNumber"]) for each in state}
    cells = {(each["id"], cell, content) for each in state for cell, content in each["cells"].items()}
    comparison = sheet.comparison
    contents = comparison._followed(read_sheets(sheet.state(1)), [comparison._messages(1, sheet.version)])
    tabs = contents.tabs.items()
    assert {(id_, tab.name, len(tab.columns), len(tab.rows)) for id_, tab in tabs} == there
    filled = {(id_, tab.position(cell), tab.content(cell)) for id_, tab in tabs for cell in tab.filled()}
    assert {(id_, cell_name(*position), content) for id_, position, content in filled if position} == cells


def test_a_refused_deletion_of_the_last_tab_is_not_compared_as_a_deletion(sheet: Sheet) -> None:
    sheet.append(revision(sheet, created("new", "New")))
    sheet.append(revision(sheet, put(0, 0, "x", "new")))
    sheet.append(revision(sheet, deleted("sheet1")))
    sheet.append(revision(sheet, deleted("new")))
    sheet.append(revision(sheet, put(0, 1, "y", "new")))
    assert sheet.get("A2").formatted == "y"
    assert compared(sheet, 3, 6) == [("A2", "A2", "", "y")]
    moved = sheet.comparison.moves(3, 6)
    assert [(command["type"], command["sheetId"]) for command in moved] == [("DELETE_SHEET", "sheet1")]

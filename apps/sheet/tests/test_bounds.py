"""The server refuses messages that would make a sheet too large for the engine."""

from __future__ import annotations

from typing import Any

import pytest

from apps.sheet.tests.helpers import put, revision, rows
from stratalog.errors import Invalid, LimitExceeded
from stratalog_sheet import Sheet
from stratalog_sheet.bounds import check_bounds
from stratalog_sheet.limits import (
    SHEET_COLUMNS_ADDED_MAX,
    SHEET_COLUMNS_MAX,
    SHEET_RANGE_CELLS_MAX,
    SHEET_ROWS_ADDED_MAX,
    SHEET_ROWS_MAX,
    SHEET_SHEETS_ADDED_MAX,
)

ZONE = {"left": 0, "right": 1, "top": 0, "bottom": SHEET_ROWS_MAX + 1}
NEW_SHEET = {"type": "CREATE_SHEET", "sheetId": "s", "name": "S", "position": 1}


def squished(name: str) -> dict[str, Any]:
    """Return a command that writes the range ``name``."""
    return {"type": "SQUISHED_UPDATE_CELL", "sheetId": "sheet1", "targetRange": name, "content": "x"}


TOO_MUCH: dict[str, list[dict[str, Any]]] = {
    "rows": [rows(1, 2**31 - 1)],
    "rows in pieces": [rows(1, SHEET_ROWS_ADDED_MAX), rows(1)],
    "columns": [{**rows(1, SHEET_COLUMNS_ADDED_MAX + 1), "dimension": "COL"}],
    "sheets": [NEW_SHEET] * (SHEET_SHEETS_ADDED_MAX + 1),
    "rows of a new sheet": [{**NEW_SHEET, "rows": 10**7}],
    "columns of a new sheet": [{**NEW_SHEET, "cols": 10**5}],
    "copies of a sheet": [{"type": "DUPLICATE_SHEET", "sheetId": "sheet1", "sheetIdTo": "s", "sheetNameTo": "S"}] * 6,
    "cells of a range": [squished("A1:ZZZ1048576")],
    "cells of ranges": [squished(f"A1:A{SHEET_RANGE_CELLS_MAX}"), squished("B1")],
    "different objects": [{**put(0, 0, ""), "type": "SET_BORDER", "border": {"top": each}} for each in range(201)],
    "a cell far down": [put(0, SHEET_ROWS_MAX + 1, "x")],
    "a cell far right": [put(SHEET_COLUMNS_MAX + 1, 0, "x")],
    "a row far down": [{**rows(2**31)}],
    "a zone": [{"type": "CLEAR_CELLS", "sheetId": "sheet1", "target": [ZONE]}],
    "a zone of another command": [{"type": "SET_FORMATTING", "sheetId": "sheet1", "target": [ZONE]}],
    "removed rows": [{"type": "REMOVE_COLUMNS_ROWS", "sheetId": "sheet1", "dimension": "ROW", "elements": [2**31]}],
    "a group": [{"type": "GROUP_HEADERS", "sheetId": "sheet1", "dimension": "ROW", "start": 0, "end": 2**31}],
    "frozen rows": [{"type": "FREEZE_ROWS", "sheetId": "sheet1", "quantity": 2**31}],
    "any number": [{"type": "ADD_PIVOT", "pivotId": "p", "pivot": {"deep": [{"inside": 10**400}]}}],
}


@pytest.mark.parametrize("commands", TOO_MUCH.values(), ids=TOO_MUCH)
def test_a_message_beyond_the_limits_of_rows_columns_cells_or_sheets_is_refused(
    commands: list[dict[str, Any]], sheet: Sheet
) -> None:
    with pytest.raises(LimitExceeded):
        sheet.append(revision(sheet, *commands))
    assert sheet.version == 1


def test_a_message_at_the_limits_of_added_rows_and_columns_is_committed_and_the_sheet_opens(sheet: Sheet) -> None:
    columns = {**rows(1, SHEET_COLUMNS_ADDED_MAX), "dimension": "COL"}
    sheet.append(revision(sheet, rows(1, SHEET_ROWS_ADDED_MAX), columns))
    (made,) = sheet.sheets()
    assert (made["rows"], made["cols"]) == (100 + SHEET_ROWS_ADDED_MAX, 26 + SHEET_COLUMNS_ADDED_MAX)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_non_finite_number_in_a_command_is_refused(value: float) -> None:
    with pytest.raises(Invalid):
        check_bounds([{"type": "RESIZE_COLUMNS_ROWS", "size": value}])


def test_a_new_tab_with_a_row_count_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(Invalid):
        check_bounds([{**NEW_SHEET, "rows": "many"}])


@pytest.mark.parametrize(("row", "count"), [(1, 5 * 10**7), (2**31, 1)])
def test_a_row_insertion_beyond_a_limit_is_refused_without_an_engine(
    row: int, count: int, sheet: Sheet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sheet, "_engines", None)
    with pytest.raises(LimitExceeded):
        sheet.insert_rows(row, count)


@pytest.mark.parametrize(("row", "count"), [(0, 1), (1, 0), (1, -1), (1, True)])
def test_a_row_insertion_with_an_invalid_row_or_count_is_refused(row: int, count: int, sheet: Sheet) -> None:
    with pytest.raises(Invalid):
        sheet.insert_rows(row, count)

"""The server refuses a command that lacks a needed field, or whose field has another type. No engine could apply it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from apps.sheet.tests.helpers import put, revision
from stratalog.errors import Invalid
from stratalog_sheet import Sheet
from stratalog_sheet.command_fields import COMMANDS, NEEDED
from stratalog_sheet.events import check_message

ON_SHEET: dict[str, Any] = {"sheetId": "sheet1"}
BROKEN: dict[str, dict[str, Any]] = {
    "a merge without a target": {"type": "ADD_MERGE", **ON_SHEET},
    "a rename without a sheet": {"type": "RENAME_SHEET", "newName": "N"},
    "a rename without a name": {"type": "RENAME_SHEET", **ON_SHEET},
    "a cell in row 0": {"type": "SQUISHED_UPDATE_CELL", **ON_SHEET, "targetRange": "A0", "content": "x"},
    "a hidden sheet without an id": {"type": "HIDE_SHEET"},
    "an id that is a list": {"type": "HIDE_SHEET", "sheetId": []},
    "a cell whose sheet id is a list": {**put(0, 0, "x"), "sheetId": ["sheet1"]},
    "a position that is a text": {"type": "CREATE_SHEET", "sheetId": "s", "name": "S", "position": "first"},
    "a moved sheet without a distance": {"type": "MOVE_SHEET", **ON_SHEET},
    "a moved sheet with a fractional distance": {"type": "MOVE_SHEET", **ON_SHEET, "delta": 0.5},
    "a dimension that is a list": {"type": "GROUP_HEADERS", **ON_SHEET, "dimension": [], "start": 0, "end": 1},
    "a wrong dimension that the command does not need": {"type": "HIDE_SHEET", **ON_SHEET, "dimension": [], "base": 1},
    "a type that is a list": {"type": [], **ON_SHEET},
    "a range without a sheet": {"type": "CREATE_NAMED_RANGE", "name": "n", "ranges": [{}]},
    "a named range without ranges": {"type": "CREATE_NAMED_RANGE", "name": "n", "ranges": []},
    "a conditional format that is null": {"type": "ADD_CONDITIONAL_FORMAT", **ON_SHEET, "ranges": [], "cf": None},
    "a chart that is a text": {"type": "CREATE_CHART", **ON_SHEET, "figureId": "f", "chartId": "c", "definition": "x"},
}


@pytest.mark.parametrize("command", BROKEN.values(), ids=BROKEN)
def test_a_command_that_no_engine_can_apply_is_refused(command: dict[str, Any], sheet: Sheet) -> None:
    with pytest.raises(Invalid):
        sheet.append(revision(sheet, command))
    assert sheet.version == 1


@pytest.mark.parametrize("kind", sorted(COMMANDS))
def test_every_command_needs_its_fields(kind: str) -> None:
    for name in NEEDED[kind]:
        command = {"type": kind, **{other: "x" for other in NEEDED[kind] if other != name}}
        with pytest.raises(Invalid, match="lacks a value"):
            check_message(message(command))
        with pytest.raises(Invalid):
            check_message(message({**command, name: None}))


def test_a_message_whose_type_is_a_list_is_refused() -> None:
    with pytest.raises(Invalid, match="unknown type"):
        check_message({**message(put(0, 0, "x")), "type": []})


def test_a_named_range_of_complete_columns_is_accepted() -> None:
    ranges = [{"_sheetId": "sheet1", "_zone": {"left": 0, "right": 1, "top": 0}}]
    check_message(message({"type": "CREATE_NAMED_RANGE", "name": "n", "ranges": ranges}))


def message(command: dict[str, Any]) -> dict[str, Any]:
    ids = {"serverRevisionId": "one", "nextRevisionId": "two", "clientId": "browser"}
    return msgspec.json.decode(msgspec.json.encode({"type": "REMOTE_REVISION", **ids, "commands": [command]}))

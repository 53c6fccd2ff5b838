"""The commands of the pinned engine, and the types of the fields that the engine or the server needs.

The server refuses a message before the commit if one of its commands lacks a needed field, or has a value of another
type in such a field. On such a command the unmodified engine throws an error. If a log nevertheless has such a command,
`web/refusal.js` makes the engine refuse the command.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from stratalog.errors import Invalid
from stratalog.struct_types import resolved

__all__ = ["COMMANDS", "check_fields"]

_Line = Annotated[int, msgspec.Meta(ge=0, le=2**31)]
_Object = dict[str, Any]
_RangeName = Annotated[str, msgspec.Meta(pattern=r"^[A-Z]{1,3}[1-9][0-9]{0,6}(:[A-Z]{1,3}[1-9][0-9]{0,6})?\Z")]
_Row = Literal["ROW", "COL"]


class _Zone(msgspec.Struct):
    left: _Line
    right: _Line
    top: _Line
    bottom: _Line


class _OpenZone(msgspec.Struct):
    """A zone of complete columns has no ``bottom``, and a zone of complete rows has no ``right``."""

    left: _Line
    top: _Line
    right: _Line | None = None
    bottom: _Line | None = None


class _Range(msgspec.Struct, rename={"sheet": "_sheetId", "zone": "_zone"}):
    sheet: str
    zone: _OpenZone


class _Size(msgspec.Struct):
    width: float
    height: float


_SHEET: Mapping[str, Any] = {"sheetId": str}
_CELL: Mapping[str, Any] = {**_SHEET, "col": _Line, "row": _Line}
_TARGET: Mapping[str, Any] = {**_SHEET, "target": list[_Zone]}
_LINES: Mapping[str, Any] = {**_SHEET, "dimension": _Row, "elements": list[_Line]}
_GROUP: Mapping[str, Any] = {**_SHEET, "dimension": _Row, "start": _Line, "end": _Line}
_GROUPS: Mapping[str, Any] = {**_SHEET, "dimension": _Row}
_RANGES: Mapping[str, Any] = {**_SHEET, "ranges": list[_Range]}
_FIGURE: Mapping[str, Any] = {**_SHEET, "figureId": str}
_NEW_FIGURE: Mapping[str, Any] = {**_CELL, "figureId": str, "offset": _Object, "size": _Size}
_PIVOT: Mapping[str, Any] = {"pivotId": str}
# The engine makes or changes a named range only if `ranges` has a range.
_NAMED: Mapping[str, Any] = {"ranges": Annotated[list[_Range], msgspec.Meta(min_length=1)]}

NEEDED: Mapping[str, Mapping[str, Any]] = {
    "SQUISHED_UPDATE_CELL": {**_SHEET, "targetRange": _RangeName},
    "UPDATE_CELL": _CELL,
    "UPDATE_CELL_POSITION": _CELL,
    "CLEAR_CELL": _CELL,
    "CLEAR_CELLS": _TARGET,
    "DELETE_CONTENT": _TARGET,
    "ADD_COLUMNS_ROWS": {
        **_GROUPS,
        "base": _Line,
        "quantity": _Line,
        "position": Literal["before", "after"],
    },
    "REMOVE_COLUMNS_ROWS": _LINES,
    "RESIZE_COLUMNS_ROWS": _LINES,
    "HIDE_COLUMNS_ROWS": _LINES,
    "UNHIDE_COLUMNS_ROWS": _LINES,
    "SET_GRID_LINES_VISIBILITY": _SHEET,
    "UNFREEZE_COLUMNS": _SHEET,
    "UNFREEZE_ROWS": _SHEET,
    "FREEZE_COLUMNS": {**_SHEET, "quantity": _Line},
    "FREEZE_ROWS": {**_SHEET, "quantity": _Line},
    "UNFREEZE_COLUMNS_ROWS": _SHEET,
    "ADD_MERGE": _TARGET,
    "REMOVE_MERGE": _TARGET,
    "CREATE_SHEET": _SHEET,
    "DELETE_SHEET": _SHEET,
    "DUPLICATE_SHEET": {**_SHEET, "sheetIdTo": str, "sheetNameTo": str},
    "MOVE_SHEET": {**_SHEET, "delta": int},
    "RENAME_SHEET": {**_SHEET, "newName": str},
    "COLOR_SHEET": _SHEET,
    "HIDE_SHEET": _SHEET,
    "SHOW_SHEET": _SHEET,
    "LOCK_SHEET": _SHEET,
    "UNLOCK_SHEET": _SHEET,
    "MOVE_RANGES": {**_TARGET, "targetSheetId": str, "col": _Line, "row": _Line},
    "ADD_CONDITIONAL_FORMAT": {**_RANGES, "cf": _Object},
    "REMOVE_CONDITIONAL_FORMAT": {**_SHEET, "id": str},
    "CHANGE_CONDITIONAL_FORMAT_PRIORITY": {**_SHEET, "cfId": str, "delta": int},
    "CREATE_FIGURE": {**_NEW_FIGURE, "tag": str},
    "DELETE_FIGURE": _FIGURE,
    "UPDATE_FIGURE": _FIGURE,
    "CREATE_CAROUSEL": {**_NEW_FIGURE, "definition": _Object},
    "UPDATE_CAROUSEL": {**_FIGURE, "definition": _Object},
    "SET_FORMATTING": _TARGET,
    "CLEAR_FORMATTING": _TARGET,
    "SET_BORDER": _CELL,
    "SET_ZONE_BORDERS": _TARGET,
    "SET_BORDERS_ON_TARGET": _TARGET,
    "CREATE_CHART": {**_FIGURE, "chartId": str, "definition": _Object},
    "UPDATE_CHART": {**_FIGURE, "chartId": str, "definition": _Object},
    "DELETE_CHART": {**_SHEET, "chartId": str},
    "CREATE_TABLE": _RANGES,
    "REMOVE_TABLE": _TARGET,
    "UPDATE_TABLE": {**_SHEET, "zone": _Zone},
    "CREATE_TABLE_STYLE": dict.fromkeys(("tableStyleId", "tableStyleName", "templateName", "primaryColor"), str),
    "REMOVE_TABLE_STYLE": {"tableStyleId": str},
    "CREATE_IMAGE": {**_NEW_FIGURE, "definition": _Object},
    "GROUP_HEADERS": _GROUP,
    "UNGROUP_HEADERS": _GROUP,
    "UNFOLD_HEADER_GROUP": _GROUP,
    "FOLD_HEADER_GROUP": _GROUP,
    "FOLD_ALL_HEADER_GROUPS": _GROUPS,
    "UNFOLD_ALL_HEADER_GROUPS": _GROUPS,
    "UNFOLD_HEADER_GROUPS_IN_ZONE": {**_GROUPS, "zone": _Zone},
    "FOLD_HEADER_GROUPS_IN_ZONE": {**_GROUPS, "zone": _Zone},
    "ADD_DATA_VALIDATION_RULE": {**_RANGES, "rule": _Object},
    "REMOVE_DATA_VALIDATION_RULE": {**_SHEET, "id": str},
    "UPDATE_LOCALE": {"locale": _Object},
    "CREATE_NAMED_RANGE": {**_NAMED, "name": str},
    "UPDATE_NAMED_RANGE": {**_NAMED, "oldRangeName": str, "newRangeName": str},
    "DELETE_NAMED_RANGE": {"name": str},
    "ADD_PIVOT": {**_PIVOT, "pivot": _Object},
    "UPDATE_PIVOT": {**_PIVOT, "pivot": _Object},
    "INSERT_PIVOT": {**_CELL, **_PIVOT, "table": _Object},
    "RENAME_PIVOT": {**_PIVOT, "name": str},
    "REMOVE_PIVOT": _PIVOT,
    "DUPLICATE_PIVOT": {**_PIVOT, "newPivotId": str},
}
"""The needed fields of each command, and their types."""

OPTIONAL: Mapping[str, Mapping[str, Any]] = {
    "CREATE_SHEET": {"name": str, "position": _Line},
    "SET_FORMATTING": {"style": _Object | None},
    "CREATE_CHART": {"offset": _Object, "size": _Size},
    "CREATE_TABLE": {"config": _Object},
    "UPDATE_TABLE": {"config": _Object, "newTableRange": _Range},
}
"""The types of fields that a command may leave out."""

COMMANDS = frozenset(NEEDED)
# The engine or the server reads these fields of any command that has them.
_OF_ANY: Mapping[str, Any] = {**_SHEET, "dimension": _Row}
_TYPES = {kind: {**_OF_ANY, **OPTIONAL.get(kind, {}), **needed} for kind, needed in NEEDED.items()}


def check_fields(command: Mapping[str, Any]) -> None:
    """Check the fields of a command in `COMMANDS`. Raises Invalid for a missing field or a value of another type."""
    kind = command["type"]
    if missing := [name for name in NEEDED[kind] if name not in command]:
        raise Invalid("a command lacks a value", type=kind, missing=", ".join(missing))
    try:
        for name, type_ in _TYPES[kind].items():
            if name in command:
                msgspec.convert(command[name], resolved(type_))
    except msgspec.ValidationError as exc:
        raise Invalid("a command has a value that the engine does not accept", type=kind, reason=str(exc)) from exc

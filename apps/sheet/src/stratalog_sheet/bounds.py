"""Bounds on the numbers of a message. Without them, one message could make a version that no engine can open.

For each sheet the engine keeps an array of rows, an array of columns, and tables of rows times columns. So one message
may add a limited number of rows, columns and sheets, and may write ranges with a limited number of cells. No position
may exceed the size of the largest allowed sheet.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from stratalog.codec import encode
from stratalog.errors import Invalid, LimitExceeded
from stratalog.limits import INTEGER_MAX
from stratalog_sheet.cells import range_cells
from stratalog_sheet.limits import (
    SHEET_COLUMNS_ADDED_MAX,
    SHEET_COLUMNS_MAX,
    SHEET_OBJECTS_ADDED_MAX,
    SHEET_RANGE_CELLS_MAX,
    SHEET_ROWS_ADDED_MAX,
    SHEET_ROWS_MAX,
    SHEET_SHEETS_ADDED_MAX,
    SHEET_SHEETS_COPIED_MAX,
)

__all__ = ["check_added_rows", "check_bounds", "objects_in"]

POSITIONS: Mapping[str, int] = {
    **dict.fromkeys(("row", "top", "bottom", "rows", "rowNumber"), SHEET_ROWS_MAX),
    **dict.fromkeys(("col", "left", "right", "column", "cols", "colNumber"), SHEET_COLUMNS_MAX),
}
LENGTHS: Mapping[str, int] = {"ROW": SHEET_ROWS_MAX, "COL": SHEET_COLUMNS_MAX}
ALONG_DIMENSION = ("base", "quantity", "elements", "start", "end")
FROZEN: Mapping[str, int] = {"FREEZE_ROWS": SHEET_ROWS_MAX, "FREEZE_COLUMNS": SHEET_COLUMNS_MAX}
ADDED: Mapping[str, int] = {
    "rows": SHEET_ROWS_ADDED_MAX,
    "columns": SHEET_COLUMNS_ADDED_MAX,
    "sheets": SHEET_SHEETS_ADDED_MAX,
    "copies of sheets": SHEET_SHEETS_COPIED_MAX,
    "cells in ranges": SHEET_RANGE_CELLS_MAX,
    "different objects": SHEET_OBJECTS_ADDED_MAX,
}
# The fields that the engine tries in `web/trial.js`.
OBJECTS = frozenset(("border", "cf", "config", "definition", "locale", "pivot", "rule", "table", "tag"))


def check_bounds(commands: Sequence[Mapping[str, Any]]) -> None:
    """Check a message's commands.

    Raises LimitExceeded for a number or sum that is too large, and Invalid for an infinity, NaN or an invalid size.
    """
    added = dict.fromkeys(ADDED, 0)
    for command in commands:
        for name, value in _numbers(command):
            _check_number(command, name, value)
        for what, count in _added(command):
            added[what] += count
    added["different objects"] = objects_in(commands)
    for what, count in added.items():
        if count > ADDED[what]:
            raise LimitExceeded(f"a message adds too many {what}", value=count, limit=ADDED[what])


def objects_in(commands: Iterable[Mapping[str, Any]]) -> int:
    """Return the number of different objects in commands, such as charts and conditional formats."""
    return len({encode(command[name]) for command in commands for name in OBJECTS & command.keys()})


def check_added_rows(row: int, count: int) -> None:
    """Check an insertion of ``count`` rows before row ``row``, counted from 1. Raises LimitExceeded, Invalid."""
    if type(row) is not int or type(count) is not int or row < 1 or count < 1:
        raise Invalid("a row and a count of rows must be positive whole numbers", row=row, count=count)
    check_bounds([{"type": "ADD_COLUMNS_ROWS", "dimension": "ROW", "base": row - 1, "quantity": count}])


def _numbers(command: Mapping[str, Any]) -> Iterator[tuple[str, int | float]]:
    """Yield every number of a command with the name of its nearest enclosing field."""
    held: list[tuple[str, Any]] = list(command.items())
    while held:
        name, value = held.pop()
        if isinstance(value, Mapping):
            held.extend(value.items())
        elif isinstance(value, list | tuple):
            held.extend((name, item) for item in value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield name, value


def _check_number(command: Mapping[str, Any], name: str, value: int | float) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise Invalid("a value of a command is not a finite number", type=command["type"], name=name)
    limit = POSITIONS.get(name, INTEGER_MAX)
    if name in ALONG_DIMENSION and command.get("dimension") in LENGTHS:
        limit = LENGTHS[command["dimension"]]
    elif name == "quantity":
        limit = FROZEN.get(command["type"], limit)
    if abs(value) > limit:
        raise LimitExceeded("a number of a command is out of range", type=command["type"], name=name, limit=limit)


def _added(command: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield (kind, count) of the rows, columns and sheets that a command adds, and of the cells of its range."""
    kind = command["type"]
    if kind == "ADD_COLUMNS_ROWS":
        yield "rows" if command["dimension"] == "ROW" else "columns", command["quantity"]
    elif kind == "CREATE_SHEET":
        yield "sheets", 1
        yield "rows", _count(command, "rows")
        yield "columns", _count(command, "cols")
    elif kind == "DUPLICATE_SHEET":
        yield "copies of sheets", 1
    elif kind == "SQUISHED_UPDATE_CELL":
        yield "cells in ranges", range_cells(command["targetRange"])


def _count(command: Mapping[str, Any], name: str) -> int:
    value = command.get(name, 0)
    if value is not None and type(value) is not int:
        raise Invalid("a command has a value that the engine does not accept", type=command["type"], name=name)
    return value or 0

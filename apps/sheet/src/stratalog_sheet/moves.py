"""Movement of cells by inserted and removed rows and columns and by copied sheets, traced backwards from a position.

A *line* is a row or a column. This module handles positions only, no contents. A cut and pasted range does not count as
moved, because the engine clears the old position and writes the contents at the new position.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from stratalog_sheet.cells import Position

__all__ = ["Born", "CopiedSheet", "Inserted", "Removed", "Shift", "Spot", "before", "shifts_of"]


class Spot(msgspec.Struct, frozen=True):
    """A cell's position: the id of its sheet, and column and row."""

    sheet: str
    position: Position


class Inserted(msgspec.Struct, frozen=True):
    """``count`` lines were inserted from line ``at`` on; ``axis`` is 0 for columns, 1 for rows."""

    sheet: str
    axis: int
    at: int
    count: int


class Removed(msgspec.Struct, frozen=True):
    """Removed lines, by their positions before the removal, in ascending order."""

    sheet: str
    axis: int
    lines: tuple[int, ...]


class CopiedSheet(msgspec.Struct, frozen=True):
    """A new sheet: a copy of ``source``, or an empty sheet if ``source`` is empty."""

    source: str
    sheet: str


class Born(Exception):
    """The position did not exist before the shift."""


Shift = Inserted | Removed | CopiedSheet


def shifts_of(command: Mapping[str, Any]) -> Iterator[Shift]:
    """Yield the shifts by which a command moves cells."""
    kind, sheet = command["type"], command.get("sheetId", "")
    axis = 1 if command.get("dimension") == "ROW" else 0
    if kind == "ADD_COLUMNS_ROWS":
        yield Inserted(sheet, axis, command["base"] + (command["position"] == "after"), command["quantity"])
    elif kind == "REMOVE_COLUMNS_ROWS":
        yield Removed(sheet, axis, tuple(sorted(command["elements"])))
    elif kind == "DUPLICATE_SHEET":
        yield CopiedSheet(sheet, command["sheetIdTo"])
    elif kind == "CREATE_SHEET":
        yield CopiedSheet("", sheet)


def before(shift: Shift, spot: Spot) -> Spot:
    """Return the position that the cell at ``spot`` had before the shift. Raises Born if the cell did not exist."""
    if isinstance(shift, CopiedSheet):
        if spot.sheet != shift.sheet:
            return spot
        if not shift.source:
            raise Born
        return Spot(shift.source, spot.position)
    if spot.sheet != shift.sheet:
        return spot
    line = spot.position[shift.axis]
    if isinstance(shift, Removed):
        return _at_line(spot, shift.axis, _reopened(line, shift.lines))
    if shift.at <= line < shift.at + shift.count:
        raise Born
    return spot if line < shift.at else _at_line(spot, shift.axis, line - shift.count)


def _at_line(spot: Spot, axis: int, line: int) -> Spot:
    column, row = spot.position
    return Spot(spot.sheet, (line, row) if axis == 0 else (column, line))


def _reopened(line: int, removed: Sequence[int]) -> int:
    """Return a line's position before the removal. ``removed`` is in ascending order."""
    for removed_line in removed:
        if removed_line <= line:
            line += 1
    return line

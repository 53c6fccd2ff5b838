"""Where cells go: rows and columns that come and leave, ranges that move, told backwards from a place.

A *line* is a row or a column. Only places are known here, no contents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from stratalog.apps.sheet.cells import Position

__all__ = ["Born", "Inserted", "Moved", "Removed", "Shift", "Spot", "before", "carried", "shifts_of", "without"]


class Spot(msgspec.Struct, frozen=True):
    """A cell's place: the id of its sheet, and column and row."""

    sheet: str
    place: Position


class Inserted(msgspec.Struct, frozen=True):
    """``count`` lines stand from line ``at`` on that were not there before; ``axis`` 0 for columns, 1 for rows."""

    sheet: str
    axis: int
    at: int
    count: int


class Removed(msgspec.Struct, frozen=True):
    """Lines that went, in order."""

    sheet: str
    axis: int
    lines: tuple[int, ...]


class Moved(msgspec.Struct, frozen=True):
    """A range that was put elsewhere: its first and last place, and where the first one went."""

    sheet: str
    first: Position
    last: Position
    target: Spot


class Copied(msgspec.Struct, frozen=True):
    """A sheet that came as the copy of another."""

    source: str
    sheet: str


class Born(Exception):
    """The place did not exist before."""


Shift = Inserted | Removed | Moved | Copied


def shifts_of(command: Mapping[str, Any]) -> Iterator[Shift]:
    """How a command moves cells."""
    kind, sheet = command["type"], command.get("sheetId", "")
    axis = 1 if command.get("dimension") == "ROW" else 0
    if kind == "ADD_COLUMNS_ROWS":
        yield Inserted(sheet, axis, command["base"] + (command["position"] == "after"), command["quantity"])
    elif kind == "REMOVE_COLUMNS_ROWS":
        yield Removed(sheet, axis, tuple(sorted(command["elements"])))
    elif kind == "MOVE_RANGES":
        target = Spot(command["targetSheetId"], (command["col"], command["row"]))
        for zone in command["target"]:
            yield Moved(sheet, (zone["left"], zone["top"]), (zone["right"], zone["bottom"]), target)
    elif kind == "DUPLICATE_SHEET":
        yield Copied(sheet, command["sheetIdTo"])
    elif kind == "CREATE_SHEET":
        yield Copied("", sheet)


def before(shift: Shift, spot: Spot) -> Spot:
    """Where the cell that is at ``spot`` was before the shift. Raises Born where it was nowhere."""
    if isinstance(shift, Copied):
        if spot.sheet != shift.sheet:
            return spot
        if not shift.source:
            raise Born
        return Spot(shift.source, spot.place)
    if isinstance(shift, Moved):
        return _before_move(shift, spot)
    if spot.sheet != shift.sheet:
        return spot
    line = spot.place[shift.axis]
    if isinstance(shift, Removed):
        return _at_line(spot, shift.axis, _reopened(line, shift.lines))
    if shift.at <= line < shift.at + shift.count:
        raise Born
    return spot if line < shift.at else _at_line(spot, shift.axis, line - shift.count)


def without(gone: Inserted | Removed, line: int) -> int | None:
    """Where a line is where ``gone`` never took place; None where it is one of those it inserted."""
    if isinstance(gone, Removed):
        return _reopened(line, gone.lines)
    if gone.at <= line < gone.at + gone.count:
        return None
    return line if line < gone.at else line - gone.count


def carried(gone: Inserted | Removed, later: Shift) -> Inserted | Removed:
    """``gone`` as it reads after ``later`` took place as well."""
    if not isinstance(later, Inserted | Removed) or (later.sheet, later.axis) != (gone.sheet, gone.axis):
        return gone
    if isinstance(gone, Removed):
        return Removed(gone.sheet, gone.axis, tuple(_after(later, line) for line in gone.lines))
    inside = _inside(gone, later)
    return Inserted(gone.sheet, gone.axis, _after(later, gone.at), max(gone.count + inside, 0))


def _inside(gone: Inserted, later: Inserted | Removed) -> int:
    """How many lines the later shift adds among those that were inserted, or takes of them."""
    if isinstance(later, Inserted):
        return later.count if gone.at < later.at < gone.at + gone.count else 0
    return -sum(gone.at <= line < gone.at + gone.count for line in later.lines)


def _after(later: Inserted | Removed, line: int) -> int:
    if isinstance(later, Inserted):
        return line + later.count if line >= later.at else line
    return line - sum(one < line for one in later.lines)


def _before_move(shift: Moved, spot: Spot) -> Spot:
    width, height = shift.last[0] - shift.first[0], shift.last[1] - shift.first[1]
    across = spot.place[0] - shift.target.place[0]
    down = spot.place[1] - shift.target.place[1]
    if spot.sheet == shift.target.sheet and 0 <= across <= width and 0 <= down <= height:
        return Spot(shift.sheet, (shift.first[0] + across, shift.first[1] + down))
    return spot


def _at_line(spot: Spot, axis: int, line: int) -> Spot:
    column, row = spot.place
    return Spot(spot.sheet, (line, row) if axis == 0 else (column, line))


def _reopened(line: int, removed: Sequence[int]) -> int:
    """Where a line was before lower ones went."""
    for one in removed:
        if one <= line:
            line += 1
    return line

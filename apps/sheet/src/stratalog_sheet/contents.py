"""The texts that users typed into a workbook's cells, computed from commands without an engine.

This module computes no values and no formats.

A row or column has a lasting identity: its position in the base state, or the message that inserted it. So a cell keeps
its identity when it moves, and when the caller leaves out undone messages.

A log may have commands that every engine refuses, because their authors had not seen the previous commands. For
example, two users may each delete one of two sheets. `Contents` ignores the refused commands, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import count, groupby
from typing import Any

import msgspec

from stratalog.struct_types import resolved
from stratalog_sheet.cells import Position, cell_name, parse_cell
from stratalog_sheet.moves import CopiedSheet, Inserted, Shift, shifts_of
from stratalog_sheet.writes import CellWrite, writes_of

__all__ = ["CellId", "Contents", "StateSheet", "Tab", "read_sheets"]

ROWS_NEW, COLUMNS_NEW = 100, 26
"""The number of rows and columns of a new sheet if the command states no size. The engine uses the same numbers."""
ZONE_CELLS_MAX = 10_000
"""In a cleared zone of more than this many cells, `Tab.write` visits only the filled cells."""
DIGITS = "0123456789"
FROZEN = {"FREEZE_COLUMNS": "COL", "FREEZE_ROWS": "ROW"}
FORBIDDEN = re.compile(r"['*?/\\\[\]]")
"""A character that the engine accepts in no name of a new or renamed sheet."""

Line = int | tuple[str, int, int]
"""A row or column: its number in the base state, or (message, insertion in the message, line in the insertion)."""
CellId = tuple[Line, Line]
"""A cell's lasting identity: its column and its row."""


class StateLine(msgspec.Struct):
    """A row or column in the engine's JSON."""

    isHidden: bool = False  # noqa: N815


class StatePanes(msgspec.Struct, frozen=True):
    """The number of frozen columns and rows in the engine's JSON."""

    xSplit: int = 0  # noqa: N815
    ySplit: int = 0  # noqa: N815


class StateSheet(msgspec.Struct):
    """One sheet in the engine's JSON."""

    id: str
    name: str = ""
    colNumber: int = COLUMNS_NEW  # noqa: N815 - the engine's own name
    rowNumber: int = ROWS_NEW  # noqa: N815
    isVisible: bool = True  # noqa: N815
    cells: dict[str, Any] = {}
    cols: dict[str, StateLine] = {}
    rows: dict[str, StateLine] = {}
    panes: StatePanes = StatePanes()


class _State(msgspec.Struct):
    sheets: list[StateSheet] = []


def read_sheets(data: bytes) -> list[StateSheet]:
    """Return the sheets in the engine's JSON."""
    return msgspec.json.decode(data, type=resolved(_State)).sheets


class _Lines:
    """The rows or columns of a sheet in order. Before the first insertion or removal a line equals its position."""

    def __init__(self, count: int, lines: list[Line] | None = None) -> None:
        self._count = count
        self._lines = lines
        self._positions: dict[Line, int] | None = None

    def copy(self) -> _Lines:
        return _Lines(self._count, None if self._lines is None else list(self._lines))

    def at(self, position: int) -> Line:
        return position if self._lines is None else self._lines[position]

    def position(self, line: Line) -> int | None:
        """Return the position of a line; None if the line does not exist."""
        if self._lines is None:
            return line if isinstance(line, int) and line < self._count else None
        if self._positions is None:
            self._positions = {line: position for position, line in enumerate(self._lines)}
        return self._positions.get(line)

    def insert(self, at: int, lines: list[Line]) -> None:
        self._all()[at:at] = lines

    def remove(self, positions: Iterable[int]) -> None:
        lines = self._all()
        for position in sorted(positions, reverse=True):
            del lines[position]

    def missing(self, other: _Lines) -> set[Line]:
        """Return the lines of this sequence that ``other`` lacks."""
        if self._lines is None and other._lines is None:
            return set()
        return set(self) - set(other)

    def runs(self, lines: set[Line]) -> Iterator[tuple[int, int]]:
        """Yield (first position, count) of each run of adjacent lines among ``lines``, in ascending order."""
        positions = [position for position, line in enumerate(self) if line in lines] if lines else []
        for _, run in groupby(enumerate(positions), key=lambda pair: pair[1] - pair[0]):
            following = [position for _, position in run]
            yield following[0], len(following)

    def __iter__(self) -> Iterator[Line]:
        return iter(range(self._count) if self._lines is None else self._lines)

    def __len__(self) -> int:
        return self._count if self._lines is None else len(self._lines)

    def _all(self) -> list[Line]:
        if self._lines is None:
            self._lines = list(range(self._count))
        self._positions = None
        return self._lines


class Tab:
    """One sheet: name, columns, rows, the base state's contents by cell name, and later writes by cell identity."""

    def __init__(self, name: str, columns: _Lines, rows: _Lines, base: Mapping[str, Any]) -> None:
        self.name = name
        self.columns = columns
        self.rows = rows
        self.is_visible = True
        self.hidden: dict[str, set[Line]] = {"COL": set(), "ROW": set()}
        self.frozen = {"COL": 0, "ROW": 0}
        self.written: dict[CellId, str] = {}
        self._base = base

    def copy(self, name: str) -> Tab:
        """Return a copy under another name, with the same contents in the same cells."""
        made = Tab(name, self.columns.copy(), self.rows.copy(), self._base)
        made.written = dict(self.written)
        made.is_visible = self.is_visible
        made.hidden = {dimension: set(lines) for dimension, lines in self.hidden.items()}
        made.frozen = dict(self.frozen)
        return made

    def lines(self, dimension: str) -> _Lines:
        """Return the rows (ROW) or columns (COL)."""
        return self.rows if dimension == "ROW" else self.columns

    def has_visible_without(self, dimension: str, hidden: Iterable[int]) -> bool:
        """Return whether a line stays visible if further lines are hidden."""
        lines = self.lines(dimension)
        further = {lines.at(position) for position in hidden if position < len(lines)}
        return len(self.hidden[dimension] | further) < len(lines)

    def has_lines_without(self, dimension: str, removed: set[int]) -> bool:
        """Return whether a removal leaves a visible line and, if lines are frozen, a line that is not frozen."""
        lines, frozen = self.lines(dimension), self.frozen[dimension]
        left = [position for position in range(len(lines)) if position not in removed]
        is_any_visible = any(lines.at(position) not in self.hidden[dimension] for position in left)
        return is_any_visible and (not frozen or any(position >= frozen for position in left))

    def position(self, cell: CellId) -> Position | None:
        """Return the position of a cell; None if the cell was removed or never existed."""
        column, row = self.columns.position(cell[0]), self.rows.position(cell[1])
        return None if column is None or row is None else (column, row)

    def content(self, cell: CellId) -> str:
        """Return the content of a cell, even of a removed cell; empty if the cell has no content."""
        if cell in self.written:
            return self.written[cell]
        column, row = cell
        return self._at_first(cell_name(column, row)) if isinstance(column, int) and isinstance(row, int) else ""

    def write(self, written: CellWrite) -> None:
        """Set the content of a range. Ignore the cells of the range beyond the sheet's last row or column."""
        (left, top), (right, bottom) = written.first, written.last
        right, bottom = min(right, len(self.columns) - 1), min(bottom, len(self.rows) - 1)
        content = str(written.content).replace("\r\n", "\n").replace("\r", "\n")
        if not content and (right - left + 1) * (bottom - top + 1) > ZONE_CELLS_MAX:
            cells = [cell for cell in self.filled() if self._is_within(cell, left, top, right, bottom)]
        else:
            columns = [self.columns.at(column) for column in range(left, right + 1)]
            cells = [(column, self.rows.at(row)) for row in range(top, bottom + 1) for column in columns]
        for cell in cells:
            self.written[cell] = content

    def filled(self) -> Iterator[CellId]:
        """Yield the cells that the base state fills or a later command wrote. Some of these cells may be removed."""
        yield from self.written
        for name in self._base:
            if (cell := parse_cell(name)) not in self.written:
                yield cell

    def on_lines(self, columns: set[Line], rows: set[Line]) -> Iterator[CellId]:
        """Yield the base state's filled cells in any of these columns or rows."""
        if not columns and not rows:
            return
        letters = {cell_name(column, 0).rstrip(DIGITS) for column in columns if isinstance(column, int)}
        numbers = {str(row + 1) for row in rows if isinstance(row, int)}
        for name in self._base:
            column = name.rstrip(DIGITS)
            if column in letters or name[len(column) :] in numbers:
                yield parse_cell(name)

    def _at_first(self, name: str) -> str:
        return str(self._base.get(name) or "")

    def _is_within(self, cell: CellId, left: int, top: int, right: int, bottom: int) -> bool:
        position = self.position(cell)
        return position is not None and left <= position[0] <= right and top <= position[1] <= bottom


class Contents:
    """The contents of a workbook: its sheets by id."""

    def __init__(self, sheets: Iterable[StateSheet]) -> None:
        self.tabs: dict[str, Tab] = {}
        for sheet in sheets:
            tab = Tab(sheet.name, _Lines(sheet.colNumber), _Lines(sheet.rowNumber), sheet.cells)
            tab.is_visible = sheet.isVisible
            for dimension, lines in (("COL", sheet.cols), ("ROW", sheet.rows)):
                tab.hidden[dimension] = {int(line) for line, state in lines.items() if state.isHidden}
            tab.frozen = {"COL": sheet.panes.xSplit, "ROW": sheet.panes.ySplit}
            self.tabs[sheet.id] = tab

    def apply(self, message: str, commands: Iterable[Mapping[str, Any]]) -> None:
        """Apply the commands of one message. ``message`` is its id, and a part of each inserted line's identity."""
        insertions = 0
        for command in commands:
            if self._refuses(command):
                continue
            for shift in shifts_of(command):
                self._shift(shift, command, message, insertions)
                insertions += isinstance(shift, Inserted)
            for written in writes_of(command):
                self.tabs[written.sheet].write(written)
            self._change_sheet(command)

    def _refuses(self, command: Mapping[str, Any]) -> bool:
        """Return whether the engine refuses the command. This method checks commands that change lines or sheets.

        The method also returns True for every command on a missing sheet. The engine also refuses a command that
        freezes a part of a merge. This method does not check merges.
        """
        kind, sheet = command["type"], command.get("sheetId")
        if kind == "CREATE_SHEET":
            is_beyond = not 0 <= command.get("position", 0) <= len(self.tabs)
            name = command.get("name")
            return sheet in self.tabs or is_beyond or (name is not None and self._refuses_name(name))
        if sheet is None:
            return False
        if sheet not in self.tabs:
            return True
        if kind in ("DELETE_SHEET", "HIDE_SHEET"):
            return sum(tab.is_visible for tab in self.tabs.values()) == 1
        if kind == "DUPLICATE_SHEET":
            return command["sheetIdTo"] in self.tabs or command["sheetNameTo"] in self._names()
        if kind == "RENAME_SHEET":
            return self._refuses_name(command["newName"], besides=sheet)
        if kind in ("ADD_COLUMNS_ROWS", "REMOVE_COLUMNS_ROWS"):
            count = len(self.tabs[sheet].lines(command["dimension"]))
            touched = [command["base"]] if kind == "ADD_COLUMNS_ROWS" else command["elements"]
            is_repeated = len(set(touched)) < len(touched)
            is_within = all(0 <= line < count for line in touched)
            is_addition = kind == "ADD_COLUMNS_ROWS"
            is_left = is_addition or self.tabs[sheet].has_lines_without(command["dimension"], set(touched))
            return is_repeated or not is_within or not is_left
        if kind == "HIDE_COLUMNS_ROWS":
            return not self.tabs[sheet].has_visible_without(command["dimension"], command["elements"])
        if kind in ("FREEZE_COLUMNS", "FREEZE_ROWS"):
            return not 1 <= command["quantity"] < len(self.tabs[sheet].lines(FROZEN[kind]))
        return False

    def _refuses_name(self, name: str, besides: str = "") -> bool:
        """Return whether the engine refuses the name of a new or renamed sheet. ``besides`` is the renamed sheet.

        For the name of a copy, the engine only checks that no other sheet has exactly this name.
        """
        text = name.strip()
        names = {other.strip().upper() for other in self._names(besides)}
        return not text or FORBIDDEN.search(text) is not None or text.upper() in names

    def _names(self, besides: str = "") -> set[str]:
        return {tab.name for sheet, tab in self.tabs.items() if sheet != besides}

    def _next_name(self) -> str:
        names = self._names()
        return next(name for number in count(1) if (name := f"Sheet{number}") not in names)

    def _change_sheet(self, command: Mapping[str, Any]) -> None:
        match command["type"]:
            case "HIDE_COLUMNS_ROWS" | "UNHIDE_COLUMNS_ROWS":
                self._hide(command)
            case "FREEZE_COLUMNS" | "FREEZE_ROWS":
                self.tabs[command["sheetId"]].frozen[FROZEN[command["type"]]] = command["quantity"]
            case "UNFREEZE_COLUMNS" | "UNFREEZE_ROWS" | "UNFREEZE_COLUMNS_ROWS" as kind:
                thawed = [FROZEN[f"FREEZE_{lines}"] for lines in ("COLUMNS", "ROWS") if lines in kind]
                self.tabs[command["sheetId"]].frozen.update(dict.fromkeys(thawed, 0))
            case "DELETE_SHEET":
                del self.tabs[command["sheetId"]]
            case "HIDE_SHEET" | "SHOW_SHEET":
                self.tabs[command["sheetId"]].is_visible = command["type"] == "SHOW_SHEET"
            case "RENAME_SHEET":
                self.tabs[command["sheetId"]].name = command["newName"].strip()

    def _hide(self, command: Mapping[str, Any]) -> None:
        tab, dimension = self.tabs[command["sheetId"]], command["dimension"]
        lines = tab.lines(dimension)
        changed = {lines.at(position) for position in command["elements"] if position < len(lines)}
        if command["type"] == "HIDE_COLUMNS_ROWS":
            tab.hidden[dimension] |= changed
        else:
            tab.hidden[dimension] -= changed

    def _shift(self, shift: Shift, command: Mapping[str, Any], message: str, number: int) -> None:
        if isinstance(shift, CopiedSheet):
            if shift.source:
                self.tabs[shift.sheet] = self.tabs[shift.source].copy(command["sheetNameTo"])
            else:
                size = _Lines(command.get("cols") or COLUMNS_NEW), _Lines(command.get("rows") or ROWS_NEW)
                self.tabs[shift.sheet] = Tab(command.get("name") or self._next_name(), *size, {})
        else:
            tab, dimension = self.tabs[shift.sheet], command["dimension"]
            lines, frozen = tab.lines(dimension), tab.frozen[dimension]
            if isinstance(shift, Inserted):
                lines.insert(shift.at, [(message, number, each) for each in range(shift.count)])
                tab.frozen[dimension] += shift.count if shift.at < frozen else 0
            else:
                tab.hidden[dimension] -= {lines.at(position) for position in shift.lines}
                lines.remove(shift.lines)
                tab.frozen[dimension] -= sum(position < frozen for position in shift.lines)

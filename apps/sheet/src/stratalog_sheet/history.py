"""History for people: a description of each entry, and the labels of versions."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from stratalog import Entry, Log
from stratalog.process_fork import close_in_child
from stratalog_sheet.cells import cell_name, column_name, parse_range, range_cells
from stratalog_sheet.events import (
    Created,
    Forked,
    Imported,
    Named,
    Renamed,
    Restored,
    Revision,
    fact_of,
    target_of,
)
from stratalog_sheet.limits import SHEET_ACTIVITY_CELLS_MAX
from stratalog_sheet.retention import read_retained

__all__ = ["Activity", "Labels", "NamedVersion", "activity"]

_CELL_COMMANDS = ("UPDATE_CELL", "CLEAR_CELL", "SQUISHED_UPDATE_CELL")


class Activity(msgspec.Struct, frozen=True):
    """A description of one entry. ``cells`` lists the first cells that the entry wrote, with names at ``version``.

    The list has no cells of cleared zones.
    """

    version: int
    created_ms: int
    author: str
    type: str
    text: str
    cells: Sequence[str]


class NamedVersion(msgspec.Struct, frozen=True):
    """A labelled version. ``created_ms`` and ``author`` come from the entry that set the label."""

    version: int
    label: str
    created_ms: int
    author: str


class Labels:
    """The labels of versions. Each `read` reads only entries since the last `read`. Safe to share between threads."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._lock = threading.Lock()
        close_in_child(self, "_lock")
        self._read_to = 0
        self._named: dict[int, NamedVersion] = {}

    def read(self) -> list[NamedVersion]:
        """Return the labelled versions that the log still keeps, in ascending order."""
        with self._lock:
            floor = self._log.above_floor(self._read_above)
            return [self._named[version] for version in sorted(self._named) if version >= floor]

    def _read_above(self, floor: int) -> int:
        """Read the entries above ``floor`` that no earlier `read` has read. Return ``floor``."""
        for entry in self._log.read(max(self._read_to, floor)):
            self._follow(entry)
            self._read_to = entry.version
        return floor

    def _follow(self, entry: Entry) -> None:
        if entry.events[0].type != Named.kind:
            return
        fact = fact_of(entry)
        assert isinstance(fact, Named)
        if fact.label:
            self._named[fact.version] = NamedVersion(fact.version, fact.label, entry.created_ms, entry.author)
        else:
            self._named.pop(fact.version, None)


def activity(log: Log, before: int | None, limit: int) -> list[Activity]:
    """Describe at most ``limit`` kept entries below the version ``before``, newest first. None means up to the head."""
    last = log.head().version if before is None else before - 1
    entries = read_retained(log, max(last - limit, 0), max(last, 0))
    return [_activity_of(entry) for entry in reversed(entries)]


def _activity_of(entry: Entry) -> Activity:
    fact = fact_of(entry)
    cells: list[str] = []
    if isinstance(fact, Revision):
        text, cells = _revision_text(fact)
    elif isinstance(fact, Created):
        text = "created the sheet"
    elif isinstance(fact, Imported):
        text = f"imported {fact.file_name or 'a workbook'}"
    elif isinstance(fact, Restored):
        text = f"restored version {fact.version}"
    elif isinstance(fact, Renamed):
        text = f"renamed the sheet from “{fact.before}” to “{fact.title}”"
    elif isinstance(fact, Forked):
        text = f"copied version {fact.version} of {fact.source}"
    else:
        removed = f"removed the name of version {fact.version}"
        text = f"named version {fact.version} “{fact.label}”" if fact.label else removed
    return Activity(entry.version, entry.created_ms, entry.author, fact.kind, text, cells)


def _revision_text(fact: Revision) -> tuple[str, list[str]]:
    message = fact.message
    if target_of(message):
        return f"{'undid' if message['type'] == 'REVISION_UNDONE' else 'redid'} version {fact.target}", []
    commands = message["commands"]
    # A range may have more cells than memory can list.
    cells = list(islice(_written(commands), SHEET_ACTIVITY_CELLS_MAX))
    parts = [_cells_text(cells, _count_written(commands))] if cells else []
    others = Counter(_command_text(command) for command in commands if not _is_write(command))
    parts += [text if count == 1 else f"{text} ({count} times)" for text, count in others.items()]
    return ", ".join(parts) or "changed nothing", cells


def _written(commands: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the names of the cells written by those commands for which `_is_write` returns True."""
    for command in filter(_is_write, commands):
        if command["type"] == "SQUISHED_UPDATE_CELL":
            (left, top), (right, bottom) = parse_range(command["targetRange"])
            for row in range(top, bottom + 1):
                yield from (cell_name(column, row) for column in range(left, right + 1))
        else:
            yield cell_name(command["col"], command["row"])


def _count_written(commands: Iterable[Mapping[str, Any]]) -> int:
    """Return the number of names that `_written` yields."""
    return sum(
        range_cells(command["targetRange"]) if command["type"] == "SQUISHED_UPDATE_CELL" else 1
        for command in filter(_is_write, commands)
    )


def _is_write(command: Mapping[str, Any]) -> bool:
    """Return whether a command sets the content of one cell or range, or clears one cell.

    An update without ``content`` changes only the format. For a clearing of zones (`CLEAR_CELLS`, `DELETE_CONTENT`),
    the function returns False.
    """
    kind = command["type"]
    return kind == "CLEAR_CELL" or (kind in _CELL_COMMANDS and "content" in command)


def _cells_text(cells: Sequence[str], count: int) -> str:
    if count <= 3:
        return f"wrote {', '.join(cells)}"
    return f"wrote {count} cells, {cells[0]} first"


def _command_text(command: Mapping[str, Any]) -> str:
    kind = command["type"]
    if kind in ("ADD_COLUMNS_ROWS", "REMOVE_COLUMNS_ROWS"):
        return _lines_text(command)
    if kind == "RENAME_SHEET":
        return f"renamed a sheet to {command.get('newName', '')}"
    if kind in _CELL_COMMANDS:
        return "changed the look of cells"
    return str(kind).lower().replace("_", " ")


def _lines_text(command: Mapping[str, Any]) -> str:
    is_row = command["dimension"] == "ROW"
    if command["type"] == "ADD_COLUMNS_ROWS":
        at = command["base"] + (command["position"] == "after")
        count = command["quantity"]
        return f"inserted {count} {_lines(is_row, count)} at {at + 1 if is_row else column_name(at)}"
    elements = sorted(command["elements"])
    first = elements[0] if elements else 0
    return f"removed {len(elements)} {_lines(is_row, len(elements))} at {first + 1 if is_row else column_name(first)}"


def _lines(is_row: bool, count: int) -> str:
    return ("row" if is_row else "column") + ("" if count == 1 else "s")

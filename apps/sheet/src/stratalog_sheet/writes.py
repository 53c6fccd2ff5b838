"""Writes of commands: the ranges whose content a command sets or clears. Changes of format do not count.

The cells of an inserted pivot table (`INSERT_PIVOT`) do not count, either, because only an engine can compute them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from stratalog_sheet.cells import Position, parse_range

__all__ = ["CellWrite", "writes_of"]


class CellWrite(msgspec.Struct, frozen=True):
    """A range of a sheet, from its top left to its bottom right cell, and the new content of each of its cells."""

    sheet: str
    first: Position
    last: Position
    content: Any = ""
    """A text, or an object relative to the previous command. Only the engine can convert such an object to a text."""


def writes_of(command: Mapping[str, Any]) -> Iterator[CellWrite]:
    """Yield the ranges whose content a command writes or clears, in order."""
    kind, sheet = command["type"], command.get("sheetId", "")
    if kind == "SQUISHED_UPDATE_CELL" and "content" in command:
        yield CellWrite(sheet, *parse_range(command["targetRange"]), command["content"] or "")
    elif kind == "CLEAR_CELL" or (kind == "UPDATE_CELL" and command.get("content") is not None):
        position = (command["col"], command["row"])
        yield CellWrite(sheet, position, position, command["content"] if kind == "UPDATE_CELL" else "")
    elif kind in ("CLEAR_CELLS", "DELETE_CONTENT"):
        for zone in command["target"]:
            yield CellWrite(sheet, (zone["left"], zone["top"]), (zone["right"], zone["bottom"]))
    elif kind == "ADD_MERGE":
        for zone in command["target"]:
            yield from _hidden(sheet, zone)


def _hidden(sheet: str, zone: Mapping[str, int]) -> Iterator[CellWrite]:
    """Yield the cells that a merge hides and clears: all cells of the zone except the top left cell."""
    left, right, top, bottom = zone["left"], zone["right"], zone["top"], zone["bottom"]
    if right > left:
        yield CellWrite(sheet, (left + 1, top), (right, top))
    if bottom > top:
        yield CellWrite(sheet, (left, top + 1), (right, bottom))

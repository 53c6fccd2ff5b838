"""Names of cells: `B7` is the cell in column 1 and row 6, both counted from 0."""

from __future__ import annotations

import re

from stratalog.errors import Invalid

__all__ = ["Position", "cell_name", "column_name", "column_number", "parse_cell", "parse_range", "range_cells"]

Position = tuple[int, int]
"""(column, row), both counted from 0."""

_CELL = re.compile(r"\$?([A-Za-z]{1,3})\$?([1-9][0-9]{0,6})")


def parse_cell(name: str) -> Position:
    """Return the position of a name such as ``B7``. ``$`` signs are ignored. Raises Invalid."""
    match = _CELL.fullmatch(name.strip())
    if match is None:
        raise Invalid("not a cell name such as B7", value=name)
    return column_number(match[1]), int(match[2]) - 1


def parse_range(name: str) -> tuple[Position, Position]:
    """Return the top left and bottom right cell of a range such as ``B7:C9`` or of one cell. Raises Invalid."""
    start, colon, end = name.partition(":")
    first = parse_cell(start)
    last = parse_cell(end) if colon else first
    return (min(first[0], last[0]), min(first[1], last[1])), (max(first[0], last[0]), max(first[1], last[1]))


def range_cells(name: str) -> int:
    """Return the number of cells of a range such as ``B7:C9``. Raises Invalid."""
    (left, top), (right, bottom) = parse_range(name)
    return (right - left + 1) * (bottom - top + 1)


def cell_name(column: int, row: int) -> str:
    """Return the name of a position."""
    return f"{column_name(column)}{row + 1}"


def column_number(letters: str) -> int:
    """Return the number of a column: 0 for A, 26 for AA."""
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - 64
    return number - 1


def column_name(column: int) -> str:
    """Return the letters of a column: A for 0, AA for 26."""
    name = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        name = chr(65 + rest) + name
    return name

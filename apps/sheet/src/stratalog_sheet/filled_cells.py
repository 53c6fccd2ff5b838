"""The filled cells of a worksheet that is being read, and the merges that hide none of them."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from stratalog_sheet.cells import Position, parse_range
from stratalog_sheet.limits import SHEET_CELLS_MAX

__all__ = ["FilledCells"]

COLUMN_BITS = 20
"""A position is one number: the row times two to this power, plus the column."""


class FilledCells:
    """The positions of the filled cells, in the worksheet's order, and the merges so far. A merge follows all cells."""

    def __init__(self) -> None:
        self._numbers = array("Q")
        self._formulas: set[int] = set()
        self._is_sorted = True
        self._merged: dict[int, list[tuple[int, int]]] = {}
        self._rows = 0

    def add(self, position: Position, *, has_formula: bool) -> None:
        """Add a cell."""
        number = _number(*position)
        self._is_sorted = self._is_sorted and (not self._numbers or self._numbers[-1] < number)
        self._numbers.append(number)
        if has_formula:
            self._formulas.add(number)

    def has_formula(self, position: Position) -> bool:
        """Return whether the cell has a formula."""
        return _number(*position) in self._formulas

    def within(self, cells: str) -> Iterator[Position]:
        """Yield the filled cells of a range such as ``B7:C9``. Raises Invalid."""
        (left, top), (right, bottom) = parse_range(cells)
        self._sort()
        at = bisect_left(self._numbers, _number(left, top))
        while at < len(self._numbers) and self._numbers[at] <= _number(right, bottom):
            row, column = self._numbers[at] >> COLUMN_BITS, self._numbers[at] & ((1 << COLUMN_BITS) - 1)
            if column > right:  # continue in the next row
                at = bisect_left(self._numbers, _number(left, row + 1))
            elif column < left:
                at = bisect_left(self._numbers, _number(left, row))
            else:
                yield column, row
                at += 1

    def merge(self, cells: str) -> bool:
        """Add a merge, and return True, unless it would hide a filled cell or shares a cell with an earlier merge.

        The engine empties the cells that a merge hides. If two merges share a cell, it empties both. The merges of one
        worksheet may have `SHEET_CELLS_MAX` rows in all. Raises Invalid.
        """
        (left, top), (right, bottom) = parse_range(cells)
        self._rows += bottom - top + 1
        if self._rows > SHEET_CELLS_MAX or any(cell != (left, top) for cell in self.within(cells)):
            return False
        rows = [(self._merged.get(row, []), row) for row in range(top, bottom + 1)]
        if any(_overlaps(merged, left, right) for merged, _ in rows):
            return False
        for merged, row in rows:
            merged.insert(bisect_right(merged, (left, right)), (left, right))
            self._merged[row] = merged
        return True

    def _sort(self) -> None:
        if not self._is_sorted:
            self._numbers = array("Q", sorted(set(self._numbers)))
            self._is_sorted = True


def _number(column: int, row: int) -> int:
    return (row << COLUMN_BITS) + column


def _overlaps(merged: list[tuple[int, int]], left: int, right: int) -> bool:
    """Return whether a merge of a row, given by the sorted ``merged``, shares a column with a new merge."""
    at = bisect_right(merged, (right, right))
    # Merges of one row share no column, so their ends are sorted, too.
    before = merged[at - 1] if at else None
    after = merged[at] if at < len(merged) else None
    return bool((before and before[1] >= left) or (after and after[0] <= right))

"""The filled cells of a worksheet that is being read, and the merges that hide no filled cell."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from stratalog.errors import LimitExceeded
from stratalog_sheet.cells import Position, parse_range
from stratalog_sheet.limits import SHEET_CELLS_MAX, SHEET_XLSX_LINKS_MAX, SHEET_XLSX_STEPS_MAX

__all__ = ["FilledCells"]

COLUMN_BITS = 20


class FilledCells:
    """The positions of the filled cells of a worksheet, and its merges so far. In a valid file, cells come first.

    Each cell is one number, so that a million cells take 8 MB. The order of the numbers is the order of the cells, row
    by row; the lowest bit shows whether the cell has a formula.
    """

    def __init__(self) -> None:
        self._cells = array("Q")
        self._is_sorted = True
        self._steps = 0
        self._links = 0
        self._merged: dict[int, list[tuple[int, int]]] = {}
        self._rows = 0

    def add(self, position: Position, *, has_formula: bool) -> None:
        """Add a cell."""
        cell = _number(*position) + has_formula
        self._is_sorted = self._is_sorted and (not self._cells or self._cells[-1] < cell)
        self._cells.append(cell)

    def within(self, cells: str) -> Iterator[tuple[Position, bool]]:
        """Yield the filled cells of a range such as ``B7:C9``: the position, and whether the cell has a formula.

        Each visited cell counts as a step, and so does each cell that is sorted first if the file was not in order.
        Raises Invalid if ``cells`` is not a range, and LimitExceeded after `SHEET_XLSX_STEPS_MAX` steps of all calls.
        """
        (left, top), (right, bottom) = parse_range(cells)
        self._sort()
        at, end = bisect_left(self._cells, _number(left, top)), _number(right + 1, bottom)
        while at < len(self._cells) and self._cells[at] < end:
            self._step(1)
            cell = self._cells[at] >> 1
            row, column = cell >> COLUMN_BITS, cell & ((1 << COLUMN_BITS) - 1)
            if column > right:  # continue in the next row
                at = bisect_left(self._cells, _number(left, row + 1))
            elif column < left:
                at = bisect_left(self._cells, _number(left, row))
            else:
                yield (column, row), bool(self._cells[at] & 1)
                at += 1

    def linked(self, cells: str) -> Iterator[tuple[Position, bool]]:
        """Yield the filled cells of the range of a link, as `within`. Raises also LimitExceeded after
        `SHEET_XLSX_LINKS_MAX` cells of all calls.
        """
        for cell in self.within(cells):
            self._links += 1
            if self._links > SHEET_XLSX_LINKS_MAX:
                raise LimitExceeded("a worksheet has too many links", limit=SHEET_XLSX_LINKS_MAX)
            yield cell

    def merge(self, cells: str) -> bool:
        """Add a merge and return True. Return False if it hides a filled cell or shares a cell with an earlier merge.

        The spreadsheet engine empties the cells that a merge hides. If two merges share a cell, the engine drops the
        first merge and empties its cells too. The merges of one worksheet may have `SHEET_CELLS_MAX` rows in all,
        including merges that share a cell with an earlier merge. Raises LimitExceeded for a merge that would exceed
        this limit, and the errors of `within`.
        """
        (left, top), (right, bottom) = parse_range(cells)
        count = bottom - top + 1
        if self._rows + count > SHEET_CELLS_MAX:
            raise LimitExceeded("the merges of a worksheet have too many rows", limit=SHEET_CELLS_MAX)
        if any(cell != (left, top) for cell, _ in self.within(cells)):
            return False
        self._rows += count
        rows = [(self._merged.get(row, []), row) for row in range(top, bottom + 1)]
        if any(_overlaps(merged, left, right) for merged, _ in rows):
            return False
        for merged, row in rows:
            merged.insert(bisect_right(merged, (left, right)), (left, right))
            self._merged[row] = merged
        return True

    def _sort(self) -> None:
        if not self._is_sorted:
            self._step(len(self._cells))
            self._cells = array("Q", sorted(set(self._cells)))
            self._is_sorted = True

    def _step(self, count: int) -> None:
        self._steps += count
        if self._steps > SHEET_XLSX_STEPS_MAX:
            raise LimitExceeded("a worksheet has too many merges and links", limit=SHEET_XLSX_STEPS_MAX)


def _number(column: int, row: int) -> int:
    return ((row << COLUMN_BITS) + column) << 1


def _overlaps(merged: list[tuple[int, int]], left: int, right: int) -> bool:
    """Return whether a new merge shares a column with a merge of one row.

    ``merged`` has the first and last column of each merge of the row, in order.
    """
    at = bisect_right(merged, (right, right))
    # Merges of one row share no column, so their ends are sorted, too.
    before = merged[at - 1] if at else None
    after = merged[at] if at < len(merged) else None
    return bool((before and before[1] >= left) or (after and after[0] <= right))

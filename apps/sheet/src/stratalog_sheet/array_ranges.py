"""The ranges of a worksheet's array formulas, and whether they contain a cell."""

from __future__ import annotations

from bisect import bisect_right

from stratalog_sheet.cells import Position

__all__ = ["ArrayRanges"]


class ArrayRanges:
    """The ranges of the array formulas that a reader of a worksheet has read so far.

    A worksheet lists its cells row by row. So in each column, only the last added range can contain a later cell. In a
    valid file, no two ranges overlap. If two ranges overlap, the first range counts.
    """

    def __init__(self) -> None:
        self._lefts: list[int] = []
        self._ranges: list[tuple[Position, Position]] = []

    def add(self, first: Position, last: Position) -> None:
        """Add a range, given by its top left and bottom right cells. Drop the ranges above it in the same columns."""
        start = bisect_right(self._lefts, first[0])
        if start and self._ranges[start - 1][1][0] >= first[0]:
            start -= 1
        end = start
        while end < len(self._ranges) and self._lefts[end] <= last[0] and self._ranges[end][1][1] < first[1]:
            end += 1
        del self._lefts[start:end], self._ranges[start:end]
        if start == len(self._ranges) or self._lefts[start] > last[0]:
            self._lefts.insert(start, first[0])
            self._ranges.insert(start, (first, last))

    def contain(self, position: Position) -> bool:
        """Return whether one of the ranges contains the cell."""
        at = bisect_right(self._lefts, position[0]) - 1
        if at < 0:
            return False
        (_, top), (right, bottom) = self._ranges[at]
        return position[0] <= right and top <= position[1] <= bottom

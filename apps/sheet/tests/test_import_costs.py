"""The work of an import grows with the size of its file, not with the square of the size. The tests measure no time."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from itertools import pairwise
from types import FrameType

import pytest

from apps.sheet.tests.packages import package
from stratalog_sheet.array_ranges import ArrayRanges
from stratalog_sheet.cells import Position
from stratalog_sheet.empty_cells import UNENDED_BYTES, without_empty_cells
from stratalog_sheet.xlsx_import import read_workbook

CHUNK = 64 * 1024


def test_the_cost_of_an_import_is_not_quadratic_in_the_number_of_array_formulas() -> None:
    few, many = (calls_of(arrays(count)) for count in (100, 400))
    assert many < 6 * few


def arrays(count: int) -> bytes:
    """Return a workbook of array formulas, each over two cells."""
    rows = (
        f'<row r="{row}"><c r="A{row}"><f t="array" ref="A{row}:B{row}">C{row}:D{row}</f><v>1</v></c>'
        f'<c r="B{row}"><v>2</v></c><c r="C{row}"><v>3</v></c></row>'
        for row in range(1, count + 1)
    )
    return package({"Sheet1": f"<sheetData>{''.join(rows)}</sheetData>"})


def calls_of(xlsx: bytes) -> int:
    """Return the number of calls of Python functions and generators that an import makes."""
    count = 0

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        workbook = read_workbook(xlsx)
    finally:
        sys.setprofile(before)
    assert [value[2] for value in workbook.values[0][:2]] == [1, 2]
    return count


@pytest.mark.parametrize("seed", range(20))
def test_array_ranges_contain_the_cells_of_all_ranges_that_were_added(seed: int) -> None:
    """The ranges begin in the order of a worksheet's cells, and no range overlaps another range."""
    chance = random.Random(seed)
    ranges, added = ArrayRanges(), list[tuple[Position, Position]]()
    for row in range(30):
        for column in range(12):
            cell = (column, row)
            if not holds(added, cell) and chance.random() < 0.2:
                last = (column + chance.randrange(4), row + chance.randrange(4))
                corners = [(column, row), (last[0], row)]
                if not any(first[0] <= last[0] and end[0] >= column and end[1] >= row for first, end in added):
                    assert not any(holds(added, corner) for corner in corners)
                    ranges.add(cell, last)
                    added.append((cell, last))
            assert ranges.contain(cell) == holds(added, cell)


def holds(added: list[tuple[Position, Position]], cell: Position) -> bool:
    return any(first[0] <= cell[0] <= last[0] and first[1] <= cell[1] <= last[1] for first, last in added)


def test_an_array_range_that_overlaps_an_earlier_range_is_ignored() -> None:
    ranges = ArrayRanges()
    ranges.add((0, 0), (2, 2))
    ranges.add((1, 1), (5, 5))
    assert [ranges.contain(cell) for cell in ((2, 2), (3, 3))] == [True, False]


def test_a_long_text_is_streamed_before_its_closing_tag() -> None:
    """A text without the end of a tag is not searched and copied again with each chunk."""
    taken = 0

    def chunks() -> Iterator[bytes]:
        nonlocal taken
        for piece in (b"<c><v>", *[b"x" * CHUNK] * 64, b"</v></c>"):
            taken += 1
            yield piece

    passed, waits = [], []
    for piece in without_empty_cells(chunks()):
        passed.append(piece)
        waits.append(taken)
    assert b"".join(passed) == b"<c><v>" + b"x" * CHUNK * 64 + b"</v></c>"
    assert max(after - before for before, after in pairwise(waits)) <= UNENDED_BYTES // CHUNK + 1

"""An import's memory in the process that asks for it, by the bytes that Python allocates: the same in each run."""

from __future__ import annotations

import tracemalloc

import pytest

from apps.sheet.tests.packages import package
from stratalog_sheet import Sheets
from stratalog_sheet.xlsx_archive import unpacked_bytes

COLUMNS, ROWS = 20, 400
COPIES_MAX = 8
"""How often the unpacked bytes are held at once, at most: as text, as JSON for the engine, as its answer, as values."""

KIB = 1024


@pytest.mark.parametrize("text", ["text of a cell", "y" * 150])
def test_an_import_holds_so_many_copies_of_what_it_unpacks(sheets: Sheets, text: str) -> None:
    sheets.create("acme", "warm").set("A1", "=1+1")  # loads what the first call needs
    rows = (
        f'<row r="{row}">{"".join(cell(row, column, text) for column in range(COLUMNS))}</row>'
        for row in range(1, ROWS + 1)
    )
    xlsx = package({"Sheet1": f"<sheetData>{''.join(rows)}</sheetData>"})
    unpacked = unpacked_bytes(xlsx)
    assert unpacked > 300 * KIB
    tracemalloc.start()
    try:
        sheets.import_file("acme", "large", xlsx, file_name="large.xlsx")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < COPIES_MAX * unpacked


def row_of(row: int, text: str) -> str:
    cells = "".join(cell(row, column, text) for column in range(COLUMNS))
    return f'<row r="{row}">{cells}</row>'


def cell(row: int, column: int, text: str) -> str:
    name = f"{chr(65 + column)}{row}"
    if column % 2:
        return f'<c r="{name}"><v>{row * column}</v></c>'
    return f'<c r="{name}" t="inlineStr"><is><t>{text} {row * column}</t></is></c>'

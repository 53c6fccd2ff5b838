"""The memory of an import in the calling process, in bytes that Python allocates. This measure is deterministic."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from contextlib import nullcontext

import pytest

from apps.sheet.tests.packages import package
from stratalog.errors import LimitExceeded
from stratalog_sheet import Sheets
from stratalog_sheet.files import import_bytes
from stratalog_sheet.limits import SHEET_IMPORT_BYTES_MAX, SHEET_XLSX_READ_BYTES_MAX
from stratalog_sheet.xlsx_archive import unpacked_bytes

COLUMNS, ROWS = 20, 600
KIB = 1024

Cell = Callable[[int, int], str]


def text(value: str) -> Cell:
    return lambda row, column: f'<c r="{name(row, column)}" t="inlineStr"><is><t>{value} {row * column}</t></is></c>'


def number(row: int, column: int) -> str:
    return f'<c r="{name(row, column)}"><v>{row * column % 97}</v></c>'


def formula(row: int, column: int) -> str:
    return f'<c r="{name(row, column)}"><f>{name(row, 20)}+{column}</f><v>{column}</v></c>'


KINDS: dict[str, Cell] = {
    "short texts": text("text of a cell"),
    "long texts": text("y" * 150),
    "emoji": text("\N{GRINNING FACE} text of a cell " * 2),
    "numbers": number,
    "formulas": formula,
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_memory_of_an_import_stays_below_its_reservation(sheets: Sheets, kind: str) -> None:
    rows = (
        f'<row r="{row}">{"".join(KINDS[kind](row, column) for column in range(COLUMNS))}</row>'
        for row in range(1, ROWS + 1)
    )
    xlsx = package({"Sheet1": f"<sheetData>{''.join(rows)}</sheetData>"})
    assert unpacked_bytes(xlsx) > 300 * KIB
    assert peak_of(sheets, "large.xlsx", xlsx) < import_bytes(xlsx)


LONG_CHARACTERS = 40 * KIB * KIB
LONG_PARTS = {
    "a text": {"sheet": '<c r="A1" t="inlineStr"><is><t>LONG</t></is></c>'},
    "a value": {"sheet": '<c r="A1"><v>LONG</v></c>'},
    "an attribute": {"sheet": '<c r="A1" s="LONG"><v>1</v></c>'},
    "a shared string": {"sheet": '<c r="A1" t="s"><v>0</v></c>', "strings": "<si><t>LONG</t></si>"},
}


@pytest.mark.parametrize("kind", LONG_PARTS)
def test_a_too_large_text_is_refused_within_the_reserved_memory(sheets: Sheets, kind: str) -> None:
    part = {name: markup.replace("LONG", "x" * LONG_CHARACTERS) for name, markup in LONG_PARTS[kind].items()}
    body = f'<sheetData><row r="1">{part["sheet"]}</row></sheetData>'
    xlsx = package({"Sheet1": body}, strings=part.get("strings", ""))
    assert len(xlsx) < 100 * KIB
    assert peak_of(sheets, "large.xlsx", xlsx, is_refused=True) < import_bytes(xlsx)


@pytest.mark.parametrize("value", ["7", "text of a cell", "\N{GRINNING FACE} text of a cell " * 2])
def test_the_memory_of_a_csv_import_stays_below_its_reservation(sheets: Sheets, value: str) -> None:
    body = "\r\n".join(",".join([value] * COLUMNS) for _ in range(ROWS)).encode()
    assert peak_of(sheets, "large.csv", body) < import_bytes(body)


@pytest.mark.parametrize("head", [b"PK\x03\x04", b"1,2"])
def test_the_reservation_of_an_import_is_capped(head: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stratalog_sheet.files.unpacked_bytes", lambda body: SHEET_XLSX_READ_BYTES_MAX)
    assert import_bytes(head + b"," * SHEET_XLSX_READ_BYTES_MAX) == SHEET_IMPORT_BYTES_MAX


def peak_of(sheets: Sheets, file_name: str, body: bytes, *, is_refused: bool = False) -> int:
    sheets.create("acme", "warm").set("A1", "=1+1")  # load modules and start an engine before the measurement
    tracemalloc.start()
    try:
        with pytest.raises(LimitExceeded, match="too large to be read") if is_refused else nullcontext():
            sheets.import_file("acme", "large", body, file_name=file_name)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def name(row: int, column: int) -> str:
    return f"{chr(65 + column)}{row}"

"""A CSV import stores fields as numbers and texts. A CSV export has the values of cells and the results of formulas.

The import reports a guessed encoding, removed control characters, and faulty quotation marks.
"""

from __future__ import annotations

import csv
import io

import pytest

from stratalog import Invalid, LimitExceeded
from stratalog_sheet import Sheets
from stratalog_sheet.csv_files import csv_sheet_bytes, read_csv
from stratalog_sheet.files import import_bytes, read_file
from stratalog_sheet.limits import SHEET_XLSX_COPIES

pytestmark = pytest.mark.slow

FIELDS = [
    ["name", "count", "quoted, here", 'a "word"'], ["007", "1.5", "=1+1", "two\nlines"], ["", "-3", "TRUE", "1,5"],
    ["12345678901234567890", "é漢🎉", "  spaced ", "'tis"],
]  # fmt: skip


def written(rows: list[list[str]], delimiter: str = ",") -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter).writerows(rows)
    return out.getvalue()


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_every_csv_field_survives_an_import_and_an_export(sheets: Sheets, delimiter: str, encoding: str) -> None:
    body = written(FIELDS, delimiter).encode(encoding)
    sheet = sheets.import_file("acme", "list", body, file_name="list.CSV")
    assert list(csv.reader(io.StringIO(sheet.files.csv().decode(), newline=""))) == FIELDS
    assert [sheet.get(cell).value for cell in ("A2", "B2", "C2", "C3", "B3")] == ["007", 1.5, "=1+1", "TRUE", -3]
    assert sheet.original() == ("list.CSV", body)
    assert sheet.files.import_report().findings == ()


def test_a_csv_file_may_begin_with_the_letters_pk_of_an_archive() -> None:
    body = b"PK,name\r\n1,Ann\r\n"
    assert read_file("keys.csv", body).cells == 4
    assert import_bytes(body) == SHEET_XLSX_COPIES * csv_sheet_bytes(body)


def test_an_export_has_the_results_of_formulas(sheets: Sheets) -> None:
    sheet = sheets.create("acme", "plan")
    for cell, content in {"A1": "1.23456789012", "B1": "=A1*2", "A3": "2020-01-02", "B3": "=A1>1"}.items():
        sheet.set(cell, content)
    assert sheet.files.csv() == b"1.23456789012,2.46913578024\r\n\r\n2020-01-02,TRUE\r\n"


def test_a_non_unicode_encoding_and_removed_control_characters_are_reported(sheets: Sheets) -> None:
    sheet = sheets.import_file("acme", "list", "Café,a\x01b".encode("cp1252"), file_name="list.csv")
    assert [sheet.get(cell).value for cell in ("A1", "B1")] == ["Café", "ab"]
    assert sheet.files.import_report().lines() == [
        "the file is not in UTF-8; it was read as Windows-1252",
        "control characters are left out (1: B1)",
    ]


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        (b'a,b\nc,"d\ne,f\n', ["open-quotation-mark"]),
        (b'a,b\n"c"d,e\nf,g\n', ["quotation-mark"]),
        (b'a,b\n"c"d,e\nf,"g\n', ["quotation-mark", "open-quotation-mark"]),
    ],
)
def test_unclosed_and_misplaced_quotation_marks_are_reported(sheets: Sheets, body: bytes, codes: list[str]) -> None:
    sheet = sheets.import_file("acme", "list", body, file_name="list.csv")
    findings = sheet.files.import_report().findings
    assert [finding.code for finding in findings] == codes
    assert findings[0].where == ["A2"]
    assert sheet.get("A1").value == "a"


def test_quotation_marks_within_a_field_are_text(sheets: Sheets) -> None:
    body = b'5" pipe,"a ""b"" c",x"y"z\n'
    sheet = sheets.import_file("acme", "list", body, file_name="list.csv")
    assert [sheet.get(cell).value for cell in ("A1", "B1", "C1")] == ['5" pipe', 'a "b" c', 'x"y"z']
    assert sheet.files.import_report().findings == ()


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_first_line_that_names_the_delimiter_is_no_row(sheets: Sheets, ending: str) -> None:
    sheet = sheets.import_file("acme", "list", f"sep=;{ending}a,b;c{ending}".encode(), file_name="list.csv")
    assert sheet.files.csv() == b'"a,b",c\r\n'


@pytest.mark.parametrize("text", ["sep=;", "SEP=|", "sep=\t", "sep=,"])
def test_a_first_row_like_a_delimiter_line_survives_an_export_and_an_import(sheets: Sheets, text: str) -> None:
    sheet = sheets.create("acme", "list")
    sheet.set("A1", text)
    sheet.set("A2", "x;y")
    again = sheets.import_file("acme", "again", sheet.files.csv(), file_name="list.csv")
    assert [again.get(cell).value for cell in ("A1", "A2")] == [text, "x;y"]


@pytest.mark.parametrize("body", [b"a,b\0c\xff", b"\xff\xfea\xd8"], ids=["zero", "utf-16"])
def test_a_file_that_is_not_text_is_refused(sheets: Sheets, body: bytes) -> None:
    with pytest.raises(Invalid, match="not text"):
        sheets.import_file("acme", "list", body, file_name="list.csv")
    assert list(sheets.list("acme")) == []


def test_a_long_text_survives_an_export_and_an_import(sheets: Sheets) -> None:
    text = "long, " * 30_000
    sheet = sheets.create("acme", "plan")
    sheet.set("A1", text)
    before = csv.field_size_limit(131_072)  # the default, because an earlier test may have raised the limit
    try:
        again = sheets.import_file("acme", "again", sheet.files.csv(), file_name="plan.csv")
    finally:
        csv.field_size_limit(before)
    assert again.get("A1").value == text


@pytest.mark.parametrize("ending", ["csv", "CSV", "Csv"])
def test_a_title_omits_the_file_extension_in_any_letter_case(sheets: Sheets, ending: str) -> None:
    assert sheets.import_file("acme", "list", b"a,b", file_name=f"BUDGET.{ending}").title == "BUDGET"


def test_a_file_is_bounded_in_rows_columns_cells_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stratalog_sheet.csv_files.SHEET_CSV_ROWS_MAX", 10)
    monkeypatch.setattr("stratalog_sheet.csv_files.SHEET_COLUMNS_MAX", 10)
    monkeypatch.setattr("stratalog_sheet.csv_files.SHEET_CELLS_MAX", 20)
    for body, unit in ((b"a\n" * 11, "rows"), (b"a," * 11, "columns"), (b"a,b,c\n" * 7, "cells")):
        with pytest.raises(LimitExceeded, match=f"too many {unit}|more {unit}"):
            read_csv(body)
    monkeypatch.setattr("stratalog_sheet.csv_files.SHEET_XLSX_READ_BYTES_MAX", 10)
    with pytest.raises(LimitExceeded, match="too large"):
        read_csv(b"a" * 11)


def test_the_error_of_a_too_large_file_counts_its_worksheet_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stratalog_sheet.csv_files.SHEET_XLSX_READ_BYTES_MAX", 400)
    with pytest.raises(LimitExceeded, match="too large to be read") as refused:
        read_csv(("é" * 150).encode())
    assert refused.value.details["value"] > refused.value.details["limit"] == 400


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_byte_order_mark_is_read_and_reported(encoding: str) -> None:
    workbook = read_csv("name;größe\r\nBär;1.5\r\n".encode(encoding))
    assert ">größe<" in workbook.files["xl/worksheets/sheet1.xml"]
    assert workbook.cells == 4
    assert [finding.code for finding in workbook.report.findings] == ["encoding"]


def test_utf_32_is_read_with_a_byte_order_mark_and_refused_without_it() -> None:
    text = "name;größe\r\nBär;1.5\r\n"
    marked = read_csv(text.encode("utf-32"))
    assert (marked.cells, marked.report.findings) == (4, [])
    with pytest.raises(Invalid, match="not text in UTF-8 or UTF-16"):
        read_csv("name;size\r\n".encode("utf-32-le"))

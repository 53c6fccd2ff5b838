"""A sheet that is exported and imported several times gets no more rows, and its file stays the same."""

from __future__ import annotations

import io
import json

import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openpyxl.styles import Font, PatternFill
from openpyxl.worksheet.datavalidation import DataValidation

import stratalog
from apps.sheet.tests.packages import package
from apps.sheet.tests.packages import rows as sheet_data
from apps.sheet.tests.test_workbook_export import add_rule
from apps.sheet.tests.test_workbook_import import saved, values
from stratalog_sheet import EnginePool, Sheet, Sheets
from stratalog_sheet.formulas import for_engine

cells = st.tuples(st.sampled_from([1, 2, 99, 100, 101, 150]), st.sampled_from([1, 5, 26, 30, 31, 40]))
contents = st.sampled_from([1, "x", "=1+1", None])
heights = st.sampled_from([None, 12.75, 15, 17.25, 30])


@st.composite
def workbooks(draw: st.DrawFn) -> bytes:
    """Return a workbook with cells, styles, hidden rows, and rows and columns of several sizes."""
    book = openpyxl.Workbook()
    page = book.active
    page.sheet_format.defaultRowHeight = draw(st.sampled_from([12.75, 15, 20]))
    for (row, column), content in draw(st.dictionaries(cells, contents, max_size=5)).items():
        cell = page.cell(row, column)
        cell.value, cell.font = content, Font(bold=draw(st.booleans()))
        if draw(st.booleans()):
            cell.fill = PatternFill("solid", fgColor="FF00FF00")
    for row, height in draw(st.dictionaries(st.sampled_from([1, 3, 99, 100, 140]), heights, max_size=3)).items():
        page.row_dimensions[row].height, page.row_dimensions[row].hidden = height, draw(st.booleans())
    for column, width in draw(st.dictionaries(st.sampled_from("AZ"), st.sampled_from([5, 13.73, 30]))).items():
        page.column_dimensions[column].width = width
    return saved(book)


def rows(sheet: Sheet) -> tuple[int, list[float]]:
    """Return the number of rows, and the heights of the last five."""
    page = json.loads(sheet.load().data)["sheets"][0]
    return page["rowNumber"], [
        page["rows"][f"{row}"]["size"] for row in range(page["rowNumber"] - 5, page["rowNumber"])
    ]


@settings(max_examples=8)
@given(body=workbooks())
def test_round_trips_add_no_rows_and_change_a_file_at_most_once(engines: EnginePool, body: bytes) -> None:
    """The second export of a workbook may list a font that the first one lacks."""
    with stratalog.open("memory:") as store:
        sheets = Sheets(store, engines)
        first = sheets.import_file("acme", "first", body, file_name="book.xlsx")
        second = sheets.import_file("acme", "second", first.export(), file_name="book.xlsx")
        exported = second.export()
        third = sheets.import_file("acme", "third", exported, file_name="book.xlsx")
        assert third.export() == exported
        assert rows(first)[0] >= rows(second)[0] == rows(third)[0]


def test_an_import_of_an_export_has_no_further_empty_rows_and_the_same_heights(sheets: Sheets) -> None:
    book = openpyxl.Workbook()
    book.active["A100"] = "end"
    book.active.row_dimensions[7].height = 17.25
    first = sheets.import_file("acme", "first", saved(book), file_name="book.xlsx")
    second = sheets.import_file("acme", "second", first.export(), file_name="book.xlsx")
    assert rows(first) == rows(second) == (105, [20.0] * 5)
    heights = [json.loads(sheet.load().data)["sheets"][0]["rows"]["6"]["size"] for sheet in (first, second)]
    assert heights == [23.0, 23.0]


@pytest.mark.parametrize(
    ("typed", "written", "expected"),
    [
        ("=SORT(A1:A3,1,FALSE)", "=_xlfn._xlws.SORT(A1:A3,1,-1)", [3, 2, 1]),
        ("=SORT(A1:A3,1,TRUE)", "=_xlfn._xlws.SORT(A1:A3,1,1)", [1, 2, 3]),
        ("=SORT(A1:A3,1,A1>2)", "=_xlfn._xlws.SORT(A1:A3,1,IF(A1>2,1,-1))", [3, 2, 1]),
        ("=EXPAND(A1:A2,3,1,NA())", "=_xlfn.EXPAND(A1:A2,3,1,NA())", [2, 3, "#N/A"]),
    ],
)
def test_an_argument_that_means_something_else_in_a_file_is_translated_in_both_directions(
    sheets: Sheets, typed: str, written: str, expected: list[object]
) -> None:
    sheet = sheets.create("acme", "typed")
    for cell, content in {"A1": "2", "A2": "3", "A3": "1", "C1": typed}.items():
        sheet.set(cell, content)
    body = sheet.export()
    assert openpyxl.load_workbook(io.BytesIO(body)).active["C1"].value.text == written
    again = sheets.import_file("acme", "again", body, file_name="book.xlsx")
    assert values(sheet, "C1", "C2", "C3") == values(again, "C1", "C2", "C3") == expected
    assert again.get("C1").content == typed


@pytest.mark.parametrize("typed", ["=SORT(A1:A3,1,TRUE,1,FALSE)", "=SORT(A1:A3,A1:A3,FALSE)", "=COUNTBLANK(A2,B1)"])
def test_a_call_with_arguments_that_a_file_lacks_is_exported_as_its_values(sheets: Sheets, typed: str) -> None:
    sheet = sheets.create("acme", "typed")
    sheet.set("A1", "2")
    sheet.set("C1", typed)
    body, report = sheet.files.export()
    assert [(finding.code, finding.where) for finding in report.findings] == [("formula-function", ["Sheet1!C1"])]
    assert openpyxl.load_workbook(io.BytesIO(body)).active["C1"].value == 2


def test_a_sort_without_an_order_is_imported_as_an_ascending_sort(sheets: Sheets) -> None:
    cells = ("<c r='A1'><v>2</v></c>", "<c r='A2'><v>1</v></c>", "<c r='C3'><f>SORT(A1:A2,1)</f></c>")
    sheet = sheets.import_file("acme", "book", package({"S": sheet_data(*cells)}), file_name="book.xlsx")
    assert values(sheet, "C3", "C4") == [1, 2]


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("SORT(A1:A3)", "SORT(A1:A3)"), ("SORT(A1:A3,1)", "SORT(A1:A3,1,TRUE)"),
        ("SORT(A1:A3,,-1)", "SORT(A1:A3,1,FALSE)"), ("SORT(A:A, 1 , -1 )", "SORT(A:A, 1 ,FALSE  )"),
        ("SORT(A1:A3,1,X1)", "SORT(A1:A3,1,(X1)*1>0)"), ("SORT(A1:A3,1,IF(X1,1,-1))", "SORT(A1:A3,1,X1)"),
        ("SORT(A1:B3,2,-1,FALSE)", "SORT(A1:B3,2,FALSE)"), ("SORT(A1:B3,2,-1,TRUE)", "SORT(A1:B3,2,FALSE,TRUE)"),
        ("sort(SORT(A1:B2,2,-1),1,1)", "sort(SORT(A1:B2,2,FALSE),1,TRUE)"), ("SORT({1,2},1)", "SORT({1,2},1,TRUE)"),
        ("EXPAND(A1:A2,3)", "EXPAND(A1:A2,3,,NA())"), ("EXPAND(A1:A2,3,1,0)", "EXPAND(A1:A2,3,1,0)"),
        ("WRAPCOLS(A1:A5,2)", "WRAPCOLS(A1:A5,2,NA())"), ('"SORT(A,1,-1)"', '"SORT(A,1,-1)"'),
        ("1+SORT(", "1+SORT("), ("SORT(({)}", "SORT(({)}"),
        ("SUM(A1:B2 B1:B3)+SORT(A1,1)", "SUM(A1:B2 B1:B3)+SORT(A1,1,TRUE)"),
    ],
)  # fmt: skip
def test_a_call_of_a_file_has_the_arguments_that_the_engine_expects(formula: str, expected: str) -> None:
    assert for_engine(formula) == expected


def lists(sheet: Sheet) -> list[list[str]]:
    page = json.loads(sheet.load().data)["sheets"][0]
    return [rule["criterion"]["values"] for rule in page["dataValidationRules"]]


def test_quotation_marks_in_the_texts_of_a_list_are_kept_in_both_directions(sheets: Sheets) -> None:
    book = openpyxl.Workbook()
    for row, formula in enumerate(('"19"" rack, 24"" rack"', '"Yes, No"'), 1):
        rule = DataValidation("list", formula1=formula)
        rule.add(f"A{row}")
        book.active.add_data_validation(rule)
    first = sheets.import_file("acme", "first", saved(book), file_name="book.xlsx")
    body, report = first.files.export()
    second = sheets.import_file("acme", "second", body, file_name="book.xlsx")
    assert lists(first) == lists(second) == [['19" rack', '24" rack'], ["Yes", "No"]]
    assert (first.files.import_report().findings, report.findings) == ((), [])
    written = openpyxl.load_workbook(io.BytesIO(body)).active.data_validations.dataValidation
    assert [rule.formula1 for rule in written] == ['"19"" rack,24"" rack"', '"Yes,No"']


def test_a_list_with_a_comma_in_a_text_is_left_out_of_an_export_and_reported(sheets: Sheets) -> None:
    sheet = sheets.create("acme", "typed")
    add_rule(sheet, "list", {"type": "isValueInList", "values": ["a,b", "c"], "displayStyle": "arrow"})
    body, report = sheet.files.export()
    assert [(finding.code, finding.count) for finding in report.findings] == [("validation", 1)]
    assert not openpyxl.load_workbook(io.BytesIO(body)).active.data_validations.dataValidation

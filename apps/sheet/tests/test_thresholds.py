"""Formulas of conditional formats: they move with their cells, and imports and exports keep or report them."""

from __future__ import annotations

import io
import json
import re
import zipfile
from typing import Any

import openpyxl
import pytest

from apps.sheet.tests.helpers import revision
from apps.sheet.tests.packages import package
from apps.sheet.tests.test_workbook_import import saved
from stratalog_sheet import EnginePool, FileReport, Sheet, Sheets
from stratalog_sheet.formulas import for_engine
from stratalog_sheet.state import BLANK

COLORS = '<color rgb="FFFF0000"/><color rgb="FF00FF00"/>'
END, TWO = '<cfvo type="max"/>', '<cfvo type="num" val="2"/>'
ENDS = f'<cfvo type="min"/>{TWO}{END}'
STYLES = '<cellXfs><xf numFmtId="0"/></cellXfs><dxfs count="1"><dxf><font><b/></font></dxf></dxfs>'
VALUES = (
    f"<sheetData>{''.join(f'<row><c><v>{row}</v></c><c><v>{2 * row}</v></c></row>' for row in range(1, 9))}</sheetData>"
)
POINT = {"type": "formula", "operator": "gt", "value": "$B$3", "color": 0}
ICONS = {"upper": "arrowGood", "middle": "arrowNeutral", "lower": "arrowBad"}


def made(sheets: Sheets, kind: str, content: str) -> Sheet:
    """Import a workbook with one conditional format for A1:A8."""
    rule = f'<cfRule type="{kind}" dxfId="0" priority="1">{content}</cfRule>'
    body = f'{VALUES}<conditionalFormatting sqref="A1:A8">{rule}</conditionalFormatting>'
    return sheets.import_file("acme", "book", package({"S": body}, styles=STYLES), file_name="book.xlsx")


def insert_row(sheet: Sheet) -> None:
    page = sheet.sheets()[0]
    lines = {"sheetId": page["id"], "sheetName": page["name"], "dimension": "ROW"}
    command = {"type": "ADD_COLUMNS_ROWS", **lines, "base": 0, "quantity": 1, "position": "before"}
    sheet.append(revision(sheet, command))


def formats(sheet: Sheet) -> str:
    return json.dumps(json.loads(sheet.state())["sheets"][0]["conditionalFormats"])


def format_command(rule: dict[str, Any]) -> dict[str, Any]:
    zone = {"left": 0, "right": 0, "top": 0, "bottom": 7}
    command = {"type": "ADD_CONDITIONAL_FORMAT", "sheetId": "sheet1", "cf": {"id": "rule", "rule": rule}}
    return command | {"ranges": [{"_sheetId": "sheet1", "_zone": zone}]}


def add_format(sheet: Sheet, rule: dict[str, Any]) -> None:
    sheet.append(revision(sheet, format_command(rule)))


def typed(command: dict[str, Any], engines: EnginePool) -> list[dict[str, Any]]:
    """Return the commands of the message that the engine makes of a user's command."""
    with engines.lend() as models:
        models.engine.call("open", key="typed", data=BLANK, messages=[], client="ann")
        answer = models.engine.call("dispatch", key="typed", sheet=None, command=command)
        models.engine.call("close", key="typed")
    commands: list[dict[str, Any]] = answer["messages"][0]["commands"]
    return commands


def codes(report: FileReport) -> list[str]:
    return [finding.code for finding in report.findings]


def thresholds(body: bytes) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        return re.findall(r'<cfvo [^>]*val="(\$[^"]*)"', archive.read("xl/worksheets/sheet0.xml").decode())


@pytest.mark.parametrize("kind", ["formula", "num"])
def test_the_thresholds_of_an_imported_format_move_with_their_cells_and_are_exported(sheets: Sheets, kind: str) -> None:
    scale = f'<colorScale><cfvo type="{kind}" val="$B$3"/><cfvo type="{kind}" val="$B$7"/>{COLORS}</colorScale>'
    sheet = made(sheets, "colorScale", scale)
    insert_row(sheet)
    assert re.findall(r"=\$B\$\d", formats(sheet)) == ["=$B$4", "=$B$8"]
    body, report = sheet.files.export()
    assert codes(report) == codes(sheet.files.import_report()) == []
    assert thresholds(body) == ["$B$4", "$B$8"]
    again = sheets.import_file("acme", "again", body, file_name="book.xlsx")
    assert again.export() == body


@pytest.mark.parametrize(
    "rule",
    [
        {"type": "ColorScaleRule", "minimum": POINT, "midpoint": POINT, "maximum": POINT},
        {"type": "IconSetRule", "icons": ICONS, "upperInflectionPoint": POINT, "lowerInflectionPoint": POINT},
    ],
    ids=["scale", "icons"],
)
def test_a_threshold_typed_without_an_equals_sign_moves_with_its_cells(
    sheet: Sheet, engines: EnginePool, rule: dict[str, Any]
) -> None:
    sheet.append(revision(sheet, *typed(format_command(rule), engines)))
    insert_row(sheet)
    assert set(re.findall(r"\$B\$\d", formats(sheet))) == {"$B$4"}
    assert set(thresholds(sheet.export())) == {"$B$4"}


def test_a_threshold_without_an_equals_sign_in_a_stored_message_stays_as_its_users_saw_it(sheet: Sheet) -> None:
    add_format(sheet, {"type": "ColorScaleRule", "minimum": POINT, "maximum": POINT})
    insert_row(sheet)
    assert set(re.findall(r"=?\$B\$\d", formats(sheet))) == {"$B$3"}
    body, report = sheet.files.export()
    assert (codes(report), thresholds(body)) == ([], ["$B$3", "$B$3"])


def test_a_stored_threshold_that_means_something_else_in_a_file_is_left_out_and_reported(sheet: Sheet) -> None:
    point = POINT | {"value": "SUM(SORT($A$1:$B$8,1,TRUE,2,FALSE))"}
    add_format(sheet, {"type": "ColorScaleRule", "minimum": point, "maximum": point})
    body, report = sheet.files.export()
    assert (codes(report), thresholds(body)) == (["conditional-format"], [])


@pytest.mark.parametrize(
    ("kind", "content", "expected"),
    [
        ("iconSet", f"<iconSet>{ENDS}</iconSet>", "conditional-format"),
        (
            "colorScale",
            f'<colorScale><cfvo type="percent" val="$B$1"/>{END}{COLORS}</colorScale>',
            "conditional-format",
        ),
        ("dataBar", f'<dataBar>{TWO}{TWO}<color rgb="FF00FF00"/></dataBar>', "data-bar"),
        ("expression", "<formula>SUM(SORT($A$1:$A$8,1,-1,TRUE))&gt;3</formula>", "formula"),
    ],
    ids=["icons", "percent", "bar", "sort"],
)
def test_thresholds_and_formulas_that_the_engine_does_not_read_are_reported(
    sheets: Sheets, kind: str, content: str, expected: str
) -> None:
    report = made(sheets, kind, content).files.import_report()
    assert [(finding.code, finding.count) for finding in report.findings] == [(expected, 1)]


def test_ordinary_thresholds_are_imported_without_a_finding(sheets: Sheets) -> None:
    bar = '<dataBar><cfvo type="min"/><cfvo type="max"/><color rgb="FF00FF00"/></dataBar>'
    assert codes(made(sheets, "dataBar", bar).files.import_report()) == []


def test_a_format_whose_formula_means_something_else_in_a_file_is_left_out_and_reported(sheet: Sheet) -> None:
    values = ["=SUM(SORT($A$1:$B$8,1,TRUE,2,FALSE))>3"]
    add_format(sheet, {"type": "CellIsRule", "operator": "customFormula", "values": values, "style": {"bold": True}})
    body, report = sheet.files.export()
    assert [(finding.code, finding.count) for finding in report.findings] == [("conditional-format", 1)]
    assert not openpyxl.load_workbook(io.BytesIO(body)).active.conditional_formatting


@pytest.mark.parametrize(("order", "first"), [('"-1"', "3"), ('"1"', "1"), ("TRUE", "1"), ("C1", "3"), ("-1", "3")])
def test_the_order_of_a_sort_may_be_a_text_or_a_truth_value(sheets: Sheets, order: str, first: str) -> None:
    book = openpyxl.Workbook()
    for row, value in enumerate([2, 3, 1], 1):
        book.active.cell(row, 1, value)
    book.active["C1"] = "-1"
    book.active["E1"] = f"=INDEX(_xlfn._xlws.SORT(A1:A3,1,{order}),1)"
    sheet = sheets.import_file("acme", "sorted", saved(book), file_name="sorted.xlsx")
    assert sheet.get("E1").formatted == first
    exported = openpyxl.load_workbook(io.BytesIO(sheet.export())).active["E1"].value
    again = for_engine(str(getattr(exported, "text", exported)).replace("_xlfn._xlws.", ""))
    assert ")*1>0)*1>0" not in again

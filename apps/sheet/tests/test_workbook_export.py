"""The values, types and findings of .xlsx exports. An independent reader, openpyxl, opens the exported workbooks."""

from __future__ import annotations

import base64
import io
import math
import re
import struct
import warnings
import zipfile
import zlib
from datetime import UTC, datetime
from typing import Any

import openpyxl
import pytest
from openpyxl.workbook.defined_name import DefinedName
from openpyxl.worksheet.table import Table

from apps.sheet.tests.helpers import put, revision
from apps.sheet.tests.packages import NO_VALUES
from stratalog_sheet import EnginePool, FileReport, Sheet, Sheets
from stratalog_sheet.array_formulas import is_array
from stratalog_sheet.file_reports import Findings
from stratalog_sheet.formulas import ROWS_MAX, exceeds_file
from stratalog_sheet.xlsx_export import _Export, write_workbook
from stratalog_sheet.xlsx_figures import ChartRepair, DrawingRepair
from stratalog_sheet.xlsx_markup import MAIN, RELATIONSHIPS, Allowance
from stratalog_sheet.xlsx_repair import Literals, SheetRepair

pytestmark = pytest.mark.slow

CHART = "http://schemas.openxmlformats.org/drawingml/2006/chart"

VALUES = [
    "text", "  spaced ", "line\nbreak", "007", "=no formula", "TRUE", "'tis", "50%", 7, -1.5, 1e-7, 1.5e300, True,
    False,
    datetime(2027, 1, 5, tzinfo=UTC).replace(tzinfo=None),
    "#DIV/0!", "a & <b>", "Ünïcödé 漢字 🎉", "=1+2", '=SUM(A1:A3)&"x"', "=A9>3", "=1/0",
]  # fmt: skip


def read(body: bytes, **options: Any) -> openpyxl.Workbook:
    """Read a workbook with the independent reader. A warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return openpyxl.load_workbook(io.BytesIO(body), **options)


def saved(book: openpyxl.Workbook) -> bytes:
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def command(sheet: Sheet, kind: str, **fields: Any) -> None:
    sheet.append(revision(sheet, {"type": kind, "sheetId": "sheet1", **fields}))


def add_chart(sheet: Sheet, kind: str, **more: Any) -> None:
    definition = {
        "type": kind, "dataSetsHaveTitle": False, "legendPosition": "top", "title": {"text": "Sums"},
        "labelRange": "A1:A3", "dataSource": {"type": "range", "dataSets": [{"dataRange": "B1:B3", "dataSetId": "0"}]},
        "dataSetStyles": {}, "dataSets": [{"dataRange": "B1:B3"}], **more,
    }  # fmt: skip
    position = {"offset": {"x": 20, "y": 50}, "col": 0, "row": 0, "size": {"width": 300, "height": 200}}
    command(
        sheet, "CREATE_CHART", figureId=f"figure-{kind}", chartId=f"chart-{kind}", definition=definition, **position
    )


def add_rule(sheet: Sheet, id: str, criterion: dict[str, Any], *, is_blocking: bool = False) -> None:
    zone = {"left": 0, "right": 0, "top": 0, "bottom": 4}
    ranges = [{"_sheetId": "sheet1", "_zone": zone}]
    rule = {"id": id, "criterion": criterion, "isBlocking": is_blocking}
    command(sheet, "ADD_DATA_VALIDATION_RULE", rule=rule, ranges=ranges)


def add_image(sheet: Sheet, id: str, path: str) -> None:
    size = {"width": 16, "height": 16}
    definition = {"path": path, "mimetype": "image/png", "size": size}
    position = {"offset": {"x": 0, "y": 0}, "col": 2, "row": 2, "size": size}
    command(sheet, "CREATE_IMAGE", figureId=id, definition=definition, **position)


def png() -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(4))) + chunk(b"IEND", b"")


def test_every_value_keeps_its_type_through_an_import_and_an_export(sheets: Sheets) -> None:
    book = openpyxl.Workbook()
    for row, value in enumerate(VALUES, 1):
        cell = book.active.cell(row, 1, value)
        if value in ("=no formula",):
            cell.data_type = "s"
    body = saved(book)
    sheet = sheets.import_file("acme", "values", body, file_name="values.xlsx")
    there, here = read(body).active, read(sheet.export()).active
    for cell in there["A"]:
        other = here[cell.coordinate]
        assert (other.value, other.data_type) == (cell.value, cell.data_type), cell.coordinate
    computed = read(sheet.export(), data_only=True).active
    assert [computed.cell(row, 1).value for row in range(19, 23)] == [3, "0x", True, "#DIV/0!"]


def test_an_independent_reader_opens_exported_charts(sheet: Sheet) -> None:
    for number in range(3):
        sheet.set(f"B{number + 1}", str(number + 1))
    add_chart(sheet, "pie")
    add_chart(sheet, "bar", stacked=False)
    body, report = sheet.files.export()
    assert [type(chart).__name__ for chart in read(body).active._charts] == ["PieChart", "BarChart"]
    assert report.findings == []


def test_a_sheet_is_exported_despite_a_treemap_with_more_values_than_groups(sheet: Sheet) -> None:
    groups = [{"dataRange": "A1:A2", "dataSetId": "0"}]
    add_chart(sheet, "treemap", dataSource={"type": "range", "dataSets": groups, "labelRange": "B1:B4"})
    sheet.append(revision(sheet, *(put(1, row, "7") for row in range(4)), put(0, 0, "a")))
    assert [(lost.code, lost.count) for lost in sheet.files.export()[1].findings] == [("figure", 1)]


def test_an_independent_reader_opens_exported_validations(sheet: Sheet) -> None:
    add_rule(sheet, "1", {"type": "isValueInList", "values": ["a", "b"], "displayStyle": "arrow"})
    assert [rule.formula1 for rule in read(sheet.export()).active.data_validations.dataValidation] == ['"a,b"']
    # For a rule that blocks, the engine writes an empty error style, which the schema does not allow.
    add_rule(sheet, "1", {"type": "isValueInList", "values": ["c"], "displayStyle": "arrow"}, is_blocking=True)
    assert [rule.formula1 for rule in read(sheet.export()).active.data_validations.dataValidation] == ['"c"']


@pytest.mark.parametrize(
    "criterion",
    [
        {"type": "isValueInList", "values": ["x" * 200, "y" * 200], "displayStyle": "arrow"},
        {"type": "isBoolean", "values": []},
    ],
    ids=["a list of more than 255 characters", "a checkbox"],
)
def test_a_validation_that_a_file_cannot_contain_is_left_out_and_reported(
    sheet: Sheet, criterion: dict[str, Any]
) -> None:
    add_rule(sheet, "1", criterion)
    body, report = sheet.files.export()
    rules = read(body).active.data_validations.dataValidation
    lost = {finding.code: finding.count for finding in report.findings}
    assert (len(rules), lost) == (0, {"validation": 1})


def test_an_export_has_the_bytes_of_each_image_and_reports_an_image_without_data(sheet: Sheet) -> None:
    add_image(sheet, "whole", "data:image/png;base64," + base64.b64encode(png()).decode())
    add_image(sheet, "lost", "")
    body, report = sheet.files.export()
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        media = [name for name in archive.namelist() if "/media/" in name]
        assert [archive.read(name) for name in media] == [png()]
    assert {finding.code: finding.count for finding in report.findings} == {"figure": 1}
    read(body)


def test_an_export_has_defined_names_tables_and_hidden_tabs(sheets: Sheets) -> None:
    book = openpyxl.Workbook()
    first = book.active
    first.title = "A sheet with a name that is long"[:31]
    first.sheet_state = "hidden"
    for line in (["a", "b"], [1, 2], [3, 4]):
        first.append(line)
    first.add_table(Table(displayName="Tab", ref="A1:B3"))
    first.protection.sheet = True
    first.merge_cells("D1:E2")
    book.create_sheet("Other")["A1"] = "=SUM(Total)"
    book.defined_names["Total"] = DefinedName("Total", attr_text=f"'{first.title}'!$A$2:$A$3")
    sheet = sheets.import_file("acme", "names", saved(book), file_name="names.xlsx")
    here = read(sheet.export())
    assert here.defined_names["Total"].attr_text == f"'{first.title}'!$A$2:$A$3"
    assert here["Other"]["A1"].value == "=SUM(Total)"
    assert [table.ref for table in here[first.title].tables.values()] == ["A1:B3"]
    assert (here[first.title].sheet_state, here.active.title) == ("hidden", "Other")
    again = sheets.import_file("acme", "again", sheet.export(), file_name="again.xlsx")
    assert again.get("A1", sheet="Other").value == 4


def test_an_unparsable_formula_is_exported_as_text_and_reported(sheet: Sheet) -> None:
    sheet.set("A1", "=[@none")
    body, report = sheet.files.export()
    cell = read(body).active["A1"]
    assert (cell.value, cell.data_type) == ("=[@none", "s")
    assert [finding.where for finding in report.findings] == [["Sheet1!A1"]]


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("1+2", False), ("SUM(A1:A3)", False), ("SUM(Total)", False), ("A1&B1", False),
        ("SUMPRODUCT((A1:A3=1)*B1:B3)", False),
        ("VLOOKUP(A1,'My sheet'!A:C,3,FALSE)", False), ("IF(SUM(A1:A3)>1,B1,C1)", False), ("SUM(A1:A3*B1:B3)", True),
        ("SUM(LEN(A1:A3))", True), ("A1:A3", True), ("SUM(1/Other!A1:A3)", True), ("TRANSPOSE(A1:C1)", True),
    ],
)  # fmt: skip
def test_only_a_formula_that_computes_cell_by_cell_is_an_array_formula(formula: str, expected: bool) -> None:
    assert is_array(formula) is expected


def test_a_formula_that_fills_several_cells_is_exported_as_an_array_formula(sheet: Sheet) -> None:
    sheet.append(revision(sheet, put(0, 0, "=TRANSPOSE(C1:D1)"), put(2, 0, "1"), put(3, 0, "2"), put(4, 0, "=C1+D1")))
    here = read(sheet.export()).active
    assert (here["A1"].value.ref, here["A1"].value.text) == ("A1:A2", "=TRANSPOSE(C1:D1)")
    assert here["E1"].value == "=C1+D1"


@pytest.mark.parametrize(
    ("kind", "day", "formulas"),
    [
        ("dateIs", "today", ("TODAY()", None)),
        ("dateIsBefore", "tomorrow", ("TODAY()+1", None)),
        ("dateIs", "lastMonth", ("EDATE(TODAY(),-1)", "TODAY()")),
    ],
)
def test_a_validation_of_a_relative_date_is_exported_with_its_formulas(
    sheets: Sheets, kind: str, day: str, formulas: tuple[str, str | None]
) -> None:
    sheet = sheets.create("acme", "book")
    add_rule(sheet, "dates", {"type": kind, "values": [], "dateValue": day}, is_blocking=True)
    (written,) = read(sheet.export()).active.data_validations.dataValidation
    assert (written.type, written.formula1, written.formula2) == ("date", *formulas)


def test_an_export_leaves_out_columns_and_cells_that_a_file_cannot_contain() -> None:
    """The engine can add columns to a sheet that already has 16,384. Excel refuses a file with column 16,385."""
    allowance, findings = Allowance(math.inf, math.inf), Findings()
    writer = SheetRepair("sheet0.xml", allowance, "Wide", Literals("strings.xml", allowance), set(), findings)
    columns = '<cols><col min="16384" max="16384"/><col min="16385" max="16385"/></cols>'
    first = '<row r="1"><c r="XFD1"><v>1</v></c><c r="XFE1"><v>2</v></c><c r="XFF1" s="1"/></row>'
    beyond = '<row r="1048577"><c r="A1048577"><v>3</v></c></row>'
    part = f'<worksheet xmlns="{MAIN}">{columns}<sheetData>{first}{beyond}</sheetData></worksheet>'
    written = writer.rewritten([part.encode()])
    assert re.findall(r'<col min="(\d+)"', written) == ["16384"]
    assert re.findall(r'<(?:row|c) r="(\w+)"', written) == ["1", "XFD1"]
    [lost] = findings.report().findings
    assert (lost.code, lost.count, lost.where) == ("beyond", 2, ["Wide!XFE1", "Wide!A1048577"])


def test_an_export_leaves_out_ranges_after_the_last_column_of_a_file() -> None:
    allowance, findings = Allowance(math.inf, math.inf), Findings()
    writer = SheetRepair("sheet0.xml", allowance, "Wide", Literals("strings.xml", allowance), set(), findings)
    merges = '<mergeCells count="1"><mergeCell ref="XFE1:XFF1"/></mergeCells>'
    formats = "".join(
        f'<conditionalFormatting sqref="{cells}"><cfRule type="expression"><formula>A1</formula></cfRule>'
        "</conditionalFormatting>"
        for cells in ("XFD:XFE", "XFE1:XFE9", "A1:B2 XFE1 XFC1:XFG2", "1:3")
    )
    rules = "".join(
        f'<dataValidation sqref="{cells}" type="list" errorStyle=""><formula1>"a,b"</formula1></dataValidation>'
        for cells in ("XFE1 date", "XFD1:XFE1 date")
    )
    written = writer.rewritten(
        [
            f'<worksheet xmlns="{MAIN}"><sheetData/>{merges}{formats}'
            f'<dataValidations count="2">{rules}</dataValidations></worksheet>'.encode()
        ]
    )
    assert re.findall(r'ref="([^"]*)"', written) == ["XFD:XFD", "A1:B2 XFC1:XFD2", "1:3", "XFD1:XFD1"]
    assert re.findall("<(mergeCells|dataValidations)", written) == ["dataValidations"]
    assert writer.validations == 2
    [lost] = findings.report().findings
    assert (lost.code, lost.where) == ("beyond-ranges", ["Wide!XFE1:XFF1", "Wide!XFE1:XFE9", "Wide!XFE1"])


def test_an_export_leaves_out_a_figure_after_the_last_column_of_a_file() -> None:
    corner = "<xdr:{0}><xdr:col>{1}</xdr:col><xdr:colOff>16384</xdr:colOff></xdr:{0}>"
    anchors = "".join(
        f"<xdr:twoCellAnchor>{corner.format('from', first)}{corner.format('to', last)}</xdr:twoCellAnchor>"
        for first, last in ((3, 5), (16_383, 16_385), (16_384, 16_385))
    )
    drawn = "http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing"
    writer = DrawingRepair("drawing0.xml", Allowance(math.inf, math.inf), set())
    written = writer.rewritten([f'<xdr:wsDr xmlns:xdr="{drawn}">{anchors}</xdr:wsDr>'.encode()])
    assert re.findall(r"<xdr:col>(\d+)</xdr:col>", written) == ["3", "5", "16383", "16383"]
    assert writer.anchors == 2


def test_an_export_leaves_out_a_name_of_a_range_after_the_last_column_of_a_file() -> None:
    export = _Export({"files": [], "names": {}, "sheets": [{"name": "Sheet1"}]})
    listed = '<sheet name="Sheet1"/>'
    assert "$XFD$1" in export._defined("near", "Sheet1!XFD1", listed)
    assert export._defined("far", "Sheet1!XFD1:XFE1", listed) == ""
    assert [finding.where for finding in export.findings.report().findings] == [["far"]]


def test_an_export_leaves_out_tables_with_cells_after_the_last_column_of_a_file() -> None:
    head = f'<worksheet xmlns="{MAIN}" xmlns:r="{RELATIONSHIPS}">'
    ranges = {1: "A9:B10", 2: "XFD9:XFE10", 3: "XFE9:XFF10"}
    tables = "".join(f'<tablePart r:id="rId{number}" />' for number in ranges)
    links = "".join(f'<Relationship Id="rId{number}" Target="../tables/table{number}.xml" />' for number in ranges)
    page = '<Relationship Id="rId4" Target="https://example.org/" TargetMode="External" />'
    parts = {
        **{f"xl/tables/table{number}.xml": f'<table id="{number}" ref="{table}"/>' for number, table in ranges.items()},
        "xl/worksheets/sheet0.xml": f'{head}<sheetData/><tableParts count="3">{tables}</tableParts></worksheet>',
        "xl/styles.xml": f'<styleSheet xmlns="{MAIN}"/>',
        "xl/sharedStrings.xml": f'<sst xmlns="{MAIN}"/>',
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}"/>',
        "xl/worksheets/_rels/sheet0.xml.rels": f"<Relationships>{links}{page}</Relationships>",
    }
    files = [{"path": path, "content": content} for path, content in parts.items()]
    sheet = {"name": "Wide", "heights": [None, None], "figures": 0, "formats": 0, "validations": 0, "pivots": 0}
    exported, report = write_workbook({"files": files, "names": {}, "sheets": [sheet], "values": NO_VALUES})
    archive = zipfile.ZipFile(io.BytesIO(exported))
    assert [name for name in archive.namelist() if "tables" in name] == ["xl/tables/table1.xml"]
    written = archive.read("xl/worksheets/sheet0.xml").decode()
    assert re.findall('r:id="([^"]*)"', written) == ["rId1"]
    relations = archive.read("xl/worksheets/_rels/sheet0.xml.rels").decode()
    assert re.findall('Id="([^"]*)"', relations) == ["rId1", "rId4"]
    [lost] = report.findings
    assert (lost.code, lost.where) == ("beyond-tables", ["Wide!XFD9:XFE10", "Wide!XFE9:XFF10"])


def exported(
    engines: EnginePool, cells: dict[str, str], *, columns_max: int = 9, **more: Any
) -> tuple[bytes, FileReport]:
    """Export a sheet in which the name `last` means E1.

    An export contains no formula that needs cells after column `columns_max`.
    """
    sheet = {"id": "sheet1", "name": "Sheet1", "colNumber": 5, "rowNumber": 4, "cells": cells, **more}
    data = {"version": "19.3.2", "revisionId": "start", "sheets": [sheet], "namedRanges": {"last": "Sheet1!E1"}}
    data["formats"] = {"1": "@"}
    with engines.lend("exported") as models:
        models.engine.call("open", key="exported", data=data, messages=[], client="exported")
        written = models.engine.call("exportXlsx", key="exported", limit=9, columns=columns_max, rows=ROWS_MAX)
        models.engine.call("close", key="exported")
    return write_workbook(written)


def test_a_formula_that_needs_cells_beyond_the_last_column_or_row_is_exported_as_values(engines: EnginePool) -> None:
    values = {"A1": 3, "B1": 4, "D1": 1, "E1": 2, "A2": 2, "B2": 1, "A3": "2", "C2": '=LEN("E1")'}
    values["B3"] = "=SUM(C3:C1048576)"
    formulas = {"A1": "=SEQUENCE(1,2)+$E1", "D1": "=SEQUENCE(1,2)", "A2": "=last", "B2": "=1+C1048577"}
    cells = {**formulas, "A3": '=E1&""', "C2": '=LEN("E1")', "B3": "=SUM(C3:C1048577)", "C3": "=SEQUENCE(1,2)"}
    body, report = exported(engines, cells, columns_max=4)
    sheet = read(body).active
    assert {cell: sheet[cell].value for cell in values} == values
    assert sheet["C3"].value.ref == "C3:D3"
    [lost] = report.findings
    assert (lost.code, lost.where) == ("beyond-formulas", [f"Sheet1!{cell}" for cell in ("A1", "A2", "A3", "B2", "D1")])


@pytest.mark.parametrize(
    ("formula", "written"),
    [
        ("=OFFSET(D1,1,0)", "=OFFSET(D1,1,0)"), ("=YEARFRAC(0,365,3)", "=YEARFRAC(0,365,3)"),
        ("=SUM(GROWTH(D1:D3))", "=SUM(GROWTH(D1:D3))"), ("=SUM(TREND(D1:D3))", "=SUM(TREND(D1:D3))"),
        ("=SUM(FILTER(D1:D3,D1:D3>1))", "=SUM(_xlfn._xlws.FILTER(D1:D3,D1:D3>1))"),
        ('="SORT("&SUM(SORT(D1:D3))', '="SORT("&SUM(_xlfn._xlws.SORT(D1:D3))'),
        ("=CUMIPMT(0.1,9,9,1,2)", "=CUMIPMT(0.1,9,9,1,2,0)"), ("=IFNA(D1)", "=_xlfn.IFNA(D1,0)"),
        ("=SUM(INDEX(D1:D3))", "=SUM(INDEX(D1:D3,0))"), ("=SUM(EXPAND(D1:D3,4))", "=SUM(_xlfn.EXPAND(D1:D3,4,,0))"),
        ("=SUM(WRAPROWS(D1:D3,2))", "=SUM(_xlfn.WRAPROWS(D1:D3,2,0))"),
    ],
)  # fmt: skip
def test_a_function_that_excel_has_is_exported_as_excel_writes_it(
    engines: EnginePool, formula: str, written: str
) -> None:
    body, report = exported(engines, {"A1": formula, "D1": "1", "D2": "2", "D3": "4"})
    value = read(body).active["A1"].value
    assert (getattr(value, "text", value), report.findings) == (written, [])


def test_a_formula_with_a_function_that_excel_lacks_is_exported_as_its_value(engines: EnginePool) -> None:
    formulas = {"A1": "=COUNTUNIQUE(D1)", "B1": "=FLATTEN(D1)", "C1": "=FLATTEN(D2:D3)"}
    cells = {**formulas, "D1": "'007", "D2": "'TRUE", "D3": "008", "D4": "=D1"}
    body, report = exported(engines, cells, formats={"D3": 1})
    sheet = read(body).active
    values = {"A1": 1, "B1": "007", "C1": "TRUE", "C2": "008", "D4": "=D1"}
    assert {cell: sheet[cell].value for cell in values} == values
    [lost] = report.findings
    assert (lost.code, lost.where) == ("formula-function", ["Sheet1!A1", "Sheet1!B1", "Sheet1!C1"])


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("SUM(xfd1:XFE3)", True), ("'S'!$XFE$1", True), ("A:XFE", True), ("YEAR(A1)+XFE1", True),
        ("SUM(B1:B1048577)", True), ("1:1048577", True),
        ('LEN("XFE1")', False), ("COLUMN(XFD:XFD)", False), ("B1048576*1048577", False), ("XFE1.x+ZZZ", False),
        ("ZZZ!A1", False), ("YEAR(XEE5)", False),
    ],
)  # fmt: skip
def test_a_formula_with_a_cell_after_column_xfd_or_row_1048576_exceeds_a_file(formula: str, expected: bool) -> None:
    assert exceeds_file(formula) is expected


def test_an_export_leaves_out_rules_with_references_after_the_last_column_of_a_file() -> None:
    allowance, findings = Allowance(math.inf, math.inf), Findings()
    writer = SheetRepair("sheet0.xml", allowance, "Wide", Literals("strings.xml", allowance), set(), findings)
    formats = "".join(
        f'<conditionalFormatting sqref="{cells}"><cfRule type="expression"><formula>{formula}</formula></cfRule>'
        "</conditionalFormatting>"
        for cells, formula in (("A1", "$XFE$1&gt;1"), ("A2", "$XFD$1&gt;1"))
    )
    rules = "".join(
        f'<dataValidation sqref="{cells}" type="decimal"><formula1>1</formula1><formula2>{formula}</formula2>'
        "</dataValidation>"
        for cells, formula in (("B1", "B1048577+XFE1"), ("B2", "B1048576"))
    )
    part = f'{formats}<dataValidations count="2">{rules}</dataValidations>'
    written = writer.rewritten([f'<worksheet xmlns="{MAIN}"><sheetData/>{part}</worksheet>'.encode()])
    assert re.findall('sqref="([^"]*)"', written) == ["A2", "B2"]
    assert writer.validations == 2
    [lost] = findings.report().findings
    assert (lost.code, lost.where) == ("beyond-ranges", ["Wide!A1", "Wide!B1"])


def test_an_export_leaves_out_series_of_charts_with_cells_after_the_last_column_of_a_file() -> None:
    findings = Findings()
    series = "".join(
        f"<c:ser><c:cat><c:strRef><c:f>{label}</c:f></c:strRef></c:cat>"
        f"<c:val><c:numRef><c:f>{values}</c:f></c:numRef></c:val></c:ser>"
        for label, values in (("S!XFE1", "S!A1"), ("S!A2", "S!XFD2"), ("S!A3", "S!A3:XFE3"))
    )
    part = f'<c:chart xmlns:c="{CHART}"><c:barChart>{series}</c:barChart></c:chart>'
    written = ChartRepair("chart1.xml", Allowance(math.inf, math.inf), findings).rewritten([part.encode()])
    assert re.findall("<c:f>([^<]*)", written) == ["S!A2", "S!XFD2"]
    assert written.endswith("</c:ser></c:barChart></c:chart>")
    [lost] = findings.report().findings
    assert (lost.code, lost.count, lost.where) == ("beyond-series", 2, ["S!XFE1", "S!A3:XFE3"])


def test_an_export_cuts_a_range_of_columns_at_the_last_column_of_a_file() -> None:
    allowance, findings = Allowance(math.inf, math.inf), Findings()
    writer = SheetRepair("sheet0.xml", allowance, "Wide", Literals("strings.xml", allowance), set(), findings)
    columns = '<cols><col min="16384" max="16385" width="9"/></cols>'
    written = writer.rewritten([f'<worksheet xmlns="{MAIN}">{columns}<sheetData/></worksheet>'.encode()])
    assert re.findall(r"<col [^>]*>", written) == ['<col min="16384" max="16384" width="9">']

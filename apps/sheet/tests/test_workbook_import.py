"""An import keeps every value with its type in workbooks of any program, and the report lists all losses."""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from typing import Any

import openpyxl
import pytest
from openpyxl.workbook.defined_name import DefinedName
from openpyxl.worksheet.table import Table

from apps.sheet.tests.packages import MAIN, RELATIONS, STRICT, link, package, related, rows
from stratalog import Invalid, LimitExceeded
from stratalog_sheet import FileReport, Sheet, Sheets
from stratalog_sheet.limits import SHEET_XLSX_NAME_DEPTH_MAX
from stratalog_sheet.xlsx_import import read_workbook

pytestmark = pytest.mark.slow

DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing"
FONTS = (
    '<fonts count="1"><font/></fonts><fills count="1"><fill><patternFill/></fill></fills>'
    '<borders count="1"><border/></borders>'
    '<cellStyleXfs count="1"><xf/></cellStyleXfs>'
    '<cellXfs count="4"><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="21"/><xf numFmtId="49"/></cellXfs>'
    '<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles>'
)


def opened(sheets: Sheets, body: bytes) -> Sheet:
    return sheets.import_file("acme", "book", body, file_name="book.xlsx")


def values(sheet: Sheet, *cells: str) -> list[Any]:
    return [sheet.get(cell).value for cell in cells]


def codes(report: FileReport) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for finding in report.findings:
        counts[finding.code] += finding.count
    return dict(counts)


def saved(book: openpyxl.Workbook) -> bytes:
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def test_inline_strings_are_imported_with_their_text_and_rich_text_is_reported(sheets: Sheets) -> None:
    cells = (
        '<c r="A1" t="inlineStr"><is><t>plain</t></is></c>',
        (
            '<c r="B1" t="inlineStr"><is><r><t xml:space="preserve">two </t></r><r><t>runs</t></r>'
            "<rPh><t>x</t></rPh></is></c>"
        ),
        '<c r="C1" t="inlineStr"><is><t xml:space="preserve">  spaced </t></is></c>',
        '<c r="D1" t="inlineStr"><is><t>a &amp; b</t></is></c>',
    )
    sheet = opened(sheets, package({"S": rows(*cells)}))
    assert values(sheet, "A1", "B1", "C1", "D1") == ["plain", "two runs", "  spaced ", "a & b"]
    assert codes(sheet.files.import_report()) == {"rich-text": 2, "phonetic": 1}


@pytest.mark.parametrize(
    "text", ["007", "=1+1", "TRUE", "'tis", "12/3/2020", "50%", "-5", "1 000", "$5", "3:15", "2020-01-02"]
)
def test_a_text_that_looks_like_another_value_stays_a_text(sheets: Sheets, text: str) -> None:
    cells = ('<c r="A1" t="s"><v>0</v></c>', f'<c r="B1" t="inlineStr"><is><t>{text}</t></is></c>')
    sheet = opened(sheets, package({"S": rows(*cells)}, strings=f"<si><t>{text}</t></si>"))
    assert values(sheet, "A1", "B1") == [text, text]
    written = openpyxl.load_workbook(io.BytesIO(sheet.export())).active
    assert [(written[cell].value, written[cell].data_type) for cell in ("A1", "B1")] == [(text, "s")] * 2


def test_dates_of_the_1904_date_system_are_converted(sheets: Sheets) -> None:
    cells = (
        '<c r="A1" s="1"><v>44927</v></c>', '<c r="B1" s="2"><v>0.5</v></c>', '<c r="C1"><v>44927</v></c>',
        '<c r="D1" s="1" t="d"><v>2027-01-05T12:00:00</v></c>',
    )  # fmt: skip
    body = package({"S": rows(*cells)}, styles=FONTS, workbook='<workbookPr date1904="1"/><sheets/>')
    sheet = opened(sheets, body)
    assert values(sheet, "A1", "B1", "C1", "D1") == [44927 + 1462, 0.5, 44927, 46392.5]
    there, here = (openpyxl.load_workbook(io.BytesIO(file)).active for file in (body, sheet.export()))
    assert [cell.value for cell in here[1]][:2] == [cell.value for cell in there[1]][:2]


def test_durations_and_times_of_the_1904_date_system_are_not_converted(sheets: Sheets) -> None:
    codes = ("[h]:mm", "[hh]\\:mm", "[mm]", "[Red][mm]:ss", "[$-409]mmm")
    formats = "".join(f'<numFmt numFmtId="{200 + n}" formatCode="{code}"/>' for n, code in enumerate(codes))
    styles = "".join(f'<xf numFmtId="{200 + n}"/>' for n in range(len(codes)))
    times = '<xf numFmtId="32"/><xf numFmtId="33"/>'
    styles = f'<numFmts>{formats}</numFmts><cellXfs><xf numFmtId="0"/>{styles}{times}</cellXfs>'
    cells = [f'<c r="{column}1" s="{n}"><v>1.5</v></c>' for n, column in enumerate("ABCDEFG", 1)]
    book = package({"S": rows(*cells)}, styles=styles, workbook='<workbookPr date1904="1"/><sheets/>')
    shown = values(opened(sheets, book), *(f"{column}1" for column in "ABCDEFG"))
    assert shown == [1.5, 1.5, 1.5, 1.5, 1463.5, 1.5, 1.5]


def test_a_column_without_brackets_in_a_table_reference_is_that_column(sheets: Sheets) -> None:
    book = openpyxl.Workbook()
    first = book.active
    for line in (["a", "b c", "d"], [1, 2, "=Tab[[#This Row],b c]*2"], [3, 4, "=[[#This Row], a ]*10"]):
        first.append(line)
    first.add_table(Table(displayName="Tab", ref="A1:C3"))
    first["E1"] = "=SUM(Tab[[#Data],a:b c])"
    first["E2"] = "=Tab[[#This Row],gone]"
    sheet = opened(sheets, saved(book))
    assert values(sheet, "C2", "C3", "E1", "E2") == [4, 30, 10, "#REF"]


def test_a_literal_semicolon_hides_no_date_of_the_1904_date_system(sheets: Sheets) -> None:
    codes = ("&quot;;&quot;yyyy", "\\;yyyy", "0;yyyy")
    formats = "".join(f'<numFmt numFmtId="{200 + n}" formatCode="{code}"/>' for n, code in enumerate(codes))
    styles = "".join(f'<xf numFmtId="{200 + n}"/>' for n in range(len(codes)))
    styles = f'<numFmts>{formats}</numFmts><cellXfs><xf numFmtId="0"/>{styles}</cellXfs>'
    cells = [f'<c r="{column}1" s="{n}"><v>1.5</v></c>' for n, column in enumerate("ABC", 1)]
    book = package({"S": rows(*cells)}, styles=styles, workbook='<workbookPr date1904="1"/><sheets/>')
    assert values(opened(sheets, book), "A1", "B1", "C1") == [1463.5, 1463.5, 1.5]


def test_defined_names_and_table_references_evaluate_to_their_values(sheets: Sheets) -> None:
    book = openpyxl.Workbook()
    first = book.active
    first.title = "Calc & more"
    for line in (["a", "b [x]", "c"], [1, 2, "=Tab[[#This Row],[b '[x']]]*2"], [3, 4, "=Tab[[#This Row],[a]]"]):
        first.append(line)
    first.add_table(Table(displayName="Tab", ref="A1:C3"))
    formulas = {
        "E1": "=SUM(Tab[a])", "E2": "=SUM(Total)", "E3": "=Rate*100", "E4": "=SUM(Tab[])",
        "E5": "=COUNTA(Tab[#Headers])",
        "E6": "=SUM(Tab[[a]:[b '[x']]])", "E7": "=SUM(Twice)", "E8": '="Total Tab[a]"', "E9": "=Local",
    }  # fmt: skip
    for cell, formula in formulas.items():
        first[cell] = formula
    other = book.create_sheet("Other")
    other["A1"] = "=SUM(tab[A])"
    for name, text in {
        "Total": "'Calc & more'!$A$2:$A$3", "Rate": "0.19", "Twice": "2*Total", "Gone": "#REF!",
    }.items():  # fmt: skip
        book.defined_names[name] = DefinedName(name, attr_text=text)
    first.defined_names["Local"] = DefinedName("Local", attr_text="'Calc & more'!$B$2")
    sheet = opened(sheets, saved(book))
    assert values(sheet, "C2", "C3", *formulas) == [4, 3, 4, 4, 19, 17, 3, 10, 8, "Total Tab[a]", 2]
    assert sheet.get("A1", sheet="Other").value == 4
    assert sheet.get("E2").content == "=SUM(Total)", "the name of a range stays a name"
    assert sheet.files.import_report() == FileReport()


def test_nested_defined_names_are_expanded_up_to_a_limited_depth(sheets: Sheets) -> None:
    book = openpyxl.Workbook()
    book.defined_names["Deep1"] = DefinedName("Deep1", attr_text="1")
    for depth in range(2, SHEET_XLSX_NAME_DEPTH_MAX + 2):
        book.defined_names[f"Deep{depth}"] = DefinedName(f"Deep{depth}", attr_text=f"Deep{depth - 1}+1")
    book.active["A1"] = f"=Deep{SHEET_XLSX_NAME_DEPTH_MAX}"
    book.active["A2"] = f"=Deep{SHEET_XLSX_NAME_DEPTH_MAX + 1}"
    sheet = opened(sheets, saved(book))
    assert sheet.get("A1").value == SHEET_XLSX_NAME_DEPTH_MAX
    assert "name" in codes(sheet.files.import_report())


@pytest.mark.parametrize("text", ["S!$A1", "S!A$1", "SUM(S!$A:B)", "SUM(S!1:$2)", "S!$A$1+S!$B2"])
def test_a_defined_name_with_a_partly_relative_reference_is_reported_and_not_expanded(
    sheets: Sheets, text: str
) -> None:
    book = openpyxl.Workbook()
    book.active.title = "S"
    for line in ([1, 10], [2, 20], [3, 30]):
        book.active.append(line)
    book.defined_names["Own"] = DefinedName("Own", attr_text=text)
    book.defined_names["Fixed"] = DefinedName("Fixed", attr_text="2*S!$A$1+SUM(S!$B:$B)+SUM(S!$3:$3)")
    book.active["D5"], book.active["E5"] = "=Own*2", "=Fixed"
    sheet = opened(sheets, saved(book))
    assert (sheet.get("D5").content, sheet.get("E5").value) == ("=Own*2", 2 + 60 + 33)
    assert codes(sheet.files.import_report())["name"] == 1


def test_a_shared_formula_moves_only_its_relative_references(sheets: Sheets) -> None:
    data = (
        '<sheetData><row r="1"><c r="A1"><v>100</v></c><c r="B1"><v>1000</v></c>'
        '<c r="C1"><f t="shared" ref="C1:C2" si="0">SUM(A1)&amp;"LOG10(A1)"&amp;"A1"&amp;$A$1</f></c></row>'
        '<row r="2"><c r="A2"><v>10</v></c><c r="C2"><f t="shared" si="0"/></c></row></sheetData>'
    )
    sheet = opened(sheets, package({"S": data}))
    assert sheet.get("C2").content == '=SUM(A2)&"LOG10(A1)"&"A1"&$A$1'
    assert values(sheet, "C1", "C2") == ["100LOG10(A1)A1100", "10LOG10(A1)A1100"]


def test_tabs_have_the_order_of_the_workbook_and_not_of_the_part_names(sheets: Sheets) -> None:
    workbook = (
        f'<workbook xmlns="{MAIN}" xmlns:r="{RELATIONS}"><sheets><sheet name="First" sheetId="9" r:id="b"/>'
        '<sheet name="Chart" sheetId="3" r:id="c"/><sheet name="Second" sheetId="1" r:id="a"/></sheets></workbook>'
    )
    links = related(
        link("a", "worksheet", "worksheets/sheet1.xml") + link("b", "worksheet", "/xl/worksheets/sheet2.xml")
        + link("c", "chartsheet", "chartsheets/sheet1.xml")
    )  # fmt: skip
    parts = {"1": rows('<c r="A1"><v>2</v></c>'), "2": rows('<c r="A1"><v>1</v></c>')}
    body = package(parts, more={"xl/workbook.xml": workbook, "xl/_rels/workbook.xml.rels": links})
    sheet = opened(sheets, body)
    assert [tab["name"] for tab in sheet.sheets()] == ["First", "Second"]
    assert [sheet.get("A1", sheet=name).value for name in ("First", "Second")] == [1, 2]
    assert codes(sheet.files.import_report()) == {"chart-sheet": 1}


def test_prefixes_strict_namespaces_and_cells_without_positions_are_read(sheets: Sheets) -> None:
    strict = f'<x:worksheet xmlns:x="{STRICT}/spreadsheetml/main"><x:sheetData><x:row><x:c><x:v>1</x:v></x:c>'
    strict += "<x:c><x:v>2</x:v></x:c></x:row><x:row><x:c><x:f>A1+B1</x:f></x:c></x:row></x:sheetData></x:worksheet>"
    sheet = opened(sheets, package({"S": ""}, more={"xl/worksheets/sheet1.xml": strict}))
    assert values(sheet, "A1", "B1", "A2") == [1, 2, 3]


def test_unsupported_features_of_a_workbook_are_reported(sheets: Sheets) -> None:
    data = rows(
        '<c r="A1"><f>NOSUCH(1)</f><v>7</v></c>',
        '<c r="B1"><f>[@none]</f></c>',
        '<c r="C1"><f t="dataTable"/><v>5</v></c>',
    )
    rules = (
        '<autoFilter ref="A1:B2"/><dataValidations><dataValidation type="whole" sqref="A1"/></dataValidations>'
        "<headerFooter><oddFooter>&amp;P</oddFooter></headerFooter><extLst><ext><sparklineGroups/></ext></extLst>"
    )
    area = '<definedName name="_xlnm.Print_Area" localSheetId="0">S!$A$1</definedName>'
    names = f"<sheets/><definedNames>{area}</definedNames>"
    links = related(link("c", "comments", "../comments1.xml") + link("p", "pivotTable", "../pivot.xml"))
    body = package({"S": data + rules}, workbook=names, more={"xl/worksheets/_rels/sheet1.xml.rels": links})
    sheet = opened(sheets, body)
    assert codes(sheet.files.import_report()) == {
        "comment": 1, "data-table": 1, "filter": 1, "formula": 2, "pivot": 1, "print-setup": 2, "sparkline": 1,
        "validation": 1,
    }  # fmt: skip
    named = {finding.text: finding.where for finding in sheet.files.import_report().findings}
    assert named["formulas that the engine does not know are kept as they are"] == ["S!A1", "S!B1"]
    assert named["print areas and titles are not kept"] == ["_xlnm.Print_Area"]
    assert named["headers, footers and page breaks are not kept"] == ["S"]
    assert sheet.get("C1").value == 5
    assert sheet.get("A1").content == "=NOSUCH(1)", "a formula that is not known stays as it is"
    assert sheet.original()[1] == body


def test_images_are_imported_up_to_limits_and_the_rest_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stratalog_sheet.xlsx_import.SHEET_IMAGE_BYTES_MAX", 10)
    monkeypatch.setattr("stratalog_sheet.xlsx_import.SHEET_IMAGES_BYTES_MAX", 15)
    images = {"a.png": "0123456789", "b.png": "0123456789", "c.png": "0123456789a", "d.emf": "0", "e.jpg": "01234"}
    more = {f"xl/media/{name}": body for name, body in images.items()}
    more["xl/drawings/d.xml"] = f'<xdr:wsDr xmlns:xdr="{DRAWING}"/>'
    more["xl/drawings/_rels/d.xml.rels"] = related("".join(link(name, "image", f"../media/{name}") for name in images))
    more["xl/worksheets/_rels/sheet1.xml.rels"] = related(link("d", "drawing", "../drawings/d.xml"))
    book = read_workbook(package({"S": rows()}, more=more))
    taken = {name: image["imageSrc"] for name, image in book.files.items() if "/media/" in name}
    assert taken == {
        "xl/media/image1.png": "data:image/png;base64,MDEyMzQ1Njc4OQ==",
        "xl/media/image2.jpg": "data:image/jpeg;base64,MDEyMzQ=",
    }
    assert codes(book.report) == {"images": 1, "image": 2}


def test_a_report_outlives_the_process(sheets: Sheets) -> None:
    body = package({"S": rows() + "<headerFooter><oddHeader>Plan</oddHeader></headerFooter>"})
    opened(sheets, body)
    again = Sheets(sheets.store, sheets.engines).open("acme", "book")
    assert codes(again.files.import_report()) == {"print-setup": 1}
    assert again.files.import_report().lines() == ["headers, footers and page breaks are not kept (1: S)"]
    assert sheets.create("acme", "empty").files.import_report() == FileReport()


def test_a_report_names_a_bounded_number_of_cells(sheets: Sheets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stratalog_sheet.file_reports.SHEET_REPORT_CELLS_MAX", 2)
    cells = (f'<c r="{column}1" t="inlineStr"><is><r><t>x</t></r></is></c>' for column in "ABC")
    (finding,) = read_workbook(package({"S": rows(*cells)})).report.findings
    assert (finding.count, finding.where) == (3, ["S!A1", "S!B1"])


def test_empty_cells_do_not_count_toward_the_element_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    from stratalog_sheet.xlsx_markup import Allowance

    # Each element takes memory, so the import drops empty cells before the limit counts them.
    monkeypatch.setattr(Allowance.__init__, "__defaults__", (100, 10_000_000))
    empty = "".join(f'<c r="{column}{row}"/>' for row in range(1, 20_000) for column in "ABCDE")
    book = read_workbook(package({"S": f'<sheetData><row r="1">{empty}<c r="F1"><v>1</v></c></row></sheetData>'}))
    assert book.cells == 1
    assert len(book.files["xl/worksheets/sheet1.xml"]) < 1000


def test_the_elements_and_bytes_read_of_a_workbook_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    from stratalog_sheet.xlsx_markup import Allowance

    cells = "".join(f'<c r="A{row}" s="1"/>' for row in range(1, 2000))
    body = package({"S": f"<sheetData><row>{cells}</row></sheetData>"}, styles=FONTS)
    monkeypatch.setattr(Allowance.__init__, "__defaults__", (1000, 10_000_000))
    with pytest.raises(LimitExceeded, match="too many elements"):
        read_workbook(body)
    monkeypatch.setattr(Allowance.__init__, "__defaults__", (10_000, 5000))
    with pytest.raises(LimitExceeded, match="too large to be read"):
        read_workbook(body)


@pytest.mark.parametrize(
    ("part", "body"),
    [
        ("xl/worksheets/sheet1.xml", "<worksheet><c>"), ("xl/workbook.xml", "nothing"),
        ("xl/worksheets/sheet1.xml", f'<worksheet xmlns="{MAIN}"><c r="7"/></worksheet>'),
        ("xl/workbook.xml", f'<workbook xmlns="{MAIN}"/>'),
    ],
)  # fmt: skip
def test_a_malformed_part_is_refused_and_no_sheet_is_created(sheets: Sheets, part: str, body: str) -> None:
    with pytest.raises(Invalid):
        opened(sheets, package({"S": rows()}, more={part: body}))
    assert list(sheets.list("acme")) == []


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_part_of_any_compression_is_refused(method: int) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(package({"S": rows()}))) as plain, zipfile.ZipFile(packed, "w", method) as archive:
        for name in plain.namelist():
            archive.writestr(name, plain.read(name))
        start = archive.getinfo("xl/workbook.xml").header_offset
    body = bytearray(packed.getvalue())
    data = start + 30 + len("xl/workbook.xml") + 12
    body[data : data + 40] = b"\xff" * 40
    with pytest.raises(Invalid):
        read_workbook(bytes(body))

"""Nothing of a workbook is lost without a word: values arrive, and the report names each feature that does not."""

from __future__ import annotations

import io
from typing import Any

import openpyxl
import pytest
from openpyxl.formatting.rule import CellIsRule, FormulaRule
from openpyxl.styles import Font, PatternFill
from openpyxl.worksheet.datavalidation import DataValidation

from apps.sheet.tests.helpers import put, revision
from apps.sheet.tests.packages import link, package, related, rows
from apps.sheet.tests.test_workbook_import import codes, opened, saved, values
from stratalog import Invalid, LimitExceeded
from stratalog_sheet import Sheet, Sheets
from stratalog_sheet.file_reports import Findings
from stratalog_sheet.filled_cells import FilledCells
from stratalog_sheet.formulas import in_file
from stratalog_sheet.limits import SHEET_XLSX_STEPS_MAX
from stratalog_sheet.sheet_names import file_names
from stratalog_sheet.workbook_names import TableRange, WorkbookNames
from stratalog_sheet.xlsx_figures import ChartRepair
from stratalog_sheet.xlsx_markup import Allowance
from stratalog_sheet.xlsx_texts import is_link

pytestmark = pytest.mark.slow


def data(*lines: str) -> str:
    """Return the sheet data with these cells in each row."""
    listed = "".join(f'<row r="{number}">{line}</row>' for number, line in enumerate(lines, 1))
    return f"<sheetData>{listed}</sheetData>"


def text(cell: str, content: str) -> str:
    return f'<c r="{cell}" t="inlineStr"><is><t>{content}</t></is></c>'


def exported(sheet: Sheet) -> Any:
    return openpyxl.load_workbook(io.BytesIO(sheet.export()))


def where(sheet: Sheet, code: str) -> list[str]:
    return [
        position
        for finding in sheet.files.import_report().findings
        if finding.code == code
        for position in finding.where
    ]


@pytest.mark.parametrize(("formula", "value"), [('=LEFT("😀",1)', "\ufffd"), ('=MID("a😀",1,2)&"\\"', "a\ufffd\\")])
def test_half_a_character_in_a_cell_prevents_no_read_and_no_export(sheets: Sheets, formula: str, value: str) -> None:
    sheet = sheets.create("acme", "halves")
    sheet.set("A1", formula)
    assert values(sheet, "A1") == [value]
    assert sheet.files.csv().decode() == f"{value}\r\n"
    assert exported(sheet).active["A1"].value == formula


def test_a_tab_whose_long_name_ends_in_half_a_character_is_exported(sheets: Sheets) -> None:
    sheet = opened(sheets, package({"😀" * 16: rows('<c r="A1"><v>1</v></c>')}))
    assert exported(sheet).active["A1"].value == 1


@pytest.mark.parametrize(("stored", "value"), [("true", True), ("TRUE", True), ("1", True), ("false", False)])
def test_a_boolean_that_a_file_writes_as_a_word_is_imported(sheets: Sheets, stored: str, value: bool) -> None:
    assert values(opened(sheets, package({"S": rows(f'<c r="A1" t="b"><v>{stored}</v></c>')})), "A1") == [value]


def test_a_merge_that_hides_filled_cells_is_left_out_and_reported(sheets: Sheets) -> None:
    cells = data('<c r="A1"><v>1</v></c><c r="B1"><v>2</v></c>', '<c r="A2"><v>3</v></c><c r="B2"><v>4</v></c>')
    merges = '<mergeCells count="2"><mergeCell ref="A1:B2"/><mergeCell ref="D1:E2"/></mergeCells>'
    sheet = opened(sheets, package({"S": cells + merges}))
    assert values(sheet, "A1", "B1", "A2", "B2") == [1, 2, 3, 4]
    assert where(sheet, "merge") == ["S!A1:B2"]
    assert [str(merged) for merged in exported(sheet).active.merged_cells.ranges] == ["D1:E2"]


def test_of_two_merges_that_overlap_the_second_is_left_out_and_reported(sheets: Sheets) -> None:
    cells = data('<c r="A1"><v>1</v></c>', "", '<c r="C3"><v>5</v></c>')
    merges = '<mergeCells count="2"><mergeCell ref="A1:B2"/><mergeCell ref="B2:C2"/></mergeCells>'
    sheet = opened(sheets, package({"S": cells + merges}))
    assert values(sheet, "A1", "C3") == [1, 5]
    assert where(sheet, "merge") == ["S!B2:C2"]


def test_filled_cells_find_every_cell_of_a_range_in_any_order_of_the_file() -> None:
    filled = FilledCells()
    for position in ((5, 2), (0, 0), (3, 1), (2, 1), (9, 1)):
        filled.add(position, has_formula=position == (3, 1))
    assert list(filled.within("B1:F3")) == [((2, 1), False), ((3, 1), True), ((5, 2), False)]
    assert [filled.merge(cells) for cells in ("A1:B1", "B1:C1", "C1:D1", "G1:G2")] == [True, False, True, True]


def test_a_merge_of_too_many_rows_does_not_refuse_later_merges() -> None:
    filled = FilledCells()
    with pytest.raises(LimitExceeded, match="too many rows"):
        filled.merge("A1:A1048576")
    assert [filled.merge(cells) for cells in ("B1:B199998", "B1:C1")] == [True, False]
    with pytest.raises(LimitExceeded, match="too many rows"):
        filled.merge("D1:D2")
    assert filled.merge("E1:E1")


def test_merges_and_links_of_one_worksheet_visit_a_limited_number_of_cells() -> None:
    filled = FilledCells()
    for row in range(100_000):
        filled.add((0, row), has_formula=True)
    for _ in range(SHEET_XLSX_STEPS_MAX // 100_000):
        assert list(filled.within("B1:B100000")) == []
    with pytest.raises(LimitExceeded, match="too many merges and links"):
        list(filled.within("B1:B100000"))


def test_merges_and_links_beyond_a_limit_are_reported_with_this_reason(
    sheets: Sheets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stratalog_sheet.filled_cells.SHEET_XLSX_STEPS_MAX", 2)
    monkeypatch.setattr("stratalog_sheet.filled_cells.SHEET_CELLS_MAX", 9)
    cells = data(text("A1", "x"), text("A2", "y"), text("A3", "z"))
    merges = '<mergeCells><mergeCell ref="D1:E9"/><mergeCell ref="F1:G9"/></mergeCells>'
    links = '<hyperlinks><hyperlink ref="A1:A3" location="S!A1"/></hyperlinks>'
    sheet = opened(sheets, package({"S": cells + merges + links}))
    assert codes(sheet.files.import_report()) == {"many-ranges": 2}
    assert where(sheet, "many-ranges") == ["S!F1:G9", "S!A1:A3"]


def test_a_link_reports_the_place_that_it_loses_and_needs_a_target(sheets: Sheets) -> None:
    cells = data(*(text(f"A{row}", "x") for row in range(1, 6)))
    links = (
        '<hyperlink ref="A1" location="S!$A$1"/><hyperlink ref="A2" location="S!B7"/>'
        '<hyperlink ref="A3" r:id="l" location="part"/><hyperlink ref="A4"/><hyperlink ref="A5" location="a_name"/>'
    )
    target = related(link("l", "hyperlink", "https://example.org/").replace("/>", ' TargetMode="External"/>'))
    body = package(
        {"S": f"{cells}<hyperlinks>{links}</hyperlinks>"}, more={"xl/worksheets/_rels/sheet1.xml.rels": target}
    )
    sheet = opened(sheets, body)
    assert (where(sheet, "link-place"), where(sheet, "link")) == (["S!A2", "S!A3"], ["S!A4", "S!A5"])
    assert values(sheet, "A4", "A5") == ["x", "x"]


def test_links_of_ranges_are_imported_and_links_of_empty_cells_are_reported(sheets: Sheets) -> None:
    cells = data('<c r="A1"><v>5</v></c>' + text("B1", "x"), text("A2", "y"), '<c r="A3"><f>1+1</f><v>2</v></c>')
    links = "".join(f'<hyperlink ref="{ref}" r:id="l"/>' for ref in ("A1:B2", "A3", "D4"))
    target = related(link("l", "hyperlink", "https://example.org/").replace("/>", ' TargetMode="External"/>'))
    body = package(
        {"S": f"{cells}<hyperlinks>{links}</hyperlinks>"}, more={"xl/worksheets/_rels/sheet1.xml.rels": target}
    )
    sheet = opened(sheets, body)
    assert where(sheet, "link") == ["S!A3", "S!D4"]
    written = exported(sheet).active
    assert [written[cell].hyperlink.target for cell in ("A1", "B1", "A2")] == ["https://example.org/"] * 3
    assert written["A1"].value == 5


def test_a_text_that_becomes_a_link_is_reported(sheets: Sheets) -> None:
    body = package({"S": rows(text("A1", "[a](b)"), '<c r="B1" t="s"><v>0</v></c>')}, strings="<si><t>[c](d)</t></si>")
    assert where(opened(sheets, body), "link-text") == ["S!A1", "S!B1"]
    sheet = sheets.import_file("acme", "list", b"[a](b),c\r\n", file_name="list.csv")
    assert where(sheet, "link-text") == ["A1"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("[a](b)", True), ("[](b)", False), ("[a]()", False), ("[]](b)", True), ("[a](b)c", False), ("x[a](b)", False),
        ("[a](b\rc)", False), ("[a](b)](c)", True), ("[" + "](" * 1_000_000, False),
    ],
)  # fmt: skip
def test_a_text_of_any_length_is_compared_with_the_form_of_a_link(content: str, expected: bool) -> None:
    assert is_link(content) is expected


def test_a_table_reference_with_thousands_of_spaces_is_read() -> None:
    names = WorkbookNames(["S"], [], [TableRange("T", "S", "A1:B3", ["x", "a b"])], Findings())
    assert names.plain("SUM(T[[#All],a b])", "S", (4, 4)) == "SUM(B1:B3)"
    assert names.plain("T[[#All],[x]:[a b]]", "S", (4, 4)) == "A1:B3"
    for spaces in ("a" * 50_000 + " " * 50_000 + "' ", ("a" + " " * 50_000) * 2):
        assert names.plain(f"T[[x],{spaces}]", "S", (4, 4)) == "#REF!"


def test_cells_without_a_known_text_or_type_are_reported(sheets: Sheets) -> None:
    cells = ('<c r="A1" t="s"><v>7</v></c>', '<c r="B1" t="z"><v>=9</v></c>', '<c r="C1" t="s"><v>0</v></c>')
    sheet = opened(sheets, package({"S": rows(*cells)}, strings="<si><t>one</t></si>"))
    assert values(sheet, "A1", "B1", "C1") == [None, "=9", "one"]
    assert (where(sheet, "string"), where(sheet, "cell-type")) == (["S!A1"], ["S!B1"])


@pytest.mark.parametrize(
    ("element", "code"),
    [
        ('<pageSetup orientation="landscape"/>', "page-setup"),
        ('<pageSetup scale="50"/>', "page-setup"),
        ('<printOptions gridLines="1"/>', "page-setup"),
        ("<headerFooter><evenFooter>&amp;P</evenFooter></headerFooter>", "print-setup"),
        ('<sheetProtection sheet="1" password="DAA7"/>', "protection"),
        ('<scenarios><scenario name="x"/></scenarios>', "scenario"),
        ('<sheetViews><sheetView workbookViewId="0" rightToLeft="1"/></sheetViews>', "view"),
        ('<smartTags><cellSmartTags r="A1"/></smartTags>', "other-part"),
        (
            (
                '<dataValidations count="1"><dataValidation type="decimal" sqref="A1" prompt="Ask Ann">'
                "<formula1>1</formula1></dataValidation></dataValidations>"
            ),
            "validation-text",
        ),
    ],
)
def test_a_feature_that_the_engine_does_not_read_is_reported(sheets: Sheets, element: str, code: str) -> None:
    body = package({"S": element + rows('<c r="A1"><v>1</v></c>')})
    assert codes(opened(sheets, body).files.import_report()) == {code: 1}


def test_a_workbook_without_lost_features_has_an_empty_report(sheets: Sheets) -> None:
    parts = (
        (
            '<sheetPr><tabColor rgb="FFFF0000"/></sheetPr><dimension ref="A1"/>'
            '<sheetViews><sheetView workbookViewId="0"/></sheetViews><sheetFormatPr defaultRowHeight="15"/>'
            '<cols><col min="1" max="1" width="12" customWidth="1"/></cols>'
        ),
        (
            '<sheetProtection sheet="1"/><phoneticPr fontId="0"/>'
            '<pageMargins left="0.7" right="0.7" top="0.75" bottom="0.75" header="0.3" footer="0.3"/>'
            '<printOptions headings="false" gridLines="false" gridLinesSet="true" horizontalCentered="0"/>'
            '<pageSetup paperSize="9" orientation="portrait"/><ignoredErrors/>'
            '<headerFooter differentFirst="false"><oddHeader></oddHeader><oddFooter/></headerFooter>'
        ),
    )
    body = package({"S": parts[0] + rows('<c r="A1"><v>1</v></c>') + parts[1]})
    assert codes(opened(sheets, body).files.import_report()) == {}


def test_phonetic_texts_are_reported(sheets: Sheets) -> None:
    strings = '<si><t>東京</t><rPh sb="0" eb="2"><t>トウキョウ</t></rPh></si>'
    sheet = opened(sheets, package({"S": rows('<c r="A1" t="s"><v>0</v></c>')}, strings=strings))
    assert (values(sheet, "A1"), codes(sheet.files.import_report())) == (["東京"], {"phonetic": 1})


@pytest.mark.parametrize("formula", ["=SUM(A:A)", "=SUM($A:$B)", "=SUM(2:2)", "=COUNTIF(S!A:A,3)", "=SUM(A2:A1048576)"])
def test_an_open_range_is_exported_with_open_ends(sheets: Sheets, formula: str) -> None:
    sheet = opened(sheets, package({"S": rows('<c r="A1"><v>3</v></c>', f'<c r="D1"><f>{formula[1:]}</f></c>')}))
    assert exported(sheet).active["D1"].value == formula


def test_an_open_range_with_a_beginning_is_exported_to_the_last_row_and_column(sheets: Sheets) -> None:
    sheet = sheets.create("acme", "open")
    sheet.set("D1", "=SUM(A2:A)")
    sheet.set("D2", "=SUM(F2:2)")
    rule = {"id": "r", "rule": {"type": "CellIsRule", "operator": "isGreaterThan", "values": ["=A2"], "style": {}}}
    command = {
        "type": "ADD_CONDITIONAL_FORMAT",
        "sheetId": "sheet1",
        "cf": rule,
        "ranges": [{"_sheetId": "sheet1", "_zone": {"left": 1, "right": 1, "top": 0}}],
    }
    sheet.append(revision(sheet, command))
    written = exported(sheet).active
    assert [written[cell].value for cell in ("D1", "D2")] == ["=SUM(A2:A1048576)", "=SUM(F2:XFD2)"]
    assert [str(formatting.sqref) for formatting in written.conditional_formatting] == ["B1:B1048576"]


def test_ranges_to_the_last_row_are_exported_after_rows_were_inserted(sheets: Sheets) -> None:
    book = openpyxl.Workbook()
    book.active["A1"], book.active["A2"], book.active["D1"] = 1, 2, "=SUM(A1:A1048576)"
    fill = PatternFill(bgColor="FF0000")
    book.active.conditional_formatting.add("A1:A1048576", CellIsRule("greaterThan", ["3"], fill=fill))
    rule = DataValidation("decimal", operator="lessThan", formula1="5")
    rule.add("B1:B1048576")
    book.active.add_data_validation(rule)
    sheet = opened(sheets, saved(book))
    sheet.insert_rows(2)
    _, report = sheet.files.export()
    written = exported(sheet).active
    assert codes(report) == {}
    assert written["D1"].value == "=SUM(A1:A1048576)"
    assert [str(rule.sqref) for rule in written.conditional_formatting] == ["A1:A1048576"]
    assert [str(rule.sqref) for rule in written.data_validations.dataValidation] == ["B1:B1048576"]


@pytest.mark.parametrize(
    ("formula", "written"),
    [
        ("SUM(A2:A)", "SUM(A2:A1048576)"), ("SUM($A$2:$A)", "SUM($A$2:$A$1048576)"), ("SUM(B1:1)", "SUM(B1:XFD1)"),
        ("A3:A1048577", "A3:A1048576"), ('"A2:A"&A2:A9', '"A2:A"&A2:A9'), ("A:A", "A:A"), ("A1048577", "A1048577"),
        ("SUM(A1:IF(B1,A2,A3))", "SUM(A1:IF(B1,A2,A3))"), ("S!A2:$A*2", "S!A2:$A1048576*2"),
    ],
)  # fmt: skip
def test_a_formula_in_a_file_has_only_ranges_that_a_file_can_contain(formula: str, written: str) -> None:
    assert in_file(formula) == written


@pytest.mark.parametrize("character", ["\x01", "\ufffe", "\uffff"])
def test_characters_that_xml_does_not_allow_are_exported_or_named(sheets: Sheets, character: str) -> None:
    sheet = sheets.create("acme", "characters")
    sheet.append(revision(sheet, put(0, 0, f"a{character}b"), put(1, 0, f'="a{character}b"')))
    body, report = sheet.files.export()
    assert codes(report) == {"formula-character": 1}
    again = sheets.import_file("acme", "again", body)
    assert values(again, "A1", "B1") == [f"a{character}b"] * 2


def test_a_name_with_a_code_point_that_xml_does_not_allow_prevents_no_export(sheets: Sheets) -> None:
    sheet = sheets.create("acme", "named")
    sheet.append(
        revision(sheet, {"type": "RENAME_SHEET", "sheetId": "sheet1", "oldName": "Sheet1", "newName": "x\uffff"})
    )
    assert exported(sheet).sheetnames == ["x\ufffd"]


def test_a_text_with_half_a_character_is_refused_with_the_reason(sheets: Sheets) -> None:
    sheet = sheets.create("acme", "surrogate")
    with pytest.raises(Invalid, match="a text has a lone surrogate"):
        sheet.set("A1", "a\ud800")
    assert sheet.set("A1", "a").version > 0


def test_an_apostrophe_at_either_end_of_a_sheet_s_name_is_changed_for_a_file() -> None:
    # A sheet that was imported by an earlier build may have such a name.
    assert file_names(["'q", "q'", "it's", "_q"]) == {"'q": "_q2", "q'": "q_"}


def test_names_of_sheets_that_a_file_cannot_contain_are_changed_everywhere_and_reported(sheets: Sheets) -> None:
    names = {"x:y": data(text("A1", "here")), "x_y": rows("<c r=\"A1\"><f>'x:y'!A1</f></c>")}
    links = '<hyperlinks><hyperlink ref="A1" location="\'x:y\'!A1"/></hyperlinks>'
    sheet = opened(sheets, package({**names, "x:y": names["x:y"] + links}))
    body, report = sheet.files.export()
    assert [(finding.code, finding.where) for finding in report.findings] == [("sheet-name", ["x:y"])]
    written = openpyxl.load_workbook(io.BytesIO(body))
    assert written.sheetnames == ["x_y2", "x_y"]
    assert written["x_y"]["A1"].value == "=x_y2!A1"
    assert written["x_y2"]["A1"].hyperlink.location == "x_y2!A1"
    again = sheets.import_file("acme", "again", body)
    assert again.get("A1", sheet="x_y").value == "here"


def test_the_location_of_a_link_quotes_the_name_of_its_sheet(sheets: Sheets) -> None:
    links = '<hyperlinks><hyperlink ref="A1" location="\'my plan\'!A1"/></hyperlinks>'
    sheet = opened(sheets, package({"my plan": data(text("A1", "x")) + links}))
    assert exported(sheet).active["A1"].hyperlink.location == "'my plan'!A1"


def test_a_chart_names_the_changed_name_of_its_sheet() -> None:
    repair = ChartRepair("chart.xml", Allowance(), Findings(), {"x:y": "x_y"})
    chart = b"<c:f xmlns:c=\"http://schemas.openxmlformats.org/drawingml/2006/chart\">'x:y'!A1:A2</c:f>"
    assert ">x_y!A1:A2</c:f>" in repair.rewritten([chart])


def test_an_export_computes_no_conditional_format(sheets: Sheets) -> None:
    book = openpyxl.Workbook()
    book.active["A1"] = "link"
    book.active["A1"].hyperlink = "https://example.org/"
    book.active["A1"].style = "Normal"
    green = Font(color="FF00FF00")
    book.active.conditional_formatting.add("A1:A1048576", FormulaRule(["COUNTIF(A1:A10,A1)>0"], font=green))
    written = exported(opened(sheets, saved(book))).active
    assert written["A1"].font.color.rgb == "00017E84", "the colour of links, which a computed format would replace"
    assert [str(formatting.sqref) for formatting in written.conditional_formatting] == ["A1:A1048576"]

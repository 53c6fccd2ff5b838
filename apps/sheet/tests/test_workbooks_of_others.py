"""Faults that a corpus of workbooks showed: refused files, changed values, and exports that cannot be read."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from typing import Any

import openpyxl
import pytest
from openpyxl.chart import BarChart, Reference
from openpyxl.chart.chartspace import ChartSpace
from openpyxl.chart.data_source import StrRef
from openpyxl.chart.reader import read_chart
from openpyxl.chart.series import SeriesLabel
from openpyxl.formatting.rule import Rule
from openpyxl.styles import Font
from openpyxl.styles.differential import DifferentialStyle
from openpyxl.worksheet.datavalidation import DataValidation
from openpyxl.xml.functions import fromstring

from apps.sheet.tests.packages import package, rows
from apps.sheet.tests.test_workbook_import import FONTS, codes, opened, saved, values
from stratalog import Invalid
from stratalog_sheet import Sheets
from stratalog_sheet.empty_cells import without_empty_cells
from stratalog_sheet.engine import Engine
from stratalog_sheet.file_reports import Findings
from stratalog_sheet.formulas import without_single_ranges
from stratalog_sheet.workbook_names import WorkbookNames
from stratalog_sheet.xlsx_cells import CellContext, SheetWriter
from stratalog_sheet.xlsx_import import read_workbook
from stratalog_sheet.xlsx_markup import MAIN, Allowance
from stratalog_sheet.xlsx_parts import StringsWriter, StylesWriter
from stratalog_sheet.xlsx_repair import OrderRepair

pytestmark = pytest.mark.slow

CHART = "http://schemas.openxmlformats.org/drawingml/2006/chart"
TEXTS = "http://schemas.openxmlformats.org/drawingml/2006/main"


def book_with_chart(values: str = "'S'!$A$1:$A$3") -> openpyxl.Workbook:
    book = openpyxl.Workbook()
    book.active.title = "S"
    for number in range(1, 4):
        book.active.append([number])
    chart = BarChart()
    chart.add_data(Reference(book.active, min_col=1, min_row=1, max_row=3))
    chart.series[0].val.numRef.f = values
    book.active.add_chart(chart, "C1")
    return book


def reopened(body: bytes) -> Any:
    return openpyxl.load_workbook(io.BytesIO(body))


@pytest.mark.parametrize("formula", ["SUM($A$1:A{0})", "AVERAGE(A$1:$A{0})", "SUM('S'!$A$1:A{0})"])
def test_running_totals_are_imported_with_their_values(sheets: Sheets, formula: str) -> None:
    lines = "".join(
        f'<row r="{n}"><c r="A{n}"><v>{n}</v></c><c r="B{n}"><f>{formula.format(n)}</f></c></row>' for n in range(1, 5)
    )
    sheet = opened(sheets, package({"S": f"<sheetData>{lines}</sheetData>"}))
    expected = [1, 3, 6, 10] if formula.startswith("SUM") else [1, 1.5, 2, 2.5]
    assert values(sheet, "B1", "B2", "B3", "B4") == expected


@pytest.mark.parametrize(
    ("formula", "plain"),
    [
        ("SUM($D$4:D4)", "SUM($D$4)"),
        ("SUM(D4:D5)", "SUM(D4:D5)"),
        ("SUM('a:b'!d4:$D$4,A1)", "SUM('a:b'!d4,A1)"),
        ('"D4:D4"&D4', '"D4:D4"&D4'),
        ("A:A", "A:A"),
    ],
)
def test_a_range_of_a_single_cell_is_rewritten_as_the_cell(formula: str, plain: str) -> None:
    assert without_single_ranges(formula) == plain


def test_a_link_does_not_replace_the_text_of_its_cell(sheets: Sheets) -> None:
    book = openpyxl.Workbook()
    book.active["A1"] = "Lot 2638"
    book.active["A1"].hyperlink = "https://example.org/"
    book.active["A1"].hyperlink.display = "Lot 2637"
    assert values(opened(sheets, saved(book)), "A1") == ["Lot 2638"]


def test_a_number_that_is_shown_as_a_text_stays_a_number(sheets: Sheets) -> None:
    cells = ('<c r="A1" s="3"><v>1234</v></c>', '<c r="B1" s="3" t="inlineStr"><is><t>007</t></is></c>')
    sheet = opened(sheets, package({"S": rows(*cells)}, styles=FONTS))
    assert values(sheet, "A1", "B1") == [1234, "007"]


def test_a_formula_whose_result_differs_from_the_file_is_reported(sheets: Sheets) -> None:
    cells = (
        '<c r="A1"><f>1+1</f><v>2</v></c>', '<c r="B1"><f>1+2</f><v>4</v></c>',
        '<c r="C1" t="b"><f>1=1</f><v>1</v></c>',
        '<c r="D1" t="str"><f>"a"&amp;"b"</f><v>ab</v></c>', '<c r="E1" t="e"><f>1/0</f><v>#DIV/0!</v></c>',
        '<c r="F1"><f>TODAY()</f><v>1</v></c>', '<c r="G1"><f>0.1+0.2</f><v>0.3</v></c>', '<c r="H1"><f>1</f></c>',
    )  # fmt: skip
    sheet = opened(sheets, package({"S": rows(*cells)}))
    (finding,) = sheet.files.import_report().findings
    assert (finding.code, finding.count, [*finding.where]) == ("formula-value", 1, ["S!B1"])
    unsaid = package({"S": rows(*cells)}, workbook='<sheets/><calcPr fullCalcOnLoad="1"/>')
    assert codes(sheets.import_file("acme", "other", unsaid).files.import_report()) == {}


def test_cells_of_an_array_formula_that_differ_from_the_file_are_reported(sheets: Sheets) -> None:
    data = (
        '<sheetData><row r="1"><c r="A1"><f t="array" ref="A1:A2">SUM(1,2)</f><v>3</v></c></row>'
        '<row r="2"><c r="A2"><v>3</v></c></row></sheetData>'
    )
    (finding,) = opened(sheets, package({"S": data})).files.import_report().findings
    assert (finding.code, [*finding.where]) == ("formula-value", ["S!A2"])


@pytest.mark.parametrize(
    ("stumbles", "named"),
    [
        ("xl/charts/", ["figures-refused"]),
        ("<mergeCells", None),
        ("<dataValidation", ["figures-refused", "rules-refused"]),
    ],
)
def test_figures_and_rules_refused_by_the_engine_are_left_out_and_reported(
    sheets: Sheets, monkeypatch: pytest.MonkeyPatch, stumbles: str, named: list[str] | None
) -> None:
    """In this test the engine refuses a part of the file.

    The real engine refuses a chart that refers to a defined name whose value is not a range.
    """
    book = book_with_chart()
    book.active.add_data_validation(DataValidation(type="list", formula1='"a,b"', sqref="D1"))
    book.active.merge_cells("F1:F2")
    raw = Engine.raw

    def stumbling(engine: Engine, name: str, **arguments: Any) -> bytes:
        if name == "importXlsx" and any(
            stumbles in text for part in arguments["files"].items() for text in map(str, part)
        ):
            raise Invalid("the spreadsheet's engine refused", call=name)
        return raw(engine, name, **arguments)

    monkeypatch.setattr(Engine, "raw", stumbling)
    if named is None:
        with pytest.raises(Invalid, match="engine refused"):
            opened(sheets, saved(book))
        return
    sheet = opened(sheets, saved(book))
    assert values(sheet, "A1", "A2", "A3") == [1, 2, 3]
    assert [*codes(sheet.files.import_report())] == named
    assert reopened(sheet.export()).active["A3"].value == 3


def test_a_chart_series_of_several_ranges_is_imported_with_its_first_range(sheets: Sheets) -> None:
    sheet = opened(sheets, saved(book_with_chart("(S!$A$1:$A$2,S!$A$3)")))
    assert codes(sheet.files.import_report()) == {"chart-range": 1}
    (chart,) = reopened(sheet.export()).active._charts
    assert [series.val.numRef.f.replace("'", "") for series in chart.series] == ["S!A1:A2"]


def test_a_chart_whose_series_has_a_title_that_is_no_cell_is_imported_without_the_title(sheets: Sheets) -> None:
    book = book_with_chart()
    book.active._charts[0].series[0].tx = SeriesLabel(strRef=StrRef('"Sums"'))  # as LibreOffice writes a title
    sheet = opened(sheets, saved(book))
    assert codes(sheet.files.import_report()) == {"chart-text": 1}
    (chart,) = reopened(sheet.export()).active._charts
    assert [series.val.numRef.f.replace("'", "") for series in chart.series] == ["S!A1:A3"]


def test_the_title_of_an_axis_after_a_series_of_a_defined_name_is_imported() -> None:
    book = book_with_chart("Sums")
    book.active._charts[0].x_axis.title = "Months"
    workbook = read_workbook(saved(book))
    assert "Months" in workbook.files["xl/charts/chart1.xml"]
    assert codes(workbook.report) == {"chart-series": 1}


def test_all_supported_rules_of_a_range_are_imported_and_an_unsupported_rule_is_reported(sheets: Sheets) -> None:
    book = openpyxl.Workbook()
    style = DifferentialStyle(font=Font(bold=True))
    for kind, operator, formula in (
        ("cellIs", "greaterThan", ["5"]),
        ("cellIs", "between", ["2", "4"]),
        ("aboveAverage", None, []),
        ("expression", None, ["$A1=0"]),
    ):
        rule = Rule(type=kind, operator=operator, formula=formula, dxf=style)
        book.active.conditional_formatting.add("A1:A9", rule)
    sheet = opened(sheets, saved(book))
    [lost] = sheet.files.import_report().findings
    assert (lost.code, lost.where) == ("conditional-format", [f"{book.active.title}!A1:A9"])
    formats = reopened(sheet.export()).active.conditional_formatting
    rules = [(rule.type, rule.operator, rule.formula) for each in formats for rule in each.rules]
    assert rules == [
        ("cellIs", "greaterThan", ["5"]),
        ("cellIs", "between", ["2", "4"]),
        ("expression", None, ["$A1=0"]),
    ]


def test_an_exported_chart_without_series_is_repaired_for_other_programs() -> None:
    spaces = " ".join(f'xmlns:{prefix}="{uri}"' for prefix, uri in {"c": CHART, "a": TEXTS}.items())
    written = f"<c:chartSpace {spaces}><c:chart><c:plotArea><c:layout/><c:spPr/></c:plotArea></c:chart></c:chartSpace>"
    repaired = OrderRepair("chart", Allowance()).rewritten([written.encode()])
    chart = read_chart(ChartSpace.from_tree(fromstring(repaired)))
    assert isinstance(chart, BarChart)
    assert not chart.series


def test_empty_rows_without_attributes_are_dropped_from_an_import() -> None:
    remaining = [
        '<row r="2" ht="20" customHeight="1"></row>', '<row r="3" hidden="1"/>', '<row r="4" s="1" customFormat="1"/>',
        '<row r="5" outlineLevel="1"/>', '<row r="6"><c r="A6" s="1"/></row>',
    ]  # fmt: skip
    empty = '<row r="7" ht="12.8" customHeight="false" hidden="false"></row>'
    text = "<sheetData>" + "".join(remaining) + empty * 9 + "<row r='8'/>"
    assert (
        b"".join(without_empty_cells([text.encode()])).decode() == "<sheetData>" + "".join(remaining) + "<row r='8'/>"
    )


@pytest.mark.parametrize(
    ("first", "second", "cell"),
    [
        ('<row r="1"><c r="A1"/><c r="B1"/>', "<c><v>1</v></c></row>", "C1"),
        ('<row r="1"><c r="A1"/></row><row r="2"><c r="A2"/><c r="B2"></c></row>', "<row><c><v>1</v></c></row>", "A3"),
        ('<row r="1"/><row r="2"/>', "<row><c><v>1</v></c></row>", "A3"),
        ('<row r="1"><c r="A1"/></row><row r="2">', "<c><v>1</v></c></row>", "A2"),
    ],
)
def test_a_cell_without_a_position_follows_the_last_cell_of_the_previous_chunk(
    first: str, second: str, cell: str
) -> None:
    def filled(chunks: Iterable[bytes]) -> list[str]:
        names = WorkbookNames([], [], [], Findings())
        writer = SheetWriter("sheet1.xml", Allowance(), "S", CellContext(names, Findings()))
        text = writer.rewritten([f'<worksheet xmlns="{MAIN}">'.encode(), *chunks, b"</worksheet>"])
        return re.findall(r'<c r="([A-Z0-9]+)"><v>', text)

    chunks = [f"<sheetData>{first}".encode(), f"{second}</sheetData>".encode()]
    assert filled(chunks) == filled([b"".join(chunks)]) == [cell]


@pytest.mark.parametrize("text", ["1e999", "-1.5E+400", "-1e308", "5e-324", "NaN", "INF", "1_0e2", "abc", "=1+1"])
@pytest.mark.parametrize("properties", ["", '<workbookPr date1904="1"/>'])
def test_an_unreadable_number_is_imported_as_text_and_reported(sheets: Sheets, text: str, properties: str) -> None:
    rule = f'<dataValidations><dataValidation type="date" sqref="B1"><formula1>{text}</formula1></dataValidation>'
    cells = rows(f'<c r="A1" s="1"><v>{text}</v></c>', "<c><v> </v></c>") + f"{rule}</dataValidations>"
    body = package({"S": cells}, styles=FONTS, workbook=f"{properties}<sheets/>")
    sheet = opened(sheets, body)
    assert values(sheet, "A1", "B1") == [text, None]
    (finding,) = (each for each in sheet.files.import_report().findings if each.code == "number")
    assert [*finding.where] == ["S!A1"]


def test_an_empty_text_is_reported(sheets: Sheets) -> None:
    cells = ('<c r="A1" t="s"><v>0</v></c>', '<c r="B1" t="inlineStr"><is><t></t></is></c>', '<c r="C1"><v>1</v></c>')
    sheet = opened(sheets, package({"S": rows(*cells)}, strings="<si><t></t></si>"))
    (finding,) = sheet.files.import_report().findings
    assert (finding.code, [*finding.where]) == ("empty-text", ["S!A1", "S!B1"])


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        ("_x000G_", "_x000G_"),
        ("_x000G_x0041_", "_x000GA"),
        ("_x005F_x0041_ _x0001_", "_x0041_ \x01"),
        ("a_x000D_\nb", "a\r\nb"),
        ("007_x000D_", "007\r"),
        ("_x003D_1+1", "=1+1"),
        ("_xD83D__xDE00_ _xD83D_", "\U0001f600 \ufffd"),
    ],
)
@pytest.mark.parametrize("style", ["", ' s="3"'], ids=["general", "text"])
def test_escaped_characters_survive_an_import_and_an_export(sheets: Sheets, stored: str, text: str, style: str) -> None:
    cells = (f'<c r="A1"{style} t="s"><v>0</v></c>', f'<c r="B1"{style} t="inlineStr"><is><t>{stored}</t></is></c>')
    body = package({"S": rows(*cells)}, strings=f"<si><t>{stored}</t></si>", styles=FONTS)
    sheet = opened(sheets, body)
    assert values(sheet, "A1", "B1") == [text, text]
    again = sheets.import_file("acme", "again", sheet.export(), file_name="again.xlsx")
    assert values(again, "A1", "B1") == [text, text]


def test_a_text_like_a_formula_in_a_text_format_stays_a_text_with_its_font(sheets: Sheets) -> None:
    book = openpyxl.Workbook()
    book.active["A1"] = "=1+1"
    book.active["A1"].data_type = "s"
    book.active["A1"].number_format = "@"
    book.active["A1"].font = Font(b=True)
    sheet = opened(sheets, saved(book))
    assert values(sheet, "A1") == ["=1+1"]
    cell = reopened(sheet.export()).active["A1"]
    assert (cell.value, cell.data_type, cell.font.b) == ("=1+1", "s", True)


@pytest.mark.parametrize("code", ["@", r"\(@\)", '"a "@', "_(@_)", "* @", "0.00;-0.00;0;@"])
def test_texts_in_text_formats_with_literals_are_imported_unchanged(sheets: Sheets, code: str) -> None:
    book = openpyxl.Workbook()
    for cell, text in (("A1", "007"), ("B1", "63.0"), ("C1", "'tis"), ("D1", "=1")):
        book.active[cell] = text
        book.active[cell].data_type = "s"
        book.active[cell].number_format = code
    assert values(opened(sheets, saved(book)), "A1", "B1", "C1", "D1") == ["007", "63.0", "'tis", "=1"]


def test_a_text_of_a_csv_file_that_looks_like_an_escape_is_imported_unchanged(sheets: Sheets) -> None:
    sheet = sheets.import_file("acme", "csv", b'_x0041_,_x000G_,"a\r\nb"\n', file_name="texts.csv")
    assert values(sheet, "A1", "B1", "C1") == ["_x0041_", "_x000G_", "a\r\nb"]


def test_a_cell_with_a_missing_style_is_imported_with_its_value(sheets: Sheets) -> None:
    cells = ('<c r="A1" s="999"><v>1</v></c>', '<c r="B1" s="x"><v>2</v></c>')
    assert values(opened(sheets, package({"S": rows(*cells)}, styles=FONTS)), "A1", "B1") == [1, 2]


def test_a_validation_of_dates_may_have_formulas(sheets: Sheets) -> None:
    book = openpyxl.Workbook()
    for cell, operator, first, second in (
        ("A1", "between", "B1", "B2"), ("A2", "greaterThan", "TODAY()", None), ("A3", "between", "36161", "B2"),
        ("A4", "equal", "36161", None),
    ):  # fmt: skip
        rule = DataValidation(type="date", operator=operator, formula1=first, formula2=second)
        rule.add(cell)
        book.active.add_data_validation(rule)
    written = reopened(opened(sheets, saved(book)).export()).active
    assert [
        (str(rule.sqref), rule.type, rule.operator, rule.formula1, rule.formula2)
        for rule in written.data_validations.dataValidation
    ] == [
        ("A1", "date", "between", "B1", "B2"), ("A2", "date", "greaterThan", "TODAY()", None),
        ("A3", "date", "between", "36161", "B2"), ("A4", "date", "equal", "36161", None),
    ]  # fmt: skip


def test_a_top_10_rule_is_exported_with_the_type_of_the_schema(sheets: Sheets) -> None:
    book = openpyxl.Workbook()
    for number in range(1, 9):
        book.active.append([number])
    book.active.conditional_formatting.add(
        "A1:A8", Rule(type="top10", rank=3, dxf=DifferentialStyle(font=Font(b=True)))
    )
    (ranges,) = reopened(opened(sheets, saved(book)).export()).active.conditional_formatting
    assert [rule.type for rule in ranges.rules] == ["top10"]


def test_the_namespace_of_a_skipped_element_is_not_declared_by_the_next_element() -> None:
    skipped = '<extLst xmlns="urn:x"><ext><extLst xmlns="urn:y"/></ext></extLst>'
    text = f'<styleSheet xmlns="{MAIN}"><fonts>{skipped}<font/></fonts></styleSheet>'
    writer = StylesWriter("styles.xml", Allowance())
    assert writer.rewritten([text.encode()]).endswith("<fonts><font></font></fonts></styleSheet>")


def test_the_namespace_of_an_unknown_element_is_not_declared_by_its_string() -> None:
    text = f'<sst xmlns="{MAIN}"><si><t>a</t><x:mark xmlns:x="urn:x"/></si></sst>'
    written = StringsWriter("sharedStrings.xml", Allowance(), Findings()).rewritten([text.encode()])
    assert written.endswith('<si><t xml:space="preserve">a</t></si></sst>')


def test_an_extension_of_a_text_style_is_left_out_of_the_style_and_of_its_copy() -> None:
    extension = '<extLst><ext xmlns:x="urn:x"><x:mark/><xf/></ext></extLst>'
    style = f'<xf numFmtId="49" xmlns:y="urn:y" y:z="1"><alignment/>{extension}</xf>'
    text = f'<styleSheet xmlns="{MAIN}"><cellXfs count="1">{style}</cellXfs></styleSheet>'
    writer = StylesWriter("styles.xml", Allowance())
    written = writer.rewritten([text.encode()])
    assert re.findall("<xf .*?</xf>", written) == [
        f'<xf xmlns:y="urn:y" numFmtId="{number}" y:z="1"><alignment></alignment></xf>' for number in (49, 0)
    ]
    assert written.endswith("</xf></cellXfs></styleSheet>")
    assert (writer.count, writer.twins) == (1, {0: 1})


def test_a_subtotal_is_imported_as_a_subtotal(sheets: Sheets) -> None:
    cells = ('<c r="A1"><v>1</v></c>', '<c r="B1"><v>2</v></c>')
    subtotals = ('<c r="C1"><f>SUBTOTAL(9,A1:B1)</f><v>3</v></c>', '<c r="D1"><f>1+SUBTOTAL(109,A1:C1)</f><v>4</v></c>')
    sheet = opened(sheets, package({"S": rows(*cells, *subtotals)}))
    assert [sheet.get(cell).content for cell in ("C1", "D1")] == ["=SUBTOTAL(9,A1:B1)", "=1+SUBTOTAL(109,A1:C1)"]
    assert values(sheet, "C1", "D1") == [3, 4]
    assert not sheet.files.import_report().findings
    assert reopened(sheet.export()).active["D1"].value == "=1+SUBTOTAL(109,A1:C1)"

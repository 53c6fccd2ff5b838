"""Files that people have from other programs: each is imported, with its losses named, or refused with a next step."""

from __future__ import annotations

import io

import openpyxl
import pytest
from openpyxl.chart import LineChart, Reference
from openpyxl.formatting.rule import CellIsRule, FormulaRule
from openpyxl.styles import PatternFill
from openpyxl.workbook.defined_name import DefinedName
from openpyxl.worksheet.datavalidation import DataValidation

from apps.sheet.tests.helpers import revision
from apps.sheet.tests.packages import archive, link, package, related, rows
from apps.sheet.tests.test_losses import data, exported, text, where
from apps.sheet.tests.test_workbook_import import FONTS, codes, opened, saved, values
from stratalog import Invalid
from stratalog_sheet import Sheets
from stratalog_sheet.files import read_file
from stratalog_sheet.formulas import for_engine
from stratalog_sheet.limits import SHEET_XLSX_NAME_CHARACTERS_MAX
from stratalog_sheet.sheet_names import with_sheet_names
from stratalog_sheet.xlsx_import import read_workbook

pytestmark = pytest.mark.slow

SINGLE = rows('<c r="A1"><v>1</v></c>')
COMPOUND = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(504)
TYPES = "<Types xmlns='http://schemas.openxmlformats.org/package/2006/content-types'/>"
RED = PatternFill(bgColor="FF0000")


@pytest.mark.parametrize(
    ("name", "body", "kind"),
    [
        ("old.xls", COMPOUND, "a file of an older program"),
        ("old.csv", COMPOUND, "a file of an older program"),
        ("secret.xlsx", COMPOUND + "EncryptedPackage".encode("utf-16-le"), "a workbook with a password"),
        ("plan.ods", archive({"content.xml": "<document-content/>"}), "an OpenDocument file"),
        (
            "plan.xlsb",
            archive(
                {
                    "[Content_Types].xml": TYPES,
                    "_rels/.rels": related(link("w", "officeDocument", "xl/workbook.bin")),
                    "xl/workbook.bin": b"\x83\x01",
                }
            ),
            "a binary workbook",
        ),
    ],
)
def test_a_file_of_another_kind_is_refused_with_its_kind_and_the_next_step(name: str, body: bytes, kind: str) -> None:
    with pytest.raises(Invalid, match=f"^{kind}.* cannot be imported; save it as .xlsx"):
        read_file(name, body)


def test_a_workbook_with_macros_is_imported_without_the_macros_and_the_title_has_no_ending(sheets: Sheets) -> None:
    macros = link("m", "vbaProject", "vbaProject.bin")
    parts = related(link("s1", "worksheet", "worksheets/sheet1.xml") + macros)
    body = package({"S": SINGLE}, more={"xl/_rels/workbook.xml.rels": parts, "xl/vbaProject.bin": "x"})
    sheet = sheets.import_file("acme", "book", body, file_name="Budget.XLSM")
    assert (sheet.title, codes(sheet.files.import_report())) == ("Budget", {"macro": 1})


@pytest.mark.parametrize(
    ("element", "named"),
    [
        ('<workbookProtection lockStructure="1"/><sheets/>', {"protection": 1}),
        ('<sheets/><calcPr iterate="1" fullPrecision="0"/>', {"iteration": 1, "precision": 1}),
        ('<workbookProtection lockStructure="0"/><sheets/><calcPr iterate="0" fullPrecision="1"/>', {}),
    ],
)
def test_settings_of_a_workbook_that_the_engine_lacks_are_reported(element: str, named: dict[str, int]) -> None:
    assert codes(read_workbook(package({"S": SINGLE}, workbook=element)).report) == named


@pytest.mark.parametrize("state", ["hidden", "veryHidden"])
def test_a_workbook_whose_sheets_are_all_hidden_shows_the_first_one(sheets: Sheets, state: str) -> None:
    body = package({f'S" state="{state}': SINGLE, 'T" state="veryHidden': SINGLE})
    sheet = opened(sheets, body)
    report = codes(sheet.files.import_report())
    assert report == {"hidden": 1, "very-hidden": 1 + (state == "veryHidden")}
    assert [tab.sheet_state for tab in openpyxl.load_workbook(io.BytesIO(sheet.export()))] == ["visible", "hidden"]


@pytest.mark.parametrize("names", [("S", ""), ("S", "s")])
def test_sheets_without_names_of_their_own_are_refused_before_the_engine(names: tuple[str, str]) -> None:
    with pytest.raises(Invalid, match="a sheet of the workbook has no name, or the name of another sheet"):
        read_workbook(package(dict.fromkeys(names, SINGLE)))


def test_parts_of_unknown_kinds_are_reported_and_usual_parts_are_not() -> None:
    parts = related(link("a", "customProperty", "../own.bin") + link("b", "printerSettings", "../printer.bin"))
    report = read_workbook(package({"S": SINGLE}, more={"xl/worksheets/_rels/sheet1.xml.rels": parts})).report
    assert [(finding.code, finding.where) for finding in report.findings] == [("other-part", ["xl/own.bin"])]


def book_with_rules() -> openpyxl.Workbook:
    """Return a workbook with an apostrophe in the name of a tab, and with defined names in each kind of rule."""
    book = openpyxl.Workbook()
    plan, lists = book.active, book.create_sheet("My lists")
    plan.title = "it's"
    for row in range(1, 4):
        plan.cell(row, 1, row)
        lists.cell(row, 1, f"colour {row}")
    book.defined_names["Colours"] = DefinedName("Colours", attr_text="'My lists'!$A$1:$A$3")
    book.defined_names["Limit"] = DefinedName("Limit", attr_text="2")
    plan.conditional_formatting.add("A1:A3", FormulaRule(["'it''s'!A1>Limit"], fill=RED))
    plan.conditional_formatting.add("B1:B3", CellIsRule("greaterThan", ["Limit"], fill=RED))
    for cell, kind, formula in (("C1", "list", "Colours"), ("C2", "decimal", "Limit"), ("C3", "list", "INDIRECT(A1)")):
        rule = DataValidation(kind, operator="lessThan", formula1=formula)
        rule.add(cell)
        plan.add_data_validation(rule)
    plan["E1"] = "=SUM('it''s'!A1:A3)"
    chart = LineChart()
    chart.add_data(Reference(plan, min_col=1, min_row=1, max_row=3))
    plan.add_chart(chart, "H1")
    return book


def test_formulas_and_charts_refer_to_a_tab_whose_name_has_an_apostrophe(sheets: Sheets) -> None:
    sheet = opened(sheets, saved(book_with_rules()))
    assert where(sheet, "sheet-name") == ["it's"]
    assert values(sheet, "E1") == [6]
    written = exported(sheet)
    assert written.sheetnames == ["it’s", "My lists"]
    assert [series.val.numRef.f for series in written["it’s"]._charts[0].series] == ["'it’s'!A1:A3"]
    again = sheets.import_file("acme", "again", sheet.export())
    assert (values(again, "E1"), again.files.import_report().findings) == ([6], ())


@pytest.mark.parametrize(
    "before", ["", "T[Q1!]", "'it''s'!B1&\"'it''s'!A1\"", 'T[[#This Row],[a"b]]&"x"', "T[it''s]", "#REF!A1", "[1]S!A1"]
)
def test_only_the_names_of_sheets_are_changed_in_a_formula(before: str) -> None:
    changed = before.replace("'it''s'!B1", "'it’s'!B1")
    assert with_sheet_names(f"{before}+'it''s'!A1", {"it's": "it’s"}) == f"{changed}+'it’s'!A1"


def test_names_that_multiply_at_each_level_are_replaced_up_to_a_limited_length() -> None:
    defined = "".join(
        f'<definedName name="level_{level}">{"+".join([f"level_{level + 1}"] * 20)}</definedName>' for level in range(7)
    )
    names = f'<sheets/><definedNames>{defined}<definedName name="level_7">1+1</definedName></definedNames>'
    workbook = read_workbook(package({"S": rows('<c r="A1"><f>level_0</f></c>')}, workbook=names))
    assert codes(workbook.report).keys() == {"name"}
    assert len(workbook.files["xl/worksheets/sheet1.xml"]) < 4 * SHEET_XLSX_NAME_CHARACTERS_MAX


def test_rules_have_the_meaning_of_defined_names_and_other_lists_are_reported(sheets: Sheets) -> None:
    sheet = opened(sheets, saved(book_with_rules()))
    assert where(sheet, "validation") == ["it’s!C3"]
    written = exported(sheet).active
    formats = [
        (str(formatting.sqref), [rule.formula for rule in formatting.rules])
        for formatting in written.conditional_formatting
    ]
    assert formats == [("A1:A3", [["'it’s'!A1>2"]]), ("B1:B3", [["2"]])]
    rules = [(str(rule.sqref), rule.formula1) for rule in written.data_validations.dataValidation]
    assert rules == [("C1", "'My lists'!$A$1:$A$3"), ("C2", "2")]


def test_a_validation_without_a_formula_costs_no_other_rule(sheets: Sheets) -> None:
    rules = (
        '<dataValidations><dataValidation type="decimal" sqref="A1"/>'
        '<dataValidation type="date" operator="notEqual" sqref="A2"><formula1>5</formula1></dataValidation>'
        '<dataValidation type="list" sqref="A3"><formula1>"a,b"</formula1></dataValidation></dataValidations>'
    )
    sheet = opened(sheets, package({"S": SINGLE + rules}))
    assert (where(sheet, "validation"), codes(sheet.files.import_report())) == (["S!A1", "S!A2"], {"validation": 2})
    assert [rule.formula1 for rule in exported(sheet).active.data_validations.dataValidation] == ['"a,b"']


def test_a_chart_series_of_a_defined_name_has_its_range_or_is_reported() -> None:
    book = book_with_rules()
    series = book.active._charts[0].series
    for formula in ("'it''s'!Colours", "[0]!Colours", "'it''s'!Gone"):
        series.append(series[0].__copy__())
        series[-1].val = type(series[0].val)(numRef=type(series[0].val.numRef)(f=formula))
    workbook = read_workbook(saved(book))
    assert workbook.files["xl/charts/chart1.xml"].count("'My lists'!$A$1:$A$3") == 2
    assert codes(workbook.report)["chart-series"] == 1


def test_a_link_to_a_missing_sheet_is_left_out_and_reported(sheets: Sheets) -> None:
    links = '<hyperlinks><hyperlink ref="A1" location="T!A1"/><hyperlink ref="A2" location="Gone!A1"/></hyperlinks>'
    sheet = opened(sheets, package({"S": data(text("A1", "x"), text("A2", "y")) + links, "T": SINGLE}))
    assert where(sheet, "link") == ["S!A2"]
    assert exported(sheet)["S"]["A1"].hyperlink.location == "T!A1"
    sheet.append(revision(sheet, {"type": "DELETE_SHEET", "sheetId": "T", "sheetName": "T"}))
    body, report = sheet.files.export()
    assert [(finding.code, finding.where) for finding in report.findings] == [("link", ["S!A1"])]
    written = openpyxl.load_workbook(io.BytesIO(body)).active
    assert [(written[cell].value, written[cell].hyperlink) for cell in ("A1", "A2")] == [("x", None), ("y", None)]


def test_links_of_too_many_cells_are_reported_and_refuse_no_workbook(
    sheets: Sheets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stratalog_sheet.filled_cells.SHEET_XLSX_LINKS_MAX", 2)
    links = '<hyperlinks><hyperlink ref="A1:A3" location="S!A1"/></hyperlinks>'
    cells = data(*(text(f"A{row}", "x") for row in range(1, 4)))
    sheet = opened(sheets, package({"S": cells + links}))
    assert codes(sheet.files.import_report()) == {"many-ranges": 1}
    assert values(sheet, "A1", "A2", "A3") == ["x"] * 3


def test_an_export_quotes_names_of_sheets_that_look_like_numbers_or_references(sheets: Sheets) -> None:
    names = ("2024", "A1", "TRUE", "R1C1", "rc")
    total = "+".join(f"'{name}'!A1" for name in names)
    sheet = opened(
        sheets, package({"S": rows(f'<c r="A1"><f>{total}</f><v>5</v></c>'), **dict.fromkeys(names, SINGLE)})
    )
    assert values(sheet, "A1") == [5]
    assert exported(sheet)["S"]["A1"].value == f"={total}"


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ('"a""b"', 'a"b'), ('""""', '"'), ('"C:\\"&"x"', "C:\\x"), ('LEN("\\""")', 2), ('"a\\""b"&""', 'a\\"b'),
        ('SUBSTITUTE("a""b","""","x")', "axb"), ('"a\\b"', "a\\b"),
    ],
)  # fmt: skip
def test_a_text_of_a_formula_may_have_quotation_marks_and_backslashes(
    sheets: Sheets, formula: str, value: object
) -> None:
    sheet = opened(sheets, package({"S": rows(f"<c r='A1'><f>{formula.replace('&', '&amp;')}</f></c>")}))
    assert values(sheet, "A1") == [value]
    has_marks = '""' in formula or '\\"' in formula
    assert set(codes(sheet.files.import_report())) == ({"formula-text"} if has_marks else set())
    again = sheets.import_file("acme", "again", sheet.export())
    assert (values(again, "A1"), again.files.import_report().findings) == ([value], ())


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("-A1^2", "(-A1)^2"), ("2*-3^2^1", "2*(-3)^2^1"), ("1-2^2", "1-2^2"), ("2^-2^2", "2^(-2)^2"),
        ("10^-3*5", "10^(-3)*5"), ("6/ -A1%/2", "6/ (-A1%)/2"), ("2*-3/4", "2*-3/4"),
        ("2^+SUM(1,2)^2", "2^(+SUM(1,2))^2"),
        ("1/-3+4", "1/-3+4"), ('"/-3*4"', '"/-3*4"'),
        ("-2%^-1", "(-2%)^-1"), ("(-A1)^2", "(-A1)^2"), ("-SUM(-A1^2,3)^2", "(-SUM((-A1)^2,3))^2"),
        ('"-2^2"', '"-2^2"'), ("-'a b'!A1:B2 ^ 2", "(-'a b'!A1:B2) ^ 2"), ("-T[a]^2", "(-T[a])^2"),
        ("-", "-"), ("^-", "^-"), ("a!b!^-", "a!b!^-"),
    ],
)  # fmt: skip
def test_a_sign_before_a_power_has_parentheses_for_the_engine(formula: str, expected: str) -> None:
    assert for_engine(formula) == expected


@pytest.mark.parametrize(
    ("typed", "written", "value"),
    [
        ("=-A1^2", "=0-A1^2", -9), ("=-(A1^2)", "=0-A1^2", -9), ("=(-A1)^2", "=-A1^2", 9),
        ("=1--A1^2", "=1-(0-A1^2)", 10),
        ("=2*-A1^2", "=2*(0-A1^2)", -18), ("=--A1^2", "=-(0-A1^2)", 9), ("=A1-A1^2", "=A1-A1^2", -6),
        ("=-A1^2*2", "=0-A1^2*2", -18), ("=(-2*A1)^2", "=(0-2*A1)^2", 36), ("=12/-(A1*2)", "=12/(0-A1*2)", -2),
        ("=12/((-A1)*2)", "=12/((0-A1)*2)", -2), ("=2^((-A1)^2)", "=2^((0-A1)^2)", 512), ("=-A1*2", "=-A1*2", -6),
        ("=12/+(A1*2)", "=12/(A1*2)", 2), ("=(-4/A1%)%", "=(0-4/A1%)%", -4 / 0.03 / 100),
    ],
)  # fmt: skip
def test_a_sign_before_a_power_means_the_same_in_the_engine_and_in_a_file(
    sheets: Sheets, typed: str, written: str, value: int
) -> None:
    sheet = sheets.create("acme", "signs")
    sheet.set("A1", "3")
    sheet.set("B1", typed)
    sheet.set("C1", "=-^")
    assert (values(sheet, "B1"), exported(sheet).active["B1"].value) == ([value], written)
    again = sheets.import_file("acme", "again", sheet.export())
    assert (values(again, "B1"), codes(again.files.import_report())) == ([value], {})
    assert exported(again).active["B1"].value == written


def test_rules_keep_the_meaning_of_their_signs(sheets: Sheets) -> None:
    book = openpyxl.Workbook()
    formulas = ("-A1^2>1", "(-A1*2)^2>1", "-(A1^2)>1", "-(")
    for row, formula in enumerate(formulas, 1):
        book.active.conditional_formatting.add(f"A{row}", FormulaRule([formula], fill=RED))
        rule = DataValidation("custom", formula1=formula)
        rule.add(f"A{row}")
        book.active.add_data_validation(rule)
    written = exported(opened(sheets, saved(book))).active
    formats = [rule.formula[0] for formatting in written.conditional_formatting for rule in formatting.rules]
    validations = [rule.formula1 for rule in written.data_validations.dataValidation]
    assert formats == validations == ["-A1^2>1", "(0-A1*2)^2>1", "0-A1^2>1", "-("]


@pytest.mark.parametrize(("formula", "value"), [("10^-A1*5", 0.005), ("12/-A1/2", -2), ("2^-A1^2", 2**-6)])
def test_a_sign_after_a_power_or_a_quotient_means_the_same_in_the_engine_and_in_a_file(
    sheets: Sheets, formula: str, value: float
) -> None:
    sheet = opened(sheets, package({"S": rows('<c r="A1"><v>3</v></c>', f'<c r="B1"><f>{formula}</f></c>')}))
    assert (values(sheet, "B1"), exported(sheet).active["B1"].value) == ([value], f"={formula}")
    again = sheets.import_file("acme", "again", sheet.export())
    assert values(again, "B1") == [value]


@pytest.mark.parametrize(
    ("formula", "value"), [("={A1,2}", 3), ("=SUM({1+1,-2;3,4})", 7), ("=FILTER(A1:A3,A1:A3>1,A1:A3<4)", 3)]
)
def test_an_array_or_a_filter_that_a_file_lacks_is_exported_as_its_value(
    sheets: Sheets, formula: str, value: int
) -> None:
    sheet = sheets.create("acme", "arrays")
    sheet.set("A1", "3")
    sheet.set("B1", formula)
    sheet.set("E1", "=SUM({1,-2;3,4})")
    body, report = sheet.files.export()
    assert [(finding.code, finding.where) for finding in report.findings] == [("formula-function", ["Sheet1!B1"])]
    written = openpyxl.load_workbook(io.BytesIO(body)).active
    assert [written[cell].value for cell in ("B1", "E1")] == [value, "=SUM({1,-2;3,4})"]


def test_a_quotation_mark_in_an_array_of_a_file_costs_the_export_its_formula_and_no_value(sheets: Sheets) -> None:
    cells = rows('<c r=\'A1\'><f>INDEX({"a""b","c"},1,1)</f></c>')
    sheet = opened(sheets, package({"S": cells}))
    body, report = sheet.files.export()
    assert [(finding.code, finding.where) for finding in report.findings] == [("formula-function", ["S!A1"])]
    assert (values(sheet, "A1"), openpyxl.load_workbook(io.BytesIO(body)).active["A1"].value) == (['a"b'], 'a"b')


def test_a_boolean_and_an_error_in_a_text_format_stay_a_boolean_and_an_error(sheets: Sheets) -> None:
    cells = ('<c r="A1" s="3" t="b"><v>1</v></c>', '<c r="B1" s="3" t="e"><v>#N/A</v></c>')
    cells += ('<c r="C1" s="3"><f>1+1</f><v>2</v></c>',)
    sheet = opened(sheets, package({"S": rows(*cells)}, styles=FONTS))
    assert (values(sheet, "A1", "B1", "C1"), codes(sheet.files.import_report())) == ([True, "#N/A", 2], {})
    assert [exported(sheet).active[cell].data_type for cell in ("A1", "B1", "C1")] == ["b", "e", "f"]

"""Number formats of imported workbooks: how cells show dates, times and numbers, and the codes in exports.

The formats lose some details, such as colours, padding and fractions of seconds.
"""

from __future__ import annotations

import io
import zipfile
from datetime import UTC, datetime, timedelta

import openpyxl
import pytest

from apps.sheet.tests.packages import NO_VALUES
from stratalog_sheet import Sheets
from stratalog_sheet.number_formats import engine_code, file_code
from stratalog_sheet.xlsx_export import write_workbook
from stratalog_sheet.xlsx_markup import MAIN

DAY = datetime(2024, 3, 1, 14, 9, 36, tzinfo=UTC).replace(tzinfo=None)
HOURS = timedelta(hours=26, minutes=5)
SHOWN = [
    (DAY, "m/d/yyyy\\ h:mm", "3/1/2024 14:09", "m/d/yyyy\\ hh:mm"),
    (DAY, "[$-409]h:mm\\ AM/PM;@", "02:09 PM", "hh:mm\\ AM/PM"),
    (DAY, "[$-409]d\\-mmm\\-yy;@", "1-Mar-24", "d\\-mmm\\-yy"),
    (DAY, "[$-F800]dddd\\,\\ mmmm\\ dd\\,\\ yyyy", "Friday, March 01, 2024", "dddd\\,\\ mmmm\\ dd\\,\\ yyyy"),
    (DAY, "hh:mm:ss.000", "14:09:36", "hh:mm:ss"),
    (DAY, "d-mmm-yy", "1-Mar-24", "d-mmm-yy"),
    (DAY, "hhhh:mm", "14:09", "hh:mm"),
    (HOURS, "[h]:mm:ss", "26:05:00", "[h]\\:mm:ss"),
    (-1234.5, "#,##0.00;[RED]\\-#,##0.00", "-1,234.50", "#,##0.00;\\-#,##0.00"),
    (-1234.5, "#,##0_);[Red](#,##0)", "(1,235)", "#,##0;(#,##0)"),
    (-1234.5, '_(* #,##0.00_);_(* \\(#,##0.00\\);_(* "-"??_);_(@_)', "(1,234.50)", '#,##0.00;\\(#,##0.00\\);"-"##;@'),
    (1234.5, "0.00E+00", "1.23e+03", "0.00E+00"),
    (1234.5, "#,##0.00\\ [$€-407]", "1,234.50 €", "#,##0.00\\ [$€]"),
    (1234.5, "#,##0.00 €", "1,234.50 €", '#,##0.00 "€"'),
    (1234.5, "General", "1234.5", "General"),
]  # fmt: skip


def test_imported_number_formats_apply_to_cells_and_exports(sheets: Sheets) -> None:
    book = openpyxl.Workbook()
    for row, (value, code, *_) in enumerate(SHOWN, 1):
        book.active.cell(row, 1, value).number_format = code
    out = io.BytesIO()
    book.save(out)
    sheet = sheets.import_file("acme", "plan", out.getvalue(), file_name="plan.xlsx")
    assert sheet.files.import_report().findings == ()
    assert [sheet.get(f"A{row}").formatted for row in range(1, len(SHOWN) + 1)] == [shown for _, _, shown, _ in SHOWN]
    exported = openpyxl.load_workbook(io.BytesIO(sheet.export())).active
    codes = [exported.cell(row, 1).number_format for row in range(1, len(SHOWN) + 1)]
    assert codes == [code for *_, code in SHOWN]


def test_a_format_that_the_engine_does_not_know_is_reported(sheets: Sheets) -> None:
    book = openpyxl.Workbook()
    for row, code in enumerate(("# ?/?", "[mm]:ss", "0.00"), 1):
        book.active.cell(row, 1, 1.5).number_format = code
    out = io.BytesIO()
    book.save(out)
    sheet = sheets.import_file("acme", "plan", out.getvalue(), file_name="plan.xlsx")
    [lost] = sheet.files.import_report().findings
    assert (lost.code, lost.where) == ("number-format", ["# ?/?", "[mm]:ss"])


def test_the_axis_of_an_exported_chart_has_the_format_of_other_programs() -> None:
    spaces = 'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart"'
    parts = {
        "xl/styles.xml": f'<styleSheet xmlns="{MAIN}"/>',
        "xl/sharedStrings.xml": f'<sst xmlns="{MAIN}"/>',
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}"/>',
        "xl/charts/chart1.xml": f'<c:valAx {spaces}><c:numFmt formatCode="hhhh:mm&quot; h&quot;"/></c:valAx>',
    }
    files = [{"path": path, "content": content} for path, content in parts.items()]
    exported, _ = write_workbook({"files": files, "names": {}, "sheets": [], "values": NO_VALUES})
    chart = zipfile.ZipFile(io.BytesIO(exported)).read("xl/charts/chart1.xml").decode()
    assert "formatCode='[h]:mm\" h\"'" in chart


@pytest.mark.parametrize(
    "code", ["@", "(@)", "0;-0;;@", '"Ee"0', '0 "hhhh:"', "yyyy\\-mm\\-dd\\Thh:mm:ss", "[>=1000]0;0", "0\\ \\m"]
)
def test_a_code_with_the_same_meaning_in_the_engine_and_in_files_is_unchanged(code: str) -> None:
    assert file_code(engine_code(code)) == engine_code(code) == code

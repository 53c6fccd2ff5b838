"""Parts of the demo's workbook: headings, lines, cards and charts, as commands of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from itertools import count
from typing import Any

from stratalog_sheet.cells import parse_range

Commands = list[dict[str, Any]]
OVERVIEW = "sheet1"
MONTHS = ["Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec", "Jan", "Feb"]
COLUMNS = [chr(code) for code in range(ord("C"), ord("N") + 1)]
"""The letters of the columns of the months."""

INK, DEEP, TEAL, PALE, SAND, WARM, QUIET = "#1F2933", "#0F4C5C", "#2A7F8E", "#E3EFF1", "#FAF6EF", "#D9622B", "#7A8691"
MONEY, BILL, COUNT, PERCENT, DAY = "[$€]#,##0", "[$€]0.00", "#,##0", "0%", "d mmm"
SERIAL_ZERO = date(1899, 12, 30)
_numbers = count(1)


def new_sheet(sheet: str, name: str, position: int) -> Commands:
    return [
        {"type": "CREATE_SHEET", "sheetId": sheet, "name": name, "position": position, "cols": 20, "rows": 40},
        {"type": "COLOR_SHEET", "sheetId": sheet, "color": TEAL},
        {"type": "SET_GRID_LINES_VISIBILITY", "sheetId": sheet, "areGridLinesVisible": False},
    ]


def heading(sheet: str, banner: str, title: str, below: str) -> Commands:
    """A coloured row with a title, and a row of grey text below."""
    return [
        put(sheet, "B1", title),
        put(sheet, "B2", below),
        *widths(sheet, "ROW", {0: 52, 1: 26}),
        *style(sheet, banner, fillColor=DEEP, textColor="#FFFFFF", fontSize=18, bold=True, verticalAlign="middle"),
        *style(sheet, "B2", textColor=QUIET, italic=True, verticalAlign="middle"),
    ]


def months(sheet: str, title: str, below: str) -> Commands:
    """The layout of a sheet with a column for each month."""
    return [
        *heading(sheet, "A1:P1", title, below),
        *widths(sheet, "COL", {0: 28, 1: 160, **dict.fromkeys(range(2, 14), 74), 14: 92, 15: 28}),
        *(put(sheet, f"{column}4", month) for column, month in zip(COLUMNS, MONTHS, strict=True)),
        put(sheet, "O4", "Year"),
        *style(sheet, "B4:O4", bold=True, textColor=DEEP, fillColor=PALE),
        *style(sheet, "C4:O4", align="right"),
        {"type": "FREEZE_COLUMNS", "sheetId": sheet, "quantity": 2},
    ]


def line(sheet: str, row: int, label: str, values: Sequence[Any], number_format: str) -> Commands:
    return [
        put(sheet, f"B{row}", label),
        *(put(sheet, f"{column}{row}", str(value)) for column, value in zip(COLUMNS, values, strict=True)),
        *style(sheet, f"C{row}:O{row}", number_format=number_format),
        border(sheet, f"B{row}:O{row}", "bottom", "#E5E9EC"),
    ]


def total(sheet: str, row: int, formula: str, number_format: str = MONEY) -> Commands:
    return [
        put(sheet, f"O{row}", formula),
        *style(sheet, f"O{row}", number_format=number_format, bold=True, fillColor=SAND),
    ]


def sums(sheet: str, row: int, label: str, first: int, last: int) -> Commands:
    return [
        put(sheet, f"B{row}", label),
        *(put(sheet, f"{column}{row}", f"=SUM({column}{first}:{column}{last})") for column in [*COLUMNS, "O"]),
        *style(sheet, f"B{row}:O{row}", bold=True, textColor="#FFFFFF", fillColor=DEEP),
        *style(sheet, f"C{row}:O{row}", number_format=MONEY),
    ]


def card(left: str, label: str, formula: str, number_format: str) -> Commands:
    """A card: a number in a merged range of two columns and two rows, and a label in the row above."""
    right = chr(ord(left) + 1)
    zones = [f"{left}4:{right}4", f"{left}5:{right}6"]
    return [
        put(OVERVIEW, f"{left}4", label),
        put(OVERVIEW, f"{left}5", formula),
        {"type": "ADD_MERGE", "sheetId": OVERVIEW, "target": [zone(zones[1])]},
        *widths(OVERVIEW, "ROW", {2: 14, 3: 26, 6: 14, 7: 8}),
        *style(OVERVIEW, zones[0], fillColor=SAND, textColor=QUIET, verticalAlign="bottom"),
        *style(
            OVERVIEW,
            zones[1],
            fillColor=SAND,
            textColor=DEEP,
            number_format=number_format,
            fontSize=20,
            bold=True,
            align="left",
        ),
        border(OVERVIEW, f"{left}4:{right}6", "external", "#FFFFFF", "thick"),
    ]


def chart(name: str, column: int, row: int, ranges: list[str], labels: str) -> dict[str, Any]:
    sets = [{"dataRange": each, "dataSetId": str(number)} for number, each in enumerate(ranges)]
    definition = {
        "type": "bar",
        "title": {"text": "Income and costs", "bold": True, "color": DEEP},
        "dataSource": {"type": "range", "dataSets": sets, "dataSetsHaveTitle": True, "labelRange": labels},
        "dataSetStyles": {"0": {"backgroundColor": TEAL}, "1": {"backgroundColor": "#E9A178"}},
        "legendPosition": "top",
        "stacked": False,
        "humanize": True,
        "background": "#FFFFFF",
    }
    size = {"width": 512, "height": 322}
    where = {"sheetId": OVERVIEW, "col": column, "row": row, "offset": {"x": 18, "y": 0}, "size": size}
    return {"type": "CREATE_CHART", "figureId": f"figure-{name}", "chartId": name, **where, "definition": definition}


def serial(day: date) -> int:
    """Return the serial number of a day in a spreadsheet."""
    return (day - SERIAL_ZERO).days


def zone(name: str) -> dict[str, int]:
    (left, top), (right, bottom) = parse_range(name)
    return {"left": left, "top": top, "right": right, "bottom": bottom}


def put(sheet: str, cell: str, content: str) -> dict[str, Any]:
    column, row = parse_range(cell)[0]
    return {"type": "UPDATE_CELL", "sheetId": sheet, "col": column, "row": row, "content": content}


def style(sheet: str, cells: str, *, number_format: str = "", **styles: Any) -> Commands:
    command: dict[str, Any] = {"type": "SET_FORMATTING", "sheetId": sheet, "target": [zone(cells)]}
    if number_format:
        command["format"] = number_format
    return [{**command, "style": styles} if styles else command]


def border(sheet: str, cells: str, position: str, color: str, thickness: str = "thin") -> dict[str, Any]:
    of = {"position": position, "style": thickness, "color": color}
    return {"type": "SET_ZONE_BORDERS", "sheetId": sheet, "target": [zone(cells)], "border": of}


def widths(sheet: str, dimension: str, sizes: dict[int, int]) -> Commands:
    of = {"type": "RESIZE_COLUMNS_ROWS", "sheetId": sheet, "dimension": dimension}
    return [{**of, "elements": [element], "size": size} for element, size in sizes.items()]


def rule(sheet: str, cells: str, operator: str, value: str, **styles: Any) -> dict[str, Any]:
    """A conditional format. Cells whose value satisfies the condition get the styles."""
    return _format(sheet, cells, {"type": "CellIsRule", "operator": operator, "values": [value], "style": styles})


def bars(sheet: str, cells: str, color: str) -> dict[str, Any]:
    return _format(sheet, cells, {"type": "DataBarRule", "color": int(color[1:], 16)})


def _format(sheet: str, cells: str, of: dict[str, Any]) -> dict[str, Any]:
    ranges = [{"_sheetId": sheet, "_zone": zone(cells)}]
    cf = {"id": f"rule-{next(_numbers)}", "rule": of}
    return {"type": "ADD_CONDITIONAL_FORMAT", "sheetId": sheet, "cf": cf, "ranges": ranges}

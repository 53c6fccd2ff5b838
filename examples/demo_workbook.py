"""The workbook of the spreadsheet's demo: the first year of a café, planned by four people in three weeks.

Each step commits one version under its author's name. If the step names its version, it commits the name as one more
version. `demo_sheet.py` writes the workbook once. The times of its versions are spread over the past three weeks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

import msgspec
from sheet_parts import (
    BILL,
    COLUMNS,
    COUNT,
    DAY,
    DEEP,
    INK,
    MONEY,
    MONTHS,
    OVERVIEW,
    PALE,
    PERCENT,
    QUIET,
    SAND,
    TEAL,
    WARM,
    Commands,
    bars,
    border,
    card,
    chart,
    heading,
    line,
    months,
    new_sheet,
    put,
    rule,
    serial,
    style,
    sums,
    total,
    widths,
)

from stratalog import Conflict, NotFound
from stratalog.clock import SystemClock
from stratalog_sheet import Sheet, Sheets
from stratalog_sheet.cells import column_name

__all__ = ["PastClock", "build", "is_complete", "steps"]

TITLE = "Café Mirador · the first year"
ADA, BEN, CHIARA, DAN = "Ada Moreau", "Ben Okafor", "Chiara Ricci", "Dan Silva"
INCOME, COSTS, OPENING, TAKINGS = "income", "costs", "opening", "takings"
SPAN_MS = 21 * 24 * 3600 * 1000


class Step(msgspec.Struct, frozen=True):
    """One step: its author, its commands, and an optional name for the version that it commits."""

    author: str
    commands: Commands
    label: str = ""


class PastClock(SystemClock):
    """A clock that starts three weeks in the past. `build` moves it forward with each step."""

    def __init__(self) -> None:
        self.behind_ms = SPAN_MS

    def wall_ms(self) -> int:
        return super().wall_ms() - self.behind_ms


def build(sheets: Sheets, organisation: str, name: str, clock: PastClock | None = None) -> Sheet:
    """Write the workbook, or the rest of it after an interruption: one version for each step and for each label.

    Then save the snapshots that are due. `is_complete` must be false.
    """
    try:
        sheet = sheets.create(organisation, name, title=TITLE, author=ADA)
    except Conflict:
        sheet = sheets.open(organisation, name)
    written, version, revision = sheet.version, 1, sheet.load().base_revision
    planned = list(steps())
    for number, step in enumerate(planned, 1):
        if clock is not None:
            clock.behind_ms = SPAN_MS * (len(planned) - number) // len(planned)
        version += 1
        if written < version:
            message = {
                "type": "REMOTE_REVISION",
                "version": 1,
                "serverRevisionId": revision,
                "nextRevisionId": f"step-{number}",
                "clientId": step.author,
                "commands": step.commands,
            }
            sheet.append(message, author=step.author)
        revision = f"step-{number}"
        if step.label:
            version += 1
            if written < version:
                sheet.name_version(version - 1, step.label, author=step.author)
    while sheet.snapshot_due() is not None:
        pass
    return sheet


def is_complete(sheets: Sheets, organisation: str, name: str) -> bool:
    """Whether `build` has written all steps. A workbook that a user has edited is complete, too."""
    try:
        sheet = sheets.open(organisation, name)
    except NotFound:
        return False
    planned = list(steps())
    return sheet.version > len(planned) + sum(1 for step in planned if step.label)


def steps() -> Iterator[Step]:
    """Yield all steps, in order."""
    yield from income()
    yield from costs()
    yield from overview()
    yield from opening()
    yield from takings()
    yield from second_thoughts()


# The sheets


def income() -> Iterator[Step]:
    yield Step(ADA, [*new_sheet(INCOME, "Income", 1), *months(INCOME, "Income", "What guests pay")])
    guests = [58, 64, 75, 88, 96, 102, 90, 78, 66, 72, 54, 56]
    yield Step(ADA, [*line(INCOME, 5, "Guests a day", guests, COUNT), *total(INCOME, 5, "=AVERAGE(C5:N5)", COUNT)])
    open_days = [26, 25, 26, 25, 27, 27, 26, 26, 25, 24, 25, 24]
    yield Step(BEN, [*line(INCOME, 6, "Days open", open_days, COUNT), *total(INCOME, 6, "=SUM(C6:N6)", COUNT)])
    bills = [8.4, 8.4, 8.6, 8.9, 9.2, 9.2, 8.9, 8.8, 8.8, 9.4, 8.8, 8.8]
    yield Step(ADA, [*line(INCOME, 7, "Average bill", bills, BILL), *total(INCOME, 7, "=AVERAGE(C7:N7)", BILL)])
    for row, label, share in ((9, "Coffee and drinks", 0.46), (10, "Breakfast and lunch", 0.36), (11, "Cakes", 0.18)):
        formulas = [f"={column}5*{column}6*{column}7*{share}" for column in COLUMNS]
        yield Step(CHIARA, [*line(INCOME, row, label, formulas, MONEY), *total(INCOME, row, f"=SUM(C{row}:N{row})")])
    evenings = [0, 400, 600, 900, 1200, 1200, 900, 700, 800, 1900, 500, 600]
    yield Step(CHIARA, [*line(INCOME, 12, "Evenings", evenings, MONEY), *total(INCOME, 12, "=SUM(C12:N12)")])
    yield Step(ADA, sums(INCOME, 13, "Income", 9, 12))


def costs() -> Iterator[Step]:
    yield Step(BEN, [*new_sheet(COSTS, "Costs", 2), *months(COSTS, "Costs", "What leaves the till")])
    lines: list[tuple[str, Sequence[Any]]] = [
        ("Rent", [1900] * 12),
        ("Wages", [5200, 5200, 5900, 6800, 7400, 7400, 6800, 5900, 5400, 6100, 5200, 5200]),
        ("Beans, milk, flour", [f"=Income!{column}13*0.27" for column in COLUMNS]),
        ("Energy", [620, 560, 480, 430, 450, 450, 440, 520, 610, 690, 720, 700]),
        ("Insurance and fees", [310] * 12),
        ("Advertising", [900, 500, 300, 200, 200, 200, 300, 200, 200, 400, 150, 150]),
    ]
    for row, (label, values) in enumerate(lines, 5):
        who = (BEN, DAN)[row % 2]
        yield Step(who, [*line(COSTS, row, label, values, MONEY), *total(COSTS, row, f"=SUM(C{row}:N{row})")])
    yield Step(BEN, sums(COSTS, 11, "Costs", 5, 10))


def overview() -> Iterator[Step]:
    sheet = OVERVIEW
    yield Step(
        ADA,
        [
            {"type": "RENAME_SHEET", "sheetId": sheet, "oldName": "Sheet1", "newName": "Overview"},
            {"type": "COLOR_SHEET", "sheetId": sheet, "color": DEEP},
            {"type": "SET_GRID_LINES_VISIBILITY", "sheetId": sheet, "areGridLinesVisible": False},
            *widths(sheet, "COL", {0: 28, **dict.fromkeys(range(1, 11), 106), 11: 28}),
            *heading(sheet, "A1:L1", TITLE, "A plan by Ada, Ben, Chiara and Dan. Every step of it is in its history."),
        ],
        "First draft",
    )
    cards = [("B", "Income", "=Income!O13"), ("D", "Costs", "=Costs!O11"), ("F", "Result", "=B5-D5")]
    for left, label, formula in cards:
        yield Step(ADA, card(left, label, formula, MONEY))
    yield Step(DAN, card("H", "Cash at the end", "=F22", MONEY))
    head = ["Month", "Income", "Costs", "Result", "Cash"]
    yield Step(
        BEN,
        [
            *(put(sheet, f"{column}9", text) for column, text in zip("BCDEF", head, strict=True)),
            *style(sheet, "B9:F9", bold=True, textColor=DEEP, fillColor=PALE),
            *style(sheet, "C9:F9", align="right"),
            *(put(sheet, f"B{row}", month) for row, month in enumerate(MONTHS, 10)),
            border(sheet, "B10:F21", "h", "#E5E9EC"),
        ],
    )
    for name, column, rows in (("Income", "C", 13), ("Costs", "D", 11)):
        cells = [put(sheet, f"{column}{row}", f"={name}!{letter}{rows}") for row, letter in enumerate(COLUMNS, 10)]
        yield Step(BEN, [*cells, *style(sheet, f"{column}10:{column}21", number_format=MONEY)])
    yield Step(
        BEN,
        [
            *(put(sheet, f"E{row}", f"=C{row}-D{row}") for row in range(10, 22)),
            *style(sheet, "E10:E21", number_format=MONEY, bold=True),
            rule(sheet, "E10:E21", "isLessThan", "0", textColor=WARM),
        ],
    )
    yield Step(
        DAN,
        [
            put(sheet, "B24", "Cash on the first day"),
            put(sheet, "F24", "18000"),
            *(put(sheet, f"F{row}", f"={'$F$24' if row == 10 else f'F{row - 1}'}+E{row}") for row in range(10, 22)),
            *style(sheet, "F10:F24", number_format=MONEY),
            *style(sheet, "B24:F24", fillColor=SAND, textColor=INK),
            {**bars(sheet, "F10:F21", "#CFE3E6")},
        ],
    )
    yield Step(
        ADA,
        [
            put(sheet, "B22", "Year"),
            *(put(sheet, f"{column}22", f"=SUM({column}10:{column}21)") for column in "CDE"),
            put(sheet, "F22", "=F21"),
            *style(sheet, "B22:F22", bold=True, textColor="#FFFFFF", fillColor=DEEP),
            *style(sheet, "C22:F22", number_format=MONEY),
        ],
    )
    yield Step(CHIARA, [chart("months", 6, 8, ["Overview!C9:C21", "Overview!D9:D21"], "Overview!B9:B21")])


def opening() -> Iterator[Step]:
    sheet = OPENING
    weeks = [serial(date(2027, 1, 4)) + 7 * number for number in range(10)]
    letters = [column_name(number) for number in range(8, 18)]
    yield Step(
        CHIARA,
        [
            *new_sheet(sheet, "Until we open", 3),
            *heading(sheet, "A1:R1", "Until we open", "Monday, 1 March 2027"),
            *widths(sheet, "COL", {0: 28, 1: 190, 2: 90, **dict.fromkeys((3, 4, 5, 6), 72), 7: 84}),
            *widths(sheet, "COL", dict.fromkeys(range(8, 18), 46)),
            *(
                put(sheet, f"{column}4", text)
                for column, text in zip("BCDEFGH", ["Task", "Who", "Begins", "Days", "Ends", "Done", ""], strict=True)
            ),
            *(put(sheet, f"{letter}4", str(week)) for letter, week in zip(letters, weeks, strict=True)),
            *style(sheet, "B4:R4", bold=True, textColor=DEEP, fillColor=PALE),
            *style(sheet, "D4:R4", align="center"),
            *style(sheet, "I4:R4", number_format=DAY, fontSize=8),
            {"type": "FREEZE_COLUMNS", "sheetId": sheet, "quantity": 3},
        ],
    )
    tasks = [
        ("Sign the lease", "Ada", date(2027, 1, 4), 4, 1),
        ("Permits", "Ben", date(2027, 1, 6), 21, 0.8),
        ("Counter and benches", "Dan", date(2027, 1, 13), 24, 0.6),
        ("Espresso machine", "Chiara", date(2027, 1, 18), 10, 1),
        ("Paint and lamps", "Dan", date(2027, 2, 1), 9, 0.3),
        ("Hire two baristas", "Ada", date(2027, 1, 25), 18, 0.5),
        ("Menu and prices", "Chiara", date(2027, 2, 3), 8, 0.4),
        ("Till and cards", "Ben", date(2027, 2, 10), 5, 0),
        ("Friends’ evening", "all", date(2027, 2, 25), 1, 0),
        ("Doors open", "all", date(2027, 3, 1), 1, 0),
    ]
    for row, (task, who, start, days, done) in enumerate(tasks, 5):
        cells = {"B": task, "C": who, "D": str(serial(start)), "E": str(days), "F": f"=D{row}+E{row}-1", "G": str(done)}
        author = {"Ada": ADA, "Ben": BEN, "Dan": DAN}.get(who, CHIARA)
        marks = [f'=IF(AND($D{row}<={letter}$4+6,$F{row}>={letter}$4),1,"")' for letter in letters]
        yield Step(
            author,
            [
                *(put(sheet, f"{column}{row}", text) for column, text in cells.items()),
                put(sheet, f"H{row}", f'=IF(G{row}>=1,"done",IF(G{row}>0,"under way","to do"))'),
                *(put(sheet, f"{letter}{row}", mark) for letter, mark in zip(letters, marks, strict=True)),
                *style(sheet, f"D{row}", number_format=DAY, align="center"),
                *style(sheet, f"F{row}", number_format=DAY, align="center"),
                *style(sheet, f"E{row}", align="center"),
                *style(sheet, f"G{row}", number_format=PERCENT, align="center"),
                *style(sheet, f"H{row}", align="center", textColor=QUIET),
                *style(sheet, f"I{row}:R{row}", textColor="#FFFFFF"),
            ],
        )
    yield Step(
        CHIARA,
        [
            rule(sheet, "I5:R14", "isEqual", "1", fillColor=TEAL, textColor=TEAL),
            rule(sheet, "H5:H14", "isEqual", "done", textColor=TEAL, bold=True),
            rule(sheet, "H5:H14", "isEqual", "under way", textColor=WARM, bold=True),
            bars(sheet, "G5:G14", "#CFE3E6"),
            border(sheet, "B5:R14", "h", "#E5E9EC"),
        ],
    )


def takings() -> Iterator[Step]:
    sheet = TAKINGS
    head = ["Day", "Guests", "Taken", "Remark"]
    week = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
    yield Step(
        DAN,
        [
            *new_sheet(sheet, "A trial week", 4),
            *heading(sheet, "A1:G1", "A trial week", "Two simulated colleagues write here. The overview follows."),
            *widths(sheet, "COL", {0: 28, 1: 130, 2: 90, 3: 110, 4: 20, 5: 210, 6: 28}),
            *(put(sheet, f"{column}4", text) for column, text in zip("BCDF", head, strict=True)),
            *style(sheet, "B4:F4", bold=True, textColor=DEEP, fillColor=PALE),
            *(put(sheet, f"B{row}", day) for row, day in enumerate(week, 5)),
            *(put(sheet, f"C{row}", str(guests)) for row, guests in enumerate([41, 44, 52, 57, 71, 88, 80], 5)),
            put(sheet, "F7", "rain until noon"),
            put(sheet, "F10", "market day"),
            *(put(sheet, f"D{row}", f"=C{row}*Income!$C$7") for row in range(5, 12)),
            put(sheet, "B12", "Week"),
            put(sheet, "C12", "=SUM(C5:C11)"),
            put(sheet, "D12", "=SUM(D5:D11)"),
            *style(sheet, "C4:D12", align="right"),
            *style(sheet, "D5:D12", number_format=MONEY),
            *style(sheet, "B12:F12", bold=True, textColor="#FFFFFF", fillColor=DEEP),
            bars(sheet, "C5:C11", "#CFE3E6"),
            border(sheet, "B5:F11", "h", "#E5E9EC"),
        ],
    )
    yield Step(DAN, card("J", "Guests of the trial week", "='A trial week'!C12", COUNT), "As sent to the bank")


def second_thoughts() -> Iterator[Step]:
    """Yield the changes after the talk with the bank: a loan, a higher rent, fewer guests in summer."""
    lines = {"sheetId": COSTS, "sheetName": "Costs", "dimension": "ROW", "base": 10, "quantity": 1}
    yield Step(BEN, [{"type": "ADD_COLUMNS_ROWS", **lines, "position": "before"}])
    loan = [*line(COSTS, 11, "Loan", [420] * 12, MONEY), *total(COSTS, 11, "=SUM(C11:N11)")]
    sums_again = [put(COSTS, f"{column}12", f"=SUM({column}5:{column}11)") for column in [*COLUMNS, "O"]]
    look = [*style(COSTS, "B11:O11", textColor=INK, fillColor="#FFFFFF"), *style(COSTS, "B11:N11", bold=False)]
    yield Step(BEN, [*loan, *look, *style(COSTS, "O11", fillColor=SAND), *sums_again])
    yield Step(DAN, [put(COSTS, f"{column}5", "2050") for column in COLUMNS])
    yield Step(DAN, [put(OVERVIEW, "F24", "24000")])
    for column, guests in (("F", 84), ("G", 91), ("H", 95), ("L", 75)):
        yield Step(ADA, [put(INCOME, f"{column}5", str(guests))])
    evenings = zip(COLUMNS, [0, 500, 800, 1100, 1400, 1400, 1100, 900, 900, 2200, 700, 800], strict=True)
    yield Step(CHIARA, [put(INCOME, f"{column}12", str(value)) for column, value in evenings])
    yield Step(ADA, [put(OVERVIEW, "B2", "Agreed with the bank. Ada, Ben, Chiara and Dan.")], "Agreed with the bank")

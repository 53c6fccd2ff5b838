"""Scores one workbook: compares its cells, checks the reported losses, and exports the workbook.

The *other reader* below is openpyxl. The imported cells must have the values that openpyxl reads.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import msgspec
import openpyxl
from openpyxl.utils.datetime import CALENDAR_MAC_1904, to_excel

import stratalog
from stratalog import LimitExceeded, StratalogError
from stratalog_sheet import EnginePool, Sheet, Sheets
from stratalog_sheet.cells import cell_name
from stratalog_sheet.xlsx_rules import DAYS_FROM_1904

__all__ = ["UNWRITTEN", "Difference", "Score", "score_workbook"]

VOLATILE = re.compile(r"\b(NOW|TODAY|RAND|RANDBETWEEN|RANDARRAY|CELL|INFO)\s*\(", re.IGNORECASE)
ERRORS = ("#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!", "#SPILL!", "#CALC!")
ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
"""The escape of a character that XML does not allow."""

TOLERANCE = 1e-9
DAY_TOLERANCE = 1e-6
"""The other reader rounds times to microseconds."""

UNWRITTEN = "not written: "
"""The beginning of the reason why a limit refuses an export."""

CELLS_COMPARED_MAX = 50_000
DIFFERENCES_LISTED = 5


class Difference(msgspec.Struct, frozen=True):
    """A cell for which the other reader has another value."""

    cell: str
    here: str
    there: str
    formula: str = ""


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one workbook.

    ``outcome`` is equal, different, refused or unreadable. Refused means that the import or a query of a cell raised an
    error. Unreadable means that the other reader failed. In both cases ``reason`` is the text of the error.
    """

    name: str
    outcome: str
    cells: int = 0
    differences: int = 0
    examples: tuple[Difference, ...] = ()
    findings: tuple[str, ...] = ()
    """The codes in the import's report."""

    reported: bool = True
    """Whether the report has, for each difference, a finding that may explain the difference."""

    export: str = ""
    """The text of the error if the export cannot be written or opened; otherwise ""."""

    reason: str = ""


def score_workbook(path: Path, engines: EnginePool, exports: Path) -> Score:
    """Import a workbook, compare its cells, and write an export to ``exports``. Errors become a part of the score."""
    name = f"{path.parent.name}/{path.name}"
    body = path.read_bytes()
    with stratalog.open("memory:") as store:
        try:
            sheet = Sheets(store, engines).import_file("corpus", "book", body, file_name=path.name)
            findings = tuple(finding.code for finding in sheet.files.import_report().findings)
        except StratalogError as exc:
            return Score(name=name, outcome="refused", reason=str(exc))
        exported = _exported(sheet, exports / f"{path.stem}.xlsx")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                values = openpyxl.load_workbook(io.BytesIO(body), data_only=True)
                formulas = openpyxl.load_workbook(io.BytesIO(body))
        except Exception as exc:  # noqa: BLE001 - a workbook that the other reader cannot read is not compared
            reason = f"{type(exc).__name__}: {exc}"
            return Score(name=name, outcome="unreadable", findings=findings, export=exported, reason=reason[:200])
        try:
            cells, differences = _compared(sheet, values, formulas)
        except StratalogError as exc:
            return Score(name=name, outcome="refused", findings=findings, export=exported, reason=str(exc))
    reported = all(_is_reported(difference, findings) for difference in differences)
    return Score(
        name=name,
        outcome="different" if differences else "equal",
        cells=cells,
        differences=len(differences),
        examples=tuple(differences[:DIFFERENCES_LISTED]),
        findings=findings,
        reported=reported,
        export=exported,
    )


def _compared(sheet: Sheet, values: Any, formulas: Any) -> tuple[int, list[Difference]]:
    count, differences = 0, []
    listed = {entry["name"]: entry for entry in sheet.sheets()}
    for there in values.worksheets:
        entry = listed.get(there.title)
        if entry is None:
            differences.append(Difference(f"{there.title}!", "no sheet", "a sheet"))
            continue
        for cell, formula in _cells(there, formulas[there.title]):
            if formula and values.calculation.fullCalcOnLoad:
                continue  # The file asks its reader to recalculate, so the stored value may be old.
            if count == CELLS_COMPARED_MAX:
                return count, differences
            count += 1
            here = sheet._query(None, "cell", sheet=entry["id"], col=cell.column - 1, row=cell.row - 1)
            mine = None if here is None else here["value"]
            if not _is_same(mine, cell):
                where = f"{there.title}!{cell_name(cell.column - 1, cell.row - 1)}"
                differences.append(Difference(where, repr(mine)[:60], repr(cell.value)[:60], formula[:80]))
    return count, differences


def _cells(values: Any, formulas: Any) -> Iterator[tuple[Any, str]]:
    """Yield the cells that have a value, each with its formula. Omit cells with volatile formulas."""
    for position, cell in sorted(values._cells.items()):
        if cell.value is None:
            continue
        typed = formulas._cells.get(position)
        formula = ""
        if typed is not None and typed.data_type == "f":
            formula = str(getattr(typed.value, "text", typed.value))
        if not VOLATILE.search(formula):
            yield cell, formula


def _is_same(mine: Any, cell: Any) -> bool:
    """Return whether a value and its type equal the value and type of the other reader."""
    there = cell.value
    if cell.data_type == "e" or (isinstance(there, str) and there in ERRORS):
        return mine == there
    if isinstance(there, bool) or isinstance(mine, bool):
        return mine is there
    tolerance = TOLERANCE
    if isinstance(there, datetime | date | time | timedelta):
        if not isinstance(mine, int | float):
            return False
        if isinstance(there, time) and cell.parent.parent.epoch == CALENDAR_MAC_1904 and mine >= DAYS_FROM_1904:
            mine -= DAYS_FROM_1904  # The other reader gives the first day of this calendar as a time without a date.
        there, tolerance = to_excel(there), DAY_TOLERANCE
    if isinstance(there, int | float):
        is_number = isinstance(mine, int | float)
        return is_number and math.isclose(mine, there, rel_tol=tolerance, abs_tol=tolerance)
    return bool(mine == there) or (
        isinstance(mine, str) and _unescaped(_unescaped(mine)) == _unescaped(_unescaped(str(there)))
    )


def _unescaped(text: str) -> str:
    """Return a text without XML escapes. The other reader leaves some escapes, and decodes others twice."""
    return ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


def _is_reported(difference: Difference, findings: tuple[str, ...]) -> bool:
    """Return whether the report has a finding that may explain the difference."""
    return bool(findings) if difference.formula else bool(set(findings) - {"formula"})


def _exported(sheet: Sheet, path: Path) -> str:
    """Write the export and open it with the other reader. Return the text of an error, or ""."""
    try:
        body = sheet.export()
    except LimitExceeded as exc:
        return UNWRITTEN + str(exc)
    except StratalogError as exc:
        return str(exc)
    path.write_bytes(body)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            openpyxl.load_workbook(io.BytesIO(body))
    except Exception as exc:  # noqa: BLE001 - any failure to open is the result
        return f"{type(exc).__name__}: {exc}"[:200]
    return ""

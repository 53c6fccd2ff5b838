"""One workbook: its cells here and by another reader, what its report says of the differences, and its export."""

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
from openpyxl.utils.datetime import to_excel

import stratalog
from stratalog import StratalogError
from stratalog_sheet import EnginePool, Sheet, Sheets
from stratalog_sheet.cells import cell_name

__all__ = ["Difference", "Score", "score_workbook"]

VOLATILE = re.compile(r"\b(NOW|TODAY|RAND|RANDBETWEEN|RANDARRAY|CELL|INFO)\s*\(", re.IGNORECASE)
ERRORS = ("#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!", "#SPILL!", "#CALC!")
ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
"""A character that XML does not have."""

TOLERANCE = 1e-9
DAY_TOLERANCE = 1e-6
"""Another reader gives moments to the microsecond."""

CELLS_COMPARED_MAX = 50_000
DIFFERENCES_LISTED = 5


class Difference(msgspec.Struct, frozen=True):
    """A cell that another reader has otherwise."""

    cell: str
    here: str
    there: str
    formula: str = ""


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one workbook.

    outcome: equal, different, refused (by us, with an error that says why), unreadable (by the other reader).
    """

    name: str
    outcome: str
    cells: int = 0
    differences: int = 0
    examples: tuple[Difference, ...] = ()
    findings: tuple[str, ...] = ()
    """Codes of the import's report."""

    reported: bool = True
    """Whether the report has every difference."""

    export: str = ""
    """Why the export cannot be opened; empty where it can."""

    reason: str = ""


def score_workbook(path: Path, engines: EnginePool, exports: Path) -> Score:
    """Import a workbook, compare it, and write its export below ``exports``. Raises nothing of the workbook's."""
    name = f"{path.parent.name}/{path.name}"
    body = path.read_bytes()
    with stratalog.open("memory:") as store:
        try:
            sheet = Sheets(store, engines).import_file("corpus", "book", body, file_name=path.name)
        except StratalogError as exc:
            return Score(name=name, outcome="refused", reason=str(exc))
        findings = tuple(finding.code for finding in sheet.files.import_report().findings)
        exported = _exported(sheet, exports / f"{path.stem}.xlsx")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                values = openpyxl.load_workbook(io.BytesIO(body), data_only=True)
                formulas = openpyxl.load_workbook(io.BytesIO(body))
        except Exception as exc:  # noqa: BLE001 - whatever the other reader cannot read is not compared
            reason = f"{type(exc).__name__}: {exc}"
            return Score(name=name, outcome="unreadable", findings=findings, export=exported, reason=reason[:200])
        cells, differences = _compared(sheet, values, formulas)
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
                continue  # The file leaves what its formulas give to who opens it.
            count += 1
            if count > CELLS_COMPARED_MAX:
                return count, differences
            here = sheet._query(None, "cell", sheet=entry["id"], col=cell.column - 1, row=cell.row - 1)
            mine = None if here is None else here["value"]
            if not _is_same(mine, cell):
                where = f"{there.title}!{cell_name(cell.column - 1, cell.row - 1)}"
                differences.append(Difference(where, repr(mine)[:60], repr(cell.value)[:60], formula[:80]))
    return count, differences


def _cells(values: Any, formulas: Any) -> Iterator[tuple[Any, str]]:
    """The cells that hold something, each with its formula. Those whose value the file does not say are left out."""
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
    """Whether a value is the same in value and type."""
    there = cell.value
    if cell.data_type == "e" or (isinstance(there, str) and there in ERRORS):
        return mine == there
    if isinstance(there, bool) or isinstance(mine, bool):
        return mine is there
    tolerance = TOLERANCE
    if isinstance(there, datetime | date | time | timedelta):
        there, tolerance = to_excel(there), DAY_TOLERANCE
    if isinstance(there, int | float):
        is_number = isinstance(mine, int | float)
        return is_number and math.isclose(mine, there, rel_tol=tolerance, abs_tol=tolerance)
    return bool(mine == there) or (
        isinstance(mine, str) and _unescaped(_unescaped(mine)) == _unescaped(_unescaped(str(there)))
    )


def _unescaped(text: str) -> str:
    """A text without escapes, of which the other reader leaves some and undoes others twice."""
    return ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


def _is_reported(difference: Difference, findings: tuple[str, ...]) -> bool:
    """Whether the report has a loss of the kind that the difference is."""
    return bool(findings) if difference.formula else bool(set(findings) - {"formula"})


def _exported(sheet: Sheet, path: Path) -> str:
    """Write the export and open it; why that fails."""
    try:
        body = sheet.export()
    except StratalogError as exc:
        return str(exc)
    path.write_bytes(body)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            openpyxl.load_workbook(io.BytesIO(body))
    except Exception as exc:  # noqa: BLE001 - any failure to open is the answer
        return f"{type(exc).__name__}: {exc}"[:200]
    return ""

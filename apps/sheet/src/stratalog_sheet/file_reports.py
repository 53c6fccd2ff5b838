"""File reports: the features of a file that an import could not read or an export could not write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from stratalog.struct_types import resolved
from stratalog_sheet.cells import cell_name
from stratalog_sheet.limits import SHEET_REPORT_CELLS_MAX

__all__ = [
    "LAST_LINES",
    "FileFinding",
    "FileReport",
    "Findings",
    "broken_formulas",
    "formulas_as_values",
    "other_values",
    "report_in",
    "unread_formats",
]

LAST_LINES = "column XFD or row 1,048,576"
"""The last column and row that an .xlsx file can contain, in the texts of findings."""


class FileFinding(msgspec.Struct, frozen=True):
    """One kind of loss: a code for programs, a sentence for people, the count, and the positions."""

    code: str
    text: str
    count: int
    where: Sequence[str] = ()
    """The first `SHEET_REPORT_CELLS_MAX` positions: cells such as ``Sheet1!B7``, sheets, names, or parts of the file.

    A position is listed once, even if it has several findings of this kind.
    """


class FileReport(msgspec.Struct, frozen=True):
    """The findings of one import or export, one for each kind; empty if nothing was lost."""

    findings: Sequence[FileFinding] = ()

    def lines(self) -> list[str]:
        """Return a line of text for each finding."""
        return [_line(finding) for finding in self.findings]


class Findings:
    """Collects the findings of one file."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}
        self._where: dict[tuple[str, str], list[str]] = {}

    def add(self, code: str, text: str, where: str = "", count: int = 1) -> None:
        """Add ``count`` findings of one kind. Findings with one ``code`` and different texts are different kinds."""
        kind = code, text
        self._counts[kind] = self._counts.get(kind, 0) + count
        listed = self._where.setdefault(kind, [])
        if where and len(listed) < SHEET_REPORT_CELLS_MAX and where not in listed:
            listed.append(where)

    def report(self) -> FileReport:
        """Return the findings so far, in order of first occurrence."""
        return FileReport(
            [FileFinding(code, text, count, self._where[code, text]) for (code, text), count in self._counts.items()]
        )


def report_in(data: bytes) -> FileReport:
    """Decode a report from JSON. Empty ``data`` is an empty report: an entry without findings stores no report."""
    return msgspec.json.decode(data, type=resolved(FileReport)) if data else FileReport()


def broken_formulas(broken: Mapping[str, Any]) -> list[FileFinding]:
    """Return one finding for all formulas that the engine cannot read; an empty list if the engine reads all."""
    return _of_cells(broken, "formula", "formulas that the engine does not know are kept as they are")


def other_values(others: Mapping[str, Any]) -> list[FileFinding]:
    """Return one finding for all formulas whose value differs from the file's value; an empty list if none differs."""
    return _of_cells(others, "formula-value", "formulas give another value here than in the file")


def formulas_as_values(
    beyond: Mapping[str, Any], unknown: Mapping[str, Any], characters: Mapping[str, Any]
) -> list[FileFinding]:
    """Return the findings for formulas that an export has only as values.

    The formulas in ``beyond`` need cells that a file cannot contain. The formulas in ``unknown`` have functions that
    .xlsx lacks, and the formulas in ``characters`` have characters that no file can contain.
    """
    return [
        *_of_cells(beyond, "beyond-formulas", f"formulas that need cells after {LAST_LINES} are written as values"),
        *_of_cells(
            unknown, "formula-function", "formulas with functions or arrays that .xlsx lacks are written as values"
        ),
        *_of_cells(characters, "formula-character", "formulas with control characters are written as values"),
    ]


def unread_formats(unread: Sequence[str], codes: Mapping[str, str]) -> list[FileFinding]:
    """Return one finding for all number formats that the engine cannot read. ``codes`` has their codes in the file."""
    text = "number formats that the engine does not know are not kept; their cells show plain numbers"
    listed = [codes[code] for code in unread]
    return [FileFinding("number-format", text, len(listed), listed[:SHEET_REPORT_CELLS_MAX])] if listed else []


def _of_cells(counted: Mapping[str, Any], code: str, text: str) -> list[FileFinding]:
    if not counted["count"]:
        return []
    listed = [f"{cell['sheet']}!{cell_name(cell['col'], cell['row'])}" for cell in counted["cells"]]
    return [FileFinding(code, text, counted["count"], listed)]


def _line(finding: FileFinding) -> str:
    if finding.count == 1 and not finding.where:  # the finding is about the whole file
        return finding.text
    shown = ", ".join(finding.where[:5])
    more = ", …" if finding.count > len(finding.where[:5]) and shown else ""
    where = f": {shown}{more}" if shown else ""
    return f"{finding.text} ({finding.count}{where})"

"""Validations and thresholds of worksheets, with formulas that the engine reads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from xml.sax.saxutils import escape

import msgspec

from stratalog.errors import Invalid
from stratalog_sheet import losses
from stratalog_sheet.cells import parse_range
from stratalog_sheet.formulas import for_file, in_file
from stratalog_sheet.sheet_names import with_sheet_names
from stratalog_sheet.workbook_names import WorkbookNames
from stratalog_sheet.xlsx_markup import Attributes, attribute_text
from stratalog_sheet.xlsx_numbers import number_text, parse_number

__all__ = ["DAYS_FROM_1904", "FORMULAS", "RANGE", "Thresholds", "Validation", "first_cell", "threshold_of_file"]

DAYS_FROM_1904 = 1462
FORMULAS = ("formula1", "formula2")
WITH_FORMULA = ("decimal", "list", "date", "custom")
"""The types of validations that the engine reads. It fails on one without a formula."""

CELL = r"\$?[A-Za-z]{1,3}\$?[0-9]{1,7}"
RANGE = re.compile(
    rf"(?:(?:'(?:[^']|'')+'|[\w.]+)!)?(?:{CELL}(?::{CELL})?|\$?[A-Za-z]{{1,3}}:\$?[A-Za-z]{{1,3}}|\$?[0-9]+:\$?[0-9]+)"
)
"""A range. The engine reads any other formula of a list as the texts of the list."""

LIST = re.compile(r'"((?:[^"]|"")*)"')
MARK = "\ufdd0"
"""A quotation mark in the texts of a list. The engine would remove the mark, and `formulas.js` restores it."""


class Validation(msgspec.Struct):
    """A validation: its attributes, and the pieces of its formulas."""

    attributes: Attributes
    formulas: dict[str, list[str]] = {}

    def markup(self, names: WorkbookNames, sheet: str, *, is_1904: bool) -> str | None:
        """Return the validation for the engine; None if the engine cannot read it.

        In a workbook with dates from 1904, the dates become dates from 1900.
        """
        kind, cell = self.attributes.get("type", "none"), first_cell(self.attributes)
        raw = {name: "".join(pieces) for name, pieces in sorted(self.formulas.items()) if pieces}
        if kind == "list" and (listed := LIST.fullmatch(raw.get("formula1", "").strip())):
            items = listed[1].replace('""', MARK).split(",")
            texts = {"formula1": f'"{",".join(item.strip(" ") for item in items)}"'}  # as other programs show the items
        else:
            texts = {name: names.operand(text, sheet, cell) for name, text in raw.items()}
        first = texts.get("formula1", "")
        if kind in WITH_FORMULA and not first:
            return None
        if kind == "list" and not (first.startswith('"') or RANGE.fullmatch(first)):
            return None
        if is_1904 and kind == "date":
            texts = {name: _from_1900(text) for name, text in texts.items()}
        written = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in texts.items())
        return f"<dataValidation{attribute_text(self.attributes)}>{written}</dataValidation>"


class Thresholds:
    """The thresholds of colour scales, icon sets and data bars, and the formulas of other conditional formats."""

    def __init__(self, names: WorkbookNames, sheet: str) -> None:
        self._names = names
        self._sheet = sheet
        self._rule = ""
        self._count = 0

    def formula(self, text: str, ranges: Attributes) -> str:
        """Return a formula of a conditional format for the engine. ``ranges`` has the ranges of the format."""
        return self._names.operand(text, self._sheet, first_cell(ranges))

    def start(self, name: str, attributes: Attributes, ranges: Attributes) -> Iterator[tuple[str, str]]:
        """Begin an element. Rewrite a threshold that is a formula, and yield the loss of one that the engine drops.

        Excel also writes a formula as a threshold of the type ``num``. The engine moves the threshold with its cells
        only if it begins with "=".
        """
        if name in ("colorScale", "iconSet", "dataBar"):
            self._rule, self._count = name, 0
        if name != "cfvo":
            return
        self._count += 1
        kind, value = attributes.get("type", ""), attributes.get("val", "")
        is_end, is_number = kind in ("min", "max"), parse_number(value) is not None
        if self._rule == "dataBar" and not is_end:
            self._rule = ""  # one loss for both ends of a bar
            yield "data-bar", "data bars begin at zero and end at the largest value"
        elif self._rule == "iconSet" and self._count == 1:
            return  # the engine ignores the first threshold of an icon set
        elif is_end and self._rule == "iconSet":
            yield losses.CONDITIONAL_FORMATS
        elif kind == "formula" or (kind == "num" and not is_number):
            attributes |= {"type": "formula", "val": f"={self.formula(value.removeprefix('='), ranges)}"}
        elif not is_end and not is_number:
            yield losses.CONDITIONAL_FORMATS


def threshold_of_file(attributes: Attributes, names: Mapping[str, str]) -> Attributes:
    """Return the attributes of an exported threshold. `formulas.js` exports a formula as a number.

    ``names`` has the new names of renamed sheets.
    """
    if attributes["type"] != "num" or parse_number(attributes["val"]) is not None:
        return attributes
    return attributes | {"type": "formula", "val": for_file(with_sheet_names(in_file(attributes["val"]), names))}


def first_cell(ranges: Attributes) -> tuple[int, int]:
    """Return the first cell of the ranges of a rule, to which its relative references relate."""
    try:
        return parse_range(ranges.get("sqref", "").partition(" ")[0])[0]
    except Invalid:
        return 0, 0


def _from_1900(text: str) -> str:
    number = parse_number(text)
    return text if number is None else number_text(number + DAYS_FROM_1904)

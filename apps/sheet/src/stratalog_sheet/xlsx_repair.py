"""Repair of exported parts: the engine's worksheets and shared strings, changed so that other programs open them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any
from xml.sax.saxutils import escape

from stratalog_sheet.array_formulas import is_array
from stratalog_sheet.cells import column_name, column_number, parse_cell
from stratalog_sheet.file_reports import LAST_LINES, Findings
from stratalog_sheet.formulas import COLUMNS_MAX, ROWS_MAX, exceeds_file, for_file, in_file
from stratalog_sheet.sheet_names import NO_NAMES, link_location, with_sheet_names
from stratalog_sheet.xlsx_markup import MAIN, Allowance, Attributes, PartReader, PartWriter, attribute_text
from stratalog_sheet.xlsx_rules import threshold_of_file

__all__ = ["Literals", "OrderRepair", "SheetRepair"]

HOLE_MAX = 90
ROW_HEIGHT = 17.25
"""The height, in points, of a row that the engine writes without a height, or leaves out."""

RULE_OF_DATES = " date"
"""`bridge.js` exports a validation of dates as a validation of numbers, and adds this mark to its ranges."""

MISSING_SHEET = "#REF"
"""The engine's location of a link to a deleted sheet."""

LIST_CHARACTERS_MAX = 255
"""Excel refuses a file with a longer list of values in a validation."""

RANGES: Mapping[str, str] = {
    "mergeCell": "ref",
    "hyperlink": "ref",
    "conditionalFormatting": "sqref",
    "dataValidation": "sqref",
}
"""The elements of a worksheet that apply to ranges, each with the attribute that has its ranges."""

FORMULAS = ("formula", "formula1", "formula2")
"""The elements of a worksheet that have the formulas of conditional formats and validations."""

LISTS = ("mergeCells", "hyperlinks", "dataValidations", "tableParts")
"""The elements that Excel refuses if they are empty."""

DIGITS, LETTERS = "0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
ERRORS = ("#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!", "#SPILL!")
ORDER: Mapping[str, tuple[str, ...]] = {
    "worksheet": (
        "sheetPr", "dimension", "sheetViews", "sheetFormatPr", "cols", "sheetData", "sheetCalcPr", "sheetProtection",
        "autoFilter", "mergeCells", "conditionalFormatting", "dataValidations", "hyperlinks", "pageMargins", "drawing",
        "tableParts", "extLst",
    ),
    "c:pieChart": ("c:varyColors", "c:ser", "c:dLbls", "c:firstSliceAng"),
    "c:doughnutChart": ("c:varyColors", "c:ser", "c:dLbls", "c:firstSliceAng", "c:holeSize"),
    **dict.fromkeys(
        ("c:catAx", "c:valAx", "c:dateAx", "c:serAx"),
        (
            "c:axId", "c:scaling", "c:delete", "c:axPos", "c:majorGridlines", "c:minorGridlines", "c:title", "c:numFmt",
            "c:majorTickMark", "c:minorTickMark", "c:tickLblPos", "c:spPr", "c:txPr", "c:crossAx", "c:crosses",
            "c:crossesAt", "c:crossBetween", "c:auto", "c:majorUnit", "c:minorUnit", "c:dispUnits",
        ),
    ),
}  # fmt: skip


OPERATORS = (
    "lessThan", "lessThanOrEqual", "equal", "notEqual", "greaterThanOrEqual", "greaterThan", "between", "notBetween",
    "containsText", "notContains", "beginsWith", "endsWith",
)  # fmt: skip
"""The schema's operators of conditional formats. The engine also writes other operators; the repair removes them."""

EMPTY_CHART = (
    '<c:barChart><c:barDir val="col"/><c:grouping val="clustered"/><c:axId val="1"/><c:axId val="2"/></c:barChart>'
    '<c:catAx><c:axId val="1"/><c:scaling><c:orientation val="minMax"/></c:scaling><c:delete val="0"/>'
    '<c:axPos val="b"/><c:crossAx val="2"/></c:catAx>'
    '<c:valAx><c:axId val="2"/><c:scaling><c:orientation val="minMax"/></c:scaling><c:delete val="0"/>'
    '<c:axPos val="l"/><c:crossAx val="1"/></c:valAx>'
)
"""The content of a chart without series. Other programs refuse a plot area without a chart."""


class OrderRepair(PartWriter):
    """Sorts the children of some elements by the schema.

    Turns a doughnut chart without a hole into a pie chart, limits the size of a hole, and adds an empty chart to a plot
    area without a chart.
    """

    packs_pieces = False

    def __init__(self, part: str, allowance: Allowance) -> None:
        super().__init__(part, allowance)
        self._open: list[tuple[str, list[tuple[str, int]]]] = []
        self._doughnut = 0
        self._is_pie = False

    def start(self, name: str, attributes: Attributes) -> None:
        """Record where a child begins in the output."""
        if name == "c:doughnutChart":
            self._doughnut, self._is_pie = len(self._out), False
        elif name == "c:holeSize":
            size = int(attributes.get("val", "0"))
            self._is_pie = size < 1
            attributes = {"val": str(min(max(size, 1), HOLE_MAX))}
        if self._open:
            self._open[-1][1].append((name, len(self._out)))
        self._open.append((name, []))
        super().start(name, attributes)

    def discard(self) -> None:
        """Remove the element that has just ended from the output."""
        _, start = self._open[-1][1].pop()
        del self._out[start:]

    def end(self, name: str) -> None:
        """Sort the children of the element that ends."""
        closed, children = self._open.pop()
        assert closed == name, (closed, name)
        if not self.is_skipping:
            if name in ORDER:
                self._sort(ORDER[name], children)
            if name == "c:plotArea" and not any(child.endswith("Chart") for child, _ in children):
                self._out.insert(children[1][1] if len(children) > 1 else len(self._out), EMPTY_CHART)
            if name == "c:doughnutChart" and self._is_pie:
                # The schema's smallest hole is 1, so a chart without a hole needs another element.
                name = "c:pieChart"
                self._out[self._doughnut] = f"<{name}>"
                self._out = [piece for piece in self._out if not piece.startswith(("<c:holeSize", "</c:holeSize"))]
        super().end(name)

    def _sort(self, order: tuple[str, ...], children: list[tuple[str, int]]) -> None:
        ends = [start for _, start in children[1:]] + [len(self._out)]
        pieces = [(name, self._out[start:end]) for (name, start), end in zip(children, ends, strict=True)]
        if not pieces:
            return
        del self._out[children[0][1] :]
        rank = {name: number for number, name in enumerate(order)}
        for _, piece in sorted(pieces, key=lambda piece: rank.get(piece[0], len(rank))):
            self._out.extend(piece)


class Literals(PartReader):
    """The shared strings of an export. A caller can add strings."""

    def __init__(self, part: str, allowance: Allowance) -> None:
        super().__init__(part, allowance)
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}
        self._parts: list[str] = []
        self._is_text = False

    def start(self, name: str, attributes: Attributes) -> None:
        """Begin an element. Only the text of `t` counts."""
        self._is_text = name == "t"

    def end(self, name: str) -> None:
        """End an element. A string is complete at the end of `si`."""
        self._is_text = False
        if name == "si":
            self.texts.append("".join(self._parts))
            self._parts = []

    def text(self, text: str) -> None:
        """Collect a piece of the string."""
        if self._is_text:
            self._parts.append(text)

    def number(self, text: str) -> int:
        """Return the number of a string. Add the string unless an earlier call added it."""
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]

    def written(self) -> str:
        """Return the part with all strings."""
        listed = "".join(f'<si><t xml:space="preserve">{escape(text)}</t></si>' for text in self.texts)
        return f'<sst xmlns="{MAIN}" uniqueCount="{len(self.texts)}">{listed}</sst>'


class SheetRepair(OrderRepair):
    """Rewrites one worksheet with plain formulas and typed values, and without rules that other programs refuse.

    Leaves out the tables whose relationship ids are in ``missing``. ``names`` has the new names of renamed sheets.
    Rows have the ``height`` in points, unless they state another height.
    """

    def __init__(
        self, part: str, allowance: Allowance, sheet: str, strings: Literals, text_styles: Collection[int],
        findings: Findings, missing: Collection[str] = (), names: Mapping[str, str] = NO_NAMES,
        height: float = ROW_HEIGHT,
    ) -> None:  # fmt: skip
        super().__init__(part, allowance)
        self.validations = 0
        """The number of validations that the output has, or that are for columns that a file cannot contain."""

        self._sheet = sheet
        self._height = height
        self._row = 0
        self._strings = strings
        self._text_styles = text_styles
        self._missing = missing
        self._names = names
        self._findings = findings
        self._cell: dict[str, Any] | None = None
        self._text: list[str] | None = None
        self._is_rule = False
        self._has_long_list = False
        self._ranged = ("", "")
        self._beyond = ""

    def start(self, name: str, attributes: Attributes) -> None:
        """Begin an element. Collect a cell until its end. Restrict ranges to the columns of a file."""
        if name == "c":
            self._cell = {"c": attributes, "f": None, "v": None}
        elif self._cell is not None:
            self._text = []
            self._cell[f"{name} attributes"] = attributes
        elif name in LISTS:
            super().start(name, {})
        elif name in RANGES:
            if "location" in attributes:
                attributes = {**attributes, "location": link_location(attributes["location"], self._names)}
            if name == "dataValidation":
                self._is_rule, attributes = True, _of_dates(attributes)
                attributes = {key: value for key, value in attributes.items() if value}
            super().start(name, self._within_file(name, attributes))
        else:
            if name in FORMULAS:
                self._text = []
            if _is_beyond(name, attributes) or (name == "tablePart" and attributes["r:id"] in self._missing):
                self._beyond = name
            elif name == "cfvo":
                attributes = threshold_of_file(attributes, self._names)
                if exceeds_file(attributes.get("val", "")):
                    self._leave_out()
            elif name == "col":
                attributes |= {"max": str(min(int(attributes["max"]), COLUMNS_MAX))}
            elif name == "row":
                self._start_row(attributes)
            elif name == "sheetFormatPr" and self._height != ROW_HEIGHT:
                attributes |= {"defaultRowHeight": str(self._height), "customHeight": "1"}
            if name == "cfRule" and attributes.get("operator") not in OPERATORS:
                attributes.pop("operator", None)
            super().start(name, attributes)

    def text(self, text: str) -> None:
        """Collect the text of formulas and values."""
        if self._text is not None:
            self._text.append(text)
        elif self._cell is None and text.strip():
            super().text(text)

    def end(self, name: str) -> None:
        """End an element. Write a cell, count validations, and remove elements that a file cannot contain."""
        if self._cell is not None:
            if name == "c":
                cell, self._cell = self._cell, None
                self._write_cell(cell["c"], cell["f"], cell.get("f attributes", {}), cell["v"])
            else:
                self._cell[name] = "".join(self._text or [])
            self._text = None
            return
        if name in FORMULAS:
            text, self._text = for_file(with_sheet_names(in_file("".join(self._text or [])), self._names)), None
            super().text(text)
            super().end(name)
            self._has_long_list |= self._is_rule and text.startswith('"') and len(text) - 2 > LIST_CHARACTERS_MAX
            if exceeds_file(text):
                self._leave_out()
            return
        is_empty = name in LISTS and not self._open[-1][1]
        super().end(name)
        is_beyond, is_long = name == self._beyond, name == "dataValidation" and self._has_long_list
        # An import adds rows after the last row of a file, so an export has no row of which it states nothing.
        is_empty |= name == "row" and self._out[-2] == f'<row r="{self._row}">'
        if is_empty or is_beyond or is_long:
            self.discard()
        if is_beyond:
            self._beyond = ""
        if name == "dataValidation":
            self.validations += not is_long
            self._is_rule = self._has_long_list = False

    def _start_row(self, attributes: Attributes) -> None:
        """Begin a row. Its height, and the heights of the rows before it that the engine left out, are stated if other.

        The engine states the heights other than `ROW_HEIGHT`.
        """
        stated: Attributes = {"ht": str(ROW_HEIGHT), "customHeight": "1"}
        first, self._row = self._row + 1, int(attributes["r"])
        for row in range(first, self._row if self._height != ROW_HEIGHT else first):
            self.write(f'<row r="{row}"{attribute_text(stated)}></row>')
        height = float(attributes.pop("ht", ROW_HEIGHT))
        attributes.pop("customHeight", None)
        if height != self._height:
            attributes |= stated | {"ht": str(height)}

    def _within_file(self, name: str, attributes: Attributes) -> Attributes:
        """Return the attributes with the ranges that a file can contain. Report an element without such a range."""
        key = RANGES[name]
        self._ranged = name, attributes[key]
        ranges = " ".join(filter(None, map(_clipped, attributes[key].split())))
        if not ranges:
            self._leave_out()
        elif attributes.get("location") == MISSING_SHEET:
            self._beyond = name
            text = "links to missing sheets are left out; their cells keep the texts"
            self._findings.add("link", text, f"{self._sheet}!{ranges}")
        return attributes | {key: ranges or attributes[key]}

    def _leave_out(self) -> None:
        """Leave out the open element that applies to ranges, and report it."""
        if not self._beyond:
            self._beyond, ranges = self._ranged
            text = f"merges, links, formats and validations that need cells after {LAST_LINES} are left out"
            self._findings.add("beyond-ranges", text, f"{self._sheet}!{ranges}")

    def _write_cell(
        self, attributes: Attributes, formula: str | None, of_formula: Attributes, value: str | None
    ) -> None:
        column, row = parse_cell(attributes["r"])
        if column >= COLUMNS_MAX or row >= ROWS_MAX:
            if formula is not None or value is not None:
                text = f"cells after {LAST_LINES} are left out"
                self._findings.add("beyond", text, f"{self._sheet}!{attributes['r']}")
            return
        retained: Attributes = {name: attributes[name] for name in ("r", "s") if name in attributes}
        kind = attributes.get("t", "n")
        if formula is None:
            kind, value = self._literal(attributes, value)
            self._write(retained, kind, "", value)
        else:
            formula = for_file(with_sheet_names(formula, self._names))
            ref = of_formula.get("ref", retained["r"])
            array: Attributes = {}
            if ref != retained["r"] or is_array(formula):
                array = {"t": "array", "ref": ref}
                retained["cm"] = attributes.get("cm", "1")
            kind, value = _computed(kind, value)
            self._write(retained, kind, f"<f{attribute_text(array)}>{escape(formula)}</f>", value)

    def _literal(self, attributes: Attributes, value: str | None) -> tuple[str, str | None]:
        """Return the type and value of a cell without a formula. Remove the apostrophe before a typed text."""
        kind = attributes.get("t", "n")
        if kind != "s" or value is None or int(attributes.get("s", 0)) in self._text_styles:
            return kind, value
        text = self._strings.texts[int(value)]
        if text.startswith("="):  # the engine cannot read this formula, and Excel would refuse the formula, too
            where = f"{self._sheet}!{attributes['r']}"
            self._findings.add("formula", "formulas that the engine cannot read are exported as text", where)
        if text.startswith("'"):
            return "s", str(self._strings.number(text[1:]))
        return ("e", text) if text in ERRORS else ("s", value)

    def _write(self, attributes: Attributes, kind: str, formula: str, value: str | None) -> None:
        if kind != "n" and (formula or value is not None):
            attributes = {**attributes, "t": kind}
        shown = f"<v>{escape(value)}</v>" if value is not None else ""
        self.write(f"<c{attribute_text(attributes)}>{formula}{shown}</c>")


def _is_beyond(name: str, attributes: Attributes) -> bool:
    """Return whether an element describes only columns or a row that a file cannot contain."""
    if name == "col":
        return int(attributes["min"]) > COLUMNS_MAX
    return name == "row" and int(attributes["r"]) > ROWS_MAX


def _clipped(cells: str) -> str:
    """Return the part of a range that a file can contain; empty if there is none. A range of rows has no columns."""
    first, _, last = cells.partition(":")
    columns = [column_number(part.rstrip(DIGITS)) for part in (first, last or first)]
    if columns[1] < COLUMNS_MAX:
        return cells
    row = last.lstrip(LETTERS)
    return "" if columns[0] >= COLUMNS_MAX else f"{first}:{column_name(COLUMNS_MAX - 1)}{row}"


def _of_dates(attributes: Attributes) -> Attributes:
    """Return the attributes of a validation. Replace the mark of a validation of dates by its type."""
    if not attributes["sqref"].endswith(RULE_OF_DATES):
        return attributes
    return attributes | {"sqref": attributes["sqref"].removesuffix(RULE_OF_DATES), "type": "date"}


def _computed(kind: str, value: str | None) -> tuple[str, str | None]:
    """Return the type and value of a formula. The value is None for an error that workbooks lack, such as #CYCLE."""
    if kind == "b" and value is not None:
        return "b", "1" if value.lower() in ("true", "1") else "0"
    if kind == "str" and value is not None and value.startswith("#"):
        if value in ERRORS:
            return "e", value
        if re.fullmatch(r"#[A-Z_]+[!?]?", value):
            return "n", None
    return kind, value

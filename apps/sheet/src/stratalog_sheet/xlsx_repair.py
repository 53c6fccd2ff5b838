"""Repair of exported parts: the engine's worksheets, drawings and charts, changed so that other programs open them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any
from xml.sax.saxutils import escape

from stratalog_sheet.cells import parse_cell
from stratalog_sheet.file_reports import Findings
from stratalog_sheet.formulas import Token, tokens
from stratalog_sheet.xlsx_markup import MAIN, Allowance, Attributes, PartReader, PartWriter, attribute_text

__all__ = ["DrawingRepair", "Literals", "OrderRepair", "SheetRepair", "is_array"]

HOLE_MAX = 90
RULE_OF_DATES = " date"
"""`bridge.js` exports a validation of dates as a validation of numbers, and adds this mark to its ranges."""

LIST_CHARACTERS_MAX = 255
"""Excel refuses a file with a longer list of values in a validation."""

FILE_COLUMNS_MAX = 16_384
FILE_ROWS_MAX = 1_048_576
"""The largest sheet that an .xlsx file can contain. The engine's sheets can have more columns."""

ERRORS = ("#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!", "#SPILL!")
# Functions that take a range as one argument. Programs apply any other function to each cell of a range.
FUNCTIONS = """
ADDRESS AND AREAS AVEDEV AVERAGE AVERAGEA AVERAGEIF AVERAGEIFS CELL CHOOSECOLS CHOOSEROWS COLUMN COLUMNS CONCAT
CORREL COUNT COUNTA COUNTBLANK COUNTIF COUNTIFS COVAR DAVERAGE DCOUNT DCOUNTA DEVSQ DGET DMAX DMIN DPRODUCT DSUM
FORMULATEXT GCD GEOMEAN HARMEAN HLOOKUP INDEX INTERCEPT IRR ISFORMULA KURT LARGE LCM LOOKUP MATCH MAX MAXA MAXIFS
MEDIAN MIN MINA MINIFS MIRR MODE MULTINOMIAL NETWORKDAYS NPV OFFSET OR PEARSON PERCENTILE PERCENTRANK PRODUCT
QUARTILE RANK ROW ROWS RSQ SERIESSUM SHEET SKEW SLOPE SMALL STDEV STDEVA STDEVP STEYX SUBTOTAL SUM SUMIF SUMIFS
SUMPRODUCT SUMSQ SUMX2MY2 SUMX2PY2 SUMXMY2 TEXTJOIN TRIMMEAN VAR VARA VARP VLOOKUP WORKDAY XIRR XLOOKUP XMATCH XNPV
XOR AGGREGATE STDEV.P STDEV.S VAR.P VAR.S RANK.EQ RANK.AVG PERCENTILE.INC PERCENTILE.EXC QUARTILE.INC
"""
WITH_RANGES = frozenset(FUNCTIONS.split())
# Every program evaluates SUMPRODUCT over whole ranges, without an array formula.
ARRAYS_INSIDE = ("SUMPRODUCT",)
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
    """Rewrites one worksheet with plain formulas and typed values, and without rules that other programs refuse."""

    def __init__(
        self, part: str, allowance: Allowance, sheet: str, strings: Literals, text_styles: Collection[int],
        findings: Findings,
    ) -> None:  # fmt: skip
        super().__init__(part, allowance)
        self.validations = 0
        self._sheet = sheet
        self._strings = strings
        self._text_styles = text_styles
        self._findings = findings
        self._cell: dict[str, Any] | None = None
        self._text: list[str] | None = None
        self._rule: int | None = None
        self._has_long_list = False
        self._rules_start = 0
        self._line: int | None = None

    def start(self, name: str, attributes: Attributes) -> None:
        """Begin an element. Collect a cell until its end. Record the start of a validation."""
        if name == "c":
            self._cell = {"c": attributes, "f": None, "v": None}
        elif self._cell is not None:
            self._text = []
            self._cell[f"{name} attributes"] = attributes
        elif name == "dataValidations":
            self._rules_start, self.validations = len(self._out), 0
            super().start(name, {})
        elif name == "dataValidation":
            self._rule = len(self._out)
            if attributes["sqref"].endswith(RULE_OF_DATES):
                attributes |= {"sqref": attributes["sqref"].removesuffix(RULE_OF_DATES), "type": "date"}
            super().start(name, {key: value for key, value in attributes.items() if value})
        else:
            if name in ("formula1", "formula2"):
                self._text = []
            if _is_beyond(name, attributes):
                self._line = len(self._out)
            elif name == "col":
                attributes |= {"max": str(min(int(attributes["max"]), FILE_COLUMNS_MAX))}
            if name == "cfRule" and attributes.get("operator") not in OPERATORS:
                attributes.pop("operator", None)
            super().start(name, attributes)

    def text(self, text: str) -> None:
        """Collect the text of formulas and values."""
        if self._text is not None:
            self._text.append(text)
        if self._cell is None and text.strip():
            super().text(text)

    def end(self, name: str) -> None:
        """End an element. Write a cell; count or remove a validation."""
        if self._cell is not None:
            if name == "c":
                cell, self._cell = self._cell, None
                self._write_cell(cell["c"], cell["f"], cell.get("f attributes", {}), cell["v"])
            else:
                self._cell[name] = "".join(self._text or [])
            self._text = None
            return
        if name in ("formula1", "formula2") and self._rule is not None:
            text, self._text = "".join(self._text or []), None
            super().end(name)
            self._has_long_list |= text.startswith('"') and len(text) - 2 > LIST_CHARACTERS_MAX
            return
        super().end(name)
        if name in ("col", "row") and self._line is not None:
            del self._out[self._line :]
            self._open[-1][1].pop()
            self._line = None
        elif name == "dataValidation":
            self._end_rule()
        elif name == "dataValidations" and not self.validations:
            del self._out[self._rules_start :]
            self._open[-1][1].pop()

    def _end_rule(self) -> None:
        assert self._rule is not None
        if self._has_long_list:
            del self._out[self._rule :]
            self._open[-1][1].pop()
        else:
            self.validations += 1
        self._rule, self._has_long_list = None, False

    def _write_cell(
        self, attributes: Attributes, formula: str | None, of_formula: Attributes, value: str | None
    ) -> None:
        column, row = parse_cell(attributes["r"])
        if column >= FILE_COLUMNS_MAX or row >= FILE_ROWS_MAX:
            if formula is not None or value is not None:
                text = "cells after column XFD or row 1,048,576 are left out"
                self._findings.add("beyond", text, f"{self._sheet}!{attributes['r']}")
            return
        retained: Attributes = {name: attributes[name] for name in ("r", "s") if name in attributes}
        kind = attributes.get("t", "n")
        if formula is None:
            kind, value = self._literal(attributes, value)
            self._write(retained, kind, "", value)
        else:
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
        return int(attributes["min"]) > FILE_COLUMNS_MAX
    return name == "row" and int(attributes["r"]) > FILE_ROWS_MAX


class DrawingRepair(OrderRepair):
    """Rewrites a drawing without the figures whose ids are ``missing``. ``anchors`` counts the remaining figures."""

    def __init__(self, part: str, allowance: Allowance, missing: Collection[str]) -> None:
        super().__init__(part, allowance)
        self.anchors = 0
        self._missing = missing
        self._anchor: int | None = None
        self._is_missing = False

    def start(self, name: str, attributes: Attributes) -> None:
        """Record where a figure begins, and whether its content is missing."""
        if name.endswith("Anchor"):
            self._anchor, self._is_missing = len(self._out), False
        if self._missing & {attributes.get("r:embed"), attributes.get("r:id")}:  # type: ignore[operator]
            self._is_missing = True
        super().start(name, attributes)

    def end(self, name: str) -> None:
        """End an element. Remove a figure with missing content."""
        super().end(name)
        if name.endswith("Anchor") and self._anchor is not None:
            if self._is_missing:
                del self._out[self._anchor :]
            else:
                self.anchors += 1


def is_array(formula: str) -> bool:
    """Return whether a formula computes with each cell of a range, and so must be written as an array formula.

    In a plain formula, Excel applies an older rule, by which such a range means only one of its cells.
    """
    pieces = [token for token in tokens(formula) if token.kind != "space"]
    functions: list[str] = []
    for position, token in enumerate(pieces):
        if token.text in ("(", "{"):
            before = pieces[position - 1] if position else Token("other", "")
            functions.append(before.text.upper().removeprefix("_XLFN.") if before.kind == "name" else "")
        elif token.text in (")", "}") and functions:
            functions.pop()
        elif _is_range(pieces, position) and not any(name in ARRAYS_INSIDE for name in functions):
            is_argument = bool(functions) and functions[-1] in WITH_RANGES
            if not is_argument or _in_operation(pieces, position):
                return True
    return False


def _is_range(pieces: list[Token], position: int) -> bool:
    """Return whether a range, or a name that may mean a range, begins at ``position``."""
    token = pieces[position]
    follows = pieces[position + 1].text if position + 1 < len(pieces) else ""
    if token.kind in ("columns", "rows"):
        return True
    if token.kind == "cell":
        return follows == ":"
    return token.kind == "name" and follows not in ("(", "!") and not re.fullmatch("true|false", token.text, re.I)


def _in_operation(pieces: list[Token], position: int) -> bool:
    """Return whether the range that begins at ``position`` is an operand of an operator."""
    operators = ("+", "-", "*", "/", "^", "&", "=", "<", ">", "%")
    start, end = position - 1, position + 1
    while start > 0 and (pieces[start].text == "!" or pieces[start + 1].text == "!"):
        start -= 1
    if pieces[position].kind == "cell":
        end = position + 3
    before = pieces[start].text if start >= 0 else ""
    after = pieces[end].text if end < len(pieces) else ""
    return before in operators or after in operators


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

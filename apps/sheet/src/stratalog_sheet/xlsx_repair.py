"""Exported parts: worksheets, drawings and charts that the engine wrote, as the schema and other programs want them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any
from xml.sax.saxutils import escape

from stratalog_sheet.file_reports import Findings
from stratalog_sheet.formulas import Token, tokens
from stratalog_sheet.xlsx_markup import MAIN, Allowance, Attributes, PartReader, PartWriter, attribute_text

__all__ = ["DrawingRepair", "Literals", "OrderRepair", "SheetRepair", "is_array"]

HOLE_MAX = 90
LIST_CHARACTERS_MAX = 255
"""Longer lists of values in a validation, and Excel refuses the file."""

ERRORS = ("#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!", "#SPILL!")
# Functions to which a range is one argument. Where another one is given a range it counts for each of its cells.
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
# SUMPRODUCT computes with whole ranges, whoever reads the file.
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
"""Of conditional formats, as the schema has them; the engine names its rules so too."""

EMPTY_CHART = (
    '<c:barChart><c:barDir val="col"/><c:grouping val="clustered"/><c:axId val="1"/><c:axId val="2"/></c:barChart>'
    '<c:catAx><c:axId val="1"/><c:scaling><c:orientation val="minMax"/></c:scaling><c:delete val="0"/>'
    '<c:axPos val="b"/><c:crossAx val="2"/></c:catAx>'
    '<c:valAx><c:axId val="2"/><c:scaling><c:orientation val="minMax"/></c:scaling><c:delete val="0"/>'
    '<c:axPos val="l"/><c:crossAx val="1"/></c:valAx>'
)
"""What a chart without series is made of: other programs refuse one that is of no kind."""


class OrderRepair(PartWriter):
    """Puts the children of some elements into the order of the schema, and a pie without a hole into a pie."""

    def __init__(self, part: str, allowance: Allowance) -> None:
        super().__init__(part, allowance)
        self._open: list[tuple[str, list[tuple[str, int]]]] = []
        self._doughnut = 0
        self._is_pie = False

    def start(self, name: str, attributes: Attributes) -> None:
        """Note where a child begins."""
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
        """Sort the children of what ends."""
        closed, children = self._open.pop()
        assert closed == name, (closed, name)
        if not self.is_skipping:
            if name in ORDER:
                self._sort(ORDER[name], children)
            if name == "c:plotArea" and not any(child.endswith("Chart") for child, _ in children):
                self._out.insert(children[1][1] if len(children) > 1 else len(self._out), EMPTY_CHART)
            if name == "c:doughnutChart" and self._is_pie:
                # The smallest hole that the schema has is 1: what has none is another element.
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
    """The shared strings of an export, and those that are added to them."""

    def __init__(self, part: str, allowance: Allowance) -> None:
        super().__init__(part, allowance)
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}
        self._parts: list[str] = []
        self._is_text = False

    def start(self, name: str, attributes: Attributes) -> None:
        """A string begins."""
        self._is_text = name == "t"

    def end(self, name: str) -> None:
        """A string ends."""
        self._is_text = False
        if name == "si":
            self.texts.append("".join(self._parts))
            self._parts = []

    def text(self, text: str) -> None:
        """A piece of it."""
        if self._is_text:
            self._parts.append(text)

    def number(self, text: str) -> int:
        """The number of a string, which is added where it is new."""
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]

    def written(self) -> str:
        """The part with all strings."""
        listed = "".join(f'<si><t xml:space="preserve">{escape(text)}</t></si>' for text in self.texts)
        return f'<sst xmlns="{MAIN}" uniqueCount="{len(self.texts)}">{listed}</sst>'


class SheetRepair(OrderRepair):
    """Rewrites one worksheet: plain formulas, values of their type, and no rule that others refuse."""

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

    def start(self, name: str, attributes: Attributes) -> None:
        """Cells are held until they end; rules are counted."""
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
            super().start(name, {key: value for key, value in attributes.items() if value})
        else:
            if name in ("formula1", "formula2"):
                self._text = []
            if name == "cfRule" and attributes.get("operator") not in OPERATORS:
                attributes.pop("operator", None)
            super().start(name, attributes)

    def text(self, text: str) -> None:
        """Text of formulas and values is held."""
        if self._text is not None:
            self._text.append(text)
        if self._cell is None and text.strip():
            super().text(text)

    def end(self, name: str) -> None:
        """A cell or a rule is written when it ends."""
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
            self._has_long_list = text.startswith('"') and len(text) - 2 > LIST_CHARACTERS_MAX
            return
        super().end(name)
        if name == "dataValidation":
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
        """The type and value of a cell without a formula, without the apostrophe that says that it is a text."""
        kind = attributes.get("t", "n")
        if kind != "s" or value is None or int(attributes.get("s", 0)) in self._text_styles:
            return kind, value
        text = self._strings.texts[int(value)]
        if text.startswith("="):  # the engine writes a formula as text that it cannot read, and Excel could not, either
            where = f"{self._sheet}!{attributes['r']}"
            self._findings.add("formula", "formulas that cannot be read go out as text", where)
        if text.startswith("'"):
            return "s", str(self._strings.number(text[1:]))
        return ("e", text) if text in ERRORS else ("s", value)

    def _write(self, attributes: Attributes, kind: str, formula: str, value: str | None) -> None:
        if kind != "n" and (formula or value is not None):
            attributes = {**attributes, "t": kind}
        shown = f"<v>{escape(value)}</v>" if value is not None else ""
        self.write(f"<c{attribute_text(attributes)}>{formula}{shown}</c>")


class DrawingRepair(OrderRepair):
    """Rewrites a drawing without the figures whose ids are ``missing``. ``anchors`` counts those that stay."""

    def __init__(self, part: str, allowance: Allowance, missing: Collection[str]) -> None:
        super().__init__(part, allowance)
        self.anchors = 0
        self._missing = missing
        self._anchor: int | None = None
        self._is_missing = False

    def start(self, name: str, attributes: Attributes) -> None:
        """A figure begins, or says what it shows."""
        if name.endswith("Anchor"):
            self._anchor, self._is_missing = len(self._out), False
        if self._missing & {attributes.get("r:embed"), attributes.get("r:id")}:  # type: ignore[operator]
            self._is_missing = True
        super().start(name, attributes)

    def end(self, name: str) -> None:
        """A figure ends."""
        super().end(name)
        if name.endswith("Anchor") and self._anchor is not None:
            if self._is_missing:
                del self._out[self._anchor :]
            else:
                self.anchors += 1


def is_array(formula: str) -> bool:
    """Whether a formula computes with the single cells of a range, so that it has to be written as an array formula.

    A plain one would be read as if it meant one cell of that range, as formulas of Excel once did.
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
    """Whether a range, or a name that may be one, begins there."""
    token = pieces[position]
    follows = pieces[position + 1].text if position + 1 < len(pieces) else ""
    if token.kind in ("columns", "rows"):
        return True
    if token.kind == "cell":
        return follows == ":"
    return token.kind == "name" and follows not in ("(", "!") and not re.fullmatch("true|false", token.text, re.I)


def _in_operation(pieces: list[Token], position: int) -> bool:
    """Whether an operator takes the range that begins there."""
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
    """The type and value that a formula gave. An error that only the engine knows is left to who opens the file."""
    if kind == "b" and value is not None:
        return "b", "1" if value.lower() in ("true", "1") else "0"
    if kind == "str" and value is not None and value.startswith("#"):
        if value in ERRORS:
            return "e", value
        if re.fullmatch(r"#[A-Z_]+[!?]?", value):
            return "n", None
    return kind, value

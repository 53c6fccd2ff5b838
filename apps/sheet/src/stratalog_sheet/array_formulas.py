"""Array formulas of an export: formulas that compute with each cell of a range."""

from __future__ import annotations

import re

from stratalog_sheet.formulas import Token, tokens

__all__ = ["is_array"]

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

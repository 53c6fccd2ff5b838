"""Workbook names: defined names and tables. In formulas, this module replaces references to tables by plain ranges.

It replaces a defined name by the definition of the name. It does not replace a name that becomes a named range of the
engine, or a name whose definition depends on the cell or on the name itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from stratalog_sheet.cells import cell_name, column_name, parse_range
from stratalog_sheet.file_reports import Findings
from stratalog_sheet.formulas import Token, for_engine, quote_sheet, tokens, unquote_sheet
from stratalog_sheet.limits import SHEET_XLSX_NAME_CHARACTERS_MAX, SHEET_XLSX_NAME_DEPTH_MAX
from stratalog_sheet.sheet_names import NO_NAMES, with_sheet_names

__all__ = ["BRACKET", "DefinedName", "TableRange", "WorkbookNames"]

BRACKET = "\uf5d3"
"""This character replaces each opening bracket in the formulas of a workbook with tables, until the end of the import.

In such a workbook, the engine reads every bracket as a table reference, even in a text, and writes `[undefined]`.
"""

NEW_FUNCTION = re.compile(r"^(?:_xlfn\.|_xlws\.|_xlpm\.)+", re.IGNORECASE)
NEEDS_WORK = re.compile(r'\[|_xl|LOG10|SUBTOTAL|""|\\"', re.IGNORECASE)
EMPTY = '""'
MARKS = re.compile(r'(?<!\\)\\+(?="|\Z)|"')
# The engine reads LOG10 as a cell. LOG without a base means the same. The engine also imports `SUBTOTAL(9,` as `SUM(`,
# which includes other subtotals and hidden rows. It does not do so if a space follows the name, and later removes the
# space.
RENAMED = {"LOG10": "LOG", "SUBTOTAL": "SUBTOTAL "}
PART = re.compile(r"\s*(?:\[((?:[^\[\]']|'.)*)\]\s*|((?:[^\[\]',:]|'.?)*))([:,]?)", re.DOTALL)
"""A part of a table reference. Some programs write a column without its own brackets, as in ``[#This Row],price``.

No two ways to match a text exist: a reference may have thousands of spaces.
"""

RANGE = re.compile(
    r"(?P<sheet>'(?:[^']|'')+'|[^\W\d][\w.]*)!"
    r"(?P<range>\$[A-Z]{1,3}\$[0-9]+(?::\$[A-Z]{1,3}\$[0-9]+)?|\$[A-Z]{1,3}:\$[A-Z]{1,3})"
)
# The engine's syntax for a named range.
ENGINE_NAME = re.compile(r"[^\W_]?[\w.]+")
LIKE_A_CELL = re.compile(r"[A-Za-z]{1,3}[0-9]+|[A-Za-z]{1,3}|[0-9.]+|true|false", re.IGNORECASE)


class DefinedName(msgspec.Struct, frozen=True):
    """A defined name. ``scope`` is the only sheet in which the name is valid; empty for the whole workbook."""

    name: str
    text: str
    scope: str = ""


class TableRange(msgspec.Struct, frozen=True):
    """A table: its sheet and range, its columns, and the number of header rows and total rows in the range."""

    name: str
    sheet: str
    range: str
    columns: Sequence[str]
    headers: int = 1
    totals: int = 0


class WorkbookNames:
    """The names and tables of one workbook. ``ranges`` has the names that become the engine's named ranges."""

    def __init__(
        self,
        sheets: Sequence[str],
        names: Sequence[DefinedName],
        tables: Sequence[TableRange],
        findings: Findings,
        renamed: Mapping[str, str] = NO_NAMES,
    ) -> None:
        self.renamed = renamed
        """Maps a sheet's name in the file to its name for the engine, if the two differ."""

        self._sheets = {sheet.lower(): sheet for sheet in sheets}
        self._tables = {table.name.lower(): table for table in tables}
        self._findings = findings
        self._names: dict[tuple[str, str], str] = {}
        self.ranges: dict[str, str] = {}
        self._absolute: dict[str, str] = {}
        self._replaced = 0
        for name in names:
            self._add(name)

    def plain(self, formula: str, sheet: str, cell: tuple[int, int]) -> str:
        """Return the formula of a cell with table references, names and function prefixes translated for the engine."""
        self._replaced = 0
        formula = with_sheet_names(formula, self.renamed) if self.renamed else formula
        if self._names or NEEDS_WORK.search(formula):
            formula = self._translated(formula, sheet, cell, 0)
        return for_engine(formula)

    def operand(self, formula: str, sheet: str, cell: tuple[int, int]) -> str:
        """Return a formula of a rule. The engine reads a name alone as a text, so it becomes the range of the name."""
        plain = self.plain(formula.strip(), sheet, cell)
        return self._absolute.get(plain.lower(), plain)

    def sheet_of(self, reference: str) -> str | None:
        """Return the name for the engine of the sheet before the ``!`` of a reference; None if no sheet has it."""
        name = unquote_sheet(reference.rpartition("!")[0])
        return self._sheets.get(self.renamed.get(name, name).lower())

    def _add(self, name: DefinedName) -> None:
        if name.name.lower().startswith("_xlnm."):
            if not name.name.lower().endswith("_filterdatabase"):
                self._findings.add("print-setup", "print areas and titles are not kept", name.name)
            return
        text = with_sheet_names(name.text.removeprefix("="), self.renamed)
        match = RANGE.fullmatch(text)
        if match and not name.scope and unquote_sheet(match["sheet"]).lower() in self._sheets and _is_plain(name.name):
            sheet = self._sheets[unquote_sheet(match["sheet"]).lower()]
            self._absolute[name.name.lower()] = f"{quote_sheet(sheet)}!{match['range']}"
            self.ranges[name.name] = f"{quote_sheet(sheet)}!{match['range'].replace('$', '')}"
        elif text:
            self._names[name.scope.lower(), name.name.lower()] = text

    def _translated(self, formula: str, sheet: str, cell: tuple[int, int], depth: int) -> str:
        pieces = tokens(formula)
        out: list[str] = []
        position = 0
        while position < len(pieces):
            text, used = self._piece(pieces, position, sheet, cell, depth)
            out.append(text)
            position += used
        return "".join(out)

    def _piece(
        self, pieces: list[Token], position: int, sheet: str, cell: tuple[int, int], depth: int
    ) -> tuple[str, int]:
        """Return the text that replaces the pieces from ``position`` on, and the number of pieces replaced."""
        token = pieces[position]
        follows = pieces[position + 1] if position + 1 < len(pieces) else Token("other", "")
        if token.kind == "name" and follows.kind == "bracket":
            return self._reference(token.text, follows.text, sheet, cell) or token.text + self._as_read(follows.text), 2
        if token.kind == "bracket" and follows.kind != "name":
            own = self._table_at(sheet, cell)
            reference = self._reference(own, token.text, sheet, cell) if own else None
            return reference or self._as_read(token.text), 1
        if token.kind == "text":
            return self._text(token.text, f"{sheet}!{cell_name(*cell)}"), 1
        if token.kind == "name" and follows.text == "(":
            function = NEW_FUNCTION.sub("", token.text)
            return RENAMED.get(function.upper(), function), 1
        if token.kind in ("name", "quoted") and follows.text == "!":
            return self._on_sheet(pieces, position, cell, depth)
        if token.kind == "name":
            return self._named(token.text, sheet, sheet, cell, depth) or token.text, 1
        return token.text, 1

    def _text(self, text: str, where: str) -> str:
        """Return a text of a formula. The engine reads no quotation mark in a text, and no backslash at its end."""
        content, pieces, end = text[1:-1].replace('""', '"'), list[str](), 0
        for marks in MARKS.finditer(content):
            pieces += [f'"{content[end : marks.start()]}"', *(f"CHAR({ord(mark)})" for mark in marks[0])]
            end = marks.end()
        if not pieces:
            return self._as_read(text)
        reason = "quotation marks in texts of formulas become CHAR(34), and some backslashes CHAR(92)"
        self._findings.add("formula-text", reason, where)
        pieces = [piece for piece in [*pieces, f'"{content[end:]}"'] if piece != EMPTY]
        return self._as_read(pieces[0] if len(pieces) == 1 else f"({'&'.join(pieces)})")

    def _as_read(self, text: str) -> str:
        return text.replace("[", BRACKET) if self._tables else text

    def _on_sheet(self, pieces: list[Token], position: int, cell: tuple[int, int], depth: int) -> tuple[str, int]:
        scope = unquote_sheet(pieces[position].text)
        last = pieces[position + 2] if position + 2 < len(pieces) else Token("other", "")
        if last.kind == "name":
            text = self._named(last.text, scope, scope, cell, depth)
            if text is None and last.text.lower() in {name.lower() for name in self.ranges}:
                text = last.text
            if text is not None:
                return text, 3
        return pieces[position].text + "!", 2

    def _named(self, name: str, scope: str, sheet: str, cell: tuple[int, int], depth: int) -> str | None:
        text = self._names.get((scope.lower(), name.lower())) or self._names.get(("", name.lower()))
        if text is None:
            return None
        self._replaced += len(text)
        is_long = self._replaced > SHEET_XLSX_NAME_CHARACTERS_MAX
        if is_long or depth >= SHEET_XLSX_NAME_DEPTH_MAX or _is_relative(text):
            reason = "names that depend on their cell or on themselves, or that are too long, are not kept"
            self._findings.add("name", reason, name)
            return None
        inner = self._translated(text, sheet, cell, depth + 1)
        return inner if len(tokens(inner)) == 1 or RANGE.fullmatch(text) else f"({inner})"

    def _table_at(self, sheet: str, cell: tuple[int, int]) -> str:
        for table in self._tables.values():
            (left, top), (right, bottom) = parse_range(table.range)
            if table.sheet == sheet and left <= cell[0] <= right and top <= cell[1] <= bottom:
                return table.name
        return ""

    def _reference(self, name: str, bracket: str, sheet: str, cell: tuple[int, int]) -> str | None:
        """Return a table reference as a plain range; None if no table has that name.

        Return ``#REF!`` if the table lacks the rows or columns.
        """
        table = self._tables.get(name.lower())
        if table is None:
            return None
        parts = _parts(bracket[1:-1])
        rows = _rows(table, {part[0].lower() for part in parts if part[0].startswith("#")}, cell[1])
        columns = _columns(table, [part for part in parts if not part[0].startswith("#")])
        if rows is None or columns is None:
            return "#REF!"
        first, last = f"{column_name(columns[0])}{rows[0] + 1}", f"{column_name(columns[1])}{rows[1] + 1}"
        text = first if first == last else f"{first}:{last}"
        return text if table.sheet == sheet else f"{quote_sheet(table.sheet)}!{text}"


def _parts(inner: str) -> list[list[str]]:
    """Return the parts within the brackets. Each part is a keyword, a column, or a first and a last column."""
    inner = inner.strip()
    if inner.startswith("@"):
        return [["#This Row"], *_parts(inner[1:])]
    if not inner:
        return []
    if not inner.startswith("["):
        return [[_unescaped(inner)]]
    matches = [match for match in PART.finditer(inner) if match[1] is not None or match[2]]
    pieces = [(match[2].rstrip() if match[1] is None else match[1], match[3]) for match in matches]
    parts: list[list[str]] = []
    joins = False
    for text, after in pieces:
        if joins:
            parts[-1].append(_unescaped(text))
        else:
            parts.append([_unescaped(text)])
        joins = after == ":"
    return parts


def _unescaped(text: str) -> str:
    return text if text.startswith("#") else re.sub(r"'(.)", r"\1", text, flags=re.DOTALL)


def _rows(table: TableRange, keywords: set[str], row: int) -> tuple[int, int] | None:
    (_, top), (_, bottom) = parse_range(table.range)
    first, last = top + table.headers, bottom - table.totals
    areas = {
        "#all": (top, bottom),
        "#data": (first, last),
        "#headers": (top, top) if table.headers else None,
        "#totals": (bottom, bottom) if table.totals else None,
        "#this row": (row, row) if first <= row <= last else None,
    }
    wanted = [areas.get(keyword) for keyword in keywords] or [areas["#data"]]
    present = [area for area in wanted if area is not None]
    if len(present) < len(wanted):
        return None
    return min(area[0] for area in present), max(area[1] for area in present)


def _columns(table: TableRange, parts: list[list[str]]) -> tuple[int, int] | None:
    (left, _), (right, _) = parse_range(table.range)
    if not parts:
        return left, right
    known = [column.lower() for column in table.columns]
    wanted = [name.lower() for name in parts[0]]
    if len(parts) > 1 or not set(wanted) <= set(known):
        return None
    columns = [left + known.index(name) for name in wanted]
    return min(columns), max(columns)


def _is_plain(name: str) -> bool:
    return bool(ENGINE_NAME.fullmatch(name)) and not LIKE_A_CELL.fullmatch(name)


def _is_relative(text: str) -> bool:
    """Return whether a reference lacks one of its two ``$``, as in ``A1``, ``$A1`` or ``$A:B``."""
    return any(token.kind in ("cell", "columns", "rows") and token.text.count("$") < 2 for token in tokens(text))

"""Worksheets in the form that the engine reads.

A string has the form in which a user types it. A date is a number of days from 1900. Each cell of a shared formula has
the whole formula.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any
from xml.sax.saxutils import escape

import msgspec

from stratalog.codec import is_decimal
from stratalog.errors import Invalid, LimitExceeded
from stratalog_sheet import losses
from stratalog_sheet.array_ranges import ArrayRanges
from stratalog_sheet.cells import cell_name, parse_cell, parse_range
from stratalog_sheet.empty_cells import without_empty_cells
from stratalog_sheet.file_reports import Findings
from stratalog_sheet.filled_cells import FilledCells
from stratalog_sheet.formulas import quote_sheet, shift, without_single_ranges
from stratalog_sheet.workbook_names import WorkbookNames
from stratalog_sheet.xlsx_losses import HEADERS, worksheet_losses
from stratalog_sheet.xlsx_markup import Allowance, Attributes, PartWriter, attribute_text
from stratalog_sheet.xlsx_numbers import number_text, parse_number, typed_value
from stratalog_sheet.xlsx_rules import DAYS_FROM_1904, FORMULAS, Thresholds, Validation
from stratalog_sheet.xlsx_texts import as_typed, decoded, encoded, is_link

__all__ = ["CellContext", "SheetWriter"]

EPOCH = datetime(1899, 12, 30)  # noqa: DTZ001 - a serial number has no time zone
VOLATILE = re.compile(r"\b(?:NOW|TODAY|RAND|RANDBETWEEN|RANDARRAY|CELL|INFO)\s*\(", re.IGNORECASE)
"""Functions whose value may differ at each evaluation."""

SMALLEST, TOO_LARGE = 1e-307, 1e308
"""The engine reads a number other than 0 as a text if the number's absolute value is outside this range."""

KINDS = ("n", "b", "e", "s", "str", "inlineStr", "d")
"""The types of cells (ECMA-376 part 1, 18.18.11)."""

EMPTY_TEXT = ("empty-text", "empty texts become empty cells")


class CellContext(msgspec.Struct, frozen=True):
    """Parts of the workbook to which its cells refer: names, shared strings and styles.

    ``strings`` maps the index of a shared string to its text, for each string that the writer must copy into cells.
    """

    names: WorkbookNames
    findings: Findings
    strings: Mapping[int, str] = {}
    string_count: int = 0
    empty_strings: Collection[int] = ()
    date_styles: Collection[int] = ()
    text_styles: Collection[int] = ()
    number_styles: Mapping[int, int] = {}
    """Maps each text style to the style that a value, or a text that begins with "=", gets instead."""

    styles: int = 1
    is_1904: bool = False
    has_values: bool = True


class _Cell(msgspec.Struct):
    attributes: Attributes
    position: tuple[int, int]
    value: list[str] = []
    inline: list[str] = []
    formula: list[str] | None = None
    formula_attributes: Attributes = {}


class SheetWriter(PartWriter):
    """Rewrites one worksheet for the engine. ``cells`` counts the filled cells."""

    def __init__(self, part: str, allowance: Allowance, sheet: str, context: CellContext) -> None:
        super().__init__(part, allowance)
        self.cells = 0
        self._sheet = sheet
        self._context = context
        self._cell: _Cell | None = None
        self._target: list[str] | None = None
        self._row = -1
        self._column = -1
        self._shared: dict[str, tuple[str, tuple[int, int]]] = {}
        self._phonetic = 0
        self._ranges: Attributes = {}
        self._has_rule = False
        self._in_extension = False
        self._depth = 0
        self._in_header = False
        self._validation: Validation | None = None
        self._thresholds = Thresholds(context.names, sheet)
        self._filled = FilledCells()
        self._arrays = ArrayRanges()
        self._collected = 0
        self.values: list[tuple[int, int, Any]] = []
        """(column, row, value) for each cell that has a value in the file and a formula that is not volatile.

        The value comes from the file. The list also has each cell that has a value and no formula of its own, but is in
        the range of an array formula.
        """

    def rewritten(self, chunks: Iterable[bytes]) -> str:
        """Return the worksheet rewritten for the engine. Raises Invalid, LimitExceeded."""
        return super().rewritten(without_empty_cells(chunks))

    def start(self, name: str, attributes: Attributes) -> None:
        """Begin an element. The writer collects the content of a cell until the cell ends."""
        if self._cell is not None:
            self._start_in_cell(self._cell, name, attributes)
        elif self._validation is not None:
            self._collect(self._validation.formulas.setdefault(name, []) if name in FORMULAS else None)
        elif name == "c" and not self.is_skipping:
            self._start_cell(attributes)
        else:
            if name == "row" and not self.is_skipping:
                self._start_row(attributes)
            self._note(name, attributes)
            if name == "dataValidation" and not self.is_skipping:
                self._validation = Validation(attributes)
                return
            self._depth += 1
            if name == "mergeCell" and not self.is_skipping and not self._may_merge(attributes):
                self.skip()
            elif name == "hyperlink" and not self.is_skipping:
                self._start_link(attributes)
            else:
                super().start(name, attributes)
                if name == "formula" and not self.is_skipping:  # of a conditional format
                    self._collect([])

    def end(self, name: str) -> None:
        """End an element. If the element is a cell or a validation, write it."""
        collected, self._target = self._target, None
        if self._cell is not None:
            if name == "rPh":
                self._phonetic -= 1
            elif name == "c":
                cell, self._cell = self._cell, None
                self._write_cell(cell)
            return
        if self._validation is not None:
            if name == "dataValidation":
                markup = self._validation.markup(self._context.names, self._sheet, is_1904=self._context.is_1904)
                if markup is None:
                    self._context.findings.add(*losses.VALIDATIONS, self._range_of(name, self._validation.attributes))
                self.write(markup or "")
                self._validation = None
            return
        if collected is not None:
            super().text(self._thresholds.formula("".join(collected), self._ranges))
        self._depth -= 1
        self._in_header = False
        if name == "extLst":
            self._in_extension = False
        super().end(name)

    def text(self, text: str) -> None:
        """Collect the text of a value, formula or string, and write any other text."""
        if self._target is not None:
            self._collected += len(text)
            self.allowance.check(self._collected)
            self._target.append(text)
        elif self._cell is None and self._validation is None:
            if self._in_header and text.strip():
                self._context.findings.add(*losses.PRINT_SETUP, self._sheet)
                self._in_header = False
            super().text(text)

    def _collect(self, target: list[str] | None) -> None:
        self._target, self._collected = target, 0

    def _start_row(self, attributes: Attributes) -> None:
        self._row = int(attributes["r"]) - 1 if is_decimal(attributes.get("r", "")) else self._row + 1
        self._column = -1
        attributes["r"] = str(self._row + 1)

    def _start_cell(self, attributes: Attributes) -> None:
        try:
            position = parse_cell(attributes["r"]) if "r" in attributes else (self._column + 1, self._row)
        except Invalid as exc:
            raise Invalid("a workbook's cell has an invalid position", file=self.part, value=attributes["r"]) from exc
        self._column = position[0]
        self._cell = _Cell(attributes, position, [], [])
        self._collected = 0

    def _start_in_cell(self, cell: _Cell, name: str, attributes: Attributes) -> None:
        if name == "v":
            self._target = cell.value
        elif name == "f":
            self._target = cell.formula = []
            cell.formula_attributes = attributes
        elif name == "rPh":
            self._phonetic += 1
            self._context.findings.add(*losses.PHONETIC, self._position(cell))
        elif name == "t" and not self._phonetic:
            self._target = cell.inline
        elif name == "r":
            self._context.findings.add(*losses.RICH_TEXT, self._position(cell))

    def _write_cell(self, cell: _Cell) -> None:
        style = cell.attributes.get("s", "")
        if not (is_decimal(style) and int(style) < self._context.styles):
            cell.attributes.pop("s", None)
        formula = self._formula(cell)
        kind, value = self._value(cell, formula)
        self._note_value(cell, formula, kind, value)
        if formula is not None or (kind in ("", "b", "e") and value is not None):
            self._leave_text_style(cell)
        written = {"r": cell_name(*cell.position)}
        if "s" in cell.attributes:
            written["s"] = cell.attributes["s"]
        if formula is None and value is None:
            if written.get("s", "0") != "0":
                self.write(f"<c{attribute_text(written)}/>")
            return
        self.cells += 1
        self._filled.add(cell.position, has_formula=formula is not None)
        if kind:
            written["t"] = kind
        body = formula or ""
        if value is not None:
            body += f'<v xml:space="preserve">{escape(value)}</v>' if kind == "str" else f"<v>{escape(value)}</v>"
        self.write(f"<c{attribute_text(written)}>{body}</c>")

    def _style(self, cell: _Cell) -> int:
        return int(cell.attributes.get("s", "0"))

    def _leave_text_style(self, cell: _Cell) -> None:
        style = self._style(cell)
        if style in self._context.number_styles:
            cell.attributes["s"] = str(self._context.number_styles[style])

    def _text(self, cell: _Cell, text: str) -> str:
        """Return ``text`` in the form for the engine.

        In a text style, the engine reads a text that begins with "=" as a formula. So this method gives the cell
        another style.
        """
        if text.startswith("="):
            self._leave_text_style(cell)
        if is_link(text):
            self._context.findings.add("link-text", "texts such as [text](address) become links", self._position(cell))
        return encoded(as_typed(text, is_text=self._style(cell) in self._context.text_styles))

    def _value(self, cell: _Cell, formula: str | None) -> tuple[str, str | None]:
        """Return the type and content of a cell for the engine, which computes the values of formulas itself."""
        kind = cell.attributes.get("t", "n")
        text = "".join(cell.value)
        if kind == "inlineStr" or (kind == "str" and formula is None):
            text = decoded("".join(cell.inline) or text)
            if not text:
                self._context.findings.add(*EMPTY_TEXT, self._position(cell))
            return ("str", self._text(cell, text)) if text else ("", None)
        if not text:
            return "", None
        if kind == "s":
            if not is_decimal(text) or int(text) >= self._context.string_count:
                self._context.findings.add("string", "cells whose texts the file lacks are empty", self._position(cell))
                return "", None
            if int(text) in self._context.empty_strings:
                self._context.findings.add(*EMPTY_TEXT, self._position(cell))
                return "", None
            known = self._context.strings.get(int(text))
            return ("s", text) if known is None else ("str", self._text(cell, known))
        if kind == "d":
            return self._date(cell, text)
        if kind == "n" and formula is None:
            return self._numeric(cell, text)
        if kind == "b":
            return "b", "1" if text.strip().lower() in ("1", "true") else "0"
        if kind not in KINDS and formula is None:
            self._context.findings.add("cell-type", "cells of unknown types become texts", self._position(cell))
            return "str", self._text(cell, decoded(text))
        return ("" if kind == "n" else kind), text

    def _note_value(self, cell: _Cell, formula: str | None, kind: str, value: str | None) -> None:
        """Record the stored value of a formula or of another cell in the range of an array formula."""
        if value is None or not self._context.has_values:
            return
        if self._arrays.contain(cell.position) if formula is None else not VOLATILE.search(formula):
            self.values.append((*cell.position, typed_value(kind, value)))

    def _date(self, cell: _Cell, text: str) -> tuple[str, str | None]:
        try:
            at = datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=None)
        except ValueError:
            self._context.findings.add("date", "dates that cannot be read become texts", self._position(cell))
            return "str", as_typed(text)
        return "", number_text((at - EPOCH).total_seconds() / 86400)

    def _numeric(self, cell: _Cell, text: str) -> tuple[str, str | None]:
        if text.isspace():
            return "", None
        number = parse_number(text)
        if number is None or not (number == 0 or SMALLEST <= abs(number) < TOO_LARGE):
            self._context.findings.add("number", "numbers that cannot be read become texts", self._position(cell))
            return "str", self._text(cell, text)
        if self._context.is_1904 and self._style(cell) in self._context.date_styles:
            return "", number_text(number + DAYS_FROM_1904)
        return "", number_text(number) if "e" in text.lower() else text

    def _formula(self, cell: _Cell) -> str | None:
        """Return the element of a cell's formula; None if the cell has no formula that the engine can read."""
        if cell.formula is None:
            return None
        attributes, text = cell.formula_attributes, "".join(cell.formula).strip()
        kind, index = attributes.get("t", "normal"), attributes.get("si", "")
        if kind == "dataTable":
            self._context.findings.add("data-table", "data tables become values", self._position(cell))
            return None
        if kind == "shared" and text:
            self._shared[index] = (text, cell.position)
        elif kind == "shared" and index in self._shared:
            source, at = self._shared[index]
            text = shift(source, cell.position[0] - at[0], cell.position[1] - at[1])
        if not text:
            return None
        plain = without_single_ranges(self._context.names.plain(text, self._sheet, cell.position))
        written = {"t": "array", "ref": attributes["ref"]} if kind == "array" and "ref" in attributes else {}
        if written and ":" in written["ref"]:
            with suppress(Invalid):
                self._arrays.add(*parse_range(written["ref"]))
        return f"<f{attribute_text(written)}>{escape(plain)}</f>"

    def _note(self, name: str, attributes: Attributes) -> None:
        """Report features of the sheet that the engine drops. Remove an attribute that the engine would misread."""
        local = name.rpartition(":")[2]
        lost = worksheet_losses(local, attributes, self._depth, is_in_extension=self._in_extension)
        for loss in (*lost, *self._thresholds.start(name, attributes, self._ranges)):
            self._context.findings.add(*loss, self._range_of(local, attributes))
        self._in_header = local in HEADERS
        if name == "extLst":
            self._in_extension = True
        if name == "conditionalFormatting":
            self._ranges, self._has_rule = attributes, False
        elif name == "cfRule":
            self._note_rule(attributes)
        if local == "hyperlink":
            # The engine would show the text of `display` instead of the cell's content.
            attributes.pop("display", None)

    def _note_rule(self, attributes: Attributes) -> None:
        """Begin a new conditional format before each further rule: the engine reads only the first rule of a format."""
        if self._has_rule:
            self.write(f"</conditionalFormatting><conditionalFormatting{attribute_text(self._ranges)}>")
        self._has_rule = True

    def _range_of(self, local: str, attributes: Attributes) -> str:
        """Return where an element is for the report: the sheet, with the element's ranges or, for others, its name."""
        if local in ("cfRule", "cfvo", "iconSet"):
            attributes = self._ranges
        ranges = attributes.get("sqref") or (attributes.get("ref") if local == "hyperlink" else "")
        return f"{self._sheet}!{ranges}" if ranges else self._sheet

    def _may_merge(self, attributes: Attributes) -> bool:
        """Return whether to write a merge. Report a merge that the engine would not read without a loss."""
        cells, loss = attributes.get("ref", ""), losses.MERGES
        try:
            if self._filled.merge(cells):
                return True
        except LimitExceeded:
            loss = losses.MANY_RANGES
        except Invalid:
            pass
        self._context.findings.add(*loss, f"{self._sheet}!{cells}")
        return False

    def _start_link(self, attributes: Attributes) -> None:
        """Write a link once for each cell of its range: the engine reads no range, and only links of filled cells."""
        cells, written, has_lost = attributes.get("ref", ""), False, False
        sheet = self._context.names.sheet_of(attributes.get("location", ""))
        if sheet is not None:
            attributes["location"] = f"{quote_sheet(sheet)}!A1"
        try:
            for position, has_formula in self._filled.linked(cells) if sheet or "r:id" in attributes else ():
                if has_formula:
                    has_lost = True
                    continue
                written = True
                super().start("hyperlink", attributes | {"ref": cell_name(*position)})
                super().end("hyperlink")
        except LimitExceeded:
            self._context.findings.add(*losses.MANY_RANGES, f"{self._sheet}!{cells}")
            written = True
        except Invalid:
            pass
        if has_lost or not written:
            self._context.findings.add(*losses.LINKS, f"{self._sheet}!{cells}")
        self.skip()

    def _position(self, cell: _Cell) -> str:
        return f"{self._sheet}!{cell_name(*cell.position)}"

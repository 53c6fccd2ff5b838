"""Parts of workbooks other than worksheets: relationships, workbook, styles, shared strings, tables."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from xml.sax.saxutils import quoteattr

import msgspec

from stratalog.codec import is_decimal
from stratalog_sheet import losses
from stratalog_sheet.file_reports import Findings
from stratalog_sheet.workbook_names import DefinedName, TableRange
from stratalog_sheet.xlsx_archive import WorkbookArchive
from stratalog_sheet.xlsx_losses import HIDDEN, workbook_losses
from stratalog_sheet.xlsx_markup import Allowance, Attributes, PartReader, PartWriter, attribute_text
from stratalog_sheet.xlsx_texts import as_typed, decoded, encoded, is_link

__all__ = ["Relationship", "SheetEntry", "StringsWriter", "StylesWriter", "WorkbookPart", "relationships", "table_in"]

ADDED_FORMATS = 10_000
"""The id of a format that the writer adds in place of a built-in format is the built-in id plus this number."""

NO_FORMATS: Mapping[int, str] = {}
DATE_FORMATS = {*range(14, 18), 22, *range(27, 32), *range(34, 37), *range(50, 59)}
"""The ids of built-in formats that show a date in some language. In every language 32 and 33 show a time of day."""

TEXT_FORMAT = 49
TEXT_CODE = re.compile(r'(?:"[^"]*"|\\.|_.|\*.)*@(?:"[^"]*"|\\.|_.|\*.)*')
"""A number format that shows only the text of a cell (``@``), with or without literals before and after the text.

The engine keeps a text unchanged in a cell with such a format.
"""

LITERAL = re.compile(r'"[^"]*"|\\.|_.|\*.|\[(?!(?:h+|m+|s+)\])[^\]]*\]', re.IGNORECASE)
"""The parts of a number format that show no date or time, such as ``[Red]``. The hours ``[h]`` are no literal."""


class Relationship(msgspec.Struct, frozen=True):
    """A reference from one part to another by its path from the root, or to an external address."""

    id: str
    kind: str
    target: str
    is_external: bool


class SheetEntry(msgspec.Struct, frozen=True):
    """A sheet in the workbook's list: its name, the id of its relationship, and its visibility."""

    name: str
    relationship: str
    state: str


def relationships(archive: WorkbookArchive, part: str, allowance: Allowance) -> list[Relationship]:
    """Return the relationships of a part. For an empty name, return the relationships of the archive itself."""
    folder, _, file = part.rpartition("/")
    name = posixpath.join(folder, "_rels", f"{file}.rels")
    if name not in archive:
        return []
    reader = _Relationships(name, allowance)
    reader.read(archive.chunks(name))
    return [_relationship(folder, attributes) for attributes in reader.listed]


def table_in(archive: WorkbookArchive, part: str, sheet: str, allowance: Allowance) -> TableRange:
    """Return the table that a part describes. ``sheet`` is the name of its worksheet."""
    reader = _TableReader(part, allowance)
    reader.read(archive.chunks(part))
    table = reader.attributes
    return TableRange(
        table.get("displayName") or table.get("name", ""),
        sheet,
        table.get("ref", "A1"),
        reader.columns,
        _number(table.get("headerRowCount"), 1),
        _number(table.get("totalsRowCount"), 0),
    )


class WorkbookPart(PartReader):
    """Reads the workbook part: its sheets in order, its defined names, and whether its dates count from 1904."""

    def __init__(self, part: str, allowance: Allowance, findings: Findings) -> None:
        super().__init__(part, allowance)
        self._findings = findings
        self.sheets: list[SheetEntry] = []
        self.is_1904 = False
        self.has_values = True
        """False if the file asks its reader to compute all formulas (``fullCalcOnLoad``). Then it may lack values."""

        self._names: list[tuple[Attributes, list[str]]] = []
        self._is_in_name = False

    def start(self, name: str, attributes: Attributes) -> None:
        """Record sheets, settings and the attributes of names."""
        self._is_in_name = name == "definedName"
        for loss, where in workbook_losses(name, attributes):
            self._findings.add(*loss, where)
        if name == "sheet":
            state = "hidden" if attributes.get("state") in HIDDEN else "visible"
            self.sheets.append(SheetEntry(attributes.get("name", ""), attributes.get("r:id", ""), state))
        elif name == "workbookPr":
            self.is_1904 = attributes.get("date1904") in ("1", "true", "on")
        elif name == "calcPr":
            self.has_values = attributes.get("fullCalcOnLoad", "0") in ("0", "false", "off")
        elif self._is_in_name:
            self._names.append((attributes, []))

    def end(self, name: str) -> None:
        """Stop recording text: a defined name contains no elements, so every end of an element ends it."""
        self._is_in_name = False

    def text(self, text: str) -> None:
        """Record the text of a defined name: its formula."""
        if self._is_in_name:
            self.allowance.text(text)
            self._names[-1][1].append(text)

    def names(self) -> list[DefinedName]:
        """Return the names that formulas may use. Report and leave out the names of macros.

        Also leave out names whose sheet is missing.
        """
        names = []
        for attributes, texts in self._names:
            name, scope = attributes.get("name", ""), attributes.get("localSheetId", "")
            if {"function", "vbProcedure", "xlm"} & {
                key for key, value in attributes.items() if value in ("1", "true")
            }:
                self._findings.add(*losses.MACROS, name)
                continue
            sheet = int(scope) if is_decimal(scope) else None
            if sheet is not None and sheet >= len(self.sheets):
                continue
            names.append(DefinedName(name, "".join(texts), "" if sheet is None else self.sheets[sheet].name))
        return names


class StylesWriter(PartWriter):
    """Rewrites the styles, and finds the styles that show dates or texts.

    ``converted`` gets a code of a number format and returns the code to write. ``built_in`` maps ids of built-in
    formats to codes. If the file has no code for such an id, the writer adds a format with this code and uses the added
    format.
    """

    def __init__(
        self,
        part: str,
        allowance: Allowance,
        converted: Callable[[str], str] = str,
        built_in: Mapping[int, str] = NO_FORMATS,
    ) -> None:
        super().__init__(part, allowance)
        self.formats: dict[str, str] = {}
        """Maps the written code of each number format of the cells to its code before the conversion."""

        self._converted = converted
        self._built_in = built_in
        self._is_before_formats = False
        self.date_styles: set[int] = set()
        self.text_styles: set[int] = set()
        self._formats: dict[int, str] = {}
        self.twins: dict[int, int] = {}
        """Maps each text style to a copy with the general format, for numbers and for texts that begin with "="."""

        self.count = 0
        """The number of the file's cell styles, without the copies in ``twins``."""

        self._in_cell_formats = False
        self._styles = 0
        self._twin: list[str] | None = None
        self._twin_texts: list[str] = []

    def start(self, name: str, attributes: Attributes) -> None:
        """Record the format of each cell style. Make a copy of each text style, with the general format."""
        if self.is_skipping or name == "extLst":
            self.skip()
            return
        self._write_added_list(name)
        if name == "numFmt":
            code = attributes.get("formatCode", "")
            self._formats[_number(attributes.get("numFmtId"), 0)] = code
            attributes = {**attributes, "formatCode": self._converted(code)}
        elif name == "cellXfs":
            self._in_cell_formats = True
        elif name == "xf" and self._in_cell_formats:
            number = _number(attributes.get("numFmtId"), 0)
            self._note(number)
            if number in self._built_in and number not in self._formats:
                attributes = {**attributes, "numFmtId": str(ADDED_FORMATS + number)}
            if self._styles - 1 in self.text_styles:
                super().start(name, attributes)
                general = {**self.declared, **attributes, "numFmtId": "0"}
                self._twin = [f"<xf{attribute_text(general)}>"]
                return
        super().start(name, attributes)
        self._is_before_formats = name == "styleSheet"
        if name == "numFmts":
            self.write(self._added_formats())

    def _write_added_list(self, name: str) -> None:
        """If the file's first element is not a list of formats, write a list of the added formats before it."""
        if self._is_before_formats and name != "numFmts" and self._built_in:
            self.write(f"<numFmts>{self._added_formats()}</numFmts>")

    def _added_formats(self) -> str:
        formats = ((ADDED_FORMATS + number, self._converted(code)) for number, code in self._built_in.items())
        return "".join(f'<numFmt numFmtId="{number}" formatCode={quoteattr(code)}/>' for number, code in formats)

    def end(self, name: str) -> None:
        """End an element. After the last cell style, write the copies of the text styles."""
        if name == "cellXfs" and not self.is_skipping:
            self._in_cell_formats = False
            self.count = self._styles
            self.twins = {style: self._styles + number for number, style in enumerate(sorted(self.text_styles))}
            self.write("".join(self._twin_texts))
        super().end(name)
        if name == "xf" and self._twin is not None and not self.is_skipping:
            self._twin_texts.append("".join(self._twin))
            self._twin = None

    def write(self, text: str) -> None:
        """Append markup. Inside a text style, also append it to the style's copy."""
        super().write(text)
        if self._twin is not None:
            self._twin.append(text)

    def _note(self, number: int) -> None:
        code = self._formats.get(number)
        shown = code or self._built_in.get(number)
        if shown and shown.lower() != "general":
            self.formats[self._converted(shown)] = shown
        if number in DATE_FORMATS if code is None else _shows_day(code):
            self.date_styles.add(self._styles)
        if number == TEXT_FORMAT if code is None else TEXT_CODE.fullmatch(code):
            self.text_styles.add(self._styles)
        self._styles += 1


class StringsWriter(PartWriter):
    """Rewrites each shared string as one text. ``in_cells`` has the strings that cells must contain themselves."""

    def __init__(self, part: str, allowance: Allowance, findings: Findings) -> None:
        super().__init__(part, allowance)
        self.in_cells: dict[int, str] = {}
        self.empty: set[int] = set()
        self._findings = findings
        self.count = 0
        self._texts: list[str] = []
        self._collected = 0
        self._is_text = False
        self._phonetic = 0
        self._runs = 0

    def start(self, name: str, attributes: Attributes) -> None:
        """Begin a string or a part of a string. Skip phonetic text."""
        self._is_text = name == "t" and not self._phonetic
        if name == "sst":
            super().start(name, {})
        elif name == "rPh":
            self._phonetic += 1
            self._findings.add(*losses.PHONETIC)
        elif name == "r":
            self._runs += 1

    def end(self, name: str) -> None:
        """Write a string at its end."""
        self._is_text = False
        if name == "sst":
            super().end(name)
        elif name == "rPh":
            self._phonetic -= 1
        elif name == "si":
            self._write_string("".join(self._texts))
            self._texts, self._collected, self._runs = [], 0, 0

    def text(self, text: str) -> None:
        """Collect the visible text of a string."""
        if self._is_text:
            self._collected += len(text)
            self.allowance.check(self._collected)
            self._texts.append(text)

    def _write_string(self, text: str) -> None:
        if self._runs > 1:
            self._findings.add(*losses.RICH_TEXT)
        text = decoded(text)
        # The engine would change the line ends of a shared string, and would read some strings as other values.
        if as_typed(text) != text or "\r" in text or is_link(text):
            self.in_cells[self.count] = text
        if not text:
            self.empty.add(self.count)
        self.count += 1
        super().start("si", {})
        super().start("t", {"xml:space": "preserve"})
        super().text(encoded(text))
        super().end("t")
        super().end("si")


class _Relationships(PartReader):
    def __init__(self, part: str, allowance: Allowance) -> None:
        super().__init__(part, allowance)
        self.listed: list[Attributes] = []

    def start(self, name: str, attributes: Attributes) -> None:
        if name == "Relationship":
            self.listed.append(attributes)


class _TableReader(PartReader):
    def __init__(self, part: str, allowance: Allowance) -> None:
        super().__init__(part, allowance)
        self.attributes: Attributes = {}
        self.columns: Sequence[str] = []

    def start(self, name: str, attributes: Attributes) -> None:
        if name == "table":
            self.attributes = attributes
        elif name == "tableColumn":
            self.columns = [*self.columns, attributes.get("name", "").replace("_x000a_", "\n")]


def _relationship(folder: str, attributes: Attributes) -> Relationship:
    target = attributes.get("Target", "")
    kind = attributes.get("Type", "").rpartition("/")[2]
    is_external = attributes.get("TargetMode") == "External"
    if not is_external:
        target = posixpath.normpath(target if target.startswith("/") else f"/{folder}/{target}").lstrip("/")
    return Relationship(attributes.get("Id", ""), kind, target, is_external)


def _shows_day(code: str) -> bool:
    """Return whether a number format shows a date, not only a time or a duration.

    ``m`` means months, except beside hours or seconds, or in a duration such as ``[mm]``, where it means minutes.
    """
    plain = LITERAL.sub("", code).partition(";")[0].lower()
    return "d" in plain or "y" in plain or ("m" in plain and not any(sign in plain for sign in "hs["))


def _number(text: str | None, default: int) -> int:
    return int(text) if text and is_decimal(text) else default

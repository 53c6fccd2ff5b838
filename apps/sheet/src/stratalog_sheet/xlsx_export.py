"""Export of workbooks: the engine's output, repaired so that other programs open it, and a report of losses.

The engine writes every formula as an array formula, some elements in an order that the schema forbids, images without
their bytes, and no defined names. This module rewrites the parts one at a time.
"""

from __future__ import annotations

import base64
import binascii
import io
import math
import posixpath
import re
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from stratalog_sheet.file_reports import LAST_LINES, FileReport, Findings, formulas_as_values
from stratalog_sheet.formulas import exceeds_file, in_file, quote_sheet, tokens, unquote_sheet
from stratalog_sheet.number_formats import file_code
from stratalog_sheet.sheet_names import file_names
from stratalog_sheet.xlsx_figures import ChartRepair, DrawingRepair
from stratalog_sheet.xlsx_markup import Allowance
from stratalog_sheet.xlsx_parts import StylesWriter
from stratalog_sheet.xlsx_repair import ROW_HEIGHT, Literals, SheetRepair

__all__ = ["write_workbook"]

HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
WHEN = (1980, 1, 1, 0, 0, 0)
SHEET = re.compile(r"xl/worksheets/sheet(\d+)\.xml")
DATA = re.compile(r"data:image/[\w.+-]+;base64,([A-Za-z0-9+/=\s]*)")
RELATIONSHIP = re.compile(r"<Relationship\b[^>]*?/>")
TARGET = re.compile(r'\bTarget="([^"]*)"')
EXTERNAL = 'TargetMode="External"'
ID = re.compile(r'\bId="([^"]*)"')
FORMAT_CODE = re.compile(r'(?<=\bformatCode=")[^"]*')
NO_CHARACTER = re.compile("[\ufffe\uffff]")
"""Code points that XML does not allow. The engine drops the control characters, but neither of these."""

QUOTE = {'"': "&quot;"}
SHEET_NAME = re.compile(r'<sheet\b[^>]*?\bname="([^"]*)"')
TABLE_RANGE = re.compile(r'<table\b[^>]*?\bref="([^"]*)"')
STATE = re.compile(r'<sheet\b[^>]*?\bstate="([^"]*)"')
NORMAL = (
    '<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs>',
    '<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles>',
)


def write_workbook(written: Mapping[str, Any]) -> tuple[bytes, FileReport]:
    """Return the engine's output as an .xlsx file, and the report of losses. Equal outputs become equal bytes.

    ``written`` has the ``files``, the ``names`` of ranges, facts about each of the ``sheets``, in order, and the
    formulas that the engine wrote as ``values``.
    """
    export = _Export(written)
    packed, losses = export.packed(), export.findings.report().findings
    return packed, FileReport([*losses, *formulas_as_values(**written["values"])])


class _Export:
    """One export. Every part except images is text until it is packed."""

    def __init__(self, written: Mapping[str, Any]) -> None:
        self.findings = Findings()
        self._sheets: Sequence[Mapping[str, Any]] = written["sheets"]
        self._names: Mapping[str, str] = written["names"]
        self._order = [file["path"] for file in written["files"]]
        self._parts = {
            file["path"]: NO_CHARACTER.sub("\ufffd", file["content"]) for file in written["files"] if "content" in file
        }
        self._renamed: Mapping[str, str] = {}
        self._images: dict[str, bytes] = {}
        for file in written["files"]:
            if "content" not in file and (body := _image(file.get("imageSrc") or "")):
                self._images[file["path"]] = body

    def packed(self) -> bytes:
        """Repair the parts, and return an archive of the parts in the engine's order."""
        self._repair()
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in self._order:
                body = self._parts[path].encode() if path in self._parts else self._images.get(path)
                if body is not None:
                    archive.writestr(zipfile.ZipInfo(path, WHEN), body, zipfile.ZIP_DEFLATED)
        return packed.getvalue()

    def _repair(self) -> None:
        styles = StylesWriter("xl/styles.xml", _unbounded())
        styles.rewritten([self._parts["xl/styles.xml"].encode()])
        self._parts["xl/styles.xml"] = _with_normal_style(_with_file_codes(self._parts["xl/styles.xml"]))
        written = [_unescaped(name) for name in SHEET_NAME.findall(self._parts["xl/workbook.xml"])]
        self._renamed = file_names(written)
        for name in self._renamed:
            self.findings.add("sheet-name", "names of sheets that .xlsx cannot contain are changed", name)
        strings = Literals("xl/sharedStrings.xml", _unbounded())
        strings.read([self._parts["xl/sharedStrings.xml"].encode()])
        for path in list(self._parts):
            if match := SHEET.fullmatch(path):
                self._repair_sheet(path, self._sheets[int(match[1])], strings, styles.text_styles)
            elif path.startswith("xl/charts/chart"):
                writer = ChartRepair(path, _unbounded(), self.findings, self._renamed)
                self._parts[path] = HEAD + writer.rewritten([_with_file_codes(self._parts[path]).encode()])
            elif path in self._parts:  # the repair of a sheet may have removed a table
                self._parts[path] = self._parts[path].strip()
        self._parts["xl/sharedStrings.xml"] = HEAD + strings.written()
        self._parts["xl/workbook.xml"] = self._workbook(self._parts["xl/workbook.xml"])

    def _repair_sheet(self, path: str, sheet: Mapping[str, Any], strings: Literals, text_styles: set[int]) -> None:
        self._drop_tables(path, sheet["name"])
        missing = self._drop_links(path)
        height = _height(*sheet["heights"])
        writer = SheetRepair(
            path, _unbounded(), sheet["name"], strings, text_styles, self.findings, missing, self._renamed, height
        )
        self._parts[path] = HEAD + writer.rewritten([self._parts[path].encode()])
        if (lost := sheet["validations"] - writer.validations) > 0:
            self.findings.add("validation", "validations that .xlsx cannot contain are left out", sheet["name"], lost)
        if sheet["formats"]:
            text = "conditional formats that .xlsx cannot contain are left out"
            self.findings.add("conditional-format", text, sheet["name"], sheet["formats"])
        if sheet["pivots"]:
            self.findings.add("pivot", "pivot tables are written as values", sheet["name"], sheet["pivots"])
        self._repair_drawing(path, sheet)

    def _repair_drawing(self, sheet_path: str, sheet: Mapping[str, Any]) -> None:
        """Remove the figures of a sheet that a file cannot contain, and report the number of missing figures."""
        number = SHEET.fullmatch(sheet_path)
        assert number is not None, sheet_path
        path = f"xl/drawings/drawing{number[1]}.xml"
        drawn = 0
        if path in self._parts:
            writer = DrawingRepair(path, _unbounded(), self._drop_links(path))
            self._parts[path] = HEAD + writer.rewritten([self._parts[path].encode()])
            drawn = writer.anchors
        if (lost := sheet["figures"] - drawn) > 0:
            text = "images and charts that .xlsx cannot contain are left out"
            self.findings.add("figure", text, sheet["name"], lost)

    def _drop_tables(self, sheet_path: str, sheet: str) -> None:
        """Remove a sheet's tables with columns or rows that a file cannot contain, and report them."""
        for target in TARGET.findall(self._parts.get(_links_of(sheet_path), "")):
            path = _goal(sheet_path, target)
            match = TABLE_RANGE.search(self._parts.get(path, "")) if path.startswith("xl/tables/") else None
            if match and exceeds_file(match[1]):
                del self._parts[path]
                text = f"tables that need cells after {LAST_LINES} are left out"
                self.findings.add("beyond-tables", text, f"{sheet}!{match[1]}")

    def _drop_links(self, path: str) -> set[str]:
        """Remove a part's relationships to missing parts, and return their ids."""
        links, missing = _links_of(path), set[str]()

        def retained(match: re.Match[str]) -> str:
            target, id = TARGET.search(match[0]), ID.search(match[0])
            assert target is not None, match[0]
            assert id is not None, match[0]
            goal = _goal(path, target[1])
            if goal in self._parts or goal in self._images or EXTERNAL in match[0]:
                return match[0]
            missing.add(id[1])
            return ""

        if links in self._parts:
            self._parts[links] = RELATIONSHIP.sub(retained, self._parts[links])
        return missing

    def _workbook(self, text: str) -> str:
        """Return the workbook part with its defined names. Programs that open the file compute all formulas."""
        states = STATE.findall(text)
        active = states.index("visible") if "visible" in states else 0
        views = f'<bookViews><workbookView activeTab="{active}"/></bookViews>'
        names = "".join(self._defined(name, leads, text) for name, leads in sorted(self._names.items()))
        listed = f"<definedNames>{names}</definedNames>" if names else ""
        if self._renamed:
            text = SHEET_NAME.sub(self._with_file_name, text)
        text = text.replace("<sheets>", f"{views}<sheets>", 1)
        return text.strip().replace("</sheets>", f'</sheets>{listed}<calcPr calcId="0" fullCalcOnLoad="1"/>', 1)

    def _with_file_name(self, match: re.Match[str]) -> str:
        name = _unescaped(match[1])
        if name not in self._renamed:
            return match[0]
        return match[0].removesuffix(f'"{match[1]}"') + f'"{escape(self._renamed[name], QUOTE)}"'

    def _defined(self, name: str, leads: str, text: str) -> str:
        """Return the element of a defined name; empty if its sheet is missing or a file cannot contain its cells.

        The element has the sheet's name from the written file, because the engine shortens long names of sheets.
        """
        before, _, cells = leads.rpartition("!")
        cells = in_file(cells)
        listed = [sheet["name"] for sheet in self._sheets]
        written = SHEET_NAME.findall(text)
        sheet = unquote_sheet(before)
        if sheet not in listed:
            self.findings.add("name", "names of ranges in missing sheets are left out", name)
            return ""
        if exceeds_file(cells):
            self.findings.add("name", f"names of ranges after {LAST_LINES} are left out", name)
            return ""
        called = _unescaped(written[listed.index(sheet)])
        called = self._renamed.get(called, called)
        return f"<definedName name={quoteattr(name)}>{escape(quote_sheet(called))}!{_fixed(cells)}</definedName>"


def _links_of(path: str) -> str:
    """Return the path of the relationships of a part."""
    folder, _, file = path.rpartition("/")
    return f"{folder}/_rels/{file}.rels"


def _goal(path: str, target: str) -> str:
    """Return the path of the part to which a relationship of the part ``path`` refers."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


def _height(before: float | None, last: float | None) -> float:
    """Return the height, in points, of the rows after a sheet's last row: that of its last two rows if both agree.

    The heights of the two rows are in pixels; None is the engine's height.
    """
    return ROW_HEIGHT if last is None or before != last else last * 0.75


def _fixed(cells: str) -> str:
    """Return the range with every reference absolute (``$``), as defined names require."""
    out = []
    for token in tokens(cells):
        if token.kind in ("cell", "columns", "rows"):
            out.append(re.sub(r"\$?([A-Za-z]+)|\$?([0-9]+)", lambda match: "$" + (match[1] or match[2]), token.text))
        else:
            out.append(token.text)
    return "".join(out)


def _image(address: str) -> bytes:
    match = DATA.fullmatch(address)
    try:
        return base64.b64decode(match[1], validate=False) if match else b""
    except binascii.Error:
        return b""


def _with_file_codes(text: str) -> str:
    """Return the part of the styles or of a chart with the number formats of .xlsx in place of the engine's."""
    return FORMAT_CODE.sub(lambda match: escape(file_code(_unescaped(match[0])), QUOTE), text)


def _with_normal_style(text: str) -> str:
    text = text.strip().replace("<cellXfs", f"{NORMAL[0]}<cellXfs", 1)
    return text.replace("</cellXfs>", f"</cellXfs>{NORMAL[1]}", 1)


def _unescaped(text: str) -> str:
    for entity, character in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&apos;", "'"), ("&amp;", "&")):
        text = text.replace(entity, character)
    return text


def _unbounded() -> Allowance:
    # `SHEET_ANSWER_BYTES_MAX` already bounds the engine's output.
    return Allowance(math.inf, math.inf)

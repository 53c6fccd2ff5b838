"""Import of workbooks: rewrites any program's workbook into the subset that the engine reads, and reports losses."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import quoteattr

import msgspec

from stratalog.errors import Invalid
from stratalog_sheet import losses
from stratalog_sheet.file_reports import FileReport, Findings
from stratalog_sheet.limits import SHEET_IMAGE_BYTES_MAX, SHEET_IMAGES_BYTES_MAX
from stratalog_sheet.number_formats import BUILT_IN, engine_code
from stratalog_sheet.workbook_names import TableRange, WorkbookNames
from stratalog_sheet.xlsx_archive import DAMAGED, WorkbookArchive
from stratalog_sheet.xlsx_cells import CellContext, SheetWriter
from stratalog_sheet.xlsx_markup import MAIN, RELATIONSHIPS, Allowance, Attributes, PartWriter
from stratalog_sheet.xlsx_parts import (
    Relationship,
    SheetEntry,
    StringsWriter,
    StylesWriter,
    WorkbookPart,
    relationships,
    table_in,
)

__all__ = ["Workbook", "read_workbook", "workbook_of"]

PACKAGE = "http://schemas.openxmlformats.org/package/2006"
FORMAT = "application/vnd.openxmlformats-officedocument"
CONTENT_TYPES: Mapping[str, str] = {
    "workbook": f"{FORMAT}.spreadsheetml.sheet.main+xml",
    "worksheet": f"{FORMAT}.spreadsheetml.worksheet+xml",
    "styles": f"{FORMAT}.spreadsheetml.styles+xml",
    "sharedStrings": f"{FORMAT}.spreadsheetml.sharedStrings+xml",
    "theme": f"{FORMAT}.theme+xml",
    "drawing": f"{FORMAT}.drawing+xml",
    "chart": f"{FORMAT}.drawingml.chart+xml",
    "table": f"{FORMAT}.spreadsheetml.table+xml",
    "externalLink": f"{FORMAT}.spreadsheetml.externalLink+xml",
}
FOLDERS: Mapping[str, str] = {
    "drawing": "drawings", "chart": "charts", "table": "tables", "externalLink": "externalLinks",
}  # fmt: skip
LOST: Mapping[str, tuple[str, str]] = {
    "comments": losses.COMMENTS,
    "threadedComment": losses.COMMENTS,
    "vbaProject": losses.MACROS,
    "chartsheet": ("chart-sheet", "sheets that are a chart are not kept"),
    "dialogsheet": ("chart-sheet", "sheets that are a dialogue are not kept"),
    "xlMacrosheet": losses.MACROS,
    "pivotTable": ("pivot", "pivot tables become values"),
    "queryTable": losses.CONNECTIONS,
    "connections": losses.CONNECTIONS,
    "customXml": ("custom-xml", "custom XML is not kept"),
    "slicer": losses.SLICERS,
    "timeline": losses.SLICERS,
    "oleObject": losses.EMBEDDED,
    "control": losses.EMBEDDED,
    "ctrlProp": losses.EMBEDDED,
    "chartEx": losses.CHARTS,
    "diagramData": losses.SHAPES,
}
SEVERAL_RANGES = re.compile(r"\(((?:'(?:[^']|'')*'|[^',()])+),.*\)", re.DOTALL)
CELLS = re.compile(r"\$?[A-Za-z]{1,3}\$?[0-9]+(?::\$?[A-Za-z]{1,3}\$?[0-9]+)?")
CHART_TEXTS = ("c:tx", "c:cat")
CHARTS = ("lineChart", "radarChart", "scatterChart", "pieChart", "doughnutChart", "barChart")
IMAGE_TYPES: Mapping[str, str] = {
    "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif", "bmp": "image/bmp",
    "webp": "image/webp",
}  # fmt: skip
EMPTY_STYLES = (
    f'<styleSheet xmlns="{MAIN}"><fonts count="1"><font><sz val="10"/><name val="Arial"/></font></fonts>'
    '<fills count="1"><fill><patternFill patternType="none"/></fill></fills><borders count="1"><border/></borders>'
    '<cellXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellXfs></styleSheet>'
)


class Workbook(msgspec.Struct, frozen=True):
    """A workbook for the engine: its parts, the named ranges, the number of filled cells, and the report of losses.

    ``files`` maps the path of a part to its text, or the path of an image to a map with the image's data URL.
    """

    files: dict[str, Any]
    names: dict[str, str]
    cells: int
    report: FileReport
    formats: dict[str, str] = {}
    """For the number formats of cells: maps the code for the engine to the code of the file."""

    values: list[list[tuple[int, int, Any]]] = []
    """For each sheet, `SheetWriter.values`: tuples of column, row and value. Columns and rows count from 0."""


def read_workbook(xlsx: bytes) -> Workbook:
    """Return a workbook for the engine.

    Raises Invalid for a file that is not an .xlsx file, and LimitExceeded for a file that is too large.
    """
    try:
        archive = WorkbookArchive(xlsx)
        return _Import(archive).workbook()
    except DAMAGED as exc:
        raise Invalid("the file is not an .xlsx workbook", reason=str(exc)) from exc


def workbook_of(name: str, sheet: str, cells: int, report: FileReport) -> Workbook:
    """Return a workbook of one worksheet, whose XML is ``sheet``."""
    files = {"xl/styles.xml": EMPTY_STYLES, "xl/worksheets/sheet1.xml": sheet}
    kinds = {"xl/worksheets/sheet1.xml": "worksheet", "xl/styles.xml": "styles"}
    files |= _frame([SheetEntry(name, "rId1", "visible")], kinds)
    return Workbook(files, {}, cells, report)


class _Import:
    """One import. It numbers the parts of worksheets in the workbook's order: the engine sorts sheets by part name."""

    def __init__(self, archive: WorkbookArchive) -> None:
        self._archive = archive
        self._allowance = Allowance()
        self._findings = Findings()
        self._files: dict[str, Any] = {}
        self._kinds: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._image_bytes = 0
        self._cells = 0
        self._values: list[list[tuple[int, int, Any]]] = []

    def workbook(self) -> Workbook:
        """Read the needed parts of the archive and return the rewritten workbook."""
        source = self._main_part()
        part = WorkbookPart(source, self._allowance)
        part.read(self._archive.chunks(source))
        related = {link.id: link for link in relationships(self._archive, source, self._allowance)}
        self._note_lost(list(related.values()), "")
        sheets = [
            (sheet, related[sheet.relationship].target)
            for sheet in part.sheets
            if sheet.relationship in related and related[sheet.relationship].kind == "worksheet"
        ]
        if not sheets:
            raise Invalid("the workbook has no worksheet")
        links = {link.kind: link.target for link in related.values() if link.target in self._archive}
        styles = self._styles(links.get("styles"))
        strings = self._strings(links.get("sharedStrings"))
        if "theme" in links:
            self._write("theme", "xl/theme/theme1.xml", PartWriter(links["theme"], self._allowance))
        for link in related.values():
            if link.kind == "externalLink":
                text = "values of other workbooks stay as they are in the file"
                self._findings.add("external-link", text, link.target)
                self._copy(link, "")
        names = WorkbookNames(
            [sheet.name for sheet, _ in sheets], part.names(self._findings), self._tables(sheets), self._findings
        )
        context = CellContext(
            names,
            self._findings,
            strings=strings.in_cells if strings else {},
            string_count=strings.count if strings else 0,
            empty_strings=strings.empty if strings else (),
            date_styles=styles.date_styles if styles else (),
            text_styles=styles.text_styles if styles else (),
            number_styles=styles.twins if styles else {},
            styles=styles.count if styles else 1,
            is_1904=part.is_1904,
            has_values=part.has_values,
        )
        for number, (sheet, target) in enumerate(sheets, 1):
            self._sheet(number, sheet, target, context)
        self._files |= _frame([sheet for sheet, _ in sheets], self._kinds)
        formats = styles.formats if styles else {}
        return Workbook(self._files, names.ranges, self._cells, self._findings.report(), formats, self._values)

    def _main_part(self) -> str:
        links = relationships(self._archive, "", self._allowance)
        target = next((link.target for link in links if link.kind == "officeDocument"), "xl/workbook.xml")
        if target not in self._archive:
            raise Invalid("the file is not an .xlsx workbook", reason="it has no workbook")
        return target

    def _styles(self, source: str | None) -> StylesWriter | None:
        if source is None:  # the engine cannot read a workbook without styles
            self._files["xl/styles.xml"], self._kinds["xl/styles.xml"] = EMPTY_STYLES, "styles"
            return None
        writer = StylesWriter(source, self._allowance, engine_code, BUILT_IN)
        self._write("styles", "xl/styles.xml", writer)
        return writer

    def _strings(self, source: str | None) -> StringsWriter | None:
        if source is None:
            return None
        writer = StringsWriter(source, self._allowance, self._findings)
        self._write("sharedStrings", "xl/sharedStrings.xml", writer)
        return writer

    def _tables(self, sheets: list[tuple[SheetEntry, str]]) -> list[TableRange]:
        return [
            table_in(self._archive, link.target, sheet.name, self._allowance)
            for sheet, target in sheets
            for link in relationships(self._archive, target, self._allowance)
            if link.kind == "table" and link.target in self._archive
        ]

    def _sheet(self, number: int, sheet: SheetEntry, source: str, context: CellContext) -> None:
        path = f"xl/worksheets/sheet{number}.xml"
        if source not in self._archive:
            raise Invalid("the workbook lacks one of its sheets", sheet=sheet.name)
        writer = SheetWriter(source, self._allowance, sheet.name, context)
        self._write("worksheet", path, writer)
        self._cells += writer.cells
        self._values.append(writer.values)
        links = relationships(self._archive, source, self._allowance)
        self._note_lost(links, sheet.name)
        self._write_links(path, links, sheet.name)

    def _write_links(self, path: str, links: list[Relationship], sheet: str) -> None:
        """Copy the parts to which the part ``path`` refers, and write the relationships to the copies."""
        copied = [(link, self._copy(link, sheet)) for link in links]
        remaining = [(link.id, link.kind, target, link.is_external) for link, target in copied if target]
        if remaining:
            folder, _, file = path.rpartition("/")
            self._files[f"{folder}/_rels/{file}.rels"] = _relationships_text(remaining)

    def _copy(self, link: Relationship, sheet: str) -> str:
        """Copy the part that a relationship refers to. Return the new target; empty if the part is left out."""
        if link.is_external:
            return link.target if link.kind == "hyperlink" else ""
        if link.target not in self._archive:
            return ""
        if link.kind == "image":
            return self._image(link.target, sheet)
        if link.kind not in FOLDERS:
            return ""
        number = self._counts[link.kind] = self._counts.get(link.kind, 0) + 1
        path = f"xl/{FOLDERS[link.kind]}/{link.kind}{number}.xml"
        writer = _FigureWriter(link.target, self._allowance, self._findings, sheet)
        self._write(link.kind, path, writer)
        if link.kind == "drawing":
            links = relationships(self._archive, link.target, self._allowance)
            self._note_lost(links, sheet)
            self._write_links(path, links, sheet)
        return f"../{FOLDERS[link.kind]}/{link.kind}{number}.xml" if sheet else path.removeprefix("xl/")

    def _image(self, source: str, sheet: str) -> str:
        """Embed an image as a data URL, so that a sheet needs no other files.

        Return the target; empty if the image is left out.
        """
        ending = source.rpartition(".")[2].lower()
        size = self._archive.size(source)
        if ending not in IMAGE_TYPES or size > SHEET_IMAGE_BYTES_MAX:
            text = f"images of unsupported types, or of more than {SHEET_IMAGE_BYTES_MAX:,} bytes, are not kept"
            self._findings.add("image", text, sheet)
            return ""
        if self._image_bytes + size > SHEET_IMAGES_BYTES_MAX:
            text = f"images beyond {SHEET_IMAGES_BYTES_MAX:,} bytes in all are not kept"
            self._findings.add("images", text, sheet)
            return ""
        self._image_bytes += size
        number = self._counts["image"] = self._counts.get("image", 0) + 1
        body = base64.b64encode(b"".join(self._archive.chunks(source))).decode()
        address = f"data:{IMAGE_TYPES[ending]};base64,{body}"
        self._allowance.text(address)
        self._files[f"xl/media/image{number}.{ending}"] = {"imageSrc": address}
        return f"../media/image{number}.{ending}"

    def _note_lost(self, links: list[Relationship], where: str) -> None:
        for link in links:
            if link.kind in LOST:
                self._findings.add(*LOST[link.kind], where)

    def _write(self, kind: str, path: str, writer: PartWriter) -> None:
        self._files[path] = writer.rewritten(self._archive.chunks(writer.part))
        self._kinds[path] = kind


class _FigureWriter(PartWriter):
    """Rewrites a drawing, a chart, a table or an external link.

    Reports charts and shapes that the engine cannot read. Drops and reports the labels of single points of charts, all
    ranges of a chart series except the first, and titles and labels of series that are texts instead of references to
    cells. LibreOffice writes such texts.
    """

    packs_pieces = False

    def __init__(self, part: str, allowance: Allowance, findings: Findings, sheet: str) -> None:
        super().__init__(part, allowance)
        self._text_start: int | None = None
        self._is_literal = False
        self._findings = findings
        self._sheet = sheet
        self._range: list[str] | None = None
        self._collected = 0

    def start(self, name: str, attributes: Attributes) -> None:
        prefix, _, local = name.rpartition(":")
        if prefix == "c" and local.endswith("Chart") and local not in CHARTS:
            self._findings.add(*losses.CHARTS, self._sheet)
        elif name == "c:dLbl" and not self.is_skipping:
            # The engine applies the settings of a single point's label to the whole series.
            self._findings.add("chart-label", "labels of single points of charts are not kept", self._sheet)
            self.skip()
            return
        elif name in CHART_TEXTS and not self.is_skipping:
            self._text_start, self._is_literal = len(self._out), False
        elif name == "c:f" and not self.is_skipping:
            self._range = []
        elif prefix == "xdr" and local in ("sp", "cxnSp", "grpSp"):
            self._findings.add(*losses.SHAPES, self._sheet)
        super().start(name, attributes)

    def end(self, name: str) -> None:
        if name == "c:f" and self._range is not None:
            text, self._range, self._collected = "".join(self._range), None, 0
            several = SEVERAL_RANGES.fullmatch(text)
            if several:
                self._findings.add("chart-range", "a chart series of several ranges keeps only the first", self._sheet)
            super().text(several[1] if several else text)
            self._is_literal = "!" not in text and CELLS.fullmatch(text) is None
        super().end(name)
        if name in CHART_TEXTS and self._text_start is not None:
            if self._is_literal:
                del self._out[self._text_start :]
                text = "titles and labels of chart series that are not in cells are not kept"
                self._findings.add("chart-text", text, self._sheet)
            self._text_start = None

    def text(self, text: str) -> None:
        if self._range is None:
            super().text(text)
        else:
            self._collected += len(text)
            self.allowance.check(self._collected)
            self._range.append(text)


def _frame(sheets: list[SheetEntry], kinds: dict[str, str]) -> dict[str, str]:
    """Return the workbook part, its relationships and the content types. ``kinds`` has the kinds of all other parts."""
    listed = "".join(
        f'<sheet name={quoteattr(sheet.name)} sheetId="{number}" state={quoteattr(sheet.state)} r:id="rId{number}"/>'
        for number, sheet in enumerate(sheets, 1)
    )
    links = [
        (f"rId{number}", kind, path.removeprefix("xl/"), False)
        for number, (path, kind) in enumerate(_sheets_first(kinds), 1)
    ]
    overrides = "".join(
        f'<Override PartName="/{path}" ContentType="{CONTENT_TYPES[kind]}"/>'
        for path, kind in {"xl/workbook.xml": "workbook", **kinds}.items()
    )
    return {
        "xl/workbook.xml": (f'<workbook xmlns="{MAIN}" xmlns:r="{RELATIONSHIPS}"><sheets>{listed}</sheets></workbook>'),
        "xl/_rels/workbook.xml.rels": _relationships_text(links),
        "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types">{overrides}</Types>',
    }


def _sheets_first(kinds: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return (path, kind) of the parts that the workbook refers to, worksheets first.

    `_frame` numbers relationship ids in this order, and a sheet's id is its number in the workbook.
    """
    wanted = ("worksheet", "styles", "sharedStrings", "theme", "externalLink")
    return [(path, kind) for name in wanted for path, kind in kinds.items() if kind == name]


def _relationships_text(links: list[tuple[str, str, str, bool]]) -> str:
    listed = "".join(
        f'<Relationship Id={quoteattr(id)} Type="{RELATIONSHIPS}/{kind}" Target={quoteattr(target)}'
        f"{' TargetMode=' + quoteattr('External') if is_external else ''}/>"
        for id, kind, target, is_external in links
    )
    return f'<Relationships xmlns="{PACKAGE}/relationships">{listed}</Relationships>'

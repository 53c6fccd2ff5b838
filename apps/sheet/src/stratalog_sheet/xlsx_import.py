"""Import of workbooks: rewrites any program's workbook into the subset that the engine reads, and reports losses."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import quoteattr

import msgspec

from stratalog.errors import Invalid
from stratalog_sheet.file_reports import FileReport, Findings
from stratalog_sheet.limits import SHEET_IMAGE_BYTES_MAX, SHEET_IMAGES_BYTES_MAX
from stratalog_sheet.number_formats import BUILT_IN, engine_code
from stratalog_sheet.sheet_names import engine_names
from stratalog_sheet.workbook_names import TableRange, WorkbookNames
from stratalog_sheet.xlsx_archive import DAMAGED, WorkbookArchive
from stratalog_sheet.xlsx_cells import CellContext, SheetWriter
from stratalog_sheet.xlsx_figures import FigureWriter
from stratalog_sheet.xlsx_losses import OTHER_PART, part_loss
from stratalog_sheet.xlsx_markup import MAIN, RELATIONSHIPS, Allowance, PartWriter
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
    """Maps the engine's code of each cell's number format to the file's code."""

    values: list[list[tuple[int, int, Any]]] = []
    """For each sheet, `SheetWriter.values`: tuples of column, row and value. Columns and rows count from 0."""


def read_workbook(xlsx: bytes) -> Workbook:
    """Return a workbook for the engine.

    Raises Invalid for a file that is not an .xlsx file or that lacks a worksheet, and LimitExceeded for a file that is
    too large.
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
        self._names = WorkbookNames([], [], [], self._findings)
        self._image_bytes = 0
        self._cells = 0
        self._values: list[list[tuple[int, int, Any]]] = []

    def workbook(self) -> Workbook:
        """Read the needed parts of the archive and return the rewritten workbook."""
        source = self._main_part()
        part = WorkbookPart(source, self._allowance, self._findings)
        part.read(self._archive.chunks(source))
        renamed = self._rename(part)
        related = {link.id: link for link in relationships(self._archive, source, self._allowance)}
        self._note_lost(list(related.values()), "")
        sheets = [
            (sheet, related[sheet.relationship].target)
            for sheet in part.sheets
            if sheet.relationship in related and related[sheet.relationship].kind == "worksheet"
        ]
        if not sheets:
            raise Invalid("the workbook has no worksheet")
        if not any(sheet.state == "visible" for sheet, _ in sheets):  # the engine cannot open such a workbook
            first, target = sheets[0]
            sheets[0] = msgspec.structs.replace(first, state="visible"), target
            self._findings.add("hidden", "the first of the hidden sheets is shown", first.name)
        links = {link.kind: link.target for link in related.values() if link.target in self._archive}
        styles = self._styles(links.get("styles"))
        strings = self._strings(links.get("sharedStrings"))
        if "theme" in links:
            self._write("theme", "xl/theme/theme1.xml", PartWriter(links["theme"], self._allowance))
        self._names = WorkbookNames(
            [sheet.name for sheet, _ in sheets], part.names(), self._tables(sheets), self._findings, renamed
        )
        for link in related.values():
            if link.kind == "externalLink":
                text = "values of other workbooks stay as they are in the file"
                self._findings.add("external-link", text, link.target)
                self._copy(link, "")
        context = CellContext(
            self._names,
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
        return Workbook(self._files, self._names.ranges, self._cells, self._findings.report(), formats, self._values)

    def _main_part(self) -> str:
        links = relationships(self._archive, "", self._allowance)
        self._note_lost(links, "")
        target = next((link.target for link in links if link.kind == "officeDocument"), "xl/workbook.xml")
        if target not in self._archive:
            raise Invalid("the file is not an .xlsx workbook", reason="it has no workbook")
        if target.endswith(".bin"):
            raise Invalid("a binary workbook (.xlsb) cannot be imported; save it as .xlsx, and import that file")
        return target

    def _rename(self, part: WorkbookPart) -> Mapping[str, str]:
        """Give each sheet of the workbook a name that the engine can refer to. Return the new names by old name."""
        listed = [sheet.name for sheet in part.sheets]
        if not all(listed) or len({name.lower() for name in listed}) < len(listed):
            raise Invalid("a sheet of the workbook has no name, or the name of another sheet")
        renamed = engine_names(listed)
        for name in renamed:
            text = "apostrophes in names of sheets become typographic apostrophes, also in formulas"
            self._findings.add("sheet-name", text, name)
        replace = msgspec.structs.replace
        part.sheets = [replace(sheet, name=renamed.get(sheet.name, sheet.name)) for sheet in part.sheets]
        return renamed

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
        writer = FigureWriter(link.target, self._allowance, self._findings, sheet, self._names)
        self._write(link.kind, path, writer)
        links = relationships(self._archive, link.target, self._allowance) if link.kind in ("drawing", "chart") else []
        self._note_lost(links, sheet)
        if link.kind == "drawing":
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
            if loss := part_loss(link.kind):
                self._findings.add(*loss, link.target if loss is OTHER_PART else where)

    def _write(self, kind: str, path: str, writer: PartWriter) -> None:
        self._files[path] = writer.rewritten(self._archive.chunks(writer.part))
        self._kinds[path] = kind


def _frame(sheets: list[SheetEntry], kinds: dict[str, str]) -> dict[str, str]:
    """Return the workbook part, its relationships and the content types. ``kinds`` maps other parts' paths to kinds."""
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

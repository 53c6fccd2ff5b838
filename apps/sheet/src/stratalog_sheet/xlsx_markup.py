"""XML of workbooks, read in pieces and rewritten with the prefix that the engine expects for each namespace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from stratalog.errors import Invalid, LimitExceeded
from stratalog_sheet.limits import SHEET_XLSX_ELEMENTS_MAX, SHEET_XLSX_READ_BYTES_MAX

__all__ = ["MAIN", "RELATIONSHIPS", "Allowance", "Attributes", "PartReader", "PartWriter", "attribute_text"]

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONSHIPS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006"
STRICT = "http://purl.oclc.org/ooxml"
PREFIXES: Mapping[str, str] = {
    MAIN: "",
    f"{STRICT}/spreadsheetml/main": "",
    RELATIONSHIPS: "r",
    f"{STRICT}/officeDocument/relationships": "r",
    f"{DRAWING}/main": "a",
    f"{STRICT}/drawingml/main": "a",
    f"{DRAWING}/spreadsheetDrawing": "xdr",
    f"{STRICT}/drawingml/spreadsheetDrawing": "xdr",
    f"{DRAWING}/chart": "c",
    f"{STRICT}/drawingml/chart": "c",
    "http://schemas.openxmlformats.org/package/2006/relationships": "",
    "http://schemas.openxmlformats.org/package/2006/content-types": "",
    "http://www.w3.org/XML/1998/namespace": "xml",
}
DECLARED = (
    f' xmlns="{MAIN}" xmlns:r="{RELATIONSHIPS}" xmlns:a="{DRAWING}/main"'
    f' xmlns:xdr="{DRAWING}/spreadsheetDrawing" xmlns:c="{DRAWING}/chart"'
)

PACKED_PIECES = 1024
"""The number of pieces packed into UTF-8 at a time. Each Python string takes about fifty bytes more than its text."""

Attributes = dict[str, str]


class Allowance:
    """The elements and bytes that the parts of one workbook may still have. Removed empty cells do not count."""

    def __init__(self, elements: float = SHEET_XLSX_ELEMENTS_MAX, size: float = SHEET_XLSX_READ_BYTES_MAX) -> None:
        self._elements = elements
        self._bytes = size

    def element(self) -> None:
        """Count one element. Raises LimitExceeded."""
        self._elements -= 1
        if self._elements < 0:
            raise LimitExceeded("the workbook has too many elements", limit=SHEET_XLSX_ELEMENTS_MAX)

    def text(self, text: str) -> None:
        """Count the bytes of a text for the engine. Raises LimitExceeded."""
        # The limit counts bytes of UTF-8. For ASCII text, `len` is this number and encodes nothing.
        self._bytes -= len(text) if text.isascii() else len(text.encode(errors="replace"))
        if self._bytes < 0:
            raise LimitExceeded("the workbook is too large to be read", limit=SHEET_XLSX_READ_BYTES_MAX)

    def check(self, size: int) -> None:
        """Check that a text of at least ``size`` bytes may still follow. Raises LimitExceeded."""
        if size > self._bytes:
            raise LimitExceeded("the workbook is too large to be read", limit=SHEET_XLSX_READ_BYTES_MAX)


class PartReader:
    """Reads one part and calls `start`, `end` and `text`, which subclasses override.

    The names of elements and attributes have the prefixes in `PREFIXES`, also if the file uses other prefixes. A name
    of another namespace keeps the file's prefix.
    """

    def __init__(self, part: str, allowance: Allowance) -> None:
        self.part = part
        self.allowance = allowance
        self._canonical: dict[str, str] = {}
        self.declared: Attributes = {}
        """Declarations of the namespaces missing in `PREFIXES`, made by the element whose start is being read."""

    def start(self, name: str, attributes: Attributes) -> None:
        """Handle the start of an element."""

    def end(self, name: str) -> None:
        """Handle the end of an element."""

    def text(self, text: str) -> None:
        """Handle a piece of text."""

    def read(self, chunks: Iterable[bytes]) -> None:
        """Read the part. Raises LimitExceeded, and Invalid if it is not XML or has a document type."""
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.namespace_prefixes = True
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._refuse
        parser.StartNamespaceDeclHandler = self._declare
        parser.StartElementHandler = self._start
        parser.EndElementHandler = lambda name: self.end(self._known(name))
        parser.CharacterDataHandler = self.text
        unended = 0
        try:
            for chunk in chunks:
                # The parser keeps a tag in memory until its end, and an attribute may be as long as the part.
                end = chunk.rfind(b">") + 1
                unended = len(chunk) - end + (0 if end else unended)
                self.allowance.check(unended)
                parser.Parse(chunk, False)
            parser.Parse(b"", True)
        except expat.ExpatError as exc:
            raise Invalid("a file in the workbook is not XML", file=self.part, reason=str(exc)) from exc

    def _start(self, name: str, attributes: Attributes) -> None:
        self.allowance.element()
        self.start(self._known(name), {self._known(key): value for key, value in attributes.items()})
        # The declarations belong to this element only. So drop them, also if a subclass left out the element.
        self.declared = {}

    def _declare(self, prefix: str | None, uri: str | None) -> None:
        if uri and uri not in PREFIXES:
            self.declared[f"xmlns:{prefix}" if prefix else "xmlns"] = uri

    def _known(self, name: str) -> str:
        known = self._canonical.get(name)
        if known is None:
            uri, _, rest = name.partition(" ")
            local, _, prefix = rest.partition(" ")
            if not rest:  # a name without a namespace
                local, prefix = uri, ""
            else:
                prefix = PREFIXES.get(uri, prefix)
            known = self._canonical[name] = f"{prefix}:{local}" if prefix else local
        return known

    def _refuse(self, *_: object) -> None:
        # The Open Packaging Conventions forbid document types. A short entity could expand to a huge text.
        raise Invalid("a file of the workbook has a document type", file=self.part)


class PartWriter(PartReader):
    """Writes the part that it reads. Subclasses change elements or leave them out."""

    packs_pieces = True
    """Whether written pieces may be packed as UTF-8. False in a subclass that later edits written pieces."""

    def __init__(self, part: str, allowance: Allowance) -> None:
        super().__init__(part, allowance)
        self._packed = bytearray()
        self._out: list[str] = []
        self.root_declared = DECLARED
        self._is_root = True
        self._skipped = 0

    def rewritten(self, chunks: Iterable[bytes]) -> str:
        """Return the rewritten part. Raises Invalid, LimitExceeded."""
        self.read(chunks)
        self._pack()
        text, self._packed = self._packed.decode(errors="surrogatepass"), bytearray()
        return text

    def start(self, name: str, attributes: Attributes) -> None:
        """Write the start of an element, unless the element is inside a skipped element."""
        if self._skipped:
            self._skipped += 1
        else:
            declared, self._is_root = self.root_declared if self._is_root else "", False
            self.write(f"<{name}{declared}{attribute_text(self.declared)}{attribute_text(attributes)}>")

    def end(self, name: str) -> None:
        """Write the end of an element, unless the element is skipped."""
        if self._skipped:
            self._skipped -= 1
        else:
            self.write(f"</{name}>")

    def text(self, text: str) -> None:
        """Write text, unless the text is inside a skipped element."""
        if not self._skipped:
            self.write(escape(text))

    def skip(self) -> None:
        """Leave out this element and its content. A subclass calls this method instead of `PartWriter.start`."""
        self._skipped += 1

    @property
    def is_skipping(self) -> bool:
        """Whether the reader is inside a skipped element."""
        return self._skipped > 0

    def write(self, text: str) -> None:
        """Append markup."""
        self.allowance.text(text)
        self._out.append(text)
        if self.packs_pieces and len(self._out) >= PACKED_PIECES:
            self._pack()

    def _pack(self) -> None:
        self._packed += "".join(self._out).encode(errors="surrogatepass")
        self._out.clear()


def attribute_text(attributes: Mapping[str, str]) -> str:
    """Return the attributes as markup, each with a space before it."""
    return "".join(f" {name}={quoteattr(value)}" for name, value in attributes.items())

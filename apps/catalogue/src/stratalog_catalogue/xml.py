"""The reader of untrusted XML: it reads a document in pieces and yields each record with its original bytes.

`xml_bounds` checks each piece before expat, the parser of the standard library, parses it. The reader finds elements by
local name, because a record that is cut out of a document lacks the namespace declarations around it.

A byte order mark names the encoding of a document. Without a mark, the document's declaration names it. The encoding of
the source's settings applies only to a document with neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import NamedTuple
from xml.etree import ElementTree
from xml.parsers import expat

from stratalog import Invalid, LimitExceeded, StratalogError
from stratalog_catalogue.encodings import UTF8, encode_text, named_encoding, peeked, utf8_pieces
from stratalog_catalogue.limits import (
    CATALOGUE_DOCUMENT_BYTES_MAX,
    CATALOGUE_RECORD_BYTES_MAX,
    XML_ELEMENTS_OF_RECORD_MAX,
)
from stratalog_catalogue.xml_bounds import XmlBounds, even_pieces

__all__ = [
    "CutElement",
    "Element",
    "cut_elements",
    "local_name",
    "parse_element",
    "readable_xml",
    "text_at",
    "xml_text",
]

Element = ElementTree.Element
DECLARATION_BYTES_MAX = 200
DECLARED = re.compile(rb"""<\?xml\s[^>]*?encoding\s*=\s*["']([\w.-]+)["']""")
WIDE_STARTS = (
    (b"<\0\0\0", "utf-32-le"),
    (b"\0\0\0<", "utf-32-be"),
    (b"<\0", "utf-16-le"),
    (b"\0<", "utf-16-be"),
)
"""The first bytes of a document without a byte order mark, if a character has two or four bytes (XML 1.0, appendix F).
"""

WIDE = ("utf-16", "utf-32")
CONTROLS = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]|\xef\xbf[\xbe\xbf]")
REFERENCES = re.compile(rb"&#(x[0-9a-fA-F]{1,8}|[0-9]{1,10});")
SURROGATES = re.compile("[\ud800-\udfff]")
TAG = re.compile(rb"""<(?:[^"'>]++|"[^"]*+"|'[^']*+')*+>""")


class CutElement(NamedTuple):
    """An element, its original bytes, their encoding, and the namespaces that were declared around it.

    The encoding is empty for UTF-8 without a byte order mark, and if the bytes name it.
    """

    element: Element
    body: bytes
    encoding: str
    namespaces: dict[str, str]
    start: int = 0
    """The offset of the bytes in the document, if the document was read in its own encoding."""


def cut_elements(pieces: Iterable[bytes], name: str, encoding: str = "") -> Iterator[CutElement]:
    """Yield the outermost elements with the local name ``name``. Only the elements of one piece are in memory at once.

    Without a name, yield the root, with the whole document as its bytes. Raises Invalid for bytes that are not XML
    or have an internal subset in their document type, and LimitExceeded for XML beyond the limits.
    """
    head, rest = peeked(pieces, DECLARATION_BYTES_MAX)
    detected, mark, even = utf8_pieces(chain([head], rest), _unmarked_encoding(head, encoding))
    # The parser must ignore the encoding that the document declares if `utf8_pieces` has converted the text to UTF-8,
    # and if a byte order mark names UTF-8.
    forced = UTF8 if mark or detected != UTF8 else None
    named = named_encoding(detected, mark)
    bounds, cutter = XmlBounds(forced), _Cutter(name, forced)
    bytes_max = CATALOGUE_RECORD_BYTES_MAX if name else CATALOGUE_DOCUMENT_BYTES_MAX
    try:
        for piece in even_pieces(even):
            try:
                bounds.check(piece)
                complete = cutter.feed(piece)
            except (expat.ExpatError, StratalogError, ValueError, LookupError):
                # The records before the fault are complete.
                yield from (_as_it_came(cut, named) for cut in cutter.feed_until(piece, bounds.position))
                raise
            yield from (_as_it_came(cut, named) for cut in complete)
            if cutter.held_bytes > bytes_max:
                raise LimitExceeded("a record is too long", value=cutter.held_bytes, limit=bytes_max)
        for cut in map(_as_it_came, cutter.close(), [named]):
            # The byte order mark stays with the document and gives its encoding.
            yield cut._replace(body=mark + cut.body, encoding="") if mark else cut
    except (expat.ExpatError, LookupError, ValueError) as exc:
        raise Invalid("the text is not XML", reason=str(exc)) from exc


def _unmarked_encoding(head: bytes, given: str) -> str:
    """Return the encoding of a document without a byte order mark, or "" if the parser shall read the declaration."""
    wide = next((encoding for start, encoding in WIDE_STARTS if head.startswith(start)), "")
    if wide or DECLARED.match(head):
        return wide
    # Earlier builds stored the records of a document that declares UTF-16 as UTF-8, and named UTF-16 as their encoding.
    return "" if given.startswith(WIDE) and head.startswith(b"<") else given


def _as_it_came(cut: CutElement, named: str) -> CutElement:
    if cut.encoding or not named:  # otherwise only the document's own declaration can name it
        return cut
    return cut._replace(body=encode_text(cut.body, named), encoding=named)


def parse_element(body: bytes, encoding: str = "") -> Element:
    """Return the root of a document, or the element of a cut record. Raises the errors of `cut_elements`."""
    return next(cut_elements([body], "", "" if encoding == UTF8 else encoding)).element


def xml_text(body: bytes, encoding: str = "") -> str:
    """Return the text of a document or of a cut record, with U+FFFD for each byte that is not in its encoding."""
    detected, mark, _ = utf8_pieces([body], _unmarked_encoding(body[:DECLARATION_BYTES_MAX], encoding))
    declared = None if mark or detected != UTF8 else DECLARED.match(body[:DECLARATION_BYTES_MAX])
    try:
        return body[len(mark) :].decode(declared[1].decode() if declared else detected, errors="replace")
    except LookupError:  # the declared encoding is unknown
        return body.decode(errors="replace")


def readable_xml(body: bytes) -> bytes:
    """Return a UTF-8 document with ``?`` for each byte of a character that XML forbids and each byte that is not UTF-8.

    Every other byte keeps its offset. A document in another encoding is returned unchanged.
    """
    declared = DECLARED.match(body[:DECLARATION_BYTES_MAX])
    if b"\0" in body[:4] or (declared and declared[1].lower() not in (b"utf-8", b"us-ascii")):
        return body
    readable = CONTROLS.sub(lambda match: b"?" * len(match[0]), body)
    readable = REFERENCES.sub(_readable_reference, readable)
    try:
        readable.decode()
        return readable
    except UnicodeDecodeError:
        text = readable.decode(errors="surrogateescape")
        return SURROGATES.sub("?", text).encode()


def _readable_reference(match: re.Match[bytes]) -> bytes:
    """Return a numeric character reference if XML allows the character, else ``?`` for each of its bytes."""
    digits = match[1]
    code = int(digits[1:], 16) if digits[:1] == b"x" else int(digits)
    known = code in (0x9, 0xA, 0xD) or 0x20 <= code < 0xD800 or 0xE000 <= code < 0xFFFE or 0x10000 <= code < 0x110000
    return match[0] if known else b"?" * len(match[0])


def local_name(element: Element) -> str:
    """Return an element's name without the prefix."""
    return _local(element.tag) if isinstance(element.tag, str) else ""


def text_at(element: Element, path: str) -> str:
    """Return the text at a path of local names separated by dots, with ``@name`` at its end for an attribute, or ""."""
    *steps, last = path.split(".")
    for step in [*steps, *([] if last.startswith("@") else [last])]:
        next_element = next((child for child in element if local_name(child) == step), None)
        if next_element is None:
            return ""
        element = next_element
    if last.startswith("@"):
        return next((value for name, value in element.attrib.items() if _local(name) == last[1:]), "")
    return "".join(element.itertext()).strip()


def _local(name: str) -> str:
    return name.rpartition(":")[2]


class _Cutter:
    """A parser that builds the tree of one record at a time, and keeps the record's bytes."""

    def __init__(self, name: str, forced: str | None) -> None:
        self._name = name
        self._encoding = forced or UTF8
        self._open: list[dict[str, str]] = []
        self._tree: ElementTree.TreeBuilder | None = None
        self._root_depth = 0
        self._start = 0
        self._elements = 0
        self._held = bytearray()
        self._base = 0
        self._cut: list[CutElement] = []
        self._is_fed = False
        self._ended: Element | None = None
        parser = self._parser = expat.ParserCreate(forced)
        parser.buffer_text = True
        if forced is None:
            parser.XmlDeclHandler = self._declare
        parser.StartElementHandler = self._begin
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.SkippedEntityHandler = self._skip

    @property
    def held_bytes(self) -> int:
        """The number of the document's bytes in memory."""
        return len(self._held)

    def feed(self, piece: bytes) -> list[CutElement]:
        """Parse the next bytes and return the records that end in them."""
        self._held += piece
        self._is_fed = True
        self._parser.Parse(piece, False)
        self._is_fed = False
        cut, self._cut = self._cut, []
        if self._name:
            self._release(self._start if self._tree else self._parser.CurrentByteIndex)
        return cut

    def feed_until(self, piece: bytes, position: int) -> list[CutElement]:
        """Return the records that end before a position in the document. The position is not after ``piece``."""
        read_bytes = self._base + len(self._held)
        with suppress(expat.ExpatError, StratalogError, ValueError, LookupError):
            if not self._is_fed:
                return self.feed(piece[: max(position - read_bytes, 0)])
        cut, self._cut = self._cut, []
        return cut

    def close(self) -> list[CutElement]:
        """Parse the end of the document and return its root, if the root is the record."""
        self._parser.Parse(b"", True)
        if self._ended is None:
            return []
        # A whole document declares its encoding itself, so the result names no encoding.
        return [CutElement(self._ended, bytes(self._held), "", {})]

    def _declare(self, version: str, encoding: str | None, standalone: int) -> None:
        if encoding:
            self._encoding = encoding.lower()

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        if self._tree is None and self._name in ("", _local(name)):
            self._tree, self._root_depth, self._elements = ElementTree.TreeBuilder(), len(self._open), 0
            self._start = self._parser.CurrentByteIndex
        self._elements += self._tree is not None
        if self._elements > XML_ELEMENTS_OF_RECORD_MAX:
            text = "a record of XML has too many elements"
            raise LimitExceeded(text, value=self._elements, limit=XML_ELEMENTS_OF_RECORD_MAX)
        if self._tree is not None:
            self._tree.start(name, attributes)
        declared = {key: value for key, value in attributes.items() if key == "xmlns" or key.startswith("xmlns:")}
        self._open.append(declared)

    def _end(self, name: str) -> None:
        self._open.pop()
        if self._tree is None:
            return
        self._tree.end(name)
        if len(self._open) > self._root_depth:
            return
        element, self._tree = self._tree.close(), None
        if not self._name:
            self._ended = element
            return
        around = {prefix: uri for declared in self._open for prefix, uri in declared.items()}
        encoding = "" if self._encoding == UTF8 else self._encoding
        self._cut.append(CutElement(element, self._slice(), encoding, around, self._start))
        self._elements = 0

    def _text(self, text: str) -> None:
        if self._tree is not None:
            self._tree.data(text)

    def _skip(self, name: str, is_parameter: bool) -> None:
        raise Invalid("XML names an entity that it does not declare", entity=name)

    def _slice(self) -> bytes:
        start = self._start - self._base
        tag = TAG.match(self._held, start)
        if tag is None:
            raise Invalid("XML in this encoding cannot be split into records", encoding=self._encoding)
        if tag[0].endswith(b"/>"):
            return bytes(tag[0])
        end = self._held.index(b">", self._parser.CurrentByteIndex - self._base) + 1
        return bytes(self._held[start:end])

    def _release(self, until: int) -> None:
        del self._held[: until - self._base]
        self._base = until

"""XML that strangers wrote, read safely and in pieces, each record with the bytes that it came as.

The standard library's expat does the parsing, after `xml_bounds` has read the same bytes. Names keep their prefixes: a
record that is cut out of a document lacks the declarations around it, and its local names say enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple
from xml.etree import ElementTree
from xml.parsers import expat

from stratalog import Invalid, LimitExceeded, StratalogError
from stratalog_catalogue.encodings import UTF8, encode_text, utf8_pieces
from stratalog_catalogue.limits import (
    CATALOGUE_DOCUMENT_BYTES_MAX,
    CATALOGUE_RECORD_BYTES_MAX,
    XML_ELEMENTS_OF_RECORD_MAX,
)
from stratalog_catalogue.xml_bounds import XmlBounds, even_pieces

__all__ = ["CutElement", "Element", "cut_elements", "local_name", "parse_element", "readable_xml", "text_at"]

Element = ElementTree.Element
DECLARATION_BYTES_MAX = 200
DECLARED = re.compile(rb"""(?:\xef\xbb\xbf)?<\?xml[^>]*?encoding\s*=\s*["']([\w.-]+)["']""")
CONTROLS = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]|\xef\xbf[\xbe\xbf]")
REFERENCES = re.compile(rb"&#(x[0-9a-fA-F]{1,8}|[0-9]{1,10});")
SURROGATES = re.compile("[\ud800-\udfff]")
TAG = re.compile(rb"""<(?:[^"'>]++|"[^"]*+"|'[^']*+')*+>""")


class CutElement(NamedTuple):
    """An element, the bytes that it came as, their encoding, and the namespaces that were declared around it."""

    element: Element
    body: bytes
    encoding: str
    namespaces: dict[str, str]
    start: int = 0
    """Where the bytes are in the document, if it was read in its own encoding."""


def cut_elements(pieces: Iterable[bytes], name: str, encoding: str = "") -> Iterator[CutElement]:
    """The elements of that local name, outermost ones only. One at a time is in memory.

    Without a name it is the root, and its bytes are the whole document. Raises Invalid for what is no XML or declares
    entities or attributes, LimitExceeded for what is beyond the bounds of XML.
    """
    detected, mark, even = utf8_pieces(pieces, encoding)
    # Where the text was decoded, what the document says of its encoding no longer holds.
    forced = UTF8 if detected != UTF8 else None
    bounds, cutter = XmlBounds(forced), _Cutter(name, forced)
    bytes_max = CATALOGUE_RECORD_BYTES_MAX if name else CATALOGUE_DOCUMENT_BYTES_MAX
    try:
        for piece in even_pieces(even):
            try:
                bounds.check(piece)
                complete = cutter.feed(piece)
            except (expat.ExpatError, StratalogError, ValueError, LookupError):
                # The records before the fault are complete.
                yield from (_as_it_came(cut, detected) for cut in cutter.feed_until(piece, bounds.position))
                raise
            yield from (_as_it_came(cut, detected) for cut in complete)
            if cutter.held_bytes > bytes_max:
                raise LimitExceeded("a record goes on for too long", value=cutter.held_bytes, limit=bytes_max)
        for cut in map(_as_it_came, cutter.close(), [detected]):
            # A mark says the encoding with the document.
            yield cut._replace(body=mark + cut.body, encoding="") if mark else cut
    except (expat.ExpatError, LookupError, ValueError) as exc:
        raise Invalid("this is not XML", reason=str(exc)) from exc


def _as_it_came(cut: CutElement, encoding: str) -> CutElement:
    return cut if encoding == UTF8 else cut._replace(body=encode_text(cut.body, encoding), encoding=encoding)


def parse_element(body: bytes, encoding: str = "") -> Element:
    """The root of a whole document, or of a record that was cut out of one. Raises as `cut_elements` does."""
    return next(cut_elements([body], "", "" if encoding == UTF8 else encoding)).element


def readable_xml(body: bytes) -> bytes:
    """The document with ``?`` for each byte of a character that XML does not have, or that is no UTF-8, if it is that.

    Every other byte stays where it is. A document of another encoding is left as it is.
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
    """A reference to a character by its number, where XML has such a one."""
    digits = match[1]
    code = int(digits[1:], 16) if digits[:1] == b"x" else int(digits)
    known = code in (0x9, 0xA, 0xD) or 0x20 <= code < 0xD800 or 0xE000 <= code < 0xFFFE or 0x10000 <= code < 0x110000
    return match[0] if known else b"?" * len(match[0])


def local_name(element: Element) -> str:
    """Its name without the prefix."""
    return _local(element.tag) if isinstance(element.tag, str) else ""


def text_at(element: Element, path: str) -> str:
    """The text at a path of local names with dots between, ``@name`` at its end an attribute; empty where none is."""
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
    """Builds the tree of one record at a time, and remembers where its bytes are."""

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
        parser.XmlDeclHandler = self._declare
        parser.StartElementHandler = self._begin
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.SkippedEntityHandler = self._skip

    @property
    def held_bytes(self) -> int:
        """What is held of the document's bytes."""
        return len(self._held)

    def feed(self, piece: bytes) -> list[CutElement]:
        """The records that end in the next bytes."""
        self._held += piece
        self._is_fed = True
        self._parser.Parse(piece, False)
        self._is_fed = False
        cut, self._cut = self._cut, []
        if self._name:
            self._release(self._start if self._tree else self._parser.CurrentByteIndex)
        return cut

    def feed_until(self, piece: bytes, position: int) -> list[CutElement]:
        """The records that end before a position in the document, which is in the next bytes at the latest."""
        read_bytes = self._base + len(self._held)
        with suppress(expat.ExpatError, StratalogError, ValueError, LookupError):
            if not self._is_fed:
                return self.feed(piece[: max(position - read_bytes, 0)])
        cut, self._cut = self._cut, []
        return cut

    def close(self) -> list[CutElement]:
        """The root, once the document is complete, where it is the record."""
        self._parser.Parse(b"", True)
        if self._ended is None:
            return []
        # A document says its own encoding, so that none is told with it.
        return [CutElement(self._ended, bytes(self._held), "", {})]

    def _declare(self, version: str, encoding: str | None, standalone: int) -> None:
        if encoding and self._encoding == UTF8:
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
            raise Invalid("XML in this encoding cannot be cut into records", encoding=self._encoding)
        if tag[0].endswith(b"/>"):
            return bytes(tag[0])
        end = self._held.index(b">", self._parser.CurrentByteIndex - self._base) + 1
        return bytes(self._held[start:end])

    def _release(self, until: int) -> None:
        del self._held[: until - self._base]
        self._base = until

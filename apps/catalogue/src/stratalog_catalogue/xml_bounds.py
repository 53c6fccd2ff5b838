"""The check of the limits of XML. A parser that builds no tree checks each piece before another parser builds a tree.

The limits apply with every version of expat. Versions before 2.6 parse an incomplete token again with each piece, so a
long token costs quadratic time. Therefore the length of tokens is limited, and `even_pieces` makes all pieces the same
size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from xml.parsers import expat

from stratalog import Invalid, LimitExceeded
from stratalog_catalogue.limits import (
    XML_ATTRIBUTES_OF_ELEMENT_MAX,
    XML_DEPTH_MAX,
    XML_NAME_CHARACTERS_MAX,
    XML_NAMES_OF_DOCUMENT_MAX,
    XML_TOKEN_BYTES_MAX,
)

__all__ = ["XmlBounds", "even_pieces"]

PIECE_BYTES = 64 * 1024


class XmlBounds:
    """The check of one document. Raises Invalid for an internal subset, LimitExceeded, and expat's own error."""

    def __init__(self, encoding: str | None = None) -> None:
        self.read_bytes = 0
        self._depth = 0
        self._names: set[str] = set()
        parser = self._parser = expat.ParserCreate(encoding)
        parser.ordered_attributes = True
        parser.StartDoctypeDeclHandler = self._refuse
        parser.StartElementHandler = self._begin
        parser.EndElementHandler = self._end

    def check(self, piece: bytes) -> None:
        """Check the next bytes."""
        self._parser.Parse(piece, False)
        self.read_bytes += len(piece)
        # While a token is incomplete the parser's index stays at the start of the token.
        token_bytes = self.read_bytes - self._parser.CurrentByteIndex
        _bound("a tag or comment of XML is too long", token_bytes, XML_TOKEN_BYTES_MAX)

    @property
    def position(self) -> int:
        """The offset of the parser in the document, or of the error that it found."""
        return self._parser.CurrentByteIndex

    def _refuse(self, name: str, system: str | None, public: str | None, has_subset: int) -> None:
        # Only an internal subset, in brackets, declares anything. The parser never fetches an external subset.
        if has_subset:
            raise Invalid("XML with declarations in its document type is refused", doctype=name)

    def _begin(self, name: str, attributes: list[str]) -> None:
        self._depth += 1
        _bound("XML is nested too deeply", self._depth, XML_DEPTH_MAX)
        _bound("an element has too many attributes", len(attributes) // 2, XML_ATTRIBUTES_OF_ELEMENT_MAX)
        for used in (name, *attributes[::2]):
            if used not in self._names:
                _bound("a name in XML is too long", len(used), XML_NAME_CHARACTERS_MAX)
                self._names.add(used)
        for used, value in zip(attributes[::2], attributes[1::2], strict=True):
            if used.startswith("xmlns"):
                _bound("a namespace of XML is too long", len(value), XML_NAME_CHARACTERS_MAX)
        # A parser keeps all names in memory until the end of the document.
        _bound("XML has too many different names", len(self._names), XML_NAMES_OF_DOCUMENT_MAX)

    def _end(self, name: str) -> None:
        self._depth -= 1


def even_pieces(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in pieces of `PIECE_BYTES`. The last piece may be shorter."""
    held = bytearray()
    for piece in pieces:
        for start in range(0, len(piece), PIECE_BYTES):
            held += piece[start : start + PIECE_BYTES]
            if len(held) >= PIECE_BYTES:
                yield bytes(held[:PIECE_BYTES])
                del held[:PIECE_BYTES]
    if held:
        yield bytes(held)


def _bound(text: str, value: int, limit: int) -> None:
    if value > limit:
        raise LimitExceeded(text, value=value, limit=limit)

"""XML that strangers wrote, read safely and in pieces.

The standard library's expat does the parsing. A document that declares an entity is refused before its first element,
whatever the version of expat: no entity can grow, name a file or be fetched, since none is ever defined.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from xml.etree import ElementTree
from xml.parsers import expat

from stratalog import Invalid, LimitExceeded

__all__ = ["Element", "cut_elements", "local_name", "parse_element", "text_at", "to_bytes"]

Element = ElementTree.Element
DEPTH_MAX = 100


def cut_elements(pieces: Iterable[bytes], name: str) -> Iterator[Element]:
    """The elements of that local name, outermost ones only, each let go of when the next is asked for; or the root.

    Raises Invalid for what is no XML or declares entities, LimitExceeded for what is nested too deeply.
    """
    parser: Any = ElementTree.XMLPullParser(["start", "end"])
    prolog = _Prolog()
    path: list[Element] = []
    inside = 0
    try:
        for piece in pieces:
            prolog.check(piece)
            parser.feed(piece)
            for event, element in parser.read_events():
                if event == "start":
                    path.append(element)
                    _check_depth(path)
                    inside += local_name(element) == name
                    continue
                path.pop()
                if local_name(element) == name:
                    inside -= 1
                if not inside and (local_name(element) == name or not (name or path)):
                    yield element
                if not inside and name and path:
                    path[-1].remove(element)
        parser.close()
    except (ElementTree.ParseError, expat.ExpatError) as exc:
        raise Invalid("this is not XML", reason=str(exc)) from exc


def parse_element(body: bytes) -> Element:
    """The root of a whole document. Raises as `cut_elements` does."""
    return next(cut_elements([body], ""))


def to_bytes(element: Element) -> bytes:
    """An element as a document of its own; the same element always as the same bytes."""
    element.tail = None
    return bytes(ElementTree.tostring(element, encoding="utf-8"))


def local_name(element: Element) -> str:
    """Its name without the namespace."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def text_at(element: Element, path: str) -> str:
    """The text at a path of local names with dots between, ``@name`` at its end an attribute; empty where none is."""
    *steps, last = path.split(".")
    for step in [*steps, *([] if last.startswith("@") else [last])]:
        next_element = next((child for child in element if local_name(child) == step), None)
        if next_element is None:
            return ""
        element = next_element
    if last.startswith("@"):
        return next((value for name, value in element.attrib.items() if name.rpartition("}")[2] == last[1:]), "")
    return "".join(element.itertext()).strip()


class _Prolog:
    """Looks at a document up to its first element for entities that it declares."""

    def __init__(self) -> None:
        self._parser = expat.ParserCreate()
        self._parser.EntityDeclHandler = self._refuse
        self._parser.StartElementHandler = self._begin
        self._over = False

    def check(self, piece: bytes) -> None:
        if not self._over:
            self._parser.Parse(piece, False)

    def _refuse(self, name: str, *declared: object) -> None:
        raise Invalid("XML that declares entities is not read", entity=name)

    def _begin(self, *element: object) -> None:
        self._over = True
        self._parser.EntityDeclHandler = None
        self._parser.StartElementHandler = None


def _check_depth(path: list[Element]) -> None:
    if len(path) > DEPTH_MAX:
        raise LimitExceeded("XML is nested too deeply", limit=DEPTH_MAX)

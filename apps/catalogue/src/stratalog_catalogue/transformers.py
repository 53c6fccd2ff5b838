"""Transformers: pure functions that make a work from a source's record.

Each transformer has a version. A change of its results needs a new version: the next scan then makes the works again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from stratalog import Invalid
from stratalog.codec import is_decimal
from stratalog_catalogue.encodings import decode_text
from stratalog_catalogue.model import Agent, Dated, Identifier, Relation, Work
from stratalog_catalogue.record_splitter import control_fields, decoded_json
from stratalog_catalogue.xml import Element, local_name, parse_element, text_at

__all__ = ["TRANSFORMERS", "Given", "Transformer", "transformer"]


class Given(msgspec.Struct, frozen=True):
    """A source's record. The body is empty if it was too large to be read."""

    source: str
    id: str
    format: str
    body: bytes
    size: int
    encoding: str = ""
    """The encoding of a body that is not UTF-8 and does not name its encoding."""


class Transformer(msgspec.Struct, frozen=True):
    """A function that makes a work from a record. ``name`` includes the version."""

    name: str
    make: Callable[[Given], Work]


def transformer(name: str) -> Transformer:
    """Return the transformer that a source's settings name. Raises Invalid for an unknown name."""
    try:
        return TRANSFORMERS[name]
    except KeyError as exc:
        raise Invalid("unknown transformer", value=name, known=", ".join(TRANSFORMERS)) from exc


def debian_package(given: Given) -> Work:
    """Make a work from a paragraph of a Debian `Packages` index."""
    fields = control_fields(given.body, given.encoding)
    name = _needed(fields, "Package")
    summary, _, rest = fields.get("Description", "").partition("\n")
    return Work(
        id=given.id,
        source=given.source,
        kind="package",
        title=f"{name}: {summary}" if summary else name,
        creators=_people(fields.get("Maintainer", ""), "maintainer"),
        identifiers=_identifiers(fields, {"deb": "Package", "version": "Version", "sha256": "SHA256"}),
        relations=_depends(fields, ("Depends", "Recommends", "Provides", "Replaces")),
        subjects=_texts(fields.get("Section", ""), *fields.get("Tag", "").replace("\n", "").split(",")),
        description=_paragraph(rest),
        url=fields.get("Homepage", ""),
        size=int(fields["Size"]) if is_decimal(fields.get("Size", "")) else None,
    )


def debian_source(given: Given) -> Work:
    """Make a work from a paragraph of a Debian `Sources` index."""
    fields = control_fields(given.body, given.encoding)
    name = _needed(fields, "Package")
    people = _people(fields.get("Maintainer", ""), "maintainer") + _people(fields.get("Uploaders", ""), "uploader")
    built = tuple(Relation("builds", binary) for binary in _texts(*fields.get("Binary", "").split(",")))
    return Work(
        id=given.id,
        source=given.source,
        kind="source-package",
        title=f"{name} {fields.get('Version', '')}".strip(),
        creators=people,
        identifiers=_identifiers(fields, {"dsc": "Package", "version": "Version"}),
        relations=built + _depends(fields, ("Build-Depends", "Build-Depends-Indep")),
        subjects=_texts(fields.get("Section", "")),
        url=fields.get("Homepage", ""),
    )


def rfc_entry(given: Given) -> Work:
    """Make a work from an `rfc-entry` element of the RFC index."""
    entry = parse_element(given.body, given.encoding)
    year = f"{text_at(entry, 'date.year')} {text_at(entry, 'date.month')}".strip()
    relations = [
        Relation(local_name(group), reference)
        for group in entry
        if local_name(group) in ("obsoletes", "obsoleted-by", "updates", "updated-by", "is-also")
        for reference in _children(group, "doc-id")
    ]
    return Work(
        id=given.id,
        source=given.source,
        kind="standard",
        title=text_at(entry, "title"),
        creators=tuple(
            Agent(text_at(element, "name"), "author") for element in entry if local_name(element) == "author"
        ),
        dates=(Dated(year, "published"),) if year else (),
        identifiers=(Identifier("rfc", text_at(entry, "doc-id")), *_known("doi", text_at(entry, "doi"))),
        relations=tuple(relations),
        subjects=tuple(word for group in entry if local_name(group) == "keywords" for word in _children(group, "kw")),
        description=text_at(entry, "abstract"),
        language="en",
    )


def rfc_json(given: Given) -> Work:
    """Make a work from an RFC's metadata in the RFC Editor's JSON."""
    fields = _object(given)
    relations = [
        Relation(name.replace("_", "-"), str(target).strip())
        for name in ("obsoletes", "obsoleted_by", "updates", "updated_by", "see_also")
        for target in fields.get(name) or ()
    ]
    return Work(
        id=given.id,
        source=given.source,
        kind="standard",
        title=str(fields.get("title") or given.id).strip(),
        creators=tuple(Agent(str(name), "author") for name in fields.get("authors") or ()),
        dates=(Dated(str(fields["pub_date"]), "published"),) if fields.get("pub_date") else (),
        identifiers=(Identifier("rfc", given.id), *_known("doi", str(fields.get("doi") or ""))),
        relations=tuple(relations),
        subjects=_texts(str(fields.get("status") or ""), *map(str, fields.get("keywords") or ())),
        description=str(fields.get("abstract") or "").strip(),
        language="en",
    )


def rfc_xml(given: Given) -> Work:
    """Make a work from a whole RFC in the RFC XML vocabulary."""
    root = parse_element(given.body, given.encoding)
    front = next((child for child in root if local_name(child) == "front"), root)
    number = text_at(root, "@number")
    date = " ".join(part for part in (text_at(front, "date.@year"), text_at(front, "date.@month")) if part)
    relations = [
        Relation(name, f"RFC{target}")
        for name in ("obsoletes", "updates")
        for target in _texts(*text_at(root, f"@{name}").split(","))
    ]
    authors = [author for author in front if local_name(author) == "author"]
    return Work(
        id=given.id,
        source=given.source,
        kind="document",
        title=" ".join(text_at(front, "title").split()),
        creators=tuple(
            Agent(text_at(author, "@fullname") or text_at(author, "organization"), text_at(author, "@role") or "author")
            for author in authors
        ),
        dates=(Dated(date, "published"),) if date else (),
        identifiers=_known("rfc", f"RFC{number}" if number else ""),
        relations=tuple(relations),
        subjects=_texts(*_children(front, "area"), *_children(front, "keyword")),
        description=" ".join(text_at(front, "abstract").split()),
        language=text_at(root, "@lang"),
        size=given.size,
    )


def dublin_core(given: Given) -> Work:
    """Make a work from the elements with Dublin Core names at any depth, as in an OAI-PMH record in `oai_dc`."""
    root = parse_element(given.body, given.encoding)
    texts_by_name: dict[str, list[str]] = {}
    for element in root.iter():
        text = (element.text or "").strip()
        if text and not len(element):
            texts_by_name.setdefault(local_name(element), []).append(text)
    first = {name: texts[0] for name, texts in texts_by_name.items()}
    return Work(
        id=given.id,
        source=given.source,
        kind=first.get("type", "work").lower(),
        title=first.get("title", given.id),
        creators=tuple(
            Agent(name, role) for role in ("creator", "contributor") for name in texts_by_name.get(role, ())
        ),
        dates=tuple(Dated(date) for date in texts_by_name.get("date", ())),
        identifiers=tuple(Identifier("dc", value) for value in texts_by_name.get("identifier", ())),
        relations=tuple(Relation("relation", value) for value in texts_by_name.get("relation", ())),
        subjects=tuple(texts_by_name.get("subject", ())),
        language=first.get("language", ""),
        description="\n".join(texts_by_name.get("description", ())),
        url=next((value for value in texts_by_name.get("identifier", ()) if value.startswith("http")), ""),
    )


def film(given: Given) -> Work:
    """Make a work from one film of the `movies` data set of vega-datasets."""
    fields = _object(given)
    title = str(fields.get("Title") or given.id)
    genres = [fields.get("Major Genre"), fields.get("Creative Type"), fields.get("Source")]
    released = fields.get("Release Date")
    people = ((fields.get("Director"), "director"), (fields.get("Distributor"), "distributor"))
    return Work(
        id=given.id,
        source=given.source,
        kind="film",
        title=title,
        creators=tuple(Agent(str(name), role) for name, role in people if name),
        dates=(Dated(str(released), "released"),) if released else (),
        subjects=tuple(str(genre) for genre in genres if genre),
    )


def plain(given: Given) -> Work:
    """Make a work from a record in any format.

    Reads kind, title, creators, date, language, description and URL, under these names or common synonyms.
    """
    fields = _FIELDS[given.format](given) if given.body else {}
    lower = {str(name).lower(): value for name, value in fields.items()}
    texts: Any = {name: str(lower[name]) for name in ("language", "description", "url") if lower.get(name)}
    creators = lower.get("creators") or lower.get("creator") or lower.get("author") or ()
    date = lower.get("date") or lower.get("year")
    return Work(
        id=given.id,
        source=given.source,
        kind=str(lower.get("kind") or lower.get("type") or given.format),
        title=str(lower.get("title") or lower.get("name") or given.id),
        creators=tuple(
            Agent(str(creator)) for creator in (creators if isinstance(creators, list) else [creators]) if creator
        ),
        dates=(Dated(str(date)),) if date else (),
        size=given.size if given.format == "file" else None,
        **texts,
    )


TRANSFORMERS: Mapping[str, Transformer] = {
    "plain": Transformer("plain/1", plain),
    "debian-package": Transformer("debian-package/2", debian_package),
    "debian-source": Transformer("debian-source/2", debian_source),
    "rfc-index": Transformer("rfc-index/1", rfc_entry),
    "rfc-json": Transformer("rfc-json/1", rfc_json),
    "rfc-xml": Transformer("rfc-xml/1", rfc_xml),
    "dublin-core": Transformer("dublin-core/1", dublin_core),
    "film": Transformer("film/1", film),
}


def _needed(fields: Mapping[str, str], name: str) -> str:
    if not fields.get(name):
        raise Invalid("a record lacks a required field", field=name)
    return fields[name]


def _people(text: str, role: str) -> tuple[Agent, ...]:
    """Return an agent for each name in a list of e-mail addresses."""
    names = (part.partition("<")[0].strip(' ,\n"') for part in text.split(">"))
    return tuple(Agent(name, role) for name in names if name)


def _identifiers(fields: Mapping[str, str], schemes: Mapping[str, str]) -> tuple[Identifier, ...]:
    return tuple(Identifier(scheme, fields[name]) for scheme, name in schemes.items() if fields.get(name))


def _depends(fields: Mapping[str, str], names: tuple[str, ...]) -> tuple[Relation, ...]:
    """Return a relation to each alternative of each dependency, without version and architecture."""
    return tuple(
        Relation(name.lower(), target)
        for name in names
        if name in fields
        for target in dict.fromkeys(
            re.split(r"[\s:(\[<]", alternative.strip())[0]
            for part in fields[name].split(",")
            for alternative in part.split("|")
            if alternative.strip()
        )
    )


def _paragraph(text: str) -> str:
    lines = (line[1:] for line in text.split("\n"))
    return "\n".join("" if line == "." else line for line in lines).strip()


def _texts(*texts: str) -> tuple[str, ...]:
    return tuple(stripped for text in texts if (stripped := text.strip()))


def _known(scheme: str, value: str) -> tuple[Identifier, ...]:
    return (Identifier(scheme, value),) if value else ()


def _children(element: Element, name: str) -> list[str]:
    return [(child.text or "").strip() for child in element if local_name(child) == name]


def _object(given: Given) -> dict[str, Any]:
    value = decoded_json(decode_text(given.body, given.encoding).encode())
    if not isinstance(value, dict):
        raise Invalid("the record is not a JSON object", value=type(value).__name__)
    return value


def _elements(given: Given) -> dict[str, Any]:
    return {local_name(child): "".join(child.itertext()).strip() for child in parse_element(given.body, given.encoding)}


_FIELDS: Mapping[str, Callable[[Given], Mapping[str, Any]]] = {
    "json": _object,
    "jsonl": _object,
    "csv": _object,
    "xml": _elements,
    "rfc822": lambda given: control_fields(given.body, given.encoding),
    "file": lambda given: {},
}

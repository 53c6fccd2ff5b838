"""Queries of a catalogue: search, the versions of a record, and the difference between two versions."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

import msgspec

from stratalog import Invalid, NotFound, Records
from stratalog_catalogue.limits import CATALOGUE_DIFF_BYTES_MAX
from stratalog_catalogue.model import Work, decode_work
from stratalog_catalogue.names import WORKS, parts_of, source_id, work_id
from stratalog_catalogue.record_splitter import decoded_json
from stratalog_catalogue.source_rename import is_moved
from stratalog_catalogue.sources import read_source, read_sources
from stratalog_catalogue.summary import read_titles
from stratalog_catalogue.xml import xml_text

__all__ = [
    "FieldChange",
    "FieldDifference",
    "HistoryPage",
    "Hit",
    "RecordHistoryVersion",
    "differences",
    "read_work",
    "search",
    "show_versions",
]


class Hit(msgspec.Struct, frozen=True):
    """A work that matches a search."""

    source: str
    id: str
    title: str
    kind: str = ""


class RecordHistoryVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a source's record."""

    version: int
    stored_ms: int
    source_time_ms: int | None
    size: int
    sha256: str
    deleted: bool


class HistoryPage(msgspec.Struct, frozen=True):
    """Versions of a source's record, newest first.

    To read the next page, pass ``next`` as ``before``. ``next`` is None at the end.
    """

    versions: list[RecordHistoryVersion]
    next: int | None


class FieldChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A path in a value at which two versions differ. A side without a value at the path is omitted."""

    path: str
    before: Any = msgspec.UNSET
    after: Any = msgspec.UNSET


class FieldDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The differences between two versions.

    If both bodies are JSON values, ``changes`` has the paths at which the values differ. Otherwise ``lines`` has a
    unified diff.
    """

    source_version: int
    target_version: int
    changes: tuple[FieldChange, ...] = ()
    lines: tuple[str, ...] = ()


def search(records: Records, text: str = "", *, source: str = "", begins: str = "", limit: int = 50) -> list[Hit]:
    """Return at most ``limit`` works whose ids begin with ``begins``, ordered by source and id, without deleted works.

    Without ``source``, the function returns works of all sources.

    With ``text``, each word of the text must also be in the title or the id of a work. This search reads the titles
    that the last scan stored. A search without ``text`` reads the list of works. Each hit has the work's present title
    and kind.
    """
    names = [source] if source else [listed.name for listed in read_sources(records)]
    works = (work for name in names for work in (_by_title if text else _by_id)(records, name, text, begins))
    hits = (hit for work in works if (hit := _hit(records, work)) is not None)
    return list(islice(hits, limit))


def read_work(records: Records, source: str, id: str) -> Work:
    """Return the work of a source's record. Raises NotFound."""
    return decode_work(records.get(work_id(source, id)).body)


def show_versions(records: Records, source: str, id: str, before: int | None = None) -> Iterator[RecordHistoryVersion]:
    """Yield the versions of a source's record below ``before``, newest first, without their bodies. Raises NotFound."""
    for version in records.versions(source_id(source, id), reverse=True, before=before):
        yield RecordHistoryVersion(
            version=version.version,
            stored_ms=version.created_ms,
            source_time_ms=None if is_moved(version) else version.source_time_ms,
            size=version.size,
            sha256=version.digest.hex(),
            deleted=version.deleted,
        )


def differences(records: Records, source: str, id: str, source_version: int, target_version: int) -> FieldDifference:
    """Return the differences between two versions of a record.

    Raises NotFound, VersionForgotten and Redacted. Raises LimitExceeded for a body of more than
    `CATALOGUE_DIFF_BYTES_MAX` bytes, and Invalid if this program cannot read the settings of the source.
    """
    form = read_source(records, source).format
    before, after = (_body(records, source, id, version) for version in (source_version, target_version))
    if form in ("json", "jsonl", "csv") and before and after:
        with suppress(Invalid):
            changes = tuple(_changes(decoded_json(before), decoded_json(after), ""))
            return FieldDifference(source_version=source_version, target_version=target_version, changes=changes)
    texts = [body.decode(errors="replace").splitlines() for body in (before, after)]
    if texts[0] and len(texts[0]) == len(texts[1]) == 1:
        texts = [_broken(lines[0]) for lines in texts]
    names = (f"version {source_version}", f"version {target_version}")
    lines = tuple(difflib.unified_diff(texts[0], texts[1], *names, lineterm=""))
    return FieldDifference(source_version=source_version, target_version=target_version, lines=lines)


def _hit(records: Records, work: str) -> Hit | None:
    """Return a work as a hit, or None if it is deleted."""
    try:
        version = records.stat(work)
    except NotFound:
        return None
    source, id = parts_of(work)
    metadata = version.metadata
    return None if version.deleted else Hit(source, id, str(metadata.get("n", "")), str(metadata.get("k", "")))


def _by_id(records: Records, source: str, text: str, begins: str) -> Iterator[str]:
    return (line.id for line in records.list(prefix=f"{WORKS}{source}/{begins}"))


def _by_title(records: Records, source: str, text: str, begins: str) -> Iterator[str]:
    words = text.casefold().split()
    for work, title in read_titles(records, source):
        id = parts_of(work)[1]
        folded = f"{title} {id}".casefold()
        if id.startswith(begins) and all(word in folded for word in words):
            yield work


def _body(records: Records, source: str, id: str, version: int) -> bytes:
    """Return the body of a version in UTF-8. A deletion and version 0 have an empty body."""
    record_id = source_id(source, id)
    if version == 0 or records.stat(record_id, version).deleted:
        return b""
    got = records.get(record_id, version, size_max=CATALOGUE_DIFF_BYTES_MAX)
    encoding = str(got.version.metadata.get("encoding", ""))
    if got.version.metadata.get("format") == "xml":
        return xml_text(got.body, encoding).encode()
    return got.body.decode(encoding, errors="replace").encode() if encoding else got.body


def _changes(before: Any, after: Any, path: str) -> Iterator[FieldChange]:
    """Yield the smallest differing parts of two values. Items of lists are compared by position."""
    if type(before) is not type(after) or not isinstance(before, dict | list):
        if before != after or isinstance(before, bool) is not isinstance(after, bool):  # in Python, True equals 1
            yield FieldChange(path, before, after)
        return
    if isinstance(before, list):
        before, after = dict(enumerate(before)), dict(enumerate(after))
    for name in [*before, *(name for name in after if name not in before)]:
        field_path = f"{path}.{name}" if path else str(name)
        if name not in after:
            yield FieldChange(field_path, before=before[name])
        elif name not in before:
            yield FieldChange(field_path, after=after[name])
        else:
            yield from _changes(before[name], after[name], field_path)


def _broken(text: str) -> list[str]:
    """Break a one-line XML document into lines between adjacent tags."""
    return text.replace("><", ">\n<").split("\n")

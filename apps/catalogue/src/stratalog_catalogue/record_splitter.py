"""A file or an answer, cut into records: each as bytes that are kept, with its id and its source's time."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import msgspec

from stratalog import Invalid, LimitExceeded, StratalogError
from stratalog_catalogue.limits import CATALOGUE_DOCUMENT_BYTES_MAX, CATALOGUE_RECORD_BYTES_MAX
from stratalog_catalogue.sources import Source
from stratalog_catalogue.xml import cut_elements, text_at, to_bytes

__all__ = ["SplitRecord", "Unreadable", "control_fields", "split", "time_ms_of", "value_at"]

PIECE_BYTES = 1024 * 1024


class SplitRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record as its source has it now. ``path`` is that of a file whose bytes are the body, whatever their number."""

    id: str
    body: bytes = b""
    time_ms: int | None = None
    deleted: bool = False
    path: Path | None = None
    file_time_ms: int | None = None
    """Of the file that it stands in, where records of several files are taken at once."""


class Unreadable(msgspec.Struct, frozen=True, kw_only=True):
    """Something that should have been a record."""

    id: str
    reason: str
    body: bytes = b""
    file_time_ms: int | None = None


Read = SplitRecord | Unreadable


def split(source: Source, pieces: Iterable[bytes], where: str) -> Iterator[Read]:
    """The records in the bytes of one file or answer. What is no record is Unreadable; the rest goes on.

    Raises what ``pieces`` raise where their source is out of reach.
    """
    try:
        yield from _SPLIT[source.format](source, pieces, where)
    except (Invalid, LimitExceeded) as exc:
        yield Unreadable(id=where, reason=str(exc))


def time_ms_of(text: Any) -> int:
    """A time as milliseconds since 1970: ISO 8601, RFC 2822, or a number of seconds. Raises Invalid."""
    try:
        if isinstance(text, int | float) or text.lstrip("-").replace(".", "", 1).isdecimal():
            return round(float(text) * 1000)
        moment = parsedate_to_datetime(text) if "," in text else datetime.fromisoformat(text)
    except (AttributeError, TypeError, ValueError, OverflowError) as exc:
        raise Invalid("a source's time is not one that can be read", value=str(text)) from exc
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def value_at(value: Any, path: str) -> Any:
    """What is at a path of names with dots between; None where there is nothing."""
    for step in path.split(".") if path else ():
        value = value.get(step) if isinstance(value, dict) else None
    return value


def control_fields(body: bytes) -> dict[str, str]:
    """The fields of a paragraph as Debian writes them; lines that go on a field are kept in it."""
    fields: dict[str, str] = {}
    name = ""
    for line in body.decode(errors="replace").split("\n"):
        if line[:1] in (" ", "\t"):
            fields[name] = f"{fields.get(name, '')}\n{line}"
        elif line:
            name, _, value = line.partition(":")
            fields[name] = value.strip()
    return fields


def _split_json(source: Source, pieces: Iterable[bytes], where: str) -> Iterator[Read]:
    value = value_at(_decoded(_document_body(pieces)), source.records)
    listed = value if isinstance(value, list) else [value]
    for position, record in enumerate(listed):
        yield _json_record(source, record, f"{where}#{position}")


def _split_jsonl(source: Source, pieces: Iterable[bytes], where: str) -> Iterator[Read]:
    for position, line in enumerate(_cut(pieces, b"\n")):
        if line.strip():
            yield _read(lambda line=line: _decoded(line), line, f"{where}#{position}", source)  # type: ignore[misc]


def _split_xml(source: Source, pieces: Iterable[bytes], where: str) -> Iterator[Read]:
    for position, element in enumerate(cut_elements(pieces, source.records)):
        body = to_bytes(element)
        yield _record(source, lambda path, element=element: text_at(element, path), body, f"{where}#{position}")  # type: ignore[misc]


def _split_csv(source: Source, pieces: Iterable[bytes], where: str) -> Iterator[Read]:
    lines = (line.decode("utf-8-sig", errors="replace") + "\n" for line in _cut(pieces, b"\n"))
    for position, row in enumerate(csv.DictReader(lines)):
        plain = {name: value for name, value in row.items() if name is not None}
        yield _json_record(source, plain, f"{where}#{position}")


def _split_rfc822(source: Source, pieces: Iterable[bytes], where: str) -> Iterator[Read]:
    for position, paragraph in enumerate(_cut(pieces, b"\n\n")):
        body = paragraph.strip(b"\n")
        if body:
            fields = control_fields(body)
            yield _record(source, lambda path, fields=fields: fields.get(path), body + b"\n", f"{where}#{position}")  # type: ignore[misc]


def _split_file(source: Source, pieces: Iterable[bytes], where: str) -> Iterator[Read]:
    yield SplitRecord(id=where, body=_document_body(pieces))


_SPLIT: dict[str, Callable[[Source, Iterable[bytes], str], Iterator[Read]]] = {
    "json": _split_json,
    "jsonl": _split_jsonl,
    "xml": _split_xml,
    "csv": _split_csv,
    "rfc822": _split_rfc822,
    "file": _split_file,
}


def _json_record(source: Source, record: Any, where: str) -> Read:
    return _record(source, lambda path: value_at(record, path), msgspec.json.encode(record), where)


def _read(decode: Callable[[], Any], body: bytes, where: str, source: Source) -> Read:
    try:
        return _json_record(source, decode(), where)
    except StratalogError as exc:
        return Unreadable(id=where, reason=str(exc), body=body)


def _record(source: Source, value: Callable[[str], Any], body: bytes, where: str) -> Read:
    """The record behind ``body``, whose fields ``value`` finds."""
    try:
        parts = [_text(value(field)) for field in source.id_fields]
        if not all(parts):
            raise Invalid("a record has no id", fields=source.id)
        time_ms = time_ms_of(value(source.time)) if source.time else None
        return SplitRecord(id="/".join(parts), body=body, time_ms=time_ms)
    except StratalogError as exc:
        return Unreadable(id=where, reason=str(exc), body=body)


def _text(value: Any) -> str:
    return "" if value is None or isinstance(value, dict | list) else str(value)


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise Invalid("this is not JSON", reason=str(exc)) from exc


def _document_body(pieces: Iterable[bytes]) -> bytes:
    body = io.BytesIO()
    for piece in pieces:
        if body.tell() + len(piece) > CATALOGUE_DOCUMENT_BYTES_MAX:
            raise LimitExceeded("a document is too large to be read whole", limit=CATALOGUE_DOCUMENT_BYTES_MAX)
        body.write(piece)
    return body.getvalue()


def _cut(pieces: Iterable[bytes], mark: bytes) -> Iterator[bytes]:
    """What stands between marks. Only what is not yet complete is held."""
    rest = b""
    for piece in pieces:
        *complete, rest = (rest + piece.replace(b"\r\n", b"\n")).split(mark)
        yield from complete
        if len(rest) > CATALOGUE_RECORD_BYTES_MAX:
            raise LimitExceeded("a record goes on for too long", limit=CATALOGUE_RECORD_BYTES_MAX)
    if rest:
        yield rest

"""The splitter of files and HTTP answers into records, each with its bytes, its id and its time at the source."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import msgspec

from stratalog import Invalid, LimitExceeded, StratalogError, Unavailable
from stratalog.codec import json_reason
from stratalog.struct_types import resolved
from stratalog_catalogue.csv_rows import cut_rows
from stratalog_catalogue.encodings import UTF8, decode_text, encode_text, named_encoding, utf8_pieces
from stratalog_catalogue.limits import CATALOGUE_DOCUMENT_BYTES_MAX, CATALOGUE_RECORD_BYTES_MAX
from stratalog_catalogue.sources import Source
from stratalog_catalogue.xml import CutElement, cut_elements, text_at

__all__ = [
    "SplitRecord",
    "Unreadable",
    "checked_id",
    "control_fields",
    "decoded_json",
    "split",
    "time_ms_of",
    "value_at",
]

PIECE_BYTES = 1024 * 1024
MILLISECONDS_MIN = 1e11
TIME_CHARACTERS_SHOWN = 100
_SECONDS = re.compile(r"-?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?|-?\.[0-9]+")
_YEAR = re.compile(r"([1-9][0-9]{3})(?:-([0-9]{2}))?")
_DAY = re.compile(r"(19|20)[0-9]{2}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])")
_LINE_END = re.compile(rb"\n")
_PARAGRAPH_END = re.compile(rb"\n\r?\n")


class SplitRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record as its source has it now. With ``path`` the body is the content of that file, of any size."""

    id: str
    body: bytes = b""
    time_ms: int | None = None
    deleted: bool = False
    path: Path | None = None
    file_time_ms: int | None = None
    """The time of the record's file, if records of several files are read together, as in a poll of a folder."""

    encoding: str = ""
    """The encoding of the bytes. It is empty for UTF-8 without a byte order mark, and if the bytes name it."""

    metadata: dict[str, Any] = {}
    """Properties that the bytes do not contain.

    The properties are the ``namespaces`` declared around the bytes, and as ``name_hex`` the name of a file if the name
    is not UTF-8.
    """


class Unreadable(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that are not a valid record, or a document that cannot be split into records."""

    id: str
    reason: str
    body: bytes = b""
    path: Path | None = None
    """The file with the unreadable bytes, of any size."""

    document: bool = False
    """Whether the bytes are to be split into records: a whole file or answer, or a CSV row with its header."""

    encoding: str = ""
    """The encoding of the bytes. It is empty for UTF-8 without a byte order mark, and if the bytes name it."""

    file_time_ms: int | None = None
    metadata: dict[str, Any] = {}
    """Properties that the bytes do not contain: see `SplitRecord`."""


Read = SplitRecord | Unreadable


def split(source: Source, pieces: Iterable[bytes], where: str) -> Iterator[Read]:
    """Yield the records in the bytes of one file or answer. Invalid records are yielded as Unreadable.

    Raises Unavailable and OSError if ``pieces`` raises them, because then the source itself cannot be read.
    """
    try:
        yield from _SPLIT[source.format](source, pieces, where)
    except Unavailable:
        raise
    except (StratalogError, ValueError, LookupError, RecursionError) as exc:
        # A parser may raise any of these errors. The errors concern this document only, so the poll continues with the
        # other documents.
        text = str(exc) if isinstance(exc, StratalogError) else f"{type(exc).__name__}: {exc}"
        yield Unreadable(id=where, reason=text, document=True)


def time_ms_of(value: Any) -> int:
    """Return a time in milliseconds since 1970. Raises Invalid.

    The value is a time in ISO 8601, a time in RFC 2822 with its day of the week, a year, a year and month, or a number.
    Four digits from 1000 on are a year. Eight digits that look like a date from 1900 to 2099 are a day. Another number
    is in seconds, or in milliseconds if it is at least `MILLISECONDS_MIN`. In seconds, this minimum would be after the
    year 5000.
    """
    text = str(value).strip()
    try:
        if isinstance(value, bool) or value is None:
            raise ValueError(text)
        if year := _YEAR.fullmatch(text):
            return _milliseconds(datetime(int(year[1]), int(year[2] or 1), 1, tzinfo=UTC))
        if _SECONDS.fullmatch(text) and not _DAY.fullmatch(text):
            number = float(text)
            return round(number if abs(number) >= MILLISECONDS_MIN else number * 1000)
        return _milliseconds(parsedate_to_datetime(text) if "," in text else datetime.fromisoformat(text))
    except (AttributeError, TypeError, ValueError, OverflowError, IndexError) as exc:
        raise Invalid("a source's time cannot be read", value=text[:TIME_CHARACTERS_SHOWN]) from exc


def value_at(value: Any, path: str) -> Any:
    """Return the value at a path of names separated by dots, or None if the path has no value."""
    for step in path.split(".") if path else ():
        value = value.get(step) if isinstance(value, dict) else None
    return value


def control_fields(body: bytes, encoding: str = "", errors: str = "strict") -> dict[str, str]:
    """Return the fields of a paragraph in Debian's control format, with their continuation lines. Raises Invalid."""
    text = decode_text(body, encoding) if errors == "strict" else body.decode(encoding or UTF8, errors)
    fields: dict[str, str] = {}
    name = ""
    for line in text.replace("\r\n", "\n").split("\n"):
        if line[:1] in (" ", "\t"):
            fields[name] = f"{fields.get(name, '')}\n{line}"
        elif line:
            name, _, value = line.partition(":")
            fields[name] = value.strip()
    return fields


def _milliseconds(moment: datetime) -> int:
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _split_json(source: Source, pieces: Iterable[bytes], where: str) -> Iterator[Read]:
    encoding, mark, text = utf8_pieces(pieces, source.encoding)
    body = _document_body(text)
    for position, raw in enumerate(_json_list(body, source.records)):
        yield _json_record(source, raw, f"{where}#{position}", encoding, mark)


def _split_jsonl(source: Source, pieces: Iterable[bytes], where: str) -> Iterator[Read]:
    encoding, mark, text = utf8_pieces(pieces, source.encoding)
    for position, line in enumerate(_cut(text, _LINE_END)):
        # In a concatenation of files a byte order mark may begin any line.
        if stripped := line.strip().removeprefix(codecs.BOM_UTF8):
            yield _json_record(source, stripped, f"{where}#{position}", encoding, mark)


def _split_xml(source: Source, pieces: Iterable[bytes], where: str) -> Iterator[Read]:
    for position, cut in enumerate(cut_elements(pieces, source.records, source.encoding)):
        metadata = {"namespaces": cut.namespaces} if cut.namespaces else {}

        def value(path: str, cut: CutElement = cut) -> str:
            return text_at(cut.element, path)

        yield _record(source, value, cut.body, f"{where}#{position}", cut.encoding, metadata)


def _split_csv(source: Source, pieces: Iterable[bytes], where: str) -> Iterator[Read]:
    encoding, mark, text = utf8_pieces(pieces, source.encoding)
    named = named_encoding(encoding, mark)
    for position, row in enumerate(cut_rows(_cut(text, _LINE_END))):
        row_where = f"{where}#{position}"
        if row.reason:
            letter = encode_text(row.body, encoding)
            yield Unreadable(id=row_where, reason=row.reason, body=letter, document=True, encoding=named)
            continue
        body = msgspec.json.encode(row.fields)
        record = _record(source, row.fields.get, body, row_where, UTF8)
        if isinstance(record, Unreadable):
            letter = encode_text(row.body, encoding)
            record = msgspec.structs.replace(record, body=letter, document=True, encoding=named)
        yield record


def _split_rfc822(source: Source, pieces: Iterable[bytes], where: str) -> Iterator[Read]:
    encoding, mark, text = utf8_pieces(pieces, source.encoding)
    for position, paragraph in enumerate(_cut(text, _PARAGRAPH_END)):
        end = b"\r\n" if b"\r\n" in paragraph or paragraph.endswith(b"\r") else b"\n"
        stripped = paragraph.strip(b"\r\n")
        if stripped:
            # Only the fields of the id and the time must be UTF-8 here. Invalid bytes in other fields stay in the body.
            fields = control_fields(stripped, errors="surrogateescape")
            body = encode_text(stripped + end, encoding)
            yield _record(source, fields.get, body, f"{where}#{position}", named_encoding(encoding, mark))


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


def _json_list(body: bytes, path: str) -> list[bytes]:
    """Return the items of the list at a path, each as its original bytes. A value that is no list is the only item."""
    raw = body.strip()
    for step in path.split(".") if path else ():
        members = _members(raw) if raw.startswith(b"{") else {}
        if step not in members:
            raise Invalid("a document has no records at the given path", path=path)
        raw = members[step]
    return [bytes(item).strip() for item in decoded_json(raw, list[msgspec.Raw])] if raw.startswith(b"[") else [raw]


def _members(raw: bytes) -> dict[str, bytes]:
    return {name: bytes(value).strip() for name, value in decoded_json(raw, dict[str, msgspec.Raw]).items()}


def _json_record(source: Source, raw: bytes, where: str, encoding: str, mark: bytes) -> Read:
    named = named_encoding(encoding, mark)
    body = encode_text(raw, encoding)
    try:
        # Decode the whole record, although only a few fields are used: a record that is not JSON must not be stored.
        decoded_json(raw, Any)
        fields = _members(raw) if raw.startswith(b"{") else {}
    except StratalogError as exc:
        return Unreadable(id=where, reason=str(exc), body=body, encoding=named)
    return _record(source, lambda path: _json_value(fields, path), body, where, named)


def _json_value(fields: Mapping[str, bytes], path: str) -> str | None:
    """Return the value at a path as text, or None for null, an object or a list. A number keeps its original digits."""
    first, *steps = path.split(".")
    raw = fields.get(first, b"null")
    for step in steps:
        raw = _members(raw).get(step, b"null") if raw.startswith(b"{") else b"null"
    if raw[:1] in (b"{", b"[", b"n"):
        return None
    return str(decoded_json(raw, Any)) if raw[:1] in (b'"', b"t", b"f") else raw.decode()


def _record(
    source: Source,
    value: Callable[[str], Any],
    body: bytes,
    where: str,
    encoding: str,
    metadata: dict[str, Any] | None = None,
) -> Read:
    """Return the record with this body, or Unreadable. ``value`` returns the value of a field."""
    metadata = metadata or {}
    try:
        parts = [_text(value(field)) for field in source.id_fields]
        if not all(parts):
            raise Invalid("a record has no id", fields=source.id)
        time_ms = time_ms_of(value(source.time)) if source.time else None
        id = checked_id("/".join(parts))
        return SplitRecord(id=id, body=body, time_ms=time_ms, encoding=encoding, metadata=metadata)
    except StratalogError as exc:
        return Unreadable(id=where, reason=str(exc), body=body, encoding=encoding, metadata=metadata)


def checked_id(id: str) -> str:
    """Return ``id``. Raises Invalid if it cannot be encoded as UTF-8."""
    try:
        id.encode()
    except UnicodeEncodeError as exc:
        raise Invalid("a record's id is not valid Unicode text", value=ascii(id)[:TIME_CHARACTERS_SHOWN]) from exc
    return id


def _text(value: Any) -> str:
    return "" if value is None or isinstance(value, dict | list) else str(value)


def decoded_json(body: bytes, shape: Any = Any) -> Any:
    """Return a JSON value decoded as ``shape``. Raises Invalid."""
    try:
        return msgspec.json.decode(body, type=resolved(shape))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise Invalid("the text is not JSON", reason=json_reason(body, exc)) from exc


def _document_body(pieces: Iterable[bytes]) -> bytes:
    body = io.BytesIO()
    for piece in pieces:
        if body.tell() + len(piece) > CATALOGUE_DOCUMENT_BYTES_MAX:
            raise LimitExceeded("a document is too large to be read at once", limit=CATALOGUE_DOCUMENT_BYTES_MAX)
        body.write(piece)
    return body.getvalue()


def _cut(pieces: Iterable[bytes], mark: re.Pattern[bytes]) -> Iterator[bytes]:
    """Yield the parts between matches of ``mark``. Only one piece and one incomplete part are in memory."""
    rest = b""
    for piece in pieces:
        *complete, rest = mark.split(rest + piece)
        yield from complete
        if len(rest) > CATALOGUE_RECORD_BYTES_MAX:
            raise LimitExceeded("a record is too long", limit=CATALOGUE_RECORD_BYTES_MAX)
    if rest:
        yield rest

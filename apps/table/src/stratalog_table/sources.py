"""Sources of rows: the ingested files of each source, and the number of rows of each file in the table.

The table's state has the hash of each file's content under its source and name. So the same file is added once, and an
interrupted ingest resumes at the next row. A source must not use a name again for other content. After a clear, all
files may be ingested again.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec

from stratalog import Conflict, Draft, Invalid, LimitExceeded, Rejected
from stratalog.struct_types import resolved
from stratalog_table import messages
from stratalog_table.layout import Meta
from stratalog_table.limits import SOURCE_BYTES_MAX, SOURCE_FILE_BYTES_MAX

__all__ = ["SourceConflict", "SourceFile", "SourceRows", "check_source", "content_key", "note_rows", "source_key"]

HASH_CHARACTERS = 64


class SourceConflict(Conflict):
    """A source has other content under a name that it used before, or the same content under another name."""

    code = "source-conflict"


class SourceRows(msgspec.Struct, frozen=True, omit_defaults=True):
    """Some rows of a source's file: the ``rows`` rows that follow the first ``start`` rows of the file."""

    source: str
    name: str
    sha256: str
    """The hash of the whole file, in hexadecimal digits."""

    start: int
    rows: int
    is_repeat: bool = False
    """Whether to accept content that the source had under another name before."""


class SourceFile(msgspec.Struct, frozen=True, array_like=True):
    """A source's file, as stored in the table's state, with the number of its rows in the table."""

    source: str
    name: str
    sha256: str
    rows: int


def source_key(meta: Meta, source: str, name: str) -> str:
    """Return the key of a source's file. Names are hashed, so all keys have the same length."""
    return f"source{meta.files}/{_hash(source)}/{_hash(name)}"


def content_key(meta: Meta, source: str, content: str) -> str:
    """Return the key of the name of the source's first file with the content hash ``content``."""
    return f"content{meta.files}/{_hash(source)}/{content}"


def check_source(source: str, name: str) -> None:
    """Raise Invalid or LimitExceeded for names that the table's state cannot store."""
    for text, what, limit in ((source, "source", SOURCE_BYTES_MAX), (name, "file's name", SOURCE_FILE_BYTES_MAX)):
        try:
            size = len(text.encode())
        except UnicodeEncodeError as exc:
            raise Invalid(f"the {what} is not Unicode", value=ascii(text)) from exc
        if not text or any(ord(character) < 32 for character in text):
            raise Invalid(f"the {what} is empty or has control characters", value=text)
        if size > limit:
            raise LimitExceeded(f"the {what} is too long", value=size, limit=limit)


def note_rows(draft: Draft, meta: Meta, rows: SourceRows) -> None:
    """Record that rows of a source's file are in the table.

    Raises Rejected if they are malformed or not the next rows of the file, if the source had other content under the
    name before, or, unless ``rows.is_repeat``, if the source had the content under another name.
    """
    _check(rows)
    key = source_key(meta, rows.source, rows.name)
    stored: Any = draft.get(key)
    known = None if stored is None else msgspec.convert(stored, resolved(SourceFile))
    if known is not None and known.sha256 != rows.sha256:
        raise Rejected(messages.source_content_differs(rows.source, rows.name))
    if known is None:
        _note_content(draft, meta, rows)
    count = 0 if known is None else known.rows
    if rows.start != count:
        raise Rejected(messages.source_rows_present(rows.source, rows.name, count))
    draft.put(key, [rows.source, rows.name, rows.sha256, count + rows.rows])


def _note_content(draft: Draft, meta: Meta, rows: SourceRows) -> None:
    key = content_key(meta, rows.source, rows.sha256)
    name = draft.get(key)
    if name is None:
        draft.put(key, rows.name)
    elif not rows.is_repeat:
        raise Rejected(messages.source_content_known(rows.source, rows.name, name))


def _check(rows: SourceRows) -> None:
    try:
        check_source(rows.source, rows.name)
    except (Invalid, LimitExceeded) as exc:
        raise Rejected(f"Malformed transaction: {exc}") from exc
    is_hash = len(rows.sha256) == HASH_CHARACTERS and not rows.sha256.strip("0123456789abcdef")
    if not is_hash or rows.start < 0 or rows.rows < 1:
        raise Rejected("Malformed transaction: rows of a source have a hash, a start and a count")


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:32]

"""Rows of CSV, each with its original bytes. An invalid row does not affect the other rows.

There is one exception: a row with a quotation mark that is never closed contains the rest of the text.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from stratalog import Invalid
from stratalog_catalogue.encodings import decode_text
from stratalog_catalogue.limits import CATALOGUE_RECORD_BYTES_MAX

__all__ = ["CsvRow", "cut_rows"]


class CsvRow(NamedTuple):
    """A row's fields by name, or the reason why the row has no fields.

    ``body`` has the bytes of the header and of the row, which together are a CSV document.
    """

    fields: dict[str, str | None]
    body: bytes
    reason: str = ""


class _Lines:
    """The lines for a CSV reader, with the bytes of the lines that the reader has read."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = iter(lines)
        self.read: list[bytes] = []

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = next(self._lines) + b"\n"
        self.read.append(line)
        # Invalid UTF-8 passes the reader as surrogates. `_row` then refuses only the row with the invalid bytes.
        return line.decode(errors="surrogateescape")

    def take(self) -> bytes:
        """Return the bytes that were read since the last call."""
        body = b"".join(self.read)
        self.read.clear()
        return body


def cut_rows(lines: Iterable[bytes]) -> Iterator[CsvRow]:
    """Yield the rows after the header, which is the first row that is not blank. Blank rows are left out.

    Raises Invalid for a header that is not CSV or UTF-8, has no name, or has a name twice.
    """
    # The csv module has one limit of the size of fields for the whole process. The default limit is lower than the
    # limit of a record.
    if csv.field_size_limit() < CATALOGUE_RECORD_BYTES_MAX:
        csv.field_size_limit(CATALOGUE_RECORD_BYTES_MAX)
    read = _Lines(lines)
    reader = csv.reader(read, strict=True)
    try:
        while (names := next(reader, None)) == []:
            read.take()
    except csv.Error as exc:
        raise Invalid("the header of CSV cannot be read", reason=str(exc)) from exc
    if names is None:
        return
    header = read.take()
    decode_text(header, "")
    if not "".join(names).strip():
        raise Invalid("the header of CSV names no column")
    if len(set(names)) < len(names):
        raise Invalid("the header of CSV names a column twice", value=next(n for n in names if names.count(n) > 1))
    while True:
        try:
            values = next(reader, None)
        except csv.Error as exc:
            yield CsvRow({}, header + read.take(), f"the row is not CSV: {exc}")
            continue
        if values is None:
            return
        body = read.take()
        if values:
            yield _row(names, values, header + body)


def _row(names: list[str], values: list[str], body: bytes) -> CsvRow:
    if len(values) > len(names):
        return CsvRow({}, body, f"a row has {len(values)} values, the header {len(names)} names")
    try:
        decode_text(body, "")
    except Invalid as exc:
        return CsvRow({}, body, str(exc))
    return CsvRow({**dict.fromkeys(names), **dict(zip(names, values, strict=False))}, body)

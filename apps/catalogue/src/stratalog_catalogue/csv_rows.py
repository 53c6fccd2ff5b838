"""Rows of CSV, each with the bytes that it came as. A row that is not as the header says costs only itself."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from stratalog import Invalid
from stratalog_catalogue.encodings import decode_text
from stratalog_catalogue.limits import CATALOGUE_RECORD_BYTES_MAX

__all__ = ["CsvRow", "cut_rows"]


class CsvRow(NamedTuple):
    """A row's fields by their names, or why it has none; with the header's line it is a document of its own."""

    fields: dict[str, str | None]
    body: bytes
    reason: str = ""


class _Lines:
    """Lines on their way to a reader, which remembers those that it read."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = iter(lines)
        self.read: list[bytes] = []

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = next(self._lines) + b"\n"
        self.read.append(line)
        # A byte that is no UTF-8 goes through the reader and is found in the field that has it.
        return line.decode(errors="surrogateescape")

    def take(self) -> bytes:
        """What was read since the last call."""
        body = b"".join(self.read)
        self.read.clear()
        return body


def cut_rows(lines: Iterable[bytes]) -> Iterator[CsvRow]:
    """The rows after the header. Raises Invalid for a header that names no columns, or one column twice."""
    # The reader's own bound of a field is of the whole process, and lower than a record's.
    if csv.field_size_limit() < CATALOGUE_RECORD_BYTES_MAX:
        csv.field_size_limit(CATALOGUE_RECORD_BYTES_MAX)
    read = _Lines(lines)
    reader = csv.reader(read, strict=True)
    try:
        names = next(reader, None)
    except csv.Error as exc:
        raise Invalid("the header of CSV cannot be read", reason=str(exc)) from exc
    if names is None:
        return
    header = read.take()
    decode_text(header, "")
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

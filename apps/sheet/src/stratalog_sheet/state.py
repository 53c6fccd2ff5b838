"""The engine's state as the parts of a snapshot. A small change leaves the bytes of most parts unchanged.

The engine exports one JSON object. This module converts the object to a sequence of records: fields and rows of cells.
A row's record has the distance from the previous row, so an insertion above both rows does not change the record.

The records' content decides where parts end. A record whose CRC-32 ends in `PART_RECORDS_BITS` zero bits ends a
part of at least `PART_BYTES_MIN` bytes. Any record ends a part of at least `PART_BYTES_MAX`. `formats/sheet.md`
describes the bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from stratalog.codec import decode
from stratalog.errors import Corrupt, Unsupported
from stratalog.struct_types import resolved
from stratalog_sheet.cells import column_name, parse_cell

__all__ = ["BLANK", "count_cells", "join_state", "split_state", "title_in"]

BLANK = {
    "version": "19.3.2",
    "sheets": [{"id": "sheet1", "name": "Sheet1", "colNumber": 26, "rowNumber": 100, "cells": {}}],
}
"""A workbook with one empty sheet, as the engine writes it."""

FORMAT = 1
RUN_ITEMS_MIN = 32
PART_BYTES_MIN = 2 * 1024
PART_BYTES_MAX = 64 * 1024
PART_RECORDS_BITS = 5

Record = list[Any]
_encode = msgspec.msgpack.Encoder().encode


def split_state(data: bytes, title: str = "") -> list[bytes]:
    """Return the parts of a state that the engine exported as JSON.

    With a title, the first part has only the format and the title.
    """
    records = _records(msgspec.json.decode(data))
    parts = [_joined([_encode(next(records)), _encode(["title", title])])] if title else []
    held: list[bytes] = []
    size = 0
    for record in records:
        body = _encode(record)
        held.append(body)
        size += len(body)
        if size >= PART_BYTES_MAX or (size >= PART_BYTES_MIN and _ends_part(body)):
            parts.append(_joined(held))
            held, size = [], 0
    if held:
        parts.append(_joined(held))
    return parts


def join_state(parts: Iterable[bytes]) -> bytes:
    """Return the engine's JSON from its parts, with cells in row order.

    Raises Corrupt for a part that does not decode or an unknown record, and Unsupported for a newer format.
    """
    reader = _Reader()
    for part in parts:
        for record in decode(part):
            reader.read(record)
    return msgspec.json.encode(reader.data)


def title_in(part: bytes) -> str:
    """Return the title in the first part of a state; empty if the part has no title."""
    return next((str(record[1]) for record in decode(part) if record[0] == "title"), "")


def count_cells(data: bytes) -> int:
    """Return the number of filled cells in the engine's JSON."""
    counted = msgspec.json.decode(data, type=resolved(_Counted))
    return sum(len(sheet.cells) for sheet in counted.sheets)


class _CountedSheet(msgspec.Struct):
    cells: dict[str, msgspec.Raw] = {}


class _Counted(msgspec.Struct):
    sheets: list[_CountedSheet] = []


def _records(data: dict[str, Any]) -> Iterator[Record]:
    yield ["state", FORMAT]
    sheets = data.pop("sheets", [])
    yield from _fields(data)
    sheets.reverse()
    while sheets:
        sheet = sheets.pop()  # free each sheet once its records are written; `_rows` frees each row
        yield ["sheet"]
        cells = sheet.pop("cells", {})
        yield from _fields(sheet)
        yield from _rows(cells)


def _fields(fields: dict[str, Any]) -> Iterator[Record]:
    """Yield one record for each field.

    A map of at least `RUN_ITEMS_MIN` items becomes a record for the map and a record for each item, so a part may end
    between two items.
    """
    for name, value in fields.items():
        if isinstance(value, dict) and len(value) >= RUN_ITEMS_MIN:
            yield ["map", name]
            for key, item in value.items():
                yield ["item", key, item]
        else:
            yield ["field", name, value]


def _rows(cells: dict[str, Any]) -> Iterator[Record]:
    rows: dict[int, dict[int, Any]] = {}
    while cells:
        name, content = cells.popitem()
        column, row = parse_cell(name)
        rows.setdefault(row, {})[column] = content
    last = -1
    for row in sorted(rows):
        held = rows.pop(row)
        # The engine may export equal rows with their cells in different orders. Sort the cells to get equal records.
        columns = sorted(held)
        yield ["row", row - last, columns, [held[column] for column in columns]]
        last = row


def _ends_part(body: bytes) -> bool:
    return not zlib.crc32(body) & ((1 << PART_RECORDS_BITS) - 1)


def _joined(bodies: list[bytes]) -> bytes:
    """Return encoded records as one MessagePack array."""
    return b"\xdd" + len(bodies).to_bytes(4, "big") + b"".join(bodies)


class _Reader:
    """Rebuilds the state from its records, which must be read in order."""

    def __init__(self) -> None:
        self.data: dict[str, Any] = {}
        self._owner = self.data
        self._map: dict[str, Any] = {}
        self._row = -1

    def read(self, record: Record) -> None:
        kind = record[0]
        if kind == "row":
            self._read_row(record)
        elif kind == "item":
            self._map[record[1]] = record[2]
        elif kind == "field":
            self._owner[record[1]] = record[2]
        elif kind == "map":
            self._map = self._owner[record[1]] = {}
        elif kind == "sheet":
            self._owner = {"cells": {}}
            self.data["sheets"].append(self._owner)
            self._row = -1
        elif kind == "state":
            self._begin(record)
        elif kind != "title":
            raise Corrupt("a spreadsheet's state holds an unknown record", kind=kind)

    def _begin(self, record: Record) -> None:
        if record[1] > FORMAT:
            raise Unsupported("a spreadsheet's state has a newer format", value=record[1], known=FORMAT)
        self.data["sheets"] = []

    def _read_row(self, record: Record) -> None:
        _, gap, columns, contents = record
        self._row += gap
        number = str(self._row + 1)
        cells = self._owner["cells"]
        for column, content in zip(columns, contents, strict=True):
            cells[column_name(column) + number] = content

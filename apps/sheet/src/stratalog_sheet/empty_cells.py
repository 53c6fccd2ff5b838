"""Worksheets without the empty cells and rows that many programs write in millions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

__all__ = ["UNENDED_BYTES", "without_empty_cells"]

EMPTY = re.compile(rb'<c r="[A-Z]{1,3}[0-9]{1,7}"\s*(?:/>|></c>)')
UNNAMED = re.compile(rb"<c(?:>|\s+(?!r=))|<row(?![^>]*\sr=)|<!")
EMPTY_ROW = re.compile(
    rb'<row\b(?![^>]*\b(?:customHeight|hidden|customFormat|collapsed)="(?:1|true|on)")(?![^>]*\boutlineLevel="[1-9])'
    rb"[^>]*?(?:/>|>\s*</row>)"
)

UNENDED_BYTES = 256 * 1024
"""`without_empty_cells` collects about this many bytes of a long text or tag before it yields an incomplete piece."""


def without_empty_cells(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the worksheet without most cells and rows that have no content, style, custom height or similar property.

    Files may have millions of such cells and rows. A few of them stay where the file is cut into pieces.
    """
    held: list[bytes] = []
    for chunk in chunks:
        end = chunk.rfind(b">") + 1
        held.append(chunk[:end] if end else chunk)
        if not end and sum(map(len, held)) < UNENDED_BYTES:
            continue
        piece, held = b"".join(held), [chunk[end:]] if end else []
        # The position of a cell or row without `r` follows from the elements before it. So keep all elements of a piece
        # with such a cell or row.
        yield piece if UNNAMED.search(piece) else _without_empty_cells(piece)
    yield b"".join(held)


def _without_empty_cells(piece: bytes) -> bytes:
    """Return the piece without empty cells and rows. The last cell and the last row stay.

    The next piece may begin with a cell or row without `r`, whose position follows from them.
    """
    cells, cell, rest = piece.rpartition(b"<c ")
    rows, row, rest = (EMPTY.sub(b"", cells) + cell + rest).rpartition(b"<row")
    return EMPTY_ROW.sub(b"", rows) + row + rest

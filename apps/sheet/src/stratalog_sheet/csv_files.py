"""CSV by RFC 4180: import and export of one sheet of plain values."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any
from xml.sax.saxutils import escape

from stratalog.errors import Invalid, LimitExceeded
from stratalog_sheet.cells import cell_name
from stratalog_sheet.file_reports import Findings
from stratalog_sheet.limits import (
    SHEET_CELLS_MAX,
    SHEET_COLUMNS_MAX,
    SHEET_CSV_ROWS_MAX,
    SHEET_XLSX_BYTES_MAX,
    SHEET_XLSX_READ_BYTES_MAX,
)
from stratalog_sheet.xlsx_import import Workbook, workbook_of
from stratalog_sheet.xlsx_markup import MAIN
from stratalog_sheet.xlsx_texts import as_typed, encoded, is_link

__all__ = ["csv_sheet_bytes", "read_csv", "write_csv"]

SHEET = "Sheet1"
UTF8 = "utf-8-sig"
# The mark of UTF-32-LE begins with the mark of UTF-16-LE.
MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip
DELIMITERS = (",", ";", "\t", "|")
SEPARATOR = re.compile(r"sep=([,;\t|])\r?\n", re.IGNORECASE)
"""The line that some programs write before the first row to name the delimiter."""

CELL_BYTES = len('<c r="AB12345" t="str"><v xml:space="preserve"></v></c>')
# A number has at most 15 digits, and at most 15 decimals after a point. `1,5` is ambiguous, and `007` would lose its
# zeros, so both stay texts.
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?")
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def read_csv(body: bytes) -> Workbook:
    """Return the file as a workbook of one sheet. A field that matches `NUMBER` is a number; other fields are texts.

    An empty field makes no cell. Reads a file that is neither UTF-8 nor UTF-16 nor UTF-32 with a byte order mark as
    Windows-1252, and adds a finding to the report. A field may be as long as the file, like a text in a workbook.

    Raises Invalid for UTF-16 and UTF-32 that cannot be decoded, and for a zero byte in a file that is not UTF-8. Raises
    LimitExceeded for a file that is too large or has too many rows, columns or cells.
    """
    if len(body) > min(SHEET_XLSX_BYTES_MAX, SHEET_XLSX_READ_BYTES_MAX):
        raise LimitExceeded("the file is too large", value=len(body), limit=SHEET_XLSX_READ_BYTES_MAX)
    findings = Findings()
    text = _text(body, findings)
    counted = _Counted(findings)
    # The csv module has one field size limit for the whole process. A field may be longer than the default limit.
    if csv.field_size_limit() < SHEET_XLSX_BYTES_MAX:
        csv.field_size_limit(SHEET_XLSX_BYTES_MAX)
    hint = SEPARATOR.match(text)
    text = text[hint.end() :] if hint else text
    delimiter = hint[1] if hint else _delimiter(text)
    _check_quotes(text, delimiter, findings)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    del text  # the reader has its own copy
    head, tail = f'<worksheet xmlns="{MAIN}"><sheetData>', "</sheetData></worksheet>"
    sheet = "".join(chain((head,), counted.rows(reader), (tail,)))
    if (size := len(sheet.encode())) > SHEET_XLSX_READ_BYTES_MAX:
        raise LimitExceeded("the file is too large to be read", value=size, limit=SHEET_XLSX_READ_BYTES_MAX)
    return workbook_of(SHEET, sheet, counted.cells, findings.report())


def csv_sheet_bytes(body: bytes) -> int:
    """Estimate the bytes of a file's worksheet: its text, and the markup of each cell."""
    cells = body.count(b"\n") + max(body.count(delimiter.encode()) for delimiter in DELIMITERS) + 1
    return len(body) + CELL_BYTES * min(cells, SHEET_CELLS_MAX)


def write_csv(cells: Iterable[Mapping[str, Any]]) -> bytes:
    """Return cells with ``row``, ``col`` (from 0) and ``text`` as CSV in UTF-8, row by row."""
    rows: dict[int, dict[int, str]] = {}
    for cell in cells:
        rows.setdefault(cell["row"], {})[cell["col"]] = cell["text"]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    for row in range(max(rows, default=-1) + 1):
        texts = rows.get(row, {})
        writer.writerow([texts.get(column, "") for column in range(max(texts, default=-1) + 1)])
    text = out.getvalue()
    if hint := SEPARATOR.match(text):  # a cell with such a text would name the delimiter of the file
        line = hint[0].rstrip("\r\n")
        text = f'"{line}"{text[len(line) :]}'
    return text.encode(errors="replace")


class _Counted:
    """Converts the rows of a file to rows of a worksheet, and counts the filled cells."""

    def __init__(self, findings: Findings) -> None:
        self.cells = 0
        self._findings = findings

    def rows(self, rows: Iterable[list[str]]) -> Iterator[str]:
        """Yield the rows. Raises LimitExceeded for too many rows, columns or cells."""
        for number, texts in enumerate(rows):
            if number >= SHEET_CSV_ROWS_MAX:
                raise LimitExceeded("the file has too many rows", limit=SHEET_CSV_ROWS_MAX)
            if len(texts) > SHEET_COLUMNS_MAX:
                text = "the file has too many columns"
                raise LimitExceeded(text, row=number + 1, value=len(texts), limit=SHEET_COLUMNS_MAX)
            yield self._row(number, texts)

    def _row(self, number: int, texts: list[str]) -> str:
        cells = "".join(self._cell(cell_name(column, number), text) for column, text in enumerate(texts) if text)
        if self.cells > SHEET_CELLS_MAX:
            raise LimitExceeded("the file has too many cells for a browser", limit=SHEET_CELLS_MAX)
        return f'<row r="{number + 1}">{cells}</row>' if cells else ""

    def _cell(self, name: str, text: str) -> str:
        self.cells += 1
        if NUMBER.fullmatch(text):
            return f'<c r="{name}"><v>{text}</v></c>'
        if CONTROL.search(text):
            self._findings.add("control-character", "control characters are left out", name)
            text = CONTROL.sub("", text)
        if is_link(text):
            self._findings.add("link-text", "texts such as [text](address) become links", name)
        return f'<c r="{name}" t="str"><v xml:space="preserve">{escape(encoded(as_typed(text)))}</v></c>'


def _text(body: bytes, findings: Findings) -> str:
    encoding = _encoding(body, findings)
    try:
        return body.decode(encoding)
    except UnicodeDecodeError:
        if encoding != UTF8 or b"\0" in body:
            raise Invalid("the file is not text in UTF-8 or UTF-16") from None
        findings.add("encoding", "the file is not in UTF-8; it was read as Windows-1252")
        return body.decode("cp1252", errors="replace")


def _encoding(body: bytes, findings: Findings) -> str:
    """Return the encoding that a byte order mark names, or UTF-16 if the bytes look so, or UTF-8.

    Without a mark, half of the characters of a text in UTF-16 usually have a zero byte, each at the same side.
    """
    if marked := next((encoding for mark, encoding in MARKS if body.startswith(mark)), None):
        return marked
    first, second = body[::2].count(0), body[1::2].count(0)
    if 4 * (first + second) < len(body) or not body:
        return UTF8
    if first and second:
        raise Invalid("the file is not text in UTF-8 or UTF-16")
    findings.add("encoding", "the file has no byte order mark; it was read as UTF-16")
    return "utf-16-be" if first else "utf-16-le"


def _check_quotes(text: str, delimiter: str, findings: Findings) -> None:
    """Report a quotation mark that is never closed, and rows with text after a closing quotation mark.

    RFC 4180 allows neither. Python's reader accepts both by default.
    """
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows = 0
    while True:
        try:
            next(reader)
        except StopIteration:
            return
        except csv.Error as exc:
            where = cell_name(0, rows)
            if "end of data" in str(exc):
                reason = "a quotation mark is never closed; the rest of the file is in the last cell of its row"
                findings.add("open-quotation-mark", reason, where)
                return
            reason = "text follows a closing quotation mark; the cell has the text without the marks"
            findings.add("quotation-mark", reason, where)
        rows += 1


def _delimiter(text: str) -> str:
    """Return the delimiter: the most frequent candidate outside quotes in the first line; a comma if none occurs."""
    line = re.sub(r'"[^"]*"', "", text[:65536]).partition("\n")[0]
    return max(DELIMITERS, key=line.count)

"""Imported files: .xlsx or .csv, distinguished by name and content."""

from __future__ import annotations

from pathlib import Path

from stratalog.errors import Invalid, LimitExceeded
from stratalog_sheet.csv_files import csv_sheet_bytes, read_csv
from stratalog_sheet.limits import SHEET_IMPORT_BYTES_MAX, SHEET_XLSX_BYTES_MAX, SHEET_XLSX_COPIES
from stratalog_sheet.xlsx_archive import unpacked_bytes
from stratalog_sheet.xlsx_import import Workbook, read_workbook

__all__ = ["import_bytes", "read_file", "read_path"]

ZIP = b"PK\x03\x04"
"""The first bytes of an archive. A CSV may begin with the letters PK."""

COMPOUND = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""The first bytes of the files of older programs, and of workbooks with a password."""

ENCRYPTED = "EncryptedPackage".encode("utf-16-le")


def import_bytes(body: bytes) -> int:
    """Return the bytes of memory to reserve for an import: the unpacked size times the number of copies in memory.

    An import that may take more than `SHEET_IMPORT_BYTES_MAX` reserves only `SHEET_IMPORT_BYTES_MAX`. With the default
    settings of a server, no second import of this size then runs at the same time.
    """
    size = unpacked_bytes(body) if body.startswith(ZIP) else csv_sheet_bytes(body)
    return min(SHEET_XLSX_COPIES * size, SHEET_IMPORT_BYTES_MAX)


def read_path(path: Path) -> bytes:
    """Return the bytes of a file to import. Stop and raise LimitExceeded beyond `SHEET_XLSX_BYTES_MAX`."""
    with path.open("rb") as opened:
        body = opened.read(SHEET_XLSX_BYTES_MAX + 1)
    if len(body) > SHEET_XLSX_BYTES_MAX:
        size = max(path.stat().st_size, len(body))  # a pipe has no size
        raise LimitExceeded("the file is too large", value=size, limit=SHEET_XLSX_BYTES_MAX, file=path.name)
    return body


def read_file(name: str, body: bytes) -> Workbook:
    """Return a file as a workbook for the engine. Raises LimitExceeded, and Invalid for another kind of file."""
    if body.startswith(COMPOUND):
        kind = "a workbook with a password" if ENCRYPTED in body else "a file of an older program, such as .xls,"
        raise Invalid(f"{kind} cannot be imported; save it as .xlsx without a password, and import that file")
    if name.lower().endswith(".csv") and not body.startswith(ZIP):
        return read_csv(body)
    return read_workbook(body)

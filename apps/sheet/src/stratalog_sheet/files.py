"""Files that become sheets and that sheets become: .xlsx and .csv, told apart by what is in them."""

from __future__ import annotations

from stratalog_sheet.csv_files import read_csv
from stratalog_sheet.limits import SHEET_XLSX_COPIES, SHEET_XLSX_READ_BYTES_MAX
from stratalog_sheet.xlsx_archive import unpacked_bytes
from stratalog_sheet.xlsx_import import Workbook, read_workbook

__all__ = ["import_bytes", "read_file"]

ZIP = b"PK"


def import_bytes(body: bytes) -> int:
    """How many bytes of memory the import of a file may take: what the engine is to read, as often as it is held."""
    size = unpacked_bytes(body) if body.startswith(ZIP) else len(body)
    return SHEET_XLSX_COPIES * min(size, SHEET_XLSX_READ_BYTES_MAX)


def read_file(name: str, body: bytes) -> Workbook:
    """A file as the engine takes it. Raises Invalid for what is neither, LimitExceeded for what is too large."""
    if name.lower().endswith(".csv") and not body.startswith(ZIP):
        return read_csv(body)
    return read_workbook(body)

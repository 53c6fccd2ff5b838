"""Workbooks as the engine takes and gives them: a name and a text for each file of the archive."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from typing import Any

from stratalog.errors import Invalid, LimitExceeded
from stratalog_sheet.limits import SHEET_XLSX_BYTES_MAX, SHEET_XLSX_FILES_MAX, SHEET_XLSX_UNPACKED_BYTES_MAX

__all__ = ["count_filled", "pack_workbook", "unpack_workbook"]

CONTENT_TYPES = "[Content_Types].xml"
TEXTS = (".xml", ".rels")
IMAGES = "/media/"
SHEETS = "/worksheets/sheet"
WHEN = (1980, 1, 1, 0, 0, 0)


def unpack_workbook(xlsx: bytes) -> dict[str, Any]:
    """The files of a workbook that the engine reads. Raises Invalid for what is no .xlsx, LimitExceeded for a bomb.

    What the archive says of its sizes is checked before anything is unpacked, and what comes out as it comes.
    """
    if len(xlsx) > SHEET_XLSX_BYTES_MAX:
        raise LimitExceeded("the workbook is too large", value=len(xlsx), limit=SHEET_XLSX_BYTES_MAX)
    try:
        with zipfile.ZipFile(io.BytesIO(xlsx)) as archive:
            return _files(archive)
    except (zipfile.BadZipFile, UnicodeDecodeError, NotImplementedError, RuntimeError, EOFError) as exc:
        raise Invalid("the file is no .xlsx workbook", reason=str(exc)) from exc


def count_filled(files: dict[str, Any]) -> int:
    """About how many cells of a workbook hold something, told without reading it as XML; never more than there are."""
    sheets = [text for name, text in files.items() if isinstance(text, str) and SHEETS in name]
    return sum(max(text.count("</v>") + text.count("</is>"), text.count("</f>")) for text in sheets)


def pack_workbook(files: Iterable[dict[str, Any]]) -> bytes:
    """The workbook of the files that the engine wrote. The same files give the same bytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            if "content" in file:
                archive.writestr(zipfile.ZipInfo(file["path"], WHEN), file["content"], zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def _files(archive: zipfile.ZipFile) -> dict[str, Any]:
    listed = [entry for entry in archive.infolist() if not entry.is_dir()]
    size = sum(entry.file_size for entry in listed)
    if len(listed) > SHEET_XLSX_FILES_MAX or size > SHEET_XLSX_UNPACKED_BYTES_MAX:
        text = "the workbook is too large once unpacked"
        raise LimitExceeded(text, value=size, limit=SHEET_XLSX_UNPACKED_BYTES_MAX, files=len(listed))
    if CONTENT_TYPES not in {entry.filename for entry in listed}:
        raise Invalid("the file is no .xlsx workbook", reason=f"it has no {CONTENT_TYPES}")
    files: dict[str, Any] = {}
    for entry in listed:
        if entry.filename.endswith(TEXTS):
            files[entry.filename] = _read(archive, entry).decode("utf-8-sig")
        elif IMAGES in entry.filename:
            files[entry.filename] = {"imageSrc": ""}
    return files


def _read(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """One file, and no more of it than the archive said."""
    with archive.open(entry) as opened:
        body = opened.read(entry.file_size + 1)
    if len(body) > entry.file_size:
        raise LimitExceeded("a file of the workbook is larger than it says", file=entry.filename, limit=entry.file_size)
    return body

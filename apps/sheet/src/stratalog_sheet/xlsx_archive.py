"""Archives of workbooks: their parts by name, unpacked piece by piece and never further than the archive says."""

from __future__ import annotations

import io
import posixpath
import zipfile
import zlib
from collections.abc import Iterator

from stratalog.errors import Invalid, LimitExceeded
from stratalog_sheet.limits import SHEET_XLSX_BYTES_MAX, SHEET_XLSX_FILES_MAX, SHEET_XLSX_UNPACKED_BYTES_MAX

__all__ = ["DAMAGED", "WorkbookArchive", "unpacked_bytes"]

CONTENT_TYPES = "[Content_Types].xml"
CHUNK_BYTES = 256 * 1024
DAMAGED = (zipfile.BadZipFile, UnicodeDecodeError, NotImplementedError, RuntimeError, EOFError, zlib.error)
"""What the zip library raises of archives that are damaged, encrypted, or packed in another way."""


class WorkbookArchive:
    """The parts of one archive. What it says of its sizes is checked before anything is unpacked."""

    def __init__(self, xlsx: bytes) -> None:
        if len(xlsx) > SHEET_XLSX_BYTES_MAX:
            raise LimitExceeded("the workbook is too large", value=len(xlsx), limit=SHEET_XLSX_BYTES_MAX)
        self._archive = zipfile.ZipFile(io.BytesIO(xlsx))
        listed = [entry for entry in self._archive.infolist() if not entry.is_dir()]
        size = sum(entry.file_size for entry in listed)
        if len(listed) > SHEET_XLSX_FILES_MAX or size > SHEET_XLSX_UNPACKED_BYTES_MAX:
            text = "the workbook is too large once unpacked"
            raise LimitExceeded(text, value=size, limit=SHEET_XLSX_UNPACKED_BYTES_MAX, files=len(listed))
        # Names of parts are compared without regard to case, and some writers use the other slash.
        self._entries = {_folded(entry.filename): entry for entry in listed}
        if _folded(CONTENT_TYPES) not in self._entries:
            raise Invalid("the file is no .xlsx workbook", reason=f"it has no {CONTENT_TYPES}")

    def __contains__(self, name: str) -> bool:
        return _folded(name) in self._entries

    @property
    def names(self) -> list[str]:
        """The parts, in the archive's order."""
        return [entry.filename for entry in self._entries.values()]

    def size(self, name: str) -> int:
        """How long a part is, as the archive says."""
        return self._entries[_folded(name)].file_size

    def chunks(self, name: str) -> Iterator[bytes]:
        """A part, piece by piece. Raises LimitExceeded where it is longer than the archive says."""
        entry = self._entries[_folded(name)]
        left = entry.file_size
        with self._archive.open(entry) as opened:
            while chunk := opened.read(CHUNK_BYTES):
                left -= len(chunk)
                if left < 0:
                    text = "a file of the workbook is larger than it says"
                    raise LimitExceeded(text, file=entry.filename, limit=entry.file_size)
                yield chunk


def unpacked_bytes(xlsx: bytes) -> int:
    """How large a workbook says that its parts are in all; 0 for what is no archive. Unpacks nothing."""
    try:
        with zipfile.ZipFile(io.BytesIO(xlsx)) as archive:
            return sum(entry.file_size for entry in archive.infolist())
    except DAMAGED:
        return 0


def _folded(name: str) -> str:
    return posixpath.normpath(name.replace("\\", "/").lstrip("/")).lower()

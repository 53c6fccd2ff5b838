"""Archives of workbooks: parts by name, unpacked in pieces up to the size that the archive states."""

from __future__ import annotations

import io
import lzma
import posixpath
import zipfile
import zlib
from collections.abc import Iterator

from stratalog.errors import Invalid, LimitExceeded
from stratalog_sheet.limits import SHEET_XLSX_BYTES_MAX, SHEET_XLSX_FILES_MAX, SHEET_XLSX_UNPACKED_BYTES_MAX

__all__ = ["DAMAGED", "WorkbookArchive", "unpacked_bytes"]

CONTENT_TYPES = "[Content_Types].xml"
OPEN_DOCUMENT = "content.xml"
CHUNK_BYTES = 256 * 1024
DAMAGED = (
    zipfile.BadZipFile,
    UnicodeDecodeError,
    NotImplementedError,
    RuntimeError,
    EOFError,
    OSError,
    zlib.error,
    lzma.LZMAError,
)
"""Errors of the zip library for damaged archives, encrypted archives and unknown compression.

For damaged bzip2 data the library raises OSError. The archive is in memory, so no other OSError occurs.
"""


class WorkbookArchive:
    """The parts of one archive. The constructor checks the sizes that the archive states, and unpacks no part.

    Raises LimitExceeded if the archive is too large, packed or unpacked, or has too many parts. Raises Invalid if the
    archive has no list of content types. Raises an error in `DAMAGED` if the archive is damaged.
    """

    def __init__(self, xlsx: bytes) -> None:
        if len(xlsx) > SHEET_XLSX_BYTES_MAX:
            raise LimitExceeded("the workbook is too large", value=len(xlsx), limit=SHEET_XLSX_BYTES_MAX)
        self._archive = zipfile.ZipFile(io.BytesIO(xlsx))
        listed = [entry for entry in self._archive.infolist() if not entry.is_dir()]
        size = sum(entry.file_size for entry in listed)
        if len(listed) > SHEET_XLSX_FILES_MAX or size > SHEET_XLSX_UNPACKED_BYTES_MAX:
            text = "the workbook is too large once unpacked"
            raise LimitExceeded(text, value=size, limit=SHEET_XLSX_UNPACKED_BYTES_MAX, files=len(listed))
        # Part names are case-insensitive, and some programs write backslashes.
        self._entries = {_folded(entry.filename): entry for entry in listed}
        if _folded(OPEN_DOCUMENT) in self._entries and _folded(CONTENT_TYPES) not in self._entries:
            kind = "an OpenDocument file, such as .ods,"
            raise Invalid(f"{kind} cannot be imported; save it as .xlsx, and import that file")
        if _folded(CONTENT_TYPES) not in self._entries:
            raise Invalid("the file is not an .xlsx workbook", reason=f"it has no {CONTENT_TYPES}")

    def __contains__(self, name: str) -> bool:
        return _folded(name) in self._entries

    @property
    def names(self) -> list[str]:
        """The names of the parts, in the archive's order."""
        return [entry.filename for entry in self._entries.values()]

    def size(self, name: str) -> int:
        """Return the unpacked size of a part in bytes, as the archive states it."""
        return self._entries[_folded(name)].file_size

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield a part in pieces. Raises LimitExceeded once the part exceeds the size that the archive states."""
        entry = self._entries[_folded(name)]
        left = entry.file_size
        with self._archive.open(entry) as opened:
            while chunk := opened.read(CHUNK_BYTES):
                left -= len(chunk)
                if left < 0:
                    text = "a file in the workbook is larger than its header states"
                    raise LimitExceeded(text, file=entry.filename, limit=entry.file_size)
                yield chunk


def unpacked_bytes(xlsx: bytes) -> int:
    """Return the total size of a workbook's parts in bytes as the archive states it; 0 for a damaged archive."""
    try:
        with zipfile.ZipFile(io.BytesIO(xlsx)) as archive:
            return sum(entry.file_size for entry in archive.infolist())
    except DAMAGED:
        return 0


def _folded(name: str) -> str:
    return posixpath.normpath(name.replace("\\", "/").lstrip("/")).lower()

"""File responses: downloads that a browser saves under a name."""

from __future__ import annotations

from urllib.parse import quote

from litestar import Response

__all__ = ["CSV", "XLSX", "file_response"]

CSV = "text/csv"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def file_response(body: bytes, name: str) -> Response[bytes]:
    """Return a download. The media type follows from the name: CSV for .csv, else XLSX."""
    media_type = CSV if name.lower().endswith(".csv") else XLSX
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
    return Response(body, media_type=media_type, headers=headers)

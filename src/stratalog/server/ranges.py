"""Bodies that never change: entity tags, ranges, and how long they may be kept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Annotated

from litestar import Response
from litestar.params import HeaderParameter
from litestar.response import Stream

from stratalog.server.errors import Refused

__all__ = ["IfNoneMatch", "RangeHeader", "answer_body"]

OCTETS = "application/octet-stream"
IMMUTABLE = "private, max-age=31536000, immutable"
REVALIDATE = "private, no-cache"
RangeHeader = Annotated[str | None, HeaderParameter(name="Range")]
IfNoneMatch = Annotated[str | None, HeaderParameter(name="If-None-Match")]
_RANGE = re.compile(r"bytes=(\d{0,16})-(\d{0,16})")


def answer_body(
    pieces: Iterator[bytes],
    size: int,
    digest: str,
    wanted: str | None,
    known: str | None,
    headers: Mapping[str, str],
    *,
    immutable: bool,
) -> Response[bytes] | Stream:
    """A body or the range of it that is ``wanted``, streamed; 304 where the caller has it. Raises Refused.

    ``immutable``: the path names these very bytes. Damage in the first piece raises an error. Later damage cuts the
    answer short, which its length shows.
    """
    etag = f'"{digest}"'
    common = {
        **headers,
        "ETag": etag,
        "Accept-Ranges": "bytes",
        "Cache-Control": IMMUTABLE if immutable else REVALIDATE,
    }
    if known is not None and _is_among(etag, known):
        return Response(b"", status_code=304, headers=common, media_type=OCTETS)
    span = _span(wanted, size)
    start, end = span or (0, size)
    common["Content-Length"] = str(end - start)
    if span is not None:
        common["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    cut = _cut(pieces, start, end)
    first = next(cut, b"")
    return Stream(chain((first,), cut), status_code=206 if span else 200, headers=common, media_type=OCTETS)


def _is_among(etag: str, known: str) -> bool:
    """Also where one on the way compressed the body and weakened its tag."""
    return known.strip() == "*" or etag in {tag.strip().removeprefix("W/") for tag in known.split(",")}


def _span(wanted: str | None, size: int) -> tuple[int, int] | None:
    """From where to before where; None for the whole, which is also what several ranges or another unit get."""
    match = _RANGE.fullmatch(wanted.strip()) if wanted else None
    if match is None or match.group(1) == match.group(2) == "":
        return None
    first, last = match.groups()
    start = int(first) if first else max(0, size - int(last))
    end = min(size, int(last) + 1) if first and last else size
    if first and last and int(last) < int(first):
        return None
    if start >= end:
        raise Refused(416, "range-not-satisfiable", "the range lies outside the body", limit=size, value=start)
    return start, end


def _cut(pieces: Iterator[bytes], start: int, end: int) -> Iterator[bytes]:
    """The part of a stream between two places; reads no further than it must."""
    position = 0
    for piece in pieces:
        part = piece[max(0, start - position) : end - position]
        position += len(piece)
        if part:
            yield part
        if position >= end:
            return

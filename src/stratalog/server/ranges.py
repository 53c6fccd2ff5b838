"""Bodies that never change: entity tags, ranges, and how long they may be kept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

from litestar import Request, Response
from litestar.params import HeaderParameter
from litestar.response import Stream

from stratalog.server.byte_budgets import bytes_of
from stratalog.server.errors import Refused

if TYPE_CHECKING:
    from stratalog.server.service import Service

__all__ = ["IfNoneMatch", "RangeHeader", "answer_body"]

OCTETS = "application/octet-stream"
IMMUTABLE = "private, max-age=31536000, immutable"
REVALIDATE = "private, no-cache"
RangeHeader = Annotated[str | None, HeaderParameter(name="Range")]
IfNoneMatch = Annotated[str | None, HeaderParameter(name="If-None-Match")]
_RANGE = re.compile(r"bytes=([0-9]{0,16})-([0-9]{0,16})")


def answer_body(
    request: Request[Any, Any, Any],
    parts: Iterator[bytes],
    size: int,
    digest: str,
    wanted: str | None,
    known: str | None,
    headers: Mapping[str, str],
    *,
    immutable: bool,
) -> Response[bytes] | Stream:
    """A body or the range of it that is ``wanted``, streamed; 304 where the caller has it. Raises Refused.

    ``immutable``: the path names these very bytes. Damage in the first part raises an error. Later damage cuts the
    answer short, which its length shows. ``parts`` are read one by one, and should hold none that they gave out: while
    a part is sent it waits in the spool, and memory has a piece of it.
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
    service: Service = request.app.state.service
    pieces = service.spool.pieces(_cut(parts, start, end), bytes_of(request.scope))
    first = next(pieces, b"")
    return Stream(chain((first,), pieces), status_code=206 if span else 200, headers=common, media_type=OCTETS)


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


def _cut(parts: Iterator[bytes], start: int, end: int) -> Iterator[bytes]:
    """What lies between two places of a stream; reads no further than it must, and holds nothing that it gave out."""
    position = 0
    for part in parts:
        cut = [part[max(0, start - position) : end - position]]
        position += len(part)
        del part
        if cut[0]:
            yield cut.pop()
        if position >= end:
            return

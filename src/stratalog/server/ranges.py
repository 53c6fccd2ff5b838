"""Ranges: responses with a stored body, with entity tags, byte ranges and cache control."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

from litestar import Request, Response
from litestar.params import HeaderParameter
from litestar.response import Stream

from stratalog.server.byte_budgets import bytes_of
from stratalog.server.error_responses import PROBLEMS, response
from stratalog.server.errors import Refused
from stratalog.server.request_headers import headers_of

if TYPE_CHECKING:
    from stratalog.server.service import Service

__all__ = ["BODY_RESPONSES", "OCTETS", "IfNoneMatch", "RangeHeader", "answer_body"]

OCTETS = "application/octet-stream"
IMMUTABLE = "private, max-age=31536000, immutable"
REVALIDATE = "private, no-cache"
RangeHeader = Annotated[str | None, HeaderParameter(name="Range")]
"""The header Range of a request, or None. See `answer_body`."""

IfNoneMatch = Annotated[str | None, HeaderParameter(name="If-None-Match")]
"""The header If-None-Match of a request, or None. See `answer_body`."""

BODY_RESPONSES = {
    **PROBLEMS,
    206: response(bytes, "the requested range", OCTETS),
    304: response(None, "the caller has this body already"),
}
"""The further responses of a route that returns `answer_body`."""

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
    """Return a streamed body or its ``wanted`` range, or 304 if ``known`` names its ``digest``.

    ``wanted`` and ``known`` are the headers Range and If-None-Match. If the header If-Range names another body, the
    response is the whole body. ``immutable`` means that the path always names these bytes. ``parts`` are read one by
    one. While the server sends a large part, the part is in the spool file, and only one piece is in memory. So the
    iterator should keep no reference to a yielded part.

    Raises Refused for a range outside the body, and the errors of `BodySpool.pieces`. Damage in the first part raises
    an error. After later damage, the response is shorter than its Content-Length.
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
    # A caller that resumes a download has the beginning of the body that If-Range names. No range of another body fits.
    has_same_body = headers_of(request.scope).get("if-range", etag).strip() == etag
    span = _span(wanted, size) if has_same_body else None
    start, end = span or (0, size)
    common["Content-Length"] = str(end - start)
    if span is not None:
        common["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    service: Service = request.app.state.service
    pieces = service.spool.pieces(_cut(parts, start, end), bytes_of(request.scope))
    # Read the first piece now: damage in this piece still gets its own HTTP status.
    first = next(pieces, b"")
    return Stream(chain((first,), pieces), status_code=206 if span else 200, headers=common, media_type=OCTETS)


def _is_among(etag: str, known: str) -> bool:
    """Whether the header names the tag. A weak tag counts too: a proxy that compresses the body makes the tag weak."""
    return known.strip() == "*" or etag in {tag.strip().removeprefix("W/") for tag in known.split(",")}


def _span(wanted: str | None, size: int) -> tuple[int, int] | None:
    """Return (start, end) with ``end`` excluded, or None for the whole body.

    Several ranges or another unit give the whole body.
    """
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
    """Yield the bytes of a stream from ``start`` to before ``end``.

    Reads no part after ``end``, and keeps no yielded part.
    """
    position = 0
    for part in parts:
        # Use a list, so that `pop` below leaves no reference here while the consumer has the bytes.
        cut = [part[max(0, start - position) : end - position]]
        position += len(part)
        del part
        if cut[0]:
            yield cut.pop()
        if position >= end:
            return

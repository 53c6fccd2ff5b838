"""Row pages: a list response ends after a limit of rows or bytes, and ``next`` identifies the start of the next page.

The server encodes each row before it reads the next row. So a request needs memory for one row and for the bytes of its
page, even if the store has many rows. The request takes the page's bytes from the budget of responses before the server
reads the first row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import msgspec
from litestar import Request, Response

from stratalog.errors import Corrupt
from stratalog.protocol.readable import to_plain
from stratalog.server.application import ServerLimits
from stratalog.server.bodies import MSGPACK, accepted, encode_body
from stratalog.server.byte_budgets import bytes_of

__all__ = ["DamagedRows", "RowPage", "answer_page", "page_bytes_max", "page_of"]

DAMAGED_NAMED_MAX = 100

Row = TypeVar("Row")
Shape = TypeVar("Shape")
Asked = Request[Any, Any, Any]


class RowPage(Generic[Row]):
    """The rows of one page, encoded in the media type that the request accepts."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        """The encoded rows, each a `msgspec.Raw`."""

        self.last: Row | None = None
        """The last row of the page, or None for an empty page."""

        self.following: Row | None = None
        """The first row after the page, or None if no row follows."""

    @property
    def has_more(self) -> bool:
        """Whether rows follow."""
        return self.following is not None


class DamagedRows:
    """The damaged rows that were read for one page: at most `DAMAGED_NAMED_MAX` ids, and the number of the others."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.more = 0

    def add(self, error: Corrupt) -> None:
        """Note the row that the error names."""
        if len(self.ids) < DAMAGED_NAMED_MAX:
            self.ids.append(str(error.details["sort"]))
        else:
            self.more += 1


def page_of(
    request: Asked,
    rows: Iterable[Row],
    limit: int,
    shape: Callable[[Row], Any],
    size: Callable[[Row], int] | None = None,
) -> RowPage[Row]:
    """Return the first page of ``rows``: at most ``limit`` rows and `page_bytes_max` bytes, but at least the first row.

    ``shape`` converts a row to its form in the response. ``size`` returns the number of bytes that ``shape`` will read.
    With ``size``, the function does not read a row that exceeds the page, except the first row. The function takes at
    most one row beyond the page from ``rows``. Raises Refused when the budget of responses is full, and LimitExceeded
    for a single row larger than the caller's share of the budget.
    """
    kind = accepted(request.headers.get("accept", ""))
    taken, left = bytes_of(request.scope), page_bytes_max(request)
    taken.cover_answer(left)
    page = RowPage[Row]()
    for row in rows:
        row_bytes = size(row) if size else 0
        if len(page.rows) == limit or (page.rows and row_bytes > left):
            page.following = row
            break
        # Return the first row even if it is large, if the budget has room. Otherwise no page could list the rows after
        # this row.
        taken.cover_answer(row_bytes)
        with taken.room_for_row(row_bytes):
            body = encode_body(shape(row), kind)
        row_bytes = max(row_bytes, len(body))
        if page.rows and row_bytes > left:
            page.following = row
            break
        taken.cover_answer(row_bytes)
        page.rows.append(msgspec.Raw(body))
        page.last, left = row, left - row_bytes
    return page


def answer_page(request: Asked, shape: type[Shape], **fields: Any) -> Response[Shape]:
    """Return a response with these ``fields`` of ``shape``, among them the rows of a page.

    Reduces the bytes taken from the budget of responses to the size of the body.
    """
    names: tuple[str, ...] = shape.__struct_fields__  # type: ignore[attr-defined]
    assert set(names) == set(fields), f"{shape.__name__} has {names}"
    kind = accepted(request.headers.get("accept", ""))
    # Keep the order of the struct's fields, as if the struct itself were encoded.
    ordered = {name: fields[name] for name in names}
    body: Any
    if kind == MSGPACK:
        body = msgspec.msgpack.encode(ordered)
    else:
        body = msgspec.json.encode({name: to_plain(value) for name, value in ordered.items()})
    bytes_of(request.scope).settle_answer(len(body))
    return Response(body, media_type=kind)


def page_bytes_max(request: Asked) -> int:
    """Return the limit of a page in bytes.

    This limit never exceeds one caller's share of all response bytes in flight.
    """
    limits: ServerLimits = request.app.state.service.application.limits
    return min(limits.page_bytes_max, limits.answer_bytes_of_principal_max, limits.answer_bytes_in_flight_max)

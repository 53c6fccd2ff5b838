"""Pages of rows: an answer that lists something ends at so many rows or bytes, and says where to go on.

Rows are read one after the other and encoded at once. So a request holds one row and the bytes of its page, whatever
the store has. Those bytes are taken of the budget of answers before the first row is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import msgspec
from litestar import Request, Response

from stratalog.protocol.readable import to_plain
from stratalog.server.application import ServerLimits
from stratalog.server.bodies import MSGPACK, accepted, encode_body
from stratalog.server.byte_budgets import bytes_of

__all__ = ["RowPage", "answer_page", "page_bytes_max", "page_of"]

Row = TypeVar("Row")
Shape = TypeVar("Shape")
Asked = Request[Any, Any, Any]


class RowPage(Generic[Row]):
    """The rows of one page, encoded as the request asks."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        """Each is a `msgspec.Raw`."""

        self.last: Row | None = None
        """The last row that is in the page."""

        self.following: Row | None = None
        """The first row that is not in the page; None where the rows end with it."""

    @property
    def has_more(self) -> bool:
        """Whether rows follow."""
        return self.following is not None


def page_of(
    request: Asked,
    rows: Iterable[Row],
    limit: int,
    shape: Callable[[Row], Any],
    size: Callable[[Row], int] | None = None,
) -> RowPage[Row]:
    """The first of the ``rows``: at most ``limit``, and `ServerLimits.page_bytes_max` bytes; one where there is any.

    ``shape`` makes what a row is answered with. ``size`` is how many bytes that reads; the row that would go beyond the
    page is then not read. No row after that is asked for. Raises Refused where the budget of answers is full, and
    LimitExceeded for one row that is larger than the caller's share of it.
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
        # The first row is answered however large it is, if there is room for it.
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
    """The answer that has these ``fields`` of ``shape``, among them the rows of a page. Frees the rest."""
    names: tuple[str, ...] = shape.__struct_fields__  # type: ignore[attr-defined]
    assert set(names) == set(fields), f"{shape.__name__} has {names}"
    kind = accepted(request.headers.get("accept", ""))
    ordered = {name: fields[name] for name in names}
    body: Any
    if kind == MSGPACK:
        body = msgspec.msgpack.encode(ordered)
    else:
        body = msgspec.json.encode({name: to_plain(value) for name, value in ordered.items()})
    bytes_of(request.scope).settle_answer(len(body))
    return Response(body, media_type=kind)


def page_bytes_max(request: Asked) -> int:
    """How many bytes a page may have: no more than one caller may have of all answers."""
    limits: ServerLimits = request.app.state.service.application.limits
    return min(limits.page_bytes_max, limits.answer_bytes_of_principal_max, limits.answer_bytes_in_flight_max)

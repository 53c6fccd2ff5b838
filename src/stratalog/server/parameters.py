"""What handlers take from a path or a query."""

from __future__ import annotations

from typing import Annotated

from litestar.params import FromQuery, PathParameter, QueryParameter

from stratalog.limits import CLIENT_ID_BYTES_MAX, INTEGER_MAX, PAGE_ITEMS_MAX, VERSION_MAX

__all__ = ["PREFIX", "After", "At", "Client", "Count", "Flag", "Key", "Name", "Number", "Text", "Version"]

PREFIX = "/v1/organisations/{organisation:str}"

Name = Annotated[str, PathParameter(min_length=1)]
"""An id in the path, unescaped."""

At = Annotated[int | None, QueryParameter(ge=0, le=VERSION_MAX)]
"""A version; the newest, or the natural end, where none is said."""

Version = Annotated[int, QueryParameter(ge=0, le=VERSION_MAX)]
Number = Annotated[int, QueryParameter(ge=1, le=INTEGER_MAX)]
Count = Annotated[int, QueryParameter(ge=1, le=PAGE_ITEMS_MAX)]
"""How much a page may hold at most."""

After = FromQuery[str | None]
"""Where a page goes on: the ``next`` of the one before."""

Text = FromQuery[str]
Flag = FromQuery[bool]
Key = Annotated[str, QueryParameter(min_length=1)]
Client = Annotated[str, QueryParameter(min_length=1, max_length=CLIENT_ID_BYTES_MAX)]

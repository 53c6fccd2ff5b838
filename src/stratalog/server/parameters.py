"""Parameters: the types of handlers' parameters in a path or a query."""

from __future__ import annotations

from typing import Annotated

from litestar.params import FromQuery, PathParameter, QueryParameter

from stratalog.limits import CLIENT_ID_BYTES_MAX, INTEGER_MAX, PAGE_ITEMS_MAX, VERSION_MAX

__all__ = ["PREFIX", "After", "At", "Client", "Count", "Flag", "Key", "Name", "Number", "Text", "Time", "Version"]

PREFIX = "/v1/organisations/{organisation:str}"
"""The beginning of the paths that belong to one organisation."""

Name = Annotated[str, PathParameter(min_length=1)]
"""An id in the path, unescaped."""

At = Annotated[int | None, QueryParameter(ge=0, le=VERSION_MAX)]
"""A version. The default depends on the handler: the newest version, or no bound."""

Version = Annotated[int, QueryParameter(ge=0, le=VERSION_MAX)]
"""A version that the request must have."""

Time = Annotated[int, QueryParameter(ge=0, le=INTEGER_MAX)]
"""A time in milliseconds since 1970, in UTC."""

Number = Annotated[int, QueryParameter(ge=1, le=INTEGER_MAX)]
Count = Annotated[int, QueryParameter(ge=1, le=PAGE_ITEMS_MAX)]
"""The limit of items on a page."""

After = FromQuery[str | None]
"""The start of a page: the ``next`` of the page before."""

Text = FromQuery[str]
"""A text in the query, which may be empty."""

Flag = FromQuery[bool]
Key = Annotated[str, QueryParameter(min_length=1)]
"""A key in the query, which is not empty."""

Client = Annotated[str, QueryParameter(min_length=1, max_length=CLIENT_ID_BYTES_MAX)]

"""Request headers: decoded once for each request and stored in its scope."""

from __future__ import annotations

from typing import Any

from litestar.types import Scope

__all__ = ["Headers", "headers_of"]

Headers = dict[str, str]
_KEY = "stratalog.headers"


def headers_of(scope: Scope) -> Headers:
    """Return the headers by lower-case name. If a name occurs more than once, all readers get its last header.

    So no two checks of a request can read different values.
    """
    data: Any = scope
    headers: Headers | None = data.get(_KEY)
    if headers is None:
        headers = data[_KEY] = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    return headers

"""The headers of a request, decoded once for whoever looks at them."""

from __future__ import annotations

from typing import Any

from litestar.types import Scope

__all__ = ["Headers", "headers_of"]

Headers = dict[str, str]
_KEY = "stratalog.headers"


def headers_of(scope: Scope) -> Headers:
    """The headers by their names, in lower case. Of several with one name it is the last, for everybody alike."""
    data: Any = scope
    headers: Headers | None = data.get(_KEY)
    if headers is None:
        headers = data[_KEY] = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    return headers

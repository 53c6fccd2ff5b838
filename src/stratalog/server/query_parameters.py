"""Query parameters: the refusal of a query with a parameter that the handler does not declare."""

from __future__ import annotations

from collections import Counter
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec
from litestar import Litestar
from litestar.enums import ScopeType
from litestar.routes import HTTPRoute
from litestar.types import Scope

from stratalog.errors import Invalid

__all__ = ["ANY_QUERY", "QueryParameters", "check_query", "declared_parameters"]

ANY_QUERY = "any_query"
"""The option of a handler that accepts any query."""


class QueryParameters(msgspec.Struct, frozen=True):
    """The query parameters of one handler. A query may repeat only the parameters in ``repeatable``."""

    names: frozenset[str]
    repeatable: frozenset[str]


def declared_parameters(app: Litestar) -> dict[tuple[str, str], QueryParameters]:
    """Return the query parameters of each handler in the OpenAPI document, by path and method.

    The parameters include the parameters of the handler's dependencies. A handler that accepts any query is left out:
    it is not in the document, because it serves a page whose script may read the query; it has the option `ANY_QUERY`;
    or it takes Litestar's ``query`` and reads the query itself.
    """
    declared = {}
    for route in app.routes:
        if not isinstance(route, HTTPRoute):
            continue
        for method, (handler, model) in route.route_handler_map.items():
            reads_query = ANY_QUERY in handler.opt or "query" in model.expected_reserved_kwargs
            if handler.resolve_include_in_schema() and not reads_query:
                names = frozenset(parameter.field_alias for parameter in model.expected_query_params)
                repeatable = frozenset(model.sequence_query_parameter_names)
                declared[route.path_format, str(method)] = QueryParameters(names, repeatable)
    return declared


def check_query(scope: Scope) -> None:
    """Raise Invalid for a query that is not UTF-8, has an unknown parameter, or has a parameter twice.

    Litestar would not report any of these. It replaces each invalid byte by U+FFFD, so that one parameter's value would
    equal another value. It ignores an unknown parameter, so that a write with a misspelt condition would have no
    condition. It uses the last of two values.
    """
    query = scope["query_string"]
    if not query:
        return
    _check_utf_8(query)
    if scope["type"] != ScopeType.HTTP:
        return
    declared: dict[tuple[str, str], QueryParameters] = scope["litestar_app"].state.query_parameters
    known = declared.get((scope["path_template"], scope["method"]))
    if known is None:
        return
    given = Counter(name for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True))
    for name, count in given.items():
        if name not in known.names:
            names = ", ".join(sorted(known.names)) or "none"
            raise Invalid(f"the query has an unknown parameter (known: {names})", value=name)
        if count > 1 and name not in known.repeatable:
            raise Invalid("the query has a parameter twice", value=name)


def _check_utf_8(query: bytes) -> None:
    if b"%" not in query:
        return
    try:
        unquote_to_bytes(query).decode()
    except UnicodeDecodeError as exc:
        raise Invalid("the query is not UTF-8") from exc

"""Error responses: Litestar's handlers of exceptions, and the error responses in the OpenAPI document.

No response has a traceback in its body.
"""

from __future__ import annotations

import logging
from typing import Any

from litestar import MediaType, Request, Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.openapi.datastructures import ResponseSpec

from stratalog.errors import QuotaExceeded, StratalogError
from stratalog.server.errors import MEANINGS, Problem, problem_of, retry_headers, status_of
from stratalog.server.methods import allow_header
from stratalog.server.page_frame import HTML, error_page, is_asked_by_person
from stratalog.server.request_headers import headers_of

__all__ = ["PROBLEMS", "handle_core", "handle_http", "handle_unexpected", "response"]

_log = logging.getLogger("stratalog.server")
_HTTP_CODES = {404: "not-found", 405: "method-not-allowed", 413: "limit-exceeded"}


def response(data: Any, description: str, media_type: str = MediaType.JSON) -> ResponseSpec:
    """Describe a further response of a route for OpenAPI, without the random examples that Litestar would generate."""
    return ResponseSpec(data, description=description, media_type=media_type, generate_examples=False)


PROBLEMS = {status: response(Problem, meaning) for status, meaning in MEANINGS.items()}
"""The error responses of every handler, by status, for the argument ``responses`` of a route."""


def handle_core(request: Request[Any, Any, Any], error: StratalogError) -> Response[Problem]:
    """Return the response to an error of the core or the middleware.

    The function logs a status of 500 or above, except for an exceeded quota.
    """
    status = status_of(error)
    if status >= 500 and not isinstance(error, QuotaExceeded):
        _log.error("%s %s: %s %s", request.method, request.scope.get("path_template", "?"), error.code, error.message)
    return Response(problem_of(error), status_code=status, headers=retry_headers(status, error.details))


def handle_http(request: Request[Any, Any, Any], error: HTTPException) -> Response[Problem] | Response[str]:
    """Return the response to an error of the framework, as for an unknown path or an invalid parameter.

    A browser that shows an unknown path to a person gets a page.
    """
    status = error.status_code
    if status >= 500:
        return handle_unexpected(request, error)
    if status == 404 and is_asked_by_person(request.method, headers_of(request.scope)):
        page, headers = error_page(status)
        return Response(page, status_code=status, media_type=HTML, headers=headers)
    code = _HTTP_CODES.get(status, "invalid")
    message = error.detail
    if isinstance(error, ValidationException) and isinstance(error.extra, list):
        message = (
            "; ".join(f"{failure.get('key', 'body')}: {failure.get('message')}" for failure in error.extra) or message
        )
    limit = request.app.request_max_body_size if status == 413 else None
    headers = dict(error.headers or {})
    if status == 405:
        # Litestar's own 405 has the header `allow`. A handler may spell the name `Allow`, or omit the header.
        for name in [name for name in headers if name.lower() == "allow"]:
            headers[name] = allow_header(headers[name].replace(" ", "").split(","))
    return Response(Problem(code, message, limit), status_code=status, headers=headers)


def handle_unexpected(request: Request[Any, Any, Any], error: Exception) -> Response[Problem]:
    """Log the traceback of a fault of the server. Return the response, which reports only that the server failed."""
    _log.error("%s %s failed", request.method, request.scope.get("path_template", "?"), exc_info=error)
    return Response(Problem("error", "the server failed; its log has the reason"), status_code=500)

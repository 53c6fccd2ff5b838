"""Error responses: the form of each error response, Litestar's handlers of exceptions, and the descriptions in OpenAPI.

No response has a traceback in its body.
"""

from __future__ import annotations

import logging
from typing import Any

import msgspec
from litestar import MediaType, Request, Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.openapi.datastructures import ResponseSpec
from litestar.types import Scope

from stratalog.errors import QuotaExceeded, StratalogError
from stratalog.server.audit import note_refusal
from stratalog.server.errors import MEANINGS, Problem, problem_of, retry_headers, status_of
from stratalog.server.methods import allow_header
from stratalog.server.page_frame import HTML, error_page, is_asked_by_person
from stratalog.server.request_headers import headers_of

__all__ = [
    "PROBLEMS",
    "error_response",
    "handle_core",
    "handle_http",
    "handle_unexpected",
    "problem_response",
    "response",
]

_log = logging.getLogger("stratalog.server")
HTML_UTF_8 = f"{HTML}; charset=utf-8"
_HTTP_CODES = {404: "not-found", 405: "method-not-allowed", 413: "limit-exceeded"}


def response(data: Any, description: str, media_type: str = MediaType.JSON) -> ResponseSpec:
    """Describe a further response of a route for OpenAPI, without the random examples that Litestar would generate."""
    return ResponseSpec(data, description=description, media_type=media_type, generate_examples=False)


PROBLEMS = {status: response(Problem, meaning) for status, meaning in MEANINGS.items()}
"""The error responses of every handler, by status, for the argument ``responses`` of a route."""


def error_response(scope: Scope, error: StratalogError) -> tuple[int, dict[str, str], bytes]:
    """Return the status, the headers and the body of the response to an error of the core or the middleware."""
    status = status_of(error)
    headers, body = problem_response(scope, status, problem_of(error), error.message)
    return status, headers | retry_headers(status, error.details), body


def problem_response(scope: Scope, status: int, problem: Problem, sentence: str = "") -> tuple[dict[str, str], bytes]:
    """Return the headers and the body of an error response: a page for a person in a browser, and JSON for a program.

    All responses to errors of a request are written here. The page shows ``sentence`` instead of the problem's message.
    """
    request: Any = scope  # an HTTP request, which has a method
    if is_asked_by_person(request["method"], headers_of(scope)):
        page, headers = error_page(status, sentence)
        media_type, body = HTML_UTF_8, page.encode()
    else:
        headers, media_type, body = {}, MediaType.JSON.value, msgspec.json.encode(problem)
    return {**headers, "content-type": media_type, "content-length": str(len(body))}, body


def handle_core(request: Request[Any, Any, Any], error: StratalogError) -> Response[bytes]:
    """Return the response to an error of the core or the middleware, and note a refusal for the security log.

    The function logs a status of 500 or above, except for an exceeded quota.
    """
    status, headers, body = error_response(request.scope, error)
    note_refusal(request.scope, error, status)
    if status >= 500 and not isinstance(error, QuotaExceeded):
        _log.error("%s %s: %s %s", request.method, request.scope.get("path_template", "?"), error.code, error.message)
    return _as_response(status, headers, body)


def handle_http(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    """Return the response to an error of the framework, as for an unknown path or an invalid parameter."""
    status = error.status_code
    if status >= 500:
        return handle_unexpected(request, error)
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
    # The page of an unknown address says enough without Litestar's message.
    own, body = problem_response(request.scope, status, Problem(code, message, limit), "" if status == 404 else message)
    return _as_response(status, headers | own, body)


def handle_unexpected(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Log the traceback of a fault of the server. Return the response, which reports only that the server failed."""
    _log.error("%s %s failed", request.method, request.scope.get("path_template", "?"), exc_info=error)
    message = "the server failed; its log has the reason"
    return _as_response(500, *problem_response(request.scope, 500, Problem("error", message), message))


def _as_response(status: int, headers: dict[str, str], body: bytes) -> Response[bytes]:
    """Return Litestar's form of a response. Litestar adds the length, and the encoding of a text."""
    others = {name: value for name, value in headers.items() if name not in ("content-type", "content-length")}
    return Response(body, status_code=status, headers=others, media_type=headers["content-type"].partition(";")[0])

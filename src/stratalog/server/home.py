"""The server's own pages: an overview at `/` and `/web/`, the API at `/schema`, and an icon.

These pages load nothing from other hosts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

from litestar import Request, Response, Router, get
from litestar.openapi.plugins import JsonRenderPlugin, OpenAPIRenderPlugin
from litestar.types import ControllerRouterHandler

from stratalog.server.page_frame import HTML, PAGE_HEADERS, framed
from stratalog.server.pages import CLIENT, WEB
from stratalog.server.service import Served

__all__ = ["HOME", "OPEN_PATHS", "SchemaDocument", "SchemaPage", "schema_router"]

OPEN_PATHS = frozenset({"/", "/favicon.ico", "/health", "/schema", "/schema/openapi.json"})
"""Paths that need no token. Paths below `/web/` need no token either."""

ICON = CLIENT.with_name("home") / "icon.svg"
INDEX = "/index.html"
SVG = "image/svg+xml"
_PROGRAMS = (
    ("/schema", "API", "all calls with their parameters and responses"),
    ("/schema/openapi.json", "OpenAPI document", "the API in machine-readable form"),
    ("/web/client/stratalog.js", "Browser client", "a JavaScript module"),
    ("/health", "Health", "whether the store can be read"),
)


@get(["/", WEB], include_in_schema=False, sync_to_thread=False)
def home(request: Request[Any, Any, Any]) -> Response[str]:
    """The start page: links to the applications' pages and to the API."""
    paths = sorted(route.path for route in request.app.routes if route.path.endswith(INDEX))
    pages = [(path.removesuffix("index.html"), _title(path), "") for path in paths if path.startswith(WEB)]
    sections = [_links("Pages", pages)] if pages else []
    sections.append(_links("For programs", _PROGRAMS))
    text = f"<p>Version {escape(version('stratalog'))}. Documents, logs and records are below <code>/v1/</code>.</p>"
    return Response(framed("Stratalog", "Stratalog", [text, *sections]), media_type=HTML, headers=PAGE_HEADERS)


@get("/favicon.ico", pool="pages", include_in_schema=False)
async def icon(service: Served) -> Response[bytes]:
    """The icon, under the name that browsers request by default."""
    return Response(await service.run(ICON.read_bytes), media_type=SVG, headers=PAGE_HEADERS)


class SchemaPage(OpenAPIRenderPlugin):
    """The OpenAPI document as a page. Litestar's own pages would load scripts from another host."""

    def __init__(self) -> None:
        super().__init__(path="/")
        self._page: bytes | None = None

    def render(self, request: Request[Any, Any, Any], openapi_schema: Mapping[str, Any]) -> bytes:
        """Return the page. The first call makes the page. Later calls return the same bytes."""
        if self._page is None:
            self._page = framed("API · Stratalog", '<a href="/">Stratalog</a> API', [_calls(openapi_schema)]).encode()
        return self._page


class SchemaDocument(JsonRenderPlugin):
    """The OpenAPI document as JSON. Litestar's own plugin encodes the document for each request, on the event loop."""

    def __init__(self) -> None:
        super().__init__()
        self._encoded: bytes | None = None

    def render(self, request: Request[Any, Any, Any], openapi_schema: Mapping[str, Any]) -> bytes:
        """Return the document. The first call encodes the document. Later calls return the same bytes."""
        if self._encoded is None:
            self._encoded = super().render(request, dict(openapi_schema))
        return self._encoded


def schema_router() -> Router:
    """Return the router of the OpenAPI document and its page."""
    headers = {name: value for name, value in PAGE_HEADERS.items() if name != "Cache-Control"}
    return Router("/schema", route_handlers=[], include_in_schema=False, response_headers=headers)


def _calls(document: Mapping[str, Any]) -> str:
    calls: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, call in methods.items():
            tag = next(iter(call.get("tags", ())), "other")
            calls.setdefault(tag, []).append(_call(method, path, call))
    preface = [f"<p>{escape(document['info'].get('description', ''))}</p>"]
    preface.append('<p><a href="/schema/openapi.json">The OpenAPI document</a> describes the JSON bodies.</p>')
    return "\n".join([*preface, *(_section(tag.capitalize(), texts) for tag, texts in sorted(calls.items()))])


def _call(method: str, path: str, call: Mapping[str, Any]) -> str:
    lines = [f"<summary><code><b>{escape(method.upper())}</b> {escape(path)}</code>"]
    lines.append(f"<span>{escape(call.get('summary') or '')}</span></summary>")
    if call.get("description"):
        lines.append(f"<p>{escape(call['description'])}</p>")
    lines += _terms("Parameters", ((p["name"], _parameter(p)) for p in call.get("parameters", ())))
    body = call.get("requestBody")
    lines += _terms("Body", [("JSON or MessagePack", _shape(body))] if body else [])
    answers = sorted(call.get("responses", {}).items())
    lines += _terms(
        "Responses", ((status, f"{answer['description']}{_shape(answer, ' · ')}") for status, answer in answers)
    )
    return f"<details>{''.join(lines)}</details>"


def _parameter(parameter: Mapping[str, Any]) -> str:
    kind = "required" if parameter.get("required") else "optional"
    text = parameter.get("description") or ""
    return f"{parameter['in']}, {kind}. {text}"


def _shape(carrier: Mapping[str, Any], before: str = "") -> str:
    """Return ``before`` and the names of a body's types, or an empty text if the body has no named type."""
    schemas = (content.get("schema", {}) for content in carrier.get("content", {}).values())
    names = ", ".join(sorted({ref["$ref"].rpartition("/")[2] for ref in schemas if "$ref" in ref}))
    return before + names if names else ""


def _terms(heading: str, terms: Iterable[tuple[str, str]]) -> list[str]:
    rows = [f"<dt><code>{escape(name)}</code></dt><dd>{escape(text)}</dd>" for name, text in terms]
    return [f"<h3>{heading}</h3><dl>{''.join(rows)}</dl>"] if rows else []


def _links(heading: str, links: Iterable[tuple[str, str, str]]) -> str:
    rows = [
        f'<li><a href="{escape(path)}">{escape(name)}</a> <span>{escape(text)}</span></li>'
        for path, name, text in links
    ]
    return _section(heading, [f"<ul>{''.join(rows)}</ul>"])


def _section(heading: str, parts: Sequence[str]) -> str:
    return f"<section><h2>{escape(heading)}</h2>{''.join(parts)}</section>"


def _title(path: str) -> str:
    """Return a page's title, which is the capitalised folder of its path below `/web/`."""
    return Path(path).parent.relative_to(WEB).as_posix().capitalize()


HOME: list[ControllerRouterHandler] = [home, icon]

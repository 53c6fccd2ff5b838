"""Pages: the browser client at `/web/client/`, the theme of our pages at `/web/theme/`, and an application's own.

Client and theme lie inside the package, not beside it, so that a wheel carries them; nothing builds them. Only the
files that are there when the server starts have a path, so that no path leads anywhere else. An application whose pages
need another policy gives them out by a route of its own: `serve_files`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from litestar import Request, Response, get
from litestar.handlers import HTTPRouteHandler

from stratalog.codec import sha256
from stratalog.server.application import Application
from stratalog.server.service import Served

__all__ = ["CLIENT", "POLICY", "WEB", "files_in", "pages", "serve_files"]

WEB = "/web/"
"""Open to everybody: a page is no secret, and what it shows is asked for with a token."""

CLIENT = Path(__file__).parents[1] / "web" / "client"
THEME = CLIENT.with_name("theme")
INDEX = "index.html"
KINDS = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".ts": "text/plain",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
    ".xml": "application/xml",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self' ws: wss:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def pages(application: Application) -> HTTPRouteHandler:
    """The handler of the files of the client, of the theme and of the application."""
    files: dict[str, Path] = {}
    for name, folder in {"client": CLIENT, "theme": THEME, **application.pages}.items():
        files |= files_in(f"{WEB}{name}/", Path(folder))
    return serve_files(files)


def files_in(prefix: str, folder: Path) -> dict[str, Path]:
    """Each path and its file; a folder's own path is its index."""
    files = {prefix + path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.suffix in KINDS}
    return files | {path.removesuffix(INDEX): file for path, file in files.items() if path.endswith(f"/{INDEX}")}


def serve_files(files: Mapping[str, Path], policy: str = POLICY) -> HTTPRouteHandler:
    """The handler of these files, by their paths below `/web/`, under a content security policy."""

    @get([*files], include_in_schema=False)
    async def page(service: Served, request: Request[Any, Any, Any]) -> Response[bytes]:
        path = request.scope["path"]
        file = files.get(path) or files[path + "/"]
        headers = {**HEADERS, "Content-Security-Policy": policy}
        return _answer(request, await service.run(file.read_bytes), KINDS[file.suffix], headers)

    return page


def _answer(request: Request[Any, Any, Any], body: bytes, kind: str, headers: Mapping[str, str]) -> Response[bytes]:
    """The file, or the word that the browser has it already."""
    headers = {**headers, "ETag": f'"{sha256(body).hex()[:32]}"'}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(b"", status_code=304, headers=headers)
    return Response(body, media_type=kind, headers=headers)

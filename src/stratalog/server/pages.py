"""Pages: the browser client and the demo page, as they lie in the package. `import` them from `/web/client/`.

They are inside the package, not beside it, so that a wheel carries them; nothing builds them. Only the files that are
there when the server starts have a path, so that no path can lead anywhere else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from litestar import Request, Response, get

from stratalog.codec import sha256
from stratalog.server.service import Served

__all__ = ["PAGES", "WEB"]

WEB = "/web/"
"""Open to everybody: a page is no secret, and what it shows is asked for with a token."""

FOLDER = Path(__file__).parents[1] / "web"
INDEX = "index.html"
KINDS = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".ts": "text/plain; charset=utf-8",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self' ws: wss:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def _files() -> dict[str, Path]:
    """Each path and its file; a folder's path is its index."""
    found = {WEB + path.relative_to(FOLDER).as_posix(): path for path in FOLDER.rglob("*") if path.suffix in KINDS}
    return found | {path.removesuffix(INDEX): file for path, file in found.items() if path.endswith(f"/{INDEX}")}


_FILES = _files()


@get([*_FILES], include_in_schema=False)
async def page(service: Served, request: Request[Any, Any, Any]) -> Response[bytes]:
    """The file, or the word that the browser has it already."""
    path = request.scope["path"]
    file = _FILES.get(path) or _FILES[path + "/"]
    body = await service.run(file.read_bytes)
    headers = {**HEADERS, "ETag": f'"{sha256(body).hex()[:32]}"'}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(b"", status_code=304, headers=headers)
    return Response(body, media_type=KINDS[file.suffix], headers=headers)


PAGES = [page]

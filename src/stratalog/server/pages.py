"""The files below `/web/`: the browser client, the theme, the files of the home page, and the pages of an application.

The client and the theme need no build step. Only a file that exists when the server starts has a path. An application
whose pages need another content security policy serves them by its own route, made by `serve_files`.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from litestar import Request, Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.response import Stream

from stratalog.limits import ANSWER_PIECE_BYTES
from stratalog.server.application import Application
from stratalog.server.metrics import METRIC_PATH
from stratalog.server.page_frame import HEADERS, HTML, OWN_CONNECTIONS, POLICY
from stratalog.server.service import Served, Service

__all__ = ["CLIENT", "OWN_CONNECTIONS", "POLICY", "WEB", "FileVersion", "PageFile", "files_in", "pages", "serve_files"]

WEB = "/web/"
"""The prefix of the paths of pages. A page needs no token; the page's script requests its data with a token."""

CLIENT = Path(__file__).parents[1] / "web" / "client"
THEME = CLIENT.with_name("theme")
HOME = CLIENT.with_name("home")
INDEX = "index.html"
KINDS = {
    ".css": "text/css",
    ".html": HTML,
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".ts": "text/plain",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
    ".xml": "application/xml",
}
_log = logging.getLogger("stratalog.server")


def pages(application: Application) -> HTTPRouteHandler:
    """Return the handler of all files below `WEB`. Each folder of ``application.pages`` is served under its name."""
    files: dict[str, Path] = {}
    for name, folder in {"client": CLIENT, "theme": THEME, "home": HOME, **application.pages}.items():
        files |= files_in(f"{WEB}{name}/", Path(folder))
    return serve_files(files)


def files_in(prefix: str, folder: Path) -> dict[str, Path]:
    """Return the files with a suffix in `KINDS`, by path. The path of a folder refers to the folder's index page.

    A symbolic link that leads out of the folder gets no path, but a warning in the server's log.
    """
    inside = folder.resolve()
    files: dict[str, Path] = {}
    for path in folder.rglob("*"):
        if path.suffix not in KINDS or not path.is_file():
            continue
        if path.resolve().is_relative_to(inside):
            files[prefix + path.relative_to(folder).as_posix()] = path
        else:
            _log.warning("a symbolic link is not served, because it leads out of the pages' folder: %s", path)
    return files | {path.removesuffix(INDEX): file for path, file in files.items() if path.endswith(f"/{INDEX}")}


def serve_files(files: Mapping[str, Path], policy: str = POLICY) -> HTTPRouteHandler:
    """Return a handler of these files by their paths, with ``policy`` as their content security policy."""
    served = {path: PageFile(file) for path, file in files.items()}

    @get([*files], pool="pages", opt={METRIC_PATH: f"{WEB}{{file}}"}, include_in_schema=False)
    async def page(service: Served, request: Request[Any, Any, Any]) -> Response[bytes] | Stream:
        path = request.scope["path"]
        file = served.get(path) or served[path + "/"]
        version = await service.run(file.read)
        headers = {**HEADERS, "Content-Security-Policy": policy, "ETag": f'"{version.digest}"'}
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(b"", status_code=304, headers=headers)
        if len(version.start) == version.size_bytes:
            return Response(version.start, media_type=file.kind, headers=headers)
        headers["Content-Length"] = str(version.size_bytes)
        return Stream(_pieces(service, file, version), media_type=file.kind, headers=headers)

    return page


class FileVersion(msgspec.Struct, frozen=True):
    """A file at the time of a request: its first bytes, its digest, and a stamp that changes with the file."""

    stamp: tuple[int, int, int]
    digest: str
    size_bytes: int
    start: bytes


class PageFile:
    """A served file. It is opened anew for each piece, so that slow callers keep no file descriptors open."""

    def __init__(self, path: Path) -> None:
        self.kind = KINDS[path.suffix]
        self._path = path
        self._digest: tuple[tuple[int, int, int], str] | None = None

    def read(self) -> FileVersion:
        """Return the present version of the file. Hashes the bytes only if the file has changed since the last call."""
        with self._path.open("rb") as file:
            stamp, start = _stamp(file), file.read(ANSWER_PIECE_BYTES)
            known = self._digest
            if known is None or known[0] != stamp:
                file.seek(0)
                known = self._digest = (stamp, hashlib.file_digest(file, "sha256").hexdigest()[:32])
        return FileVersion(stamp, known[1], stamp[-1], start)

    def piece(self, version: FileVersion, offset: int) -> bytes:
        """Return at most one piece of this version, from ``offset``. Return no bytes if the file has changed."""
        with self._path.open("rb") as file:
            if _stamp(file) != version.stamp:
                return b""
            file.seek(offset)
            return file.read(ANSWER_PIECE_BYTES)


async def _pieces(service: Service, file: PageFile, version: FileVersion) -> AsyncIterator[bytes]:
    """Yield the file's bytes. If the file changes meanwhile, the response is shorter than its Content-Length."""
    piece, offset = version.start, 0
    while piece:
        yield piece
        offset += len(piece)
        piece = await service.run(partial(file.piece, version, offset)) if offset < version.size_bytes else b""


def _stamp(file: BinaryIO) -> tuple[int, int, int]:
    stat = os.fstat(file.fileno())
    return stat.st_ino, stat.st_mtime_ns, stat.st_size

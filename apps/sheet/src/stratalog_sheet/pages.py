"""The files of the page and of the engine, served under a content security policy that lets the engine run."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from litestar.handlers import HTTPRouteHandler

from stratalog.errors import Unavailable
from stratalog.server import POLICY, WEB, files_in, serve_files
from stratalog_sheet.engine import engine_folder

__all__ = ["PAGE", "page_files"]

PAGE = WEB + "sheet/"
FOLDER = Path(__file__).with_name("web")
ENGINE = PAGE + "engine/"
# The engine compiles formulas and templates to functions, sets styles on elements, and renders charts as images.
ENGINE_POLICY = (
    POLICY.replace("script-src 'self'", "script-src 'self' 'unsafe-eval'")
    .replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")
    .replace(
        "img-src 'self' data:", "img-src 'self' data: blob:; font-src 'self'; manifest-src 'self'; worker-src 'self'"
    )
)


def page_files() -> HTTPRouteHandler:
    """Return the handler of the page. If the engine's files are missing, the page explains how to fetch them."""
    files = files_in(PAGE, FOLDER)
    with suppress(Unavailable):
        files |= files_in(ENGINE, engine_folder())
    return serve_files(files, ENGINE_POLICY)

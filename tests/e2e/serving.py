"""Helpers of the stories: a server in a thread of this process, the path of Node, and the path of Chromium."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stratalog.testing.loopback_server import serve_on_loopback
from tests.node import install, node_program
from tests.processes import run

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
STORY_SECONDS_MAX = 300


@contextmanager
def serving(app: Any, **options: Any) -> Iterator[str]:
    """Serve an ASGI application with ``options`` for uvicorn, and yield the server's URL."""
    with serve_on_loopback(app, **options) as server:
        yield server.url


def node_with(folder: Path) -> str:
    """Install a folder's npm packages as its lock file pins them, and return the path of Node."""
    install(folder)
    return node_program()


def find_chromium() -> str:
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    assert found, "the browser tests need Chromium: run `make test` as root, or install the package chromium"
    return found


def told_stories(folder: Path, node: str) -> list[str]:
    """Return the names of the stories in a folder."""
    return run([node, "stories.mjs"], cwd=folder).stdout.split()


def tell(folder: Path, node: str, *arguments: str) -> None:
    """Run one story. An error in the story fails the test."""
    run([node, "stories.mjs", *arguments], cwd=folder, seconds=STORY_SECONDS_MAX)

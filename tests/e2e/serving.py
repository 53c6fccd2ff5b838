"""What the stories share: a server in a thread of this process, a Node that drives a browser, and the browser."""

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
    """The URL of an ASGI application that is served meanwhile, with these options of uvicorn's."""
    with serve_on_loopback(app, **options) as server:
        yield server.url


def node_with(folder: Path) -> str:
    """A Node that has a folder's packages at hand, which npm installs once as the lock file pins them."""
    install(folder)
    return node_program()


def find_chromium() -> str:
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    assert found, "the browser tests need Chromium; `make test` installs it as root, else: apt-get install chromium"
    return found


def told_stories(folder: Path, node: str) -> list[str]:
    """The names of the stories in a folder."""
    return run([node, "stories.mjs"], cwd=folder).stdout.split()


def tell(folder: Path, node: str, *arguments: str) -> None:
    """Tell one story; what goes wrong in it fails the test."""
    run([node, "stories.mjs", *arguments], cwd=folder, seconds=STORY_SECONDS_MAX)

"""Helpers of the stories: a server in a thread of this process, Node, Chromium, and a process that tells stories."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from stratalog.testing.loopback_server import serve_on_loopback
from tests.node import install, node_program
from tests.processes import ChildProcess, run, start

# The shell has no windows, menus or address bar, so a story costs about two thirds of the CPU. scripts/bootstrap looks
# for the same names.
CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
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
    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    assert path, "the browser tests need Chromium: run `make test` as root, or install chromium-headless-shell"
    return path


def passed_stories(folder: Path, node: str) -> list[str]:
    """Return the names of the stories in a folder."""
    return run([node, "stories.mjs"], cwd=folder).stdout.split()


class Storyteller:
    """A process that tells a folder's stories in one Chromium. The first story starts the process.

    An error in a story ends the process, and the next story starts another process.
    """

    def __init__(self, folder: Path, node: str) -> None:
        self._folder = folder
        self._command = [node, "stories.mjs", find_chromium()]
        self._process: ChildProcess | None = None

    def tell(self, url: str, story: str, folder: Path) -> None:
        """Tell one story of users of the server at ``url``. The story may write files to ``folder``.

        An error in the story fails the test.
        """
        with self.telling(url, story, folder):
            pass

    @contextmanager
    def telling(self, url: str, story: str, folder: Path) -> Iterator[ChildProcess]:
        """Tell one story during the block, which exchanges lines with the story. Then wait for the end of the story."""
        process, self._process = self._process or start(self._command, cwd=self._folder), None
        with ExitStack() as stack:
            stack.enter_context(process)  # an error ends the process, and the report describes it
            process.write_line(json.dumps({"url": url, "story": story, "folder": str(folder)}))
            yield process
            assert process.read_line() == "told\n"
            stack.pop_all()
        self._process = process

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            with self._process as process:
                process.end()


def tell(folder: Path, node: str, *arguments: str) -> None:
    """Run one story that needs no browser, in a process of its own. An error in the story fails the test."""
    run([node, "stories.mjs", *arguments], cwd=folder, seconds=STORY_SECONDS_MAX)

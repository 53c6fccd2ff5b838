"""The app of the guide `collaborative-app.md` works: the tests write its files to a folder, and serve and use it."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.test_browser import HERE, chromium, node
from tests.processes import COMMAND_LINE, ROOT, run, start

__all__ = ["chromium", "node"]

GUIDE = ROOT / "docs" / "guides" / "collaborative-app.md"
FILE = re.compile(r"```\w+\n(?:#|//|<!--) (\S+\.\w+)(?: -->)?\n(.*?)```", re.DOTALL)
USUAL_PORT = "8420"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with the files that the guide prints."""
    files = dict(FILE.findall(GUIDE.read_text()))
    assert set(files) == {"shop.py", "test_shop.py", "kitchen.py", "web/index.html", "web/shop.js", "web/mutators.js"}
    for name, text in files.items():
        path = tmp_path / "shop" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "shop"


@pytest.fixture
def port(shop: Path) -> Iterator[str]:
    """The port of the server that the guide starts."""
    with start([*COMMAND_LINE, "serve", "shop:app", "--store", "data", "--port", "0"], cwd=shop) as server:
        yield re.findall(r"http://127\.0\.0\.1:(\d+)", server.read_line())[0]
        server.signal(signal.SIGTERM)
        server.end()


def test_two_people_and_a_python_client_use_the_app_of_the_guide(
    shop: Path, port: str, node: str, chromium: str
) -> None:
    command = [node, "guide.mjs", f"http://127.0.0.1:{port}", chromium]
    with start(command, cwd=HERE) as people:
        assert join(shop, port) == "applied\n"
        people.write_line("coffee")
        people.end()


def test_the_guide_s_own_test_passes(shop: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shop.py"]
    assert "1 passed" in run(command, cwd=shop).stdout


def join(shop: Path, port: str) -> str:
    """Run the guide's kitchen program, and return its output."""
    program = (shop / "kitchen.py").read_text().replace(USUAL_PORT, port)
    return run([sys.executable, "-c", program], cwd=shop).stdout

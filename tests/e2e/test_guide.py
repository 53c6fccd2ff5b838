"""The guide to a collaborative app: its files, written down as printed, are served, tested and used as it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.test_browser import HERE, chromium, node

__all__ = ["chromium", "node"]

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "collaborative-app.md"
FILE = re.compile(r"```\w+\n(?:#|//|<!--) (\S+\.\w+)(?: -->)?\n(.*?)```", re.DOTALL)
USUAL_PORT = "8420"
SERVE = "from stratalog.cli import main; main()"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with the files of the guide."""
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
    command = [sys.executable, "-c", SERVE, "serve", "shop:app", "--store", "data", "--port", "0"]
    with subprocess.Popen(command, cwd=shop, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield re.findall(r"http://127\.0\.0\.1:(\d+)", server.stdout.readline())[0]
        server.terminate()


def test_the_app_of_the_guide_works_as_it_says(shop: Path, port: str, node: str, chromium: str) -> None:
    told = [node, "guide.mjs", f"http://127.0.0.1:{port}", chromium]
    with subprocess.Popen(told, cwd=HERE, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as people:
        assert join(shop, port) == "applied\n"
        _, errors = people.communicate("coffee\n", timeout=120)
        assert people.returncode == 0, errors


def test_the_test_of_the_guide_passes(shop: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shop.py"]
    done = subprocess.run(command, cwd=shop, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def join(shop: Path, port: str) -> str:
    """What the kitchen prints."""
    program = (shop / "kitchen.py").read_text().replace(USUAL_PORT, port)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=shop, env=ENVIRONMENT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout

"""The parts of the browser client that need no browser, tested by Node's own test runner."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.node import node_program

HERE = Path(__file__).parent


def test_the_parts_that_need_no_browser() -> None:
    tests = sorted(str(path) for path in HERE.glob("*.test.js"))
    done = subprocess.run([node_program(), "--test", *tests], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# skipped 0" in done.stdout or "ℹ skipped 0" in done.stdout

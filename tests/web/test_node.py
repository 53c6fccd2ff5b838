"""Node's test runner runs the tests of the browser client that need no browser."""

from __future__ import annotations

from pathlib import Path

from tests.node import node_program
from tests.processes import run

HERE = Path(__file__).parent


def test_the_parts_that_need_no_browser() -> None:
    tests = sorted(str(path) for path in HERE.glob("*.test.js"))
    done = run([node_program(), "--test", *tests], seconds=120)
    assert "# skipped 0" in done.stdout or "ℹ skipped 0" in done.stdout

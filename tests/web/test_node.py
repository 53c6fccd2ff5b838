"""Node's test runner runs the tests of the browser client that need no browser."""

from __future__ import annotations

from pathlib import Path

from tests.node import node_program
from tests.processes import run

HERE = Path(__file__).parent


def test_the_tests_of_the_browser_client_in_node_pass_and_none_is_skipped() -> None:
    tests = sorted(str(path) for path in HERE.glob("*.test.js"))
    done = run([node_program(), "--test", *tests])
    assert "# skipped 0" in done.stdout or "ℹ skipped 0" in done.stdout

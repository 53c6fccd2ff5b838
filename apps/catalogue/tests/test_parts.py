"""Node's test runner runs the tests of the page's helpers that need no browser."""

from __future__ import annotations

from pathlib import Path

from tests.node import node_program
from tests.processes import run

SCRIPT = Path(__file__).parent / "parts.test.js"


def test_the_node_tests_of_the_page_helpers_pass() -> None:
    done = run([node_program(), "--test", str(SCRIPT)])
    assert "# skipped 0" in done.stdout or "ℹ skipped 0" in done.stdout

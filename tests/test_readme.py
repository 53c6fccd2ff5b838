"""The snippet of the README runs and prints the results in its comments."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.processes import run as run_process

README = Path(__file__).parents[1] / "README.md"
COMMENTS = re.compile(r"print\(.*#\s(.*?)(?:, the value.*|; .*)?$", re.MULTILINE)


def test_the_snippet_runs_as_printed(tmp_path: Path) -> None:
    lines = run(snippet(), tmp_path).splitlines()
    assert lines == ["105", "100", "2 ada 105", "1 ada 100", "150"]
    assert COMMENTS.findall(snippet()) == ["105", "100", "2 ada 105, then 1 ada 100", "150"]


def test_the_snippet_runs_again_in_the_same_folder(tmp_path: Path) -> None:
    first, second = (run(snippet(), tmp_path).splitlines() for _ in range(2))
    assert (first[:2], first[-1]) == (second[:2], second[-1]) == (["105", "100"], "150")


def snippet() -> str:
    """Return the one Python block of the README."""
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) == 1
    return str(blocks[0])


def run(program: str, folder: Path) -> str:
    """Run ``program`` in a new interpreter in ``folder``, and return its output."""
    return run_process([sys.executable, "-c", program], cwd=folder).stdout

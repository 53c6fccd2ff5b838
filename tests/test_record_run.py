"""The script records a long run with its commit, its command and its result."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT, run

SCRIPT = ROOT / "scripts" / "record_run.py"


def script(*arguments: str | Path, code: int = 0) -> str:
    return run([sys.executable, str(SCRIPT), *map(str, arguments)], expected=code).stdout


@pytest.mark.parametrize("status", [0, 3])
def test_a_recorded_run_passes_on_its_output_and_its_exit_status(tmp_path: Path, status: int) -> None:
    runs = tmp_path / "runs.json"
    program = f"print('one'); print('7 seeds, 0 failed'); raise SystemExit({status})"
    printed = script("run", "--json", runs, "--target", "soak", "--", sys.executable, "-c", program, code=status)
    assert printed == "one\n7 seeds, 0 failed\n"
    recorded = json.loads(runs.read_text())
    assert (recorded["target"], recorded["status"], recorded["result"]) == ("soak", status, "7 seeds, 0 failed")
    assert recorded["command"].startswith(f"{Path(sys.executable).name} -c ")
    head = run(["git", "-C", str(ROOT), "rev-parse", "HEAD"]).stdout
    assert head.startswith(recorded["commit"].rstrip("+"))


def test_recorded_runs_become_rows_of_the_page_in_order(tmp_path: Path) -> None:
    runs, page = tmp_path / "runs.json", tmp_path / "runs.md"
    page.write_text("# Runs\n\n| a |\n|---|\n")
    for target, status in (("first", 0), ("second", 1)):
        program = f"print('a | b'); raise SystemExit({status})"
        script("run", "--json", runs, "--target", target, "--", sys.executable, "-c", program, code=status)
    script("table", "--json", runs, "--page", page)
    first, second = page.read_text().splitlines()[-2:]
    assert "| first |" in first
    assert first.endswith("| passed: a \\| b |")
    assert "| second |" in second
    assert second.endswith("| **failed**, status 1: a \\| b |")
    assert not runs.exists()

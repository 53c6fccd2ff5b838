"""Run a long target, and record its result and its commit: see docs/runs.md.

    python scripts/record_run.py run --json runs.json --target soak-clients -- python -m tests.client.convergence
    python scripts/record_run.py table --json runs.json

`run` adds one line of JSON for each command to a file. `table` moves these lines to the table of docs/runs.md.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "runs.md"
COMMIT_CHARACTERS = 10
RESULT_CHARACTERS_MAX = 200


@dataclass(frozen=True)
class Run:
    """One run of a command of a target: the commit, the command, the duration and the result."""

    date: str
    commit: str
    target: str
    command: str
    seconds: float
    status: int
    result: str


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = parser().parse_args(arguments)
    if chosen.action == "table":
        record(chosen.json, chosen.page)
        return 0
    command = chosen.command[1:] if chosen.command[:1] == ["--"] else chosen.command
    run = run_command(chosen.target, command)
    with chosen.json.open("a") as file:
        file.write(json.dumps(asdict(run)) + "\n")
    return run.status


def run_command(target: str, command: Sequence[str]) -> Run:
    """Run the command and print its output. The last line of the output is the result."""
    commit, began = commit_of(ROOT), time.monotonic()
    last = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
    seconds = round(time.monotonic() - began, 1)
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    return Run(date, commit, target, command_text(command), seconds, process.returncode, last[:RESULT_CHARACTERS_MAX])


def record(source: Path, page: Path) -> None:
    """Add the runs of a file to the end of the page's table, and remove the file."""
    runs = [Run(**json.loads(line)) for line in source.read_text().splitlines()]
    text = page.read_text().rstrip("\n")
    page.write_text("\n".join([text, *map(row, runs)]) + "\n")
    source.unlink()


def row(run: Run) -> str:
    """Return a run as a row of the table."""
    verdict = "passed" if run.status == 0 else f"**failed**, status {run.status}"
    result = run.result.replace("|", "\\|")
    cells = [run.date, f"`{run.commit}`", run.target, f"`{run.command}`", f"{run.seconds:,.0f}", f"{verdict}: {result}"]
    return f"| {' | '.join(cells)} |"


def commit_of(folder: Path) -> str:
    """Return the commit that is checked out, with a plus sign if files differ from it."""
    commit = git(folder, "rev-parse", f"--short={COMMIT_CHARACTERS}", "HEAD")
    return f"{commit}+" if git(folder, "status", "--porcelain", "--untracked-files=no") else commit


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True, check=True).stdout.strip()


def command_text(command: Sequence[str]) -> str:
    """Return the command without the folder of its interpreter."""
    return shlex.join([Path(command[0]).name, *command[1:]])


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = made.add_subparsers(dest="action", required=True)
    run = actions.add_parser("run", help="run a command and add its result to a file")
    run.add_argument("--json", type=Path, required=True)
    run.add_argument("--target", required=True)
    run.add_argument("command", nargs=argparse.REMAINDER)
    table = actions.add_parser("table", help="move the results of a file to the table")
    table.add_argument("--json", type=Path, required=True)
    table.add_argument("--page", type=Path, default=PAGE)
    return made


if __name__ == "__main__":
    sys.exit(main())

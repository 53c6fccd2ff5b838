"""The client's guide runs, block after block, and prints what its comments promise."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.client.servers import Servers, environment

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "client.md"
PRINTED = re.compile(r"print\(.*#\s(.*)$", re.MULTILINE)
USUAL_PORT = "8420"


def test_the_guide_runs_as_printed(tmp_path: Path) -> None:
    program = "\n".join(re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL))
    servers = Servers(tmp_path / "store", 1)
    try:
        printed = run(program.replace(USUAL_PORT, str(servers.all[0].port)), tmp_path)
    finally:
        servers.close()
    assert sorted(printed.splitlines()) == sorted(PRINTED.findall(program)), "bob's line comes when it comes"


def run(program: str, folder: Path) -> str:
    """What a fresh interpreter prints for ``program``."""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, timeout=60, env=environment()
    )
    assert done.returncode == 0, done.stderr
    return done.stdout

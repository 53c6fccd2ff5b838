"""The code blocks of the client's guide run as one program. It prints the results that the guide's comments show."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.client.servers import Servers
from tests.processes import run

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "client.md"
PRINTED = re.compile(r"print\(.*#\s(.*)$", re.MULTILINE)
USUAL_PORT = "8420"
LONG_LINES = """
import builtins, threading

PRINTING = threading.Lock()

def print(*values):
    # Bob prints on his own thread. Without the lock two lines could mix, since one print makes several writes.
    with PRINTING:
        builtins.print(*values)

"""


@pytest.mark.slow
def test_the_guide_runs_as_printed(tmp_path: Path) -> None:
    program = "\n".join(re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL))
    servers = Servers(tmp_path / "store", 1)
    try:
        program = LONG_LINES + program.replace(USUAL_PORT, str(servers.all[0].port))
        printed = run([sys.executable, "-c", program], cwd=tmp_path).stdout
    finally:
        servers.close()
    assert sorted(printed.splitlines()) == sorted(PRINTED.findall(program)), "bob's line may be at any position"

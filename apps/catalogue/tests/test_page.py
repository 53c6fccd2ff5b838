"""The messages that the catalogue's page shows for the server's errors."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.node import node_program

HERE = Path(__file__).parent
PAGE = HERE.parent / "src/stratalog_catalogue/web"
SECONDS_MAX = 60


def test_the_page_shows_the_status_of_an_error_that_a_proxy_sent() -> None:
    command = [node_program(), str(HERE / "answers.mjs"), str(PAGE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout) == ["The server answered 502.", "no such work", "[1]"]

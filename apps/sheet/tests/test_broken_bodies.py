"""The page's requests to the server when the connection breaks off within a response's body."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.node import node_program

HERE = Path(__file__).parent
PAGE = HERE.parent / "src/stratalog_sheet/web"
CLIENT = HERE.parents[2] / "src/stratalog/web/client"
CALLS = ("get", "post", "text", "download", "upload")
SECONDS_MAX = 60


def test_a_page_reports_an_unknown_outcome_and_reads_again_after_a_broken_response_body() -> None:
    arguments = [str(HERE / "broken.mjs"), str(PAGE), str(CLIENT)]
    done = subprocess.run([node_program(), *arguments], capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stdout + done.stderr
    unknown = "outcome-unknown"
    assert json.loads(done.stdout) == {
        **{call: [unknown, unknown] for call in CALLS},
        "cut": unknown,
        "readsAgain": [True, True],
    }

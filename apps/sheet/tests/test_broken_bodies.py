"""The page's requests when the connection breaks off within a response's body, or a proxy answers for the server."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.node import node_program

HERE = Path(__file__).parent
PAGE = HERE.parent / "src/stratalog_sheet/web"
CLIENT = HERE.parents[2] / "src/stratalog/web/client"
CALLS = ("get", "post", "download", "upload")
SECONDS_MAX = 120


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    arguments = [str(HERE / "broken.mjs"), str(PAGE), str(CLIENT)]
    done = subprocess.run([node_program(), *arguments], capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stdout + done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_a_page_reports_an_unknown_outcome_and_reads_again_after_a_broken_response_body(
    results: dict[str, Any],
) -> None:
    unknown = "outcome-unknown"
    assert {call: results[call] for call in CALLS} == {call: [unknown, unknown] for call in CALLS}
    assert results["cut"] == unknown
    assert results["readsAgain"] == [True, True]


def test_a_page_keeps_a_message_that_a_proxy_refuses_with_429_or_401(results: dict[str, Any]) -> None:
    assert results["proxy"] == {"401": "forbidden", "413": "refused", "429": "sent again", "502": "sent again"}

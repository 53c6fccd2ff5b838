"""A writer that is killed at any moment loses no acknowledged write, and leaves an undamaged file."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.processes import run

SECONDS_MAX = 300
KILLS = Path(__file__).with_name("kills.py")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_hundred_kills_lose_no_acknowledged_write(tmp_path: Path, seed: int) -> None:
    command = [sys.executable, str(KILLS), str(tmp_path), str(seed), "100"]
    result = json.loads(run(command, seconds=SECONDS_MAX).stdout)
    assert result["kills"] == 100
    assert result["acknowledged"] >= 50, "half of the kills wait for an acknowledgement first"

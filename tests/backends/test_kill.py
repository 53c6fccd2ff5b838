"""A writer killed at any moment has lost nothing it acknowledged, and leaves a sound file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = Path(__file__).with_name("kills.py")


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_hundred_kills_lose_no_acknowledged_write(tmp_path: Path, seed: int) -> None:
    command = [sys.executable, str(KILLS), str(tmp_path), str(seed), "100"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, f"seed {seed}: {run.stderr}"
    result = json.loads(run.stdout)
    assert result["kills"] == 100
    assert result["acknowledged"] > 100

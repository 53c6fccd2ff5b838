"""What waits stays in its cell, whatever others did to rows and columns before it, and its author after it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from stratalog_sheet.engine import install_engine
from tests.node import node_program

HERE = Path(__file__).parent
PAGE = HERE.parent / "src/stratalog_sheet/web"
SEEDS = 60
SECONDS_MAX = 300


def test_texts_that_wait_stay_in_rows_and_columns_that_come_and_go() -> None:
    arguments = [str(HERE / "rebase.mjs"), str(install_engine()), str(PAGE), "1", str(SEEDS)]
    done = subprocess.run([node_program(), *arguments], capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{SEEDS} runs, 0 with texts elsewhere" in done.stdout

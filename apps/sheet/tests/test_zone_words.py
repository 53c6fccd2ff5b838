"""The page's words for the cells that a version changed, as the timeline shows them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.node import node_program

PAGE = Path(__file__).parent.parent / "src/stratalog_sheet/web"
PROGRAM = """
const { zoneWords } = await import(process.argv[1]);
const named = (zone) => ({ sheetId: "sheet1", ...zone });
const endless = (value) => value ?? Infinity;
const zones = JSON.parse(process.argv[2]).map((each) =>
  each.map(([left, top, right, bottom]) => named({ left, top, right: endless(right), bottom: endless(bottom) })));
console.log(JSON.stringify(zones.map(zoneWords)));
"""

CELL = [0, 0, 0, 0]
BLOCK = [0, 0, 1, 2]
ROW = [0, 4, None, 4]
ROWS = [0, 7, None, 9]
COLUMN = [2, 0, 2, None]
LARGE = [0, 0, 99, 999]

WORDS = [
    ([], ""),
    ([CELL], "1 cell"),
    ([CELL, CELL], "1 cell"),
    ([BLOCK], "6 cells"),
    ([BLOCK, CELL], "6 cells"),
    ([ROW], "1 row"),
    ([ROWS], "3 rows"),
    ([COLUMN], "1 column"),
    ([CELL, ROW], "1 cell and 1 row"),
    ([BLOCK, ROWS, COLUMN], "6 cells, 3 rows and 1 column"),
    ([LARGE], "many cells"),
]


def test_the_words_for_changed_zones_count_cells_rows_and_columns() -> None:
    script = (str(PAGE / "zoneWords.js"), json.dumps([zones for zones, _ in WORDS]))
    command = [node_program(), "--input-type=module", "--eval", PROGRAM, *script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [words for _, words in WORDS]

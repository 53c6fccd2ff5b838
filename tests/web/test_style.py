"""The scripts keep the measure that the rest of the code keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sources import PACKAGES, PROGRAMS, TESTS, short_name

FOLDERS = (*PACKAGES, *PROGRAMS, *TESTS)
SCRIPTS = [path for folder in FOLDERS for path in sorted(folder.rglob("*.*js")) if "node_modules" not in path.parts]
FILE_LINES_MAX = 400
LINE_LENGTH_MAX = 120


@pytest.mark.parametrize("path", SCRIPTS, ids=short_name)
def test_a_script_is_one_noun_long_and_no_line_too_wide(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert len(lines) <= FILE_LINES_MAX
    assert [line for line in lines if len(line) > LINE_LENGTH_MAX] == []

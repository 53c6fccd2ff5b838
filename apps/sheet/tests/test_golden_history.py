"""Stored messages keep their meaning: the versions of a golden history still have the states that their users saw."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apps.sheet.tests.helpers import present
from stratalog_sheet import Sheet

FILE = Path(__file__).parents[3] / "formats/golden/sheet-history-v1.json"
GOLDEN: dict[str, Any] = json.loads(FILE.read_text())


@pytest.fixture
def history(sheet: Sheet) -> Sheet:
    """Return a sheet with the golden messages as versions 2 to 15."""
    first, *later = GOLDEN["messages"]
    sheet.append(first | {"serverRevisionId": present(sheet)})
    for message in later:
        sheet.append(message)
    return sheet


@pytest.mark.parametrize("version", [int(version) for version in GOLDEN["states"]])
def test_a_golden_version_still_has_the_state_that_its_users_saw(history: Sheet, version: int) -> None:
    assert json.loads(history.state(version)) == GOLDEN["states"][str(version)]

"""Each promise of docs/promises.md names a row of docs/guarantees.md, and a test that the row names."""

from __future__ import annotations

import re

import pytest

from tests.sources import ROOT

ROWS = dict(re.findall(r"^\| (G\d+) \|(.*)$", (ROOT / "docs" / "guarantees.md").read_text(), re.MULTILINE))
PROMISES = re.findall(
    r"^\|.*\[(G\d+)\]\(guarantees\.md#the-promises\) \| `([^`]+)` \|$",
    (ROOT / "docs" / "promises.md").read_text(),
    re.MULTILINE,
)


@pytest.mark.parametrize(("row", "test"), PROMISES)
def test_a_promise_has_its_row_and_a_test_of_that_row(row: str, test: str) -> None:
    assert f"`{test}`" in ROWS[row]


def test_every_row_of_the_page_is_a_promise() -> None:
    page = (ROOT / "docs" / "promises.md").read_text()
    assert len(PROMISES) == page.count("\n| ") - 1

"""Joined parts of a state give the same state, and two similar states share most of their parts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.codec import encode
from stratalog.errors import Corrupt, Invalid, Unsupported
from stratalog_sheet.cells import cell_name, parse_cell, parse_range
from stratalog_sheet.state import PART_BYTES_MAX, join_state, split_state

texts = st.text(max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
names = st.builds(cell_name, st.integers(0, 60), st.integers(0, 90))
books = st.fixed_dictionaries(
    {"sheets": st.lists(st.fixed_dictionaries({"id": texts, "cells": st.dictionaries(names, texts), "more": values}))},
    optional={"styles": st.dictionaries(texts, values, max_size=60), "revisionId": texts},
)


def state(rows: int = 2000, **changed: str) -> dict[str, Any]:
    cells = {f"{letter}{row}": f"{letter} {row * 7919}" for row in range(1, rows + 1) for letter in "ABCDEF"}
    return {"sheets": [{"id": "s", "name": "S", "cells": {**cells, **changed}}], "revisionId": "r"}


def parts(plain: dict[str, Any]) -> list[bytes]:
    return split_state(json.dumps(plain).encode())


def shared(left: list[bytes], right: list[bytes]) -> float:
    """Return the share of the bytes of ``right`` that are in parts of ``left``."""
    return sum(len(part) for part in right if part in set(left)) / sum(map(len, right))


@given(books)
def test_joining_the_parts_of_a_state_returns_the_state(book: dict[str, Any]) -> None:
    assert json.loads(join_state(parts(book))) == book


def test_one_changed_cell_changes_one_part() -> None:
    before, after = parts(state()), parts(state(C1000="changed"))
    assert len(set(after) - set(before)) == 1


def test_an_inserted_row_leaves_over_90_percent_of_the_bytes_in_unchanged_parts() -> None:
    plain = state()
    cells = plain["sheets"][0]["cells"]
    moved = {}
    for name, content in cells.items():
        column, row = parse_cell(name)
        moved[cell_name(column, row + (row >= 100))] = content
    plain["sheets"][0]["cells"] = moved
    assert shared(parts(state()), parts(plain)) > 0.9


def test_the_size_of_a_part_is_bounded() -> None:
    assert max(map(len, parts(state(20_000)))) < 2 * PART_BYTES_MAX


def test_a_newer_state_is_unsupported_and_a_malformed_state_is_corrupt() -> None:
    with pytest.raises(Unsupported):
        join_state([encode([["state", 2]])])
    with pytest.raises(Corrupt):
        join_state([encode([["state", 1], ["nonsense"]])])


@given(st.integers(0, 18_277), st.integers(0, 999_999))
def test_parsing_the_name_of_a_cell_returns_its_position(column: int, row: int) -> None:
    assert parse_cell(cell_name(column, row)) == (column, row)


@pytest.mark.parametrize("name", ["", "A", "1", "A0", "AAAA1", "A1:B2", "B-1", "Ä1"])
def test_an_invalid_cell_name_is_refused(name: str) -> None:
    with pytest.raises(Invalid):
        parse_cell(name)


def test_a_parsed_range_begins_at_its_top_left_cell() -> None:
    assert parse_range("C9:$B$7") == ((1, 6), (2, 8))
    assert parse_range("B7") == ((1, 6), (1, 6))

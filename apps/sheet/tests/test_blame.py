"""Blame lists who changed a cell. It follows the cell across moved rows and columns, undo and restored versions."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stratalog
from apps.sheet.tests.helpers import put, revision, rows, undo
from stratalog import NotFound
from stratalog_sheet import EnginePool, Sheet, Sheets
from stratalog_sheet.cells import cell_name
from stratalog_sheet.moves import Removed, Spot, before


def changes_of(sheet: Sheet, cell: str) -> list[tuple[int, str, str, str, str]]:
    return [(change.version, change.cell, change.before, change.after, change.how) for change in sheet.blame(cell)]


def test_blame_lists_each_write_with_the_content_before_and_after(sheet: Sheet) -> None:
    sheet.set("B2", "1", author="ada")
    sheet.set("C3", "other")
    sheet.set("B2", "2", author="bob")
    assert [change.author for change in sheet.blame("B2")] == ["bob", "ada"]
    assert changes_of(sheet, "B2") == [(4, "B2", "1", "2", "wrote"), (2, "B2", "", "1", "wrote")]


def test_blame_follows_a_cell_across_inserted_rows_and_removed_columns(sheet: Sheet) -> None:
    sheet.set("B5", "1")
    sheet.insert_rows(2, 3)
    where = {"sheetId": "sheet1", "sheetName": "Sheet1", "dimension": "COL"}
    sheet.append(revision(sheet, {"type": "REMOVE_COLUMNS_ROWS", **where, "elements": [0]}))
    sheet.set("A8", "2")
    assert changes_of(sheet, "A8") == [(5, "A8", "1", "2", "wrote"), (2, "B5", "", "1", "wrote")]


def test_blame_at_an_earlier_version_starts_from_the_cell_position_in_that_version(sheet: Sheet) -> None:
    sheet.set("B2", "1", author="ada")
    sheet.set("B2", "2", author="bob")
    sheet.insert_rows(1)
    assert sheet.blame("B2") == []
    assert [(change.version, change.author, change.cell) for change in sheet.blame("B2", at=3)] == [
        (3, "bob", "B2"),
        (2, "ada", "B2"),
    ]
    assert [change.version for change in sheet.blame("B2", at=2)] == [2]
    assert sheet.blame("B2", at=1) == []
    with pytest.raises(NotFound):
        sheet.blame("B2", at=5)


def test_a_cell_of_an_inserted_row_has_no_earlier_changes(sheet: Sheet) -> None:
    sheet.set("A1", "old")
    sheet.insert_rows(1)
    sheet.set("A1", "new")
    assert changes_of(sheet, "A1") == [(4, "A1", "", "new", "wrote")]


def test_blame_of_a_duplicated_tab_includes_the_changes_of_its_source(sheet: Sheet) -> None:
    sheet.set("A1", "x")
    copied = {"type": "DUPLICATE_SHEET", "sheetId": "sheet1", "sheetIdTo": "copy", "sheetNameTo": "Copy"}
    sheet.append(revision(sheet, copied))
    assert sheet.get("A1", sheet="Copy").content == "x"
    assert [change.version for change in sheet.blame("A1", sheet="Copy")] == [2]


def test_blame_lists_an_undo_and_a_redo(sheet: Sheet) -> None:
    sheet.set("A1", "1")
    mine = revision(sheet, put(0, 0, "2"))
    sheet.append(mine)
    sheet.append(undo(sheet, mine["nextRevisionId"]), author="bob")
    sheet.append(undo(sheet, mine["nextRevisionId"], again=True), author="cid")
    assert changes_of(sheet, "A1") == [
        (5, "A1", "1", "2", "redid version 3"),
        (4, "A1", "2", "1", "undid version 3"),
        (3, "A1", "1", "2", "wrote"),
        (2, "A1", "", "1", "wrote"),
    ]
    assert [change.author for change in sheet.blame("A1", limit=2)] == ["cid", "bob"]


def test_blame_follows_a_cell_across_an_undone_row_insertion(sheet: Sheet) -> None:
    sheet.set("A3", "x")
    inserted = revision(sheet, rows(0, 2))
    sheet.append(inserted)
    sheet.append(revision(sheet, put(0, 4, "y")))
    sheet.append(undo(sheet, inserted["nextRevisionId"]))
    assert sheet.get("A3").content == "y"
    assert [line[2:] for line in changes_of(sheet, "A3")] == [("x", "y", "wrote"), ("", "x", "wrote")]


def test_blame_lists_a_restore_and_the_changes_up_to_the_restored_version(sheet: Sheet) -> None:
    sheet.set("A1", "good")
    sheet.set("A1", "bad")
    sheet.restore(2, author="ann")
    assert changes_of(sheet, "A1") == [(4, "A1", "bad", "good", "restored version 2"), (2, "A1", "", "good", "wrote")]


def test_blame_of_a_fork_includes_the_changes_of_its_source(sheet: Sheet) -> None:
    sheet.set("A1", "x", author="ann")
    fork = sheet.fork(2, "branch")
    fork.set("A1", "y", author="bob")
    assert [(change.author, change.after) for change in fork.blame("A1")] == [("bob", "y"), ("ann", "x")]


def test_blame_finds_a_cell_within_a_command_that_writes_a_range(sheet: Sheet) -> None:
    squeezed = {"type": "SQUISHED_UPDATE_CELL", "sheetId": "sheet1", "targetRange": "A1:A3", "content": "7"}
    sheet.append(revision(sheet, squeezed))
    assert sheet.get("A2").content == "7"
    assert changes_of(sheet, "A2") == [(2, "A2", "", "7", "wrote")]


def test_blame_of_an_unknown_tab_raises_not_found(sheet: Sheet) -> None:
    with pytest.raises(NotFound):
        sheet.blame("A1", sheet="none")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_the_newest_blame_entry_of_a_cell_has_its_current_content(seed: int, engines: EnginePool) -> None:
    """The run makes random writes, insertions, removals, undos and restores."""
    chance = random.Random(seed)
    with stratalog.open("memory:") as store:
        sheet = Sheets(store, engines).create("acme", "plan")
        done: list[str] = []
        for number in range(60):
            _do_something(sheet, chance, number, done)
        held = json.loads(sheet.state())["sheets"][0]["cells"]
        for column in range(6):
            for row in range(10):
                cell = cell_name(column, row)
                changes = sheet.blame(cell)
                assert (changes[0].after if changes else "") == held.get(cell, ""), (cell, changes)


def _do_something(sheet: Sheet, chance: random.Random, number: int, done: list[str]) -> None:
    kind = chance.choices(["put", "add", "remove", "undo", "restore"], [60, 12, 8, 18, 2])[0]
    if kind == "undo" and done:
        sheet.append(undo(sheet, done.pop(chance.randrange(len(done)))))
        return
    if kind == "restore" and sheet.version > 3:
        sheet.restore(chance.randrange(1, sheet.version))
        done.clear()
        return
    message = revision(sheet, _command(kind, chance, number))
    sheet.append(message)
    done.append(message["nextRevisionId"])


def _command(kind: str, chance: random.Random, number: int) -> dict[str, Any]:
    lines = {"sheetId": "sheet1", "sheetName": "Sheet1", "dimension": chance.choice(["ROW", "COL"])}
    if kind == "add":
        where = {"base": chance.randrange(6), "position": chance.choice(["before", "after"])}
        return {"type": "ADD_COLUMNS_ROWS", **lines, **where, "quantity": chance.randrange(1, 3)}
    if kind == "remove":
        return {"type": "REMOVE_COLUMNS_ROWS", **lines, "elements": sorted(chance.sample(range(6), 2))}
    return put(chance.randrange(6), chance.randrange(10), f"t{number}")


lines = st.integers(0, 30)


@settings(max_examples=50)
@given(removed=st.sets(lines, max_size=6), line=lines)
def test_the_position_before_a_removal_skips_the_removed_lines(removed: set[int], line: int) -> None:
    remaining = [line for line in range(60) if line not in removed]
    spot = before(Removed("s", 0, tuple(sorted(removed))), Spot("s", (line, 0)))
    assert spot.position == (remaining[line], 0)

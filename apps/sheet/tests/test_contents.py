"""`Contents` has the sheets, lines and texts of the engine after any commands, also those that the engine refuses."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from stratalog_sheet import EnginePool
from stratalog_sheet.contents import Contents, read_sheets
from stratalog_sheet.engine import Engine

START: dict[str, Any] = {
    "version": "19.3.2",
    "revisionId": "start",
    "sheets": [{"id": "a", "name": "Sheet1", "colNumber": 4, "rowNumber": 5, "cells": {"A1": "1", "B2": "2"}}],
}
NAMES = ["Sheet1", "sheet1", " Sheet1 ", "Two", "TWO", "x/y", "", " ", "Three", "Sheet2", "ß", "SS", "[q]"]
SEED, RUNS, COMMANDS = 1, 40, 15
Look = dict[str, tuple[str, bool, int, int, dict[str, str]]]


def on(kind: str, sheet: str = "a", **more: Any) -> dict[str, Any]:
    return {"type": kind, "sheetId": sheet, "sheetName": "x", **more}


def rows(kind: str, *lines: int) -> dict[str, Any]:
    return on(kind, dimension="ROW", elements=[*lines])


CASES: dict[str, list[dict[str, Any]]] = {
    "a copy whose name differs in case": [on("DUPLICATE_SHEET", sheetIdTo="b", sheetNameTo="SHEET1")],
    "a copy of the same name": [on("DUPLICATE_SHEET", sheetIdTo="b", sheetNameTo="Sheet1")],
    "a new sheet without a name": [on("CREATE_SHEET", "b", position=1)],
    "a new sheet with an empty name": [on("CREATE_SHEET", "b", position=1, name=" ")],
    "a new sheet with a slash": [on("CREATE_SHEET", "b", position=1, name="x/y")],
    "a new name with spaces": [on("RENAME_SHEET", newName=" New ")],
    "no new name": [on("RENAME_SHEET", newName="")],
    "a column removed twice": [on("REMOVE_COLUMNS_ROWS", dimension="COL", elements=[3, 1, 3])],
    "all rows removed": [rows("REMOVE_COLUMNS_ROWS", *range(5))],
    "all visible rows removed": [rows("HIDE_COLUMNS_ROWS", 1), rows("REMOVE_COLUMNS_ROWS", 0, 2, 3, 4)],
    "shown rows removed": [
        rows("HIDE_COLUMNS_ROWS", 1, 2),
        rows("UNHIDE_COLUMNS_ROWS", 2),
        rows("REMOVE_COLUMNS_ROWS", 0, 3, 4),
    ],
    "all rows hidden": [rows("HIDE_COLUMNS_ROWS", *range(5)), rows("REMOVE_COLUMNS_ROWS", 0, 1, 2, 3)],
    "all rows below frozen rows removed": [on("FREEZE_ROWS", quantity=2), rows("REMOVE_COLUMNS_ROWS", 2, 3, 4)],
    "the rows below thawed rows removed": [
        on("FREEZE_ROWS", quantity=2),
        on("UNFREEZE_COLUMNS_ROWS"),
        rows("REMOVE_COLUMNS_ROWS", 2, 3, 4),
    ],
    "more rows frozen than exist": [on("FREEZE_ROWS", quantity=5), rows("REMOVE_COLUMNS_ROWS", 2, 3, 4)],
    "a frozen row removed and one added": [
        on("FREEZE_ROWS", quantity=2),
        rows("REMOVE_COLUMNS_ROWS", 0),
        on("ADD_COLUMNS_ROWS", dimension="ROW", base=0, quantity=1, position="before"),
        rows("REMOVE_COLUMNS_ROWS", 2, 3, 4),
    ],
}


@pytest.mark.parametrize("commands", CASES.values(), ids=CASES)
def test_contents_refuses_exactly_the_commands_that_the_engine_refuses(
    commands: list[dict[str, Any]], engines: EnginePool
) -> None:
    with engines.lend("contents") as models:
        state = of_engine(models.engine, START, commands)
    assert of_contents(START, commands) == of_sheets(state)


@pytest.mark.parametrize("case", ["all visible rows removed", "all rows below frozen rows removed"])
def test_contents_reads_hidden_and_frozen_rows_of_a_state(case: str, engines: EnginePool) -> None:
    first, last = CASES[case]
    with engines.lend("contents") as models:
        state = of_engine(models.engine, START, [first])
        later = of_engine(models.engine, state, [last])
    assert of_contents(state, [last]) == of_sheets(later)


def test_contents_equals_the_engine_state_after_random_commands(engines: EnginePool) -> None:
    print("seed", SEED)
    chance = random.Random(SEED)
    with engines.lend("contents") as models:
        for _ in range(RUNS):
            commands = [any_command(chance) for _ in range(COMMANDS)]
            assert of_contents(START, commands) == of_sheets(of_engine(models.engine, START, commands)), commands


def of_engine(engine: Engine, state: dict[str, Any], commands: Sequence[dict[str, Any]]) -> dict[str, Any]:
    common = {"type": "REMOTE_REVISION", "version": 1, "clientId": "other", "serverRevisionId": state["revisionId"]}
    messages = [{**common, "nextRevisionId": f"{state['revisionId']}1", "commands": [*commands]}]
    engine.call("open", key="contents", data=state, messages=messages, client="contents")
    made: dict[str, Any] = engine.call("export", key="contents")
    engine.call("close", key="contents")
    return made


def of_contents(state: dict[str, Any], commands: Sequence[dict[str, Any]]) -> Look:
    contents = Contents(read_sheets(json.dumps(state).encode()))
    contents.apply("message", commands)
    looks: Look = {}
    for sheet, tab in contents.tabs.items():
        cells = {}
        for cell in tab.filled():
            if (position := tab.position(cell)) and (text := tab.content(cell)):
                cells[f"{position}"] = text
        looks[sheet] = (tab.name, tab.is_visible, len(tab.columns), len(tab.rows), cells)
    return looks


def of_sheets(state: dict[str, Any]) -> Look:
    return of_contents(state, [])


def any_command(chance: random.Random) -> dict[str, Any]:
    below = chance.randrange
    sheet, other = chance.choice("aabcd"), chance.choice("bcd")
    dimension = chance.choice(["ROW", "COL"])
    lines = chance.sample(range(6), below(6)) if below(4) else [*range(below(1, 6))]
    added = {"base": below(6), "quantity": below(3), "position": chance.choice(["before", "after"])}
    zone = {"left": 0, "right": below(4), "top": below(3), "bottom": below(3, 5)}
    some = [
        on("CREATE_SHEET", other, position=below(4), name=chance.choice(NAMES), cols=below(4), rows=below(4)),
        on("CREATE_SHEET", other, position=0),
        on(chance.choice(["DELETE_SHEET", "HIDE_SHEET", "SHOW_SHEET"]), sheet),
        on("DUPLICATE_SHEET", sheet, sheetIdTo=other, sheetNameTo=chance.choice(NAMES)),
        on("RENAME_SHEET", sheet, newName=chance.choice(NAMES)),
        on("ADD_COLUMNS_ROWS", sheet, dimension=dimension, **added),
        on("REMOVE_COLUMNS_ROWS", sheet, dimension=dimension, elements=lines),
        on(chance.choice(["HIDE_COLUMNS_ROWS", "UNHIDE_COLUMNS_ROWS"]), sheet, dimension=dimension, elements=lines),
        on(chance.choice(["FREEZE_ROWS", "FREEZE_COLUMNS"]), sheet, quantity=below(4)),
        on(chance.choice(["UNFREEZE_ROWS", "UNFREEZE_COLUMNS", "UNFREEZE_COLUMNS_ROWS"]), sheet),
        on("UPDATE_CELL", sheet, col=below(5), row=below(6), content=chance.choice(["x", "y"])),
        on("DELETE_CONTENT", sheet, target=[zone]),
    ]
    return chance.choice(some)

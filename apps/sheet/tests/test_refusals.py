"""The engine refuses a command that it cannot execute. The sheet opens without the command, and lists the command."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.sheet.tests.helpers import put, revision, undo
from stratalog import Store
from stratalog.errors import StratalogError
from stratalog_sheet import EnginePool, RefusedCommand, Sheet, Sheets
from stratalog_sheet.engine import install_engine
from stratalog_sheet.events import Revision, check_message, event_of
from tests.node import node_program

HERE = Path(__file__).parent
PAGE = HERE.parent / "src/stratalog_sheet/web"
EXAMPLES: dict[str, Any] = json.loads((HERE / "commands.json").read_text())
VALUES: list[Any] = [None, "", "nosuch", -1, 3, 100_000, 1.5, True, [], {}, [None], "=1/0", "A1:B2", {"type": "x"}]
SEED, SAMPLE = 1, 40
SECONDS_MAX = 200
ON_SHEET = {"sheetId": "sheet1"}
RANGES = [{"_sheetId": "sheet1", "_zone": {"left": 0, "top": 0, "right": 1, "bottom": 5}}]
FIGURE = {**ON_SHEET, "figureId": "f", "col": 0, "row": 0, "offset": {"x": 0, "y": 0}}
CHART = {"type": "CREATE_CHART", **FIGURE, "size": {"width": 9, "height": 9}, "chartId": "c"}
BAR = {"type": "bar", "title": {"text": "T"}, "dataSource": {"type": "range", "dataSets": [], "labelRange": ""}}
PIVOT = {
    "type": "SPREADSHEET",
    "name": "P",
    "columns": [],
    "rows": [],
    "measures": [],
    "dataSet": {**ON_SHEET, "zone": {"left": 0, "top": 0, "right": 1, "bottom": 5}},
}

UNUSABLE: dict[str, dict[str, Any]] = {
    "a cell of a missing sheet": put(0, 0, "x", "nosuch"),
    "rows of a missing sheet": {"type": "UNFREEZE_ROWS", "sheetId": "nosuch"},
    "a chart of an unknown type": {**CHART, "definition": {"type": "nosuch"}},
    "a chart without data": {**CHART, "definition": {"type": "bar"}},
    "a scale without colours": {
        "type": "ADD_CONDITIONAL_FORMAT",
        **ON_SHEET,
        "ranges": RANGES,
        "cf": {"id": "x", "rule": {"type": "ColorScaleRule"}},
    },
    "a validation without a criterion": {"type": "ADD_DATA_VALIDATION_RULE", **ON_SHEET, "ranges": RANGES, "rule": {}},
    "cells of a missing pivot": {"type": "INSERT_PIVOT", **ON_SHEET, "pivotId": "p", "col": 0, "row": 0, "table": {}},
    "a pivot without fields": {"type": "ADD_PIVOT", "pivotId": "p", "pivot": {"type": "SPREADSHEET"}},
}
UNUSABLE_LATER: dict[str, dict[str, Any]] = {
    "an id that each object has": {"type": "ADD_PIVOT", "pivotId": "constructor", "pivot": PIVOT},
    "a colour that is a number": {**CHART, "definition": {**BAR, "background": 5}},
    "a chart figure without a chart": {"type": "CREATE_FIGURE", **FIGURE, "tag": "chart"},
    "an unknown icon": {
        "type": "ADD_CONDITIONAL_FORMAT",
        **ON_SHEET,
        "ranges": RANGES,
        "cf": {
            "id": "x",
            "rule": {
                "type": "IconSetRule",
                "icons": {"upper": "nosuch", "middle": "arrowNeutral", "lower": "arrowBad"},
                "upperInflectionPoint": {"type": "number", "value": "5", "operator": "gt"},
                "lowerInflectionPoint": {"type": "number", "value": "1", "operator": "gt"},
            },
        },
    },
    "a sort by a measure with an unknown aggregator": {
        "type": "ADD_PIVOT",
        "pivotId": "p",
        "pivot": {
            **PIVOT,
            "columns": [{"fieldName": "Kind"}],
            "rows": [{"fieldName": "Day"}],
            "measures": [{"id": "m", "fieldName": "Sum", "aggregator": "nosuch"}],
            "sortedColumn": {"measure": "m", "order": "asc", "domain": []},
        },
    },
    "groups of a pivot that are a text": {
        "type": "ADD_PIVOT",
        "pivotId": "p",
        "pivot": {
            **PIVOT,
            "rows": [{"fieldName": "Kind"}],
            "customFields": {"g": {"name": "g", "parentField": "Kind", "groups": ""}},
        },
    },
    "items that are a text": {
        "type": "CREATE_CAROUSEL",
        **FIGURE,
        "size": {"width": 9, "height": 9},
        "definition": {"items": "x"},
    },
}
ALL_UNUSABLE = UNUSABLE | UNUSABLE_LATER


def commit(sheet: Sheet, command: dict[str, Any], author: str = "eve") -> str:
    """Commit a command without the checks of `append`, as an earlier program did, and return its revision."""
    message = revision(sheet, command)
    sheet.log.append(event_of(Revision(message)), expected=sheet.version, author=author)
    return str(message["nextRevisionId"])


@pytest.mark.parametrize("command", ALL_UNUSABLE.values(), ids=ALL_UNUSABLE)
def test_a_sheet_opens_without_an_unusable_command_and_lists_the_command(
    command: dict[str, Any], sheet: Sheet, store: Store, engines: EnginePool
) -> None:
    sheet.set("A1", "7")
    unusable = commit(sheet, command)  # the open model receives it
    assert sheet.get("A1").value == 7
    sheet.append(revision(sheet, put(1, 0, "=A1*2"), {"type": "DUPLICATE_SHEET", **COPY}))
    reopened = Sheets(store, engines).open("acme", "plan")  # another handle shares the models of its log
    for each in (sheet, reopened):
        assert [(refused.version, refused.author, refused.type) for refused in each.refused()] == [
            (3, "eve", command["type"])
        ]
        assert each.get("B1", sheet="Copy").value == 14
    assert json.loads(sheet.state()) == json.loads(loaded(sheet, engines))
    sheet.append(undo(sheet, unusable))
    assert sheet.refused() == []
    assert sheet.get("B1").value == 14


COPY = {**ON_SHEET, "sheetIdTo": "copy", "sheetNameTo": "Copy"}


def loaded(sheet: Sheet, engines: EnginePool) -> bytes:
    """Return the state that a new model computes from the sheet's first state and all messages."""
    plan = sheet.load()
    with engines.lend("loaded") as models:
        models.engine.call("open", key="loaded", data=plan.data, messages=plan.messages, client="loaded")
        state = models.engine.raw("export", key="loaded")
        models.engine.call("close", key="loaded")
    return state


def test_a_refused_command_has_the_reason(sheet: Sheet) -> None:
    command = UNUSABLE["a chart of an unknown type"]
    sheet.append(revision(sheet, command), author="eve")
    reason = "Error: Cannot find nosuch in this registry!"
    assert sheet.refused() == [RefusedCommand(2, "eve", "CREATE_CHART", reason, command)]
    assert sheet.refused(1) == []


def test_a_duplication_to_an_existing_tab_name_is_not_listed_as_a_refused_command(sheet: Sheet) -> None:
    copy = {"type": "DUPLICATE_SHEET", **ON_SHEET, "sheetIdTo": "s", "sheetNameTo": "Sheet1"}
    sheet.append(revision(sheet, copy))
    assert sheet.refused() == []


@pytest.mark.parametrize(("figure", "left"), [("f2", ["f1", "f2", "f3"]), ("f3", ["f2", "f3"])])
def test_a_chart_can_move_only_to_a_carousel_and_its_old_figure_is_deleted(
    figure: str, left: list[str], sheet: Sheet, engines: EnginePool
) -> None:
    update = next(command for command in EXAMPLES["commands"] if command["type"] == "UPDATE_CHART")
    sheet.append(revision(sheet, *EXAMPLES["before"]))
    sheet.append(revision(sheet, {**update, "figureId": figure}))
    state = json.loads(sheet.state())
    assert sorted(each["id"] for each in state["sheets"][0]["figures"]) == left
    with engines.lend("moved") as models:
        models.engine.call("open", key="moved", data=state, messages=[], client="moved")
        models.engine.call("close", key="moved")


def test_usable_commands_are_executed(sheet: Sheet) -> None:
    state = json.dumps(EXAMPLES["data"]).encode()
    for command in EXAMPLES["commands"]:
        with sheet._engines.lend("usable") as models:
            ids = {"type": "REMOTE_REVISION", "version": 1, "clientId": "other", "serverRevisionId": "start"}
            messages = [{**ids, "nextRevisionId": "one", "commands": [*EXAMPLES["before"], command]}]
            models.engine.call("open", key="usable", data=state, messages=messages, client="usable")
            assert models.engine.call("refused", key="usable") == [], command
            models.engine.call("close", key="usable")


def test_a_command_with_a_wrong_value_leaves_the_sheet_openable(tmp_path: Path) -> None:
    """The page's engine plays a sample of all commands that the server accepts and that have one wrong value."""
    commands = random.Random(SEED).sample([*accepted()], SAMPLE)
    print("seed", SEED)
    (tmp_path / "commands.json").write_text(json.dumps({**EXAMPLES, "commands": commands}))
    arguments = [str(HERE / "refusals.mjs"), str(install_engine()), str(PAGE), str(tmp_path / "commands.json")]
    done = subprocess.run([node_program(), *arguments], capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stdout + done.stderr


def accepted() -> Iterator[dict[str, Any]]:
    """Yield each example with one value removed or replaced, if the server accepts the result."""
    for command in EXAMPLES["commands"]:
        for wrong in (changed for path in paths(command) for changed in variants(command, path)):
            ids = {"type": "REMOTE_REVISION", "serverRevisionId": "a", "nextRevisionId": "b", "clientId": "c"}
            try:
                check_message({**ids, "commands": [wrong]})
            except StratalogError:
                continue
            yield wrong


def paths(value: Any) -> Iterator[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        if key != "type" or "sheetId" not in value:
            yield (key,)
        yield from ((key, *rest) for rest in paths(inner))


def variants(command: dict[str, Any], path: tuple[str | int, ...]) -> Iterator[dict[str, Any]]:
    for value in (..., *VALUES):
        changed = json.loads(json.dumps(command))
        inner: Any = changed
        for key in path[:-1]:
            inner = inner[key]
        if value is ...:
            del inner[path[-1]]
        else:
            inner[path[-1]] = value
        if "type" in changed:
            yield changed

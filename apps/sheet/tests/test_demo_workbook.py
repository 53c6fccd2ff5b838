"""The demo's workbook has a history of versions, and the sampled versions have no cell with an error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stratalog
from stratalog_sheet import EnginePool, Sheet, Sheets

EXAMPLES = Path(__file__).parents[3] / "examples"
TABS = ["Overview", "Income", "Costs", "Until we open", "A trial week"]
LABELS = ["First draft", "As sent to the bank", "Agreed with the bank"]
DAY_MS = 24 * 3600 * 1000


@pytest.fixture(scope="module")
def plan(engines: EnginePool) -> Iterator[Sheet]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
        from demo_workbook import PastClock, build

        clock = PastClock()
        with stratalog.open("memory:", clock=clock) as store:
            yield build(Sheets(store, engines), "local", "cafe", clock)


def test_the_workbook_has_five_tabs_with_formulas_styles_and_a_chart(plan: Sheet) -> None:
    sheets = json.loads(plan.state())["sheets"]
    assert [sheet["name"] for sheet in sheets] == TABS
    contents = [content for sheet in sheets for content in sheet["cells"].values()]
    assert sum(content.startswith("=") for content in contents) > 200
    assert [len(sheet["figures"]) for sheet in sheets] == [1, 0, 0, 0, 0]
    assert all(sheet["styles"] and not sheet["areGridLinesVisible"] for sheet in sheets)


def test_no_sampled_version_has_a_cell_with_an_error(plan: Sheet) -> None:
    for version in (19, 32, 45, plan.version):
        for tab in plan.sheets(version):
            csv = plan.files.csv(sheet=tab["id"], at=version).decode()
            assert "#" not in csv, (version, tab["name"])


def test_the_overview_agrees_with_the_detail_tabs(plan: Sheet) -> None:
    income, costs, result = (plan.get(cell).value for cell in ("B5", "D5", "F5"))
    assert income == pytest.approx(plan.get("O13", sheet="Income").value)
    assert costs == pytest.approx(plan.get("O12", sheet="Costs").value)
    assert result == pytest.approx(income - costs)
    assert plan.get("H5").value == pytest.approx(plan.get("F24").value + result)
    assert plan.get("J5").value == plan.get("C12", sheet="A trial week").value


def test_four_people_wrote_the_workbook_in_three_weeks(plan: Sheet) -> None:
    activity = plan.activity(limit=100)
    assert len(activity) == plan.version > 50
    assert len({entry.author for entry in activity}) == 4
    times = [entry.created_ms for entry in reversed(activity)]
    assert times == sorted(times)
    assert 20 * DAY_MS < times[-1] - times[0] < 22 * DAY_MS
    assert [named.label for named in plan.versions()] == LABELS


def test_a_cell_of_the_workbook_has_two_changes_and_was_moved_between_them(plan: Sheet) -> None:
    changes = plan.blame("C12", sheet="Costs")
    assert [(change.author, change.cell) for change in changes] == [("Ben Okafor", "C12"), ("Ben Okafor", "C11")]


def test_an_interrupted_demo_is_continued(engines: EnginePool, plan: Sheet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    from demo_workbook import build, is_complete

    with stratalog.open("memory:") as store:
        sheets = Sheets(store, engines)
        assert not is_complete(sheets, "local", "cafe")
        # The second interruption is between a step and its label.
        for method, calls in (("append", 3), ("name_version", 0), ("append", 10)):
            with monkeypatch.context() as patch:
                patch.setattr(Sheet, method, interrupted(getattr(Sheet, method), calls))
                with pytest.raises(KeyboardInterrupt):
                    build(sheets, "local", "cafe")
            assert not is_complete(sheets, "local", "cafe")
        complete = build(sheets, "local", "cafe")
        assert is_complete(sheets, "local", "cafe")
        assert [entry.author for entry in complete.activity(limit=100)] == [
            entry.author for entry in plan.activity(limit=100)
        ]
        assert [(version.version, version.label) for version in complete.versions()] == [
            (version.version, version.label) for version in plan.versions()
        ]
        assert [complete.files.csv(sheet=tab["id"]) for tab in complete.sheets()] == [
            plan.files.csv(sheet=tab["id"]) for tab in plan.sheets()
        ]
        complete.set("A1", "mine")
        assert is_complete(sheets, "local", "cafe")


def interrupted(method: Any, calls: int) -> Any:
    """Return the method, which raises KeyboardInterrupt after this number of calls."""
    left = iter(range(calls))

    def call(*args: Any, **named: Any) -> Any:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return method(*args, **named)

    return call

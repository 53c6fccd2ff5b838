"""A sheet's titles are in its log. A rename is an entry of its own type, and does not change the engine's revision."""

from __future__ import annotations

import pytest

from apps.sheet.tests.helpers import put, revision, undo
from stratalog import Invalid, LimitExceeded, NotFound, Store
from stratalog.backends.memory import MemoryBlobs, MemoryIndex, MemoryQueue
from stratalog.backends.metered_ports import MeteredIndex
from stratalog.clock import SystemClock
from stratalog.log import Environment
from stratalog.log.retention import raise_floor
from stratalog.ports.meter import Meter
from stratalog_sheet import EnginePool, Sheet, Sheets
from stratalog_sheet.state import title_in


def fresh(sheets: Sheets, name: str = "plan") -> Sheet:
    """Return the sheet opened again, as another process opens it."""
    return Sheets(sheets.store, sheets.engines, sheets.settings).open("acme", name)


def test_a_new_title_appears_in_every_handle_and_in_the_list(sheet: Sheet, sheets: Sheets) -> None:
    sheet.set("A1", "x")
    assert sheet.rename("  Budget\n 2027 ", author="bob").data == {"title": "Budget 2027", "before": "Plan"}
    sheet.set("A1", "y")
    assert sheet.title == fresh(sheets).title == "Budget 2027"
    assert [(listed.name, listed.title) for listed in Sheets(sheets.store, sheets.engines).list("acme")] == [
        ("plan", "Budget 2027")
    ]


def test_each_version_has_the_title_of_its_time(sheet: Sheet, sheets: Sheets) -> None:
    sheet.rename("Second")
    sheet.name_version(1, "first")
    sheet.rename("Third")
    sheet.restore(1)
    assert [fresh(sheets).title_at(version) for version in range(1, 6)] == [
        "Plan",
        "Second",
        "Second",
        "Third",
        "Third",
    ]


def test_the_activity_lists_a_rename_with_its_author(sheet: Sheet) -> None:
    sheet.rename("Budget", author="bob")
    activity = sheet.activity()[0]
    assert (activity.author, activity.type, activity.text) == (
        "bob",
        "renamed",
        "renamed the sheet from “Plan” to “Budget”",
    )


def test_renaming_a_sheet_to_its_current_title_adds_no_version(sheet: Sheet, sheets: Sheets) -> None:
    other = fresh(sheets)
    assert other.rename("Plan").version == 1
    sheet.rename("Budget")
    assert other.rename("Budget").version == 2
    assert other.rename("Plan").version == 3


def test_a_rename_does_not_conflict_with_messages_and_undos(sheet: Sheet) -> None:
    mine = revision(sheet, put(0, 0, "x"))
    sheet.rename("Budget")
    sheet.append(mine)
    sheet.rename("Plan")
    sheet.append(undo(sheet, mine["nextRevisionId"]))
    assert sheet.get("A1").content == ""
    assert sheet.append(mine).version == 3


def test_since_returns_a_rename_without_requesting_a_reload(sheet: Sheet) -> None:
    sheet.rename("Budget")
    since = sheet.since(1)
    assert [(entry.type, entry.data["title"]) for entry in since.entries] == [("renamed", "Budget")]
    assert not since.reload


@pytest.mark.parametrize("title", ["", " \n\t "])
def test_a_title_must_not_be_empty(sheet: Sheet, title: str) -> None:
    with pytest.raises(Invalid):
        sheet.rename(title)
    assert sheet.version == 1


def test_a_title_that_is_too_long_is_refused(sheet: Sheet) -> None:
    with pytest.raises(LimitExceeded):
        sheet.rename("x" * 201)


def test_a_sheet_without_a_title_has_its_name_as_title(sheets: Sheets) -> None:
    sheet = sheets.create("acme", "untitled")
    assert sheet.title == "untitled"
    assert sheet.rename("Budget").data["before"] == "untitled"


def test_a_fork_has_its_own_title_and_retains_the_titles_of_its_earlier_versions(sheet: Sheet, sheets: Sheets) -> None:
    sheet.rename("Budget")
    fork = sheet.fork(2, "branch")
    sheet.rename("Elsewhere")
    fork.set("A1", "x")
    assert fork.title == fresh(sheets, "branch").title == "Budget (copy)"
    fork.rename("Mine")
    assert [fresh(sheets, "branch").title_at(version) for version in range(1, 6)] == [
        "Plan", "Budget", "Budget (copy)", "Budget (copy)", "Mine",
    ]  # fmt: skip


def test_an_app_snapshot_has_the_title_of_its_version(short: Sheets) -> None:
    sheet = short.create("acme", "plan", title="Plan")
    for number in range(4):
        sheet.set("A1", str(number))
    sheet.rename("Budget")
    for number in range(7):
        sheet.set("A2", str(number))
    versions = []
    while (version := sheet.snapshot_due()) is not None:
        versions.append(version)
    snapshots = [sheet.log.app_snapshot(version) for version in versions]
    assert [title_in(next(sheet.log.read_snapshot(snapshot))) for snapshot in snapshots if snapshot] == [
        "Plan",
        "Budget",
    ]


def test_a_title_outlives_its_forgotten_rename_entry(short: Sheets) -> None:
    sheet = short.create("acme", "plan", title="Plan")
    sheet.rename("Budget")
    for number in range(9):
        sheet.set("A1", str(number))
    while sheet.snapshot_due() is not None:
        pass
    snapshot = sheet.log.app_snapshot(sheet.version)
    assert snapshot is not None
    raise_floor(sheet.log, snapshot.version)
    assert fresh(short).title == "Budget"
    with pytest.raises(NotFound):
        fresh(short).log.entry(2)


def test_the_cost_of_reading_a_title_does_not_depend_on_its_age(engines: EnginePool) -> None:
    clock, meter = SystemClock(), Meter()
    store = Store(Environment(MeteredIndex(MemoryIndex(), meter), MemoryBlobs(clock), clock), MemoryQueue(clock))
    sheet = Sheets(store, engines).create("acme", "plan")
    sheet.rename("Budget")
    units = []
    for rows in (1, 30):
        for row in range(rows):
            sheet.append(revision(sheet, put(0, row, "x")))
        opened = Sheets(store, engines).open("acme", "plan")
        version = opened.version
        before = meter.total("read units")
        assert opened.title_at(version) == "Budget"
        units.append(meter.total("read units") - before)
    assert units[0] == units[1] <= 4

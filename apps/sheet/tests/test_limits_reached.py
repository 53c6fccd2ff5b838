"""The limits of sheets that no other test reaches. `docs/limits.md` names a test for each limit."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from apps.sheet.tests.helpers import ENGINES, put, revision
from stratalog import ContentionError, Invalid, LimitExceeded, VersionConflict
from stratalog.errors import Unavailable
from stratalog.store import Store
from stratalog.testing.clock import ManualClock
from stratalog_sheet import EnginePool, EngineSettings, Sheet, Sheets, SheetSettings
from stratalog_sheet import settings as sheet_settings
from stratalog_sheet.engine import Engine
from stratalog_sheet.engine_files import install_engine
from stratalog_sheet.events import Revision, event_of
from stratalog_sheet.limits import (
    SHEET_ACTIVITY_CELLS_MAX,
    SHEET_ATTEMPTS_MAX,
    SHEET_COMMANDS_MAX,
    SHEET_ENGINES_MAX,
    SHEET_ENGINES_MIN,
    SHEET_MODELS_MAX,
    SHEET_TEXT_BYTES_MAX,
)
from stratalog_sheet.models import LongOpening, Model, Models


def test_a_message_has_a_bounded_number_of_commands(sheet: Sheet) -> None:
    message = revision(sheet, put(0, 0, "x"))
    message["commands"] *= SHEET_COMMANDS_MAX + 1
    with pytest.raises(Invalid) as refused:
        sheet.append(message)
    assert refused.value.details["limit"] == SHEET_COMMANDS_MAX


def test_a_title_is_bounded(sheet: Sheet) -> None:
    with pytest.raises(LimitExceeded) as refused:
        sheet.rename("x" * (SHEET_TEXT_BYTES_MAX + 1))
    assert refused.value.details["limit"] == SHEET_TEXT_BYTES_MAX


@pytest.mark.parametrize(("cores", "engines"), [(1, SHEET_ENGINES_MIN), (3, 3), (64, SHEET_ENGINES_MAX)])
def test_the_default_number_of_engines_is_the_number_of_cores_within_limits(
    monkeypatch: pytest.MonkeyPatch, cores: int, engines: int
) -> None:
    monkeypatch.setattr(sheet_settings.os, "cpu_count", lambda: cores)  # type: ignore[attr-defined]
    assert EngineSettings().engines_max == engines


def test_an_engine_has_a_bounded_number_of_open_models(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    install_engine()
    dropped: list[int] = []
    drop = Models.drop

    def note(self: Models, model: Model) -> None:
        dropped.append(len(self._held))
        drop(self, model)

    monkeypatch.setattr(Models, "drop", note)
    engines = EnginePool(msgspec.structs.replace(ENGINES, engines_max=1))
    sheets = Sheets(store, engines)
    for number in range(SHEET_MODELS_MAX + 1):
        sheets.create("acme", f"plan-{number}").set("A1", "=1+1")
        assert dropped == [SHEET_MODELS_MAX] * (number == SHEET_MODELS_MAX)
    engines.close()


def test_an_activity_item_lists_a_bounded_number_of_cells(sheet: Sheet) -> None:
    sheet.append(revision(sheet, *(put(0, row, "x") for row in range(SHEET_ACTIVITY_CELLS_MAX + 1))))
    assert len(sheet.activity(limit=1)[0].cells) == SHEET_ACTIVITY_CELLS_MAX


def test_the_activity_counts_the_cells_of_a_range_without_listing_all_cells(sheet: Sheet) -> None:
    # An earlier program accepted such a range. A list of its names would need gigabytes.
    range_ = {"type": "SQUISHED_UPDATE_CELL", "sheetId": "sheet1", "targetRange": "A1:ZZZ9999999", "content": "x"}
    sheet.log.append(event_of(Revision(revision(sheet, range_))), expected=sheet.version)
    tracemalloc.start()
    try:
        (item,) = sheet.activity(limit=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert item.text == f"wrote {18_278 * 9_999_999} cells, A1 first"
    assert len(item.cells) == SHEET_ACTIVITY_CELLS_MAX
    assert peak < 10_000_000


def test_a_change_that_always_conflicts_is_retried_a_bounded_number_of_times(
    sheet: Sheet, monkeypatch: pytest.MonkeyPatch
) -> None:
    decided: list[int] = []

    def overtaken(*_: object, **__: object) -> object:
        decided.append(1)
        raise VersionConflict("another commit came first")

    monkeypatch.setattr(sheet.log, "append", overtaken)
    with pytest.raises(ContentionError):
        sheet.rename("Budget")
    assert SHEET_ATTEMPTS_MAX <= len(decided) <= SHEET_ATTEMPTS_MAX + 1  # plus one attempt with the cached window


def borders(number: int) -> list[dict[str, object]]:
    """Return two commands with different objects, which the engine tries."""
    sides = [{"top": {"style": "thin", "color": f"#0000{number:02d}"}}, {"left": {"style": "thin", "color": "#112233"}}]
    cell = {"type": "SET_BORDER", "sheetId": "sheet1", "row": number}
    return [{**cell, "col": column, "border": border} for column, border in enumerate(sides)]


def slow_calls(monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> list[tuple[str, int]]:
    """Let each call of an engine take 40 s, and return the list of the later calls with their numbers of messages."""
    called: list[tuple[str, int]] = []
    raw = Engine.raw

    def note(self: Engine, name: str, **arguments: Any) -> bytes:
        called.append((name, len(arguments.get("messages", ()))))
        answer = raw(self, name, **arguments)
        clock.sleep(40)
        return answer

    monkeypatch.setattr(Engine, "raw", note)
    return called


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def bounded_engines(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[EnginePool]:
    """Yield engines that open a workbook for at most 60 s, with at most three new objects in a call."""
    install_engine()
    monkeypatch.setattr("stratalog_sheet.models.SHEET_OBJECTS_ADDED_MAX", 3)
    pool = EnginePool(msgspec.structs.replace(ENGINES, workbook_seconds_max=60), clock=clock)
    yield pool
    pool.close()


def test_a_load_with_many_objects_takes_several_calls_and_continues_after_its_time(
    store: Store, clock: ManualClock, bounded_engines: EnginePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call has the objects that one message may have, so a sheet that accepted its messages can be opened."""
    sheet = Sheets(store, bounded_engines).create("acme", "plan")
    for number in range(4):
        sheet.append(revision(sheet, *borders(number)))
    called = slow_calls(monkeypatch, clock)
    with pytest.raises(Unavailable) as late:
        sheet.state()
    assert late.value.details == {"version": 5, "reached": 4}
    assert called == [("open", 1), ("apply", 1), ("apply", 1)]
    state = json.loads(sheet.state())
    assert called[3:] == [("apply", 1), ("export", 0)]
    assert {"A1", "A2", "A3", "A4"} <= state["sheets"][0]["borders"].keys()


def test_an_opening_with_more_messages_than_a_model_may_have_continues(
    store: Store, clock: ManualClock, bounded_engines: EnginePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stratalog_sheet.models.MESSAGES_MAX", 3)
    sheet = Sheets(store, bounded_engines).create("acme", "plan")
    for number in range(4):
        sheet.append(revision(sheet, *borders(number)))
    called = slow_calls(monkeypatch, clock)
    with pytest.raises(Unavailable):
        sheet.state()
    sheet.append(revision(sheet, *borders(4)))  # a change meanwhile does not end the opening
    sheet.state()
    assert called == [("open", 1), ("apply", 1), ("apply", 1), ("apply", 1), ("apply", 1), ("export", 0)]
    sheet.append(revision(sheet, *borders(5)))
    called.clear()
    with pytest.raises(Unavailable):
        sheet.state()
    assert called[0] == ("open", 1)  # an opened model has too many messages, so a new model replaces it


def test_maintenance_continues_a_long_opening_and_skips_a_sheet_that_is_unavailable(
    store: Store, clock: ManualClock, bounded_engines: EnginePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sheets = Sheets(store, bounded_engines, SheetSettings(undo_entries=2, snapshot_entries=7))
    stuck, long = sheets.create("acme", "a-stuck"), sheets.create("acme", "b-long")
    for number in range(8):
        for sheet in (stuck, long):
            sheet.append(revision(sheet, *borders(number)))
    tries: list[int] = []

    def stay(version: int) -> bytes:
        tries.append(version)
        raise LongOpening(version, 3)

    monkeypatch.setattr(stuck, "state", stay)
    called = slow_calls(monkeypatch, clock)
    assert sheets.snapshots_due("acme") == 1
    assert tries == [7, 7]
    assert called == [("open", 1), *[("apply", 1)] * 5, ("export", 0)]
    assert long.log.app_snapshot(7) is not None

"""A deleted sheet is gone for all its clients. Its forks stay complete, and its name is free."""

from __future__ import annotations

from typing import Any

import pytest

import stratalog
from apps.sheet.tests.helpers import put, revision
from stratalog import Conflict, NotFound, Store
from stratalog.clock import SystemClock
from stratalog.log.sweep import sweep_deleted
from stratalog_sheet import EnginePool, Sheet, Sheets


class Later(SystemClock):
    """A system clock that a test can set ahead."""

    ahead_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.ahead_ms


def test_a_deleted_sheet_is_not_found_by_any_handle_or_list(
    sheet: Sheet, sheets: Sheets, store: Store, engines: EnginePool
) -> None:
    other = Sheets(store, engines).open("acme", "plan")
    message = revision(other, put(0, 0, "late"))
    sheet.delete()
    for call in (
        other.load,
        other.delete,
        lambda: other.rename("x"),
        lambda: other.append(message),
        lambda: other.title,
    ):
        with pytest.raises(NotFound):
            call()
    with pytest.raises(NotFound):
        sheets.open("acme", "plan")
    assert list(sheets.list("acme")) == []


def test_a_new_sheet_with_the_name_of_a_deleted_sheet_is_empty(sheet: Sheet, sheets: Sheets) -> None:
    sheet.set("A1", "old")
    late = revision(sheet, put(0, 0, "late"))
    sheet.delete()
    again = sheets.create("acme", "plan", title="Again")
    assert (again.version, again.title, again.get("A1").content) == (1, "Again", "")
    with pytest.raises(NotFound):
        sheet.append(late)
    assert again.version == 1


def test_a_copy_outlives_its_deleted_source(engines: EnginePool) -> None:
    clock = Later()
    with stratalog.open("memory:", clock=clock) as store:
        sheets = Sheets(store, engines)
        sheet = sheets.create("acme", "plan", title="Plan", author="ann")
        sheet.set("A1", "both", author="ada")
        fork = sheet.fork(2, "copy")
        sheet.set("A1", "only there")
        sheet.delete()
        clock.ahead_ms = 3_600_000
        sweep_deleted(store.environment, "acme")
        opened = Sheets(store, engines).open("acme", "copy")
        assert [listed.author for listed in opened.blame("A1")] == ["ada"]
        assert [opened.get("A1", at=at).content for at in (1, 2, 3)] == ["", "both", "both"]
        assert opened.fork(3, "again").get("A1").content == "both"
        with pytest.raises(Conflict, match="a deleted sheet"):
            opened.fork(1, "before")
        assert fork.set("A2", "goes on").version == 4
        fork.delete()
        assert [listed.name for listed in sheets.list("acme")] == ["again"]


def test_a_fork_of_a_sheet_deleted_during_the_fork_raises_not_found(
    sheet: Sheet, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sheet.set("A1", "both")
    fork = sheet.fork(2, "copy")
    copy = store.fork_log

    def late(*given: Any, **named: Any) -> Any:
        fork.delete()
        return copy(*given, **named)

    monkeypatch.setattr(store, "fork_log", late)
    with pytest.raises(NotFound):
        fork.fork(1, "again")

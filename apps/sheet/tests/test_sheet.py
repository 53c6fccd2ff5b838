"""A sheet commits messages in one order, computes its states from the messages, and loses no version."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import pytest

import stratalog
from apps.sheet.tests.helpers import present, put, restore_without_snapshot, revision, rows, undo
from stratalog import Conflict, Invalid, LimitExceeded, NotFound, Store, VersionConflict
from stratalog_sheet import EnginePool, Sheet, Sheets, snapshots_due
from stratalog_sheet.events import Revision, event_of
from stratalog_sheet.limits import SHEET_BEHIND_ENTRIES_MAX
from stratalog_sheet.state import split_state
from tests.threads import run_together


@pytest.fixture(params=["memory", "postgres"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    url = "memory:" if request.param == "memory" else request.getfixturevalue("postgres")
    with stratalog.open(url) as store:
        yield store


def cells(sheet: Sheet, at: int | None = None) -> dict[str, str]:
    texts: dict[str, str] = json.loads(sheet.state(at))["sheets"][0]["cells"]
    return texts


def test_a_sheet_is_shown_by_its_name(sheet: Sheet) -> None:
    assert repr(sheet) == f"<Sheet {sheet.organisation}/{sheet.name}>"


def test_a_cell_that_is_set_has_its_value_and_its_author(sheet: Sheet) -> None:
    change = sheet.set("B2", "=1+2", author="ada")
    assert (change.version, change.author, sheet.get("B2").value) == (2, "ada", 3)


def test_a_cell_can_be_read_at_any_version(sheet: Sheet) -> None:
    sheet.set("A1", "one")
    sheet.set("A1", "two")
    assert [sheet.get("A1", at=at).formatted for at in (1, 2, 3)] == ["", "one", "two"]


def test_setting_a_cell_to_its_current_content_adds_no_version(sheet: Sheet) -> None:
    sheet.set("A1", "one")
    assert sheet.set("A1", "one").version == sheet.version == 2


def test_rows_are_inserted_and_formulas_move(sheet: Sheet) -> None:
    sheet.set("A1", "5")
    sheet.set("A2", "=A1")
    sheet.insert_rows(1, 2)
    assert (sheet.get("A4").content, sheet.get("A4").value) == ("=A3", 5)


@pytest.mark.parametrize(
    ("command", "value"),
    [
        ({"type": "HIDE_COLUMNS_ROWS", "elements": [1]}, 5),
        ({"type": "GROUP_HEADERS", "start": 0, "end": 1}, 7),
        ({"type": "FOLD_HEADER_GROUP", "start": 0, "end": 1}, 4),
        ({"type": "UNFOLD_HEADER_GROUP", "start": 0, "end": 1}, 7),
    ],
    ids=["hide", "group", "fold", "unfold"],
)
def test_a_subtotal_is_evaluated_when_a_user_hides_rows(sheet: Sheet, command: dict[str, object], value: int) -> None:
    for cell, content in {"A1": "1", "A2": "2", "A3": "4", "A5": "=SUBTOTAL(109,A1:A3)"}.items():
        sheet.set(cell, content)
    where = {"sheetId": "sheet1", "dimension": "ROW"}
    if "FOLD" in str(command["type"]):
        sheet.append(revision(sheet, {"type": "GROUP_HEADERS", "start": 0, "end": 1, **where}))
    if "UNFOLD" in str(command["type"]):
        sheet.append(revision(sheet, {"type": "FOLD_HEADER_GROUP", "start": 0, "end": 1, **where}))
        assert sheet.get("A5").value == 4
    # This read opens the model. So the command changes an open model.
    assert sheet.get("A5").value in (4, 7)
    sheet.append(revision(sheet, {**command, **where}))
    assert sheet.get("A5").value == value


def test_a_write_refused_by_the_engine_adds_no_version(sheet: Sheet) -> None:
    with pytest.raises(Invalid, match="TargetOutOfSheet"):
        sheet.set("ZZZ1", "x")
    assert sheet.version == 1


def test_a_cell_of_an_unknown_tab_is_not_found(sheet: Sheet) -> None:
    with pytest.raises(NotFound):
        sheet.get("A1", sheet="none")


# Messages


def test_a_message_based_on_the_current_revision_becomes_the_next_version(sheet: Sheet) -> None:
    message = revision(sheet, put(0, 0, "x"))
    assert sheet.append(message, author="bob").message == message
    assert cells(sheet) == {"A1": "x"}


def test_a_message_based_on_an_old_revision_is_refused_with_the_current_revision(sheet: Sheet) -> None:
    late = revision(sheet, put(0, 0, "late"))
    now = sheet.append(revision(sheet, put(0, 0, "first"))).message
    assert now is not None
    with pytest.raises(VersionConflict) as refused:
        sheet.append(late)
    assert refused.value.details["revision"] == now["nextRevisionId"]
    assert refused.value.details["version"] == sheet.version == 2


def test_a_repeated_message_gets_the_answer_of_the_first_attempt(sheet: Sheet) -> None:
    message = revision(sheet, put(0, 0, "x"))
    first = sheet.append(message)
    sheet.append(revision(sheet, put(0, 0, "y")))
    assert sheet.append(message) == first
    assert sheet.version == 3


def test_another_process_recognises_a_repeated_message(sheet: Sheet, store: Store, engines: EnginePool) -> None:
    message = revision(sheet, put(0, 0, "x"))
    first = sheet.append(message)
    assert Sheets(store, engines).open("acme", "plan").append(message) == first


def test_naming_a_version_does_not_conflict_with_a_message(sheet: Sheet) -> None:
    message = revision(sheet, put(0, 0, "x"))
    sheet.name_version(1, "empty")
    assert sheet.append(message).version == 3


def test_alternating_writes_of_two_processes_all_succeed(sheet: Sheet, store: Store, engines: EnginePool) -> None:
    other = Sheets(store, engines).open("acme", "plan")
    for number in range(3):
        sheet.set("A1", f"one {number}")
        other.set("A2", f"two {number}")
    assert cells(sheet) == cells(other) == {"A1": "one 2", "A2": "two 2"}


def test_threads_that_set_cells_all_succeed(sheet: Sheet) -> None:
    run_together(partial(sheet.set, f"A{row}", str(row)) for row in range(1, 9))
    assert cells(sheet) == {f"A{row}": str(row) for row in range(1, 9)}


@pytest.mark.parametrize(
    "broken",
    [
        {"type": "SNAPSHOT"},
        {"type": "CLIENT_MOVED"},
        {"nextRevisionId": ""},
        {"nextRevisionId": "x" * 65},
        {"serverRevisionId": 7},
        {"clientId": None},
        {"commands": {}},
        {"commands": [{"type": "FORMAT_DISK"}]},
        {"commands": ["x"]},
        {"commands": [{"type": "UPDATE_CELL", "col": 1, "row": 1, "content": "x"}]},
        {"commands": [put(-1, 0, "x")]},
        {"commands": [{**rows(0), "base": "first"}]},
        {"commands": [{"type": "DELETE_CONTENT", "sheetId": "sheet1", "target": [{"left": 0}]}]},
        {"commands": [{"type": "SQUISHED_UPDATE_CELL", "sheetId": "sheet1", "targetRange": "nonsense"}]},
    ],
    ids=lambda broken: json.dumps(broken)[:40],
)
def test_a_malformed_message_is_refused(sheet: Sheet, broken: dict[str, object]) -> None:
    with pytest.raises(Invalid):
        sheet.append({**revision(sheet, put(0, 0, "x")), **broken})
    assert sheet.version == 1


def test_a_field_may_have_different_types_in_different_commands(sheet: Sheet) -> None:
    made = {"type": "CREATE_SHEET", "sheetId": "second", "name": "Second", "position": 1}
    sheet.append(revision(sheet, made, rows(0)))
    assert [each["name"] for each in sheet.sheets()] == ["Sheet1", "Second"]


def test_a_message_that_is_too_large_is_refused(sheet: Sheet) -> None:
    with pytest.raises(LimitExceeded):
        sheet.append(revision(sheet, put(0, 0, "x" * 5_000_000)))


def test_a_sheet_opens_without_a_command_that_only_an_earlier_program_accepted(sheet: Sheet) -> None:
    sheet.set("A1", "good")
    broken = revision(sheet, {"type": "ADD_MERGE", "sheetId": "sheet1"})
    sheet.log.append(event_of(Revision(broken)), expected=sheet.version)
    assert cells(sheet) == {"A1": "good"}
    assert [refused.type for refused in sheet.refused()] == ["ADD_MERGE"]
    sheet.restore(2)
    assert sheet.refused() == []


# Undo


def test_an_undo_reverts_only_its_edit_and_a_redo_applies_the_edit_again(sheet: Sheet) -> None:
    mine = revision(sheet, put(0, 0, "mine"))
    sheet.append(mine)
    sheet.append(revision(sheet, rows(0)))
    sheet.append(undo(sheet, mine["nextRevisionId"]))
    assert cells(sheet) == {}
    sheet.append(undo(sheet, mine["nextRevisionId"], again=True))
    assert cells(sheet) == {"A2": "mine"}


def test_an_edit_cannot_be_redone_before_its_undo_or_undone_twice(sheet: Sheet) -> None:
    mine = revision(sheet, put(0, 0, "mine"))
    sheet.append(mine)
    with pytest.raises(Invalid):
        sheet.append(undo(sheet, mine["nextRevisionId"], again=True))
    sheet.append(undo(sheet, mine["nextRevisionId"]))
    with pytest.raises(Invalid):
        sheet.append(undo(sheet, mine["nextRevisionId"]))


@pytest.mark.parametrize(("entries_later", "is_refused"), [(3, False), (4, False), (5, True), (6, True)])
def test_the_settings_limit_how_far_back_an_undo_reaches(short: Sheets, entries_later: int, is_refused: bool) -> None:
    sheet = short.create("acme", "plan")
    old = revision(sheet, put(0, 0, "old"))
    sheet.append(old)
    for number in range(entries_later):
        sheet.append(revision(sheet, put(1, 0, str(number))))
    if is_refused:
        with pytest.raises(LimitExceeded) as refused:
            sheet.append(undo(sheet, old["nextRevisionId"]))
        assert refused.value.details["limit_entries"] == 5
    else:
        sheet.append(undo(sheet, old["nextRevisionId"]))
    assert ("A1" in cells(sheet)) == is_refused


def test_a_later_load_applies_an_undo_across_an_app_snapshot_of_an_older_program(short: Sheets) -> None:
    sheet = short.create("acme", "plan")
    for number in range(2):
        sheet.append(revision(sheet, put(1, 0, str(number))))
    mine = revision(sheet, put(0, 0, "mine"))
    sheet.append(mine)
    sheet.log.save_snapshot(4, split_state(sheet.state()))  # an older program saved such snapshots
    sheet.append(undo(sheet, mine["nextRevisionId"]))
    for number in range(8):
        sheet.append(revision(sheet, put(2, number, "x")))
    fresh = Sheets(short.store, short.engines, short.settings).open("acme", "plan")
    loaded = fresh.load()
    assert loaded.base_version < 4
    assert "A1" not in cells(fresh)


# Load and entries


def test_a_load_has_the_entries_that_an_undo_may_reach(short: Sheets) -> None:
    sheet = short.create("acme", "plan")
    for number in range(20):
        sheet.set("A1", str(number))
        sheet.snapshot_due()
    loaded = sheet.load()
    assert loaded.version - loaded.base_version in range(5, 5 + 4 + 1)
    assert json.loads(loaded.data)["revisionId"] == loaded.base_revision


def test_since_returns_the_entries_after_a_version(sheet: Sheet) -> None:
    sheet.set("A1", "x", author="ann")
    sheet.name_version(2, "named")
    since = sheet.since(1)
    assert [(entry.version, entry.type) for entry in since.entries] == [(2, "revision"), (3, "named")]
    assert (since.version, since.reload) == (3, False)


def test_since_requests_a_reload_after_a_restore(sheet: Sheet) -> None:
    sheet.set("A1", "x")
    sheet.restore(1)
    assert sheet.since(2).reload


def test_since_requests_a_reload_from_a_reader_that_is_too_many_bytes_behind(
    sheet: Sheet, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        sheet.set("A1", f"{number}" * 1000)
    monkeypatch.setattr("stratalog_sheet.sheet.SHEET_BEHIND_BYTES_MAX", 3000)
    assert len(sheet.since(2).entries) == 2
    since = sheet.since(1)
    assert (since.version, since.reload, since.entries) == (4, True, [])


def test_since_requests_a_reload_from_a_reader_that_is_too_many_entries_behind(
    sheet: Sheet, monkeypatch: pytest.MonkeyPatch
) -> None:
    sheet.set("A1", "x")
    monkeypatch.setattr("stratalog_sheet.sheet.SHEET_BEHIND_ENTRIES_MAX", 0)
    since = sheet.since(1)
    assert (since.reload, since.entries) == (True, [])
    assert SHEET_BEHIND_ENTRIES_MAX > 0


def test_a_missing_version_is_not_found_and_a_negative_version_is_invalid(sheet: Sheet) -> None:
    for at in (0, 2):
        with pytest.raises(NotFound):
            sheet.state(at)
    with pytest.raises(Invalid):
        sheet.state(-1)


# App snapshots


def test_app_snapshots_are_saved_once_at_each_interval(short: Sheets) -> None:
    sheet = short.create("acme", "plan")
    for number in range(13):
        sheet.set("A1", str(number))
    made = []
    while (version := sheet.snapshot_due()) is not None:
        made.append(version)
    assert made == [4, 8]
    assert sheet.snapshot_due() is None


def test_a_second_process_does_not_save_the_same_app_snapshot_again(short: Sheets) -> None:
    sheet = short.create("acme", "plan")
    for number in range(8):
        sheet.set("A1", str(number))
    assert short.snapshots_due("acme") == 1
    assert Sheets(short.store, short.engines, short.settings).snapshots_due("acme") == 0


def test_a_sheet_loaded_from_an_app_snapshot_has_the_same_state(short: Sheets) -> None:
    sheet = short.create("acme", "plan")
    for number in range(6):
        sheet.set(f"A{number + 1}", f"=B{number + 1}")
    before = json.loads(sheet.state())
    sheet.snapshot_due()
    fresh = Sheets(short.store, short.engines, short.settings).open("acme", "plan")
    assert json.loads(fresh.state()) == before


def test_maintenance_of_a_store_saves_due_app_snapshots(store: Store, sheets: Sheets) -> None:
    sheet = sheets.create("acme", "plan")
    for number in range(400):
        sheet.name_version(1, str(number))
    snapshots_due(store)
    snapshot = sheet.log.app_snapshot(sheet.version)
    assert snapshot is not None
    assert snapshot.version == 200


# Restore, fork, names


def test_a_restore_adds_a_version_and_preserves_all_earlier_versions(sheet: Sheet) -> None:
    sheet.set("A1", "good")
    sheet.set("A1", "bad")
    assert sheet.restore(2, author="ann").version == 4
    assert [sheet.get("A1", at=at).formatted for at in (2, 3, 4)] == ["good", "bad", "good"]
    sheet.set("A2", "more")
    assert cells(sheet) == {"A1": "good", "A2": "more"}


def test_a_restore_is_reverted_by_a_second_restore(sheet: Sheet) -> None:
    sheet.set("A1", "good")
    sheet.restore(1)
    sheet.restore(2)
    assert cells(sheet) == {"A1": "good"}


def test_a_restore_without_a_saved_snapshot_is_computed_from_the_entries(
    sheet: Sheet, store: Store, engines: EnginePool
) -> None:
    sheet.set("A1", "good")
    sheet.set("A1", "bad")
    assert restore_without_snapshot(sheet, 2) == 4
    assert sheet.log.app_snapshot(4) is None
    assert cells(Sheets(store, engines).open("acme", "plan")) == {"A1": "good"}


def test_an_edit_from_before_a_restore_cannot_be_undone(sheet: Sheet) -> None:
    mine = revision(sheet, put(0, 0, "mine"))
    sheet.append(mine)
    sheet.restore(1)
    with pytest.raises(LimitExceeded):
        sheet.append(undo(sheet, mine["nextRevisionId"]))


def test_a_message_from_before_a_restore_is_refused(sheet: Sheet) -> None:
    late = revision(sheet, put(0, 0, "late"))
    sheet.restore(1)
    with pytest.raises(VersionConflict):
        sheet.append(late)


def test_a_fork_and_its_source_change_independently(sheet: Sheet, sheets: Sheets) -> None:
    sheet.set("A1", "both")
    sheet.set("A1", "only here")
    fork = sheet.fork(2, "branch", title="What if", author="bob")
    fork.set("A2", "only there")
    assert (cells(sheet), cells(fork)) == ({"A1": "only here"}, {"A1": "both", "A2": "only there"})
    assert sheets.open("acme", "branch").title == "What if"
    assert [entry.type for entry in fork.since(1).entries] == ["revision", "forked", "revision"]


def test_a_version_name_is_added_changed_and_removed(sheet: Sheet) -> None:
    sheet.set("A1", "x")
    sheet.name_version(1, "empty", author="ann")
    sheet.name_version(2, "filled")
    sheet.name_version(1, "blank")
    sheet.name_version(2, "")
    assert [(version.version, version.label) for version in sheet.versions()] == [(1, "blank")]
    with pytest.raises(LimitExceeded):
        sheet.name_version(1, "x" * 201)
    with pytest.raises(NotFound):
        sheet.name_version(99, "no")


# Activity and changes


def test_activity_is_listed_in_pages_with_the_newest_entry_first(sheet: Sheet) -> None:
    sheet.set("C8", "1", author="ada")
    sheet.insert_rows(3, 2, author="bob")
    sheet.append(undo(sheet, present(sheet)))
    listed = [(activity.author, activity.text) for activity in sheet.activity()]
    assert listed == [
        ("", "undid version 3"),
        ("bob", "inserted 2 rows at 3"),
        ("ada", "wrote C8"),
        ("ann", "created the sheet"),
    ]
    assert [activity.version for activity in sheet.activity(before=3, limit=1)] == [2]
    assert sheet.activity(before=1) == []


@pytest.mark.parametrize(
    "look", [{"type": "UPDATE_CELL", "col": 0, "row": 0}, {"type": "SQUISHED_UPDATE_CELL", "targetRange": "A1:B2"}]
)
def test_activity_describes_a_change_of_cell_style(sheet: Sheet, look: dict[str, object]) -> None:
    bold = {**look, "sheetId": "sheet1", "style": {"bold": True}}
    sheet.append(revision(sheet, bold))
    sheet.append(revision(sheet, put(2, 2, "x"), bold))
    assert [entry.text for entry in sheet.activity(limit=2)] == [
        "wrote C3, changed the look of cells",
        "changed the look of cells",
    ]


def test_changes_omit_cells_that_only_moved(sheet: Sheet) -> None:
    sheet.set("A1", "stays")
    sheet.set("A2", "old")
    sheet.insert_rows(1)
    sheet.set("A3", "new")
    changes = [(change.cell, change.before, change.after) for change in sheet.changes(3, 5)]
    assert changes == [("A3", "old", "new")]
    assert [(change.cell, change.before, change.after) for change in sheet.changes(5, 3)] == [("A3", "new", "old")]


def test_changes_across_a_restore_list_only_cells_that_differ(sheet: Sheet) -> None:
    sheet.set("A1", "x")
    sheet.set("B1", "y")
    sheet.restore(2)
    assert [(change.cell, change.before, change.after) for change in sheet.changes(3, 4)] == [("B1", "y", "")]


# Sheets of a store


def test_sheets_are_listed_and_other_logs_are_not(sheets: Sheets, store: Store) -> None:
    sheets.create("acme", "b", title="Second")
    sheets.create("acme", "a")
    store.create_log("acme", "other")
    store.create("acme", "document")
    assert [(listed.name, listed.title, listed.version) for listed in sheets.list("acme")] == [
        ("a", "a", 1),
        ("b", "Second", 1),
    ]


def test_a_name_that_is_taken_is_a_conflict(sheets: Sheets, store: Store) -> None:
    sheets.create("acme", "plan")
    store.create_log("acme", "other")
    for name in ("plan", "other"):
        with pytest.raises(Conflict):
            sheets.create("acme", name)


def test_the_creation_of_a_sheet_resumes_on_a_log_without_entries(sheets: Sheets, store: Store) -> None:
    store.create_log("acme", "plan", "sheet")
    assert sheets.create("acme", "plan", title="Plan").title == "Plan"


def test_a_log_that_is_not_a_sheet_cannot_be_opened_as_a_sheet(sheets: Sheets, store: Store) -> None:
    store.create_log("acme", "other")
    with pytest.raises(Invalid):
        sheets.open("acme", "other")
    with pytest.raises(NotFound):
        sheets.open("acme", "none")


def test_an_exception_of_the_engine_becomes_an_invalid_error(engines: EnginePool) -> None:
    with engines.lend("none") as models, pytest.raises(Invalid, match="no model is open"):
        models.engine.call("export", key="none")

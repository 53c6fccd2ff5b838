"""Sheets whose log has forgotten entries: each operation works, or reports that the version is forgotten."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import Any

import pytest

import stratalog
from apps.sheet.tests.helpers import ENGINES, put, restore_without_snapshot, revision, rows, undo
from stratalog import Entry, Event, Log, Store
from stratalog.errors import LimitExceeded, Unavailable, VersionForgotten
from stratalog.log import LogSettings
from stratalog.log.retention import raise_floor
from stratalog.log.segments import list_segments
from stratalog.maintenance.log_pass import floor_bound
from stratalog.maintenance.policy import RetentionPolicy
from stratalog.ports.index import Write
from stratalog_sheet import EnginePool, Sheet, Sheets, SheetSettings
from stratalog_sheet.blame import CellHistory
from stratalog_sheet.branches import Standing
from stratalog_sheet.http import SHEET_HANDLERS, application
from tests.server.api import serving

SETTINGS = SheetSettings(undo_entries=5, snapshot_entries=4)
PATH = "/v1/organisations/acme/sheets/plan"
FORGOTTEN = 410
MESSAGE = {
    "type": "REMOTE_REVISION", "clientId": "c", "serverRevisionId": "old", "nextRevisionId": "n", "commands": [],
}  # fmt: skip


@pytest.fixture
def store() -> Iterator[Store]:
    with stratalog.open("memory:", settings=LogSettings(segment_entries_target=4)) as store:
        yield store


@pytest.fixture
def short(store: Store, engines: EnginePool) -> Sheets:
    return Sheets(store, engines, SETTINGS)


def fresh(sheets: Sheets, name: str = "plan", settings: SheetSettings = SETTINGS) -> Sheet:
    """Return a handle without cached state."""
    return Sheets(sheets.store, sheets.engines, settings).open("acme", name)


def edit(sheet: Sheet, chance: random.Random, count: int) -> None:
    """Append entries of all types. Save the due app snapshots, as maintenance does."""
    edits: list[str] = []
    for number in range(count):
        kind = chance.choices(["put", "rows", "undo", "rename", "name", "restore"], [12, 3, 9, 1, 1, 1])[0]
        if kind == "undo" and edits:
            target = edits.pop(-chance.randrange(1, min(len(edits), 3) + 1))
            with suppress(LimitExceeded):
                sheet.append(undo(sheet, target))
                if chance.random() < 0.3:
                    sheet.append(undo(sheet, target, again=True))
        elif kind == "rename":
            sheet.rename(f"Title {number}", author="ann")
        elif kind == "name":
            sheet.name_version(chance.randrange(max(sheet.log.floor(), 1), sheet.version + 1), f"label {number}")
        elif kind == "restore" and sheet.version > 3:
            sheet.restore(chance.randrange(max(sheet.log.floor(), 1), sheet.version))
            edits = []
        else:
            command = rows(chance.randrange(5)) if kind == "rows" else put(chance.randrange(3), 0, f"text {number}")
            message = revision(sheet, command)
            sheet.append(message)
            edits.append(message["nextRevisionId"])
        if chance.random() < 0.5:
            sheet.snapshot_due()


def floors(sheet: Sheet) -> list[int]:
    """Return the floors that retention may choose, in order."""
    segments = list(list_segments(sheet.log.environment.index, sheet.log.record.prefix))
    policies = [RetentionPolicy(retain_segments=count) for count in range(len(segments), 0, -1)]
    return sorted({floor_bound(sheet.log, segments, policy) for policy in policies} - {0})


def content(state: bytes) -> Any:
    tab = json.loads(state)["sheets"][0]
    return tab["rowNumber"], tab["cells"]


@pytest.mark.parametrize("seed", range(4))
def test_versions_at_or_above_the_floor_are_unchanged_and_usable(short: Sheets, seed: int) -> None:
    sheet = short.create("acme", "plan", title="Plan")
    edit(sheet, random.Random(seed), 50)
    chosen = floors(sheet)
    assert len(chosen) > 3
    for floor in chosen:
        old, first = fresh(short), max(floor - 2, sheet.log.floor(), 1)
        states = {version: content(old.state(version)) for version in (*range(first, floor + 9), old.version)}
        titles = {version: old.title_at(version) for version in states}
        assert raise_floor(sheet.log, floor) == floor
        for version, state in states.items():
            for handle in (old, fresh(short)):
                with suppress(VersionForgotten) if version < floor else nullcontext():  # an open model can answer
                    assert content(handle.state(version)) == state
                    assert handle.title_at(version) == titles[version]
        for handle in (old, fresh(short), fresh(short, settings=SheetSettings())):
            use(handle, floor)
        edit(fresh(short), random.Random(seed), 3)
        assert content(old.state()) == content(fresh(short).state())


def use(sheet: Sheet, floor: int) -> None:
    """Use the public operations of a sheet with forgotten versions."""
    head = sheet.version
    loaded = sheet.load()
    assert loaded.base_version >= floor
    assert sheet.log.hash_at(loaded.base_version)
    assert sheet.since(floor, sheet.log.hash_at(floor).hex()).version == head
    assert sheet.activity(limit=1000)[-1].version >= 1
    assert all(named.version >= floor for named in sheet.versions())
    assert sheet.since(1).reload  # the handle has read the new floor by now
    assert floor <= sheet.activity(limit=1000)[-1].version <= floor + 1
    assert (sheet.activity(before=floor), sheet.activity(before=1)) == ([], [])
    assert len(sheet.changes(floor, head)) == len(sheet.changes(head, floor))
    sheet.comparison.moves(head, head)
    cells = content(sheet.state())[1]
    for column in "ABC":
        changes = sheet.blame(f"{column}1")
        assert not changes or changes[0].after == cells.get(f"{column}1", "")
    assert sheet.export()
    for at in {1, floor - 1}:
        forgotten: list[Callable[[], object]] = [
            lambda at=at: sheet.load(at),
            lambda at=at: sheet.restore(at),
            lambda at=at: sheet.name_version(at, "gone"),
            lambda at=at: sheet.fork(at, "gone"),
            lambda at=at: sheet.comparison.moves(at, head),
        ]
        for call in forgotten:
            with pytest.raises(VersionForgotten):
                call()
        for read in (sheet.state, sheet.sheets, sheet.export, lambda at: sheet.changes(at, head)):
            with suppress(VersionForgotten):  # an open model may have the version
                read(at)
    for call in (sheet.original, sheet.files.import_report):
        with pytest.raises(VersionForgotten, match="first version"):
            call()
    assert sheet.version == head
    sheet.set("A1", f"at {floor}")
    sheet.insert_rows(1)
    sheet.name_version(floor, f"floor {floor}")
    sheet.rename(f"Renamed at {floor}")
    sheet.rename(f"Renamed at {floor}")
    assert sheet.title == f"Renamed at {floor}"
    message = revision(sheet, put(2, 2, "mine"))
    change = sheet.append(message, reader=Standing(sheet.version, sheet.log.head().hash.hex()))
    assert sheet.append(message).version == change.version
    sheet.append(undo(sheet, message["nextRevisionId"]))
    sheet.restore(floor)
    assert f"floor {floor}" in [named.label for named in sheet.versions()]


@pytest.mark.parametrize("seed", range(2))
def test_a_copy_is_read_and_changed_after_its_source_has_forgotten_versions(short: Sheets, seed: int) -> None:
    sheet = short.create("acme", "plan", title="Plan")
    edit(sheet, random.Random(seed), 30)
    chosen = floors(sheet)
    copy = sheet.fork(min(chosen[-1] + 3, sheet.version), "copy", title="Copy")
    states = {version: content(sheet.state(version)) for version in range(chosen[-1], copy.version)}
    for floor in (chosen[0], chosen[-1]):
        assert raise_floor(sheet.log, floor) == floor
        for opened in (copy, fresh(short, "copy")):
            assert opened.load().base_version >= floor
            assert opened.log.hash_at(opened.load().base_version)
            assert opened.activity(limit=1000)[-1].version > 1
            opened.versions()
            opened.blame("A1")
            opened.changes(floor, opened.version)
            assert {version: content(opened.state(version)) for version in states} == states
            opened.set("B1", f"after {floor}")
            opened.rename(f"Copy {floor}")
            opened.restore(chosen[-1])
            with pytest.raises(VersionForgotten):
                opened.restore(1)
            with pytest.raises(VersionForgotten):
                opened.fork(1, "another")
    assert content(fresh(short, "copy").state()) == content(copy.state())


def test_no_undo_crosses_an_app_snapshot(short: Sheets) -> None:
    """Retention may forget the edit below the snapshot, and without the edit no engine can execute the undo."""
    sheet = short.create("acme", "plan")
    for number in range(3):
        message = revision(sheet, put(0, number, "x"))
        sheet.append(message)
    assert (sheet.version, sheet.snapshot_due()) == (4, None)
    sheet.append(undo(sheet, message["nextRevisionId"]))
    for number in range(6):
        sheet.append(revision(sheet, put(1, number, "y")))
        sheet.snapshot_due()
    snapshot = sheet.log.app_snapshot(sheet.version)
    assert snapshot is not None
    assert snapshot.version == 5
    before = content(sheet.state())
    assert raise_floor(sheet.log, sheet.version) == 5
    assert content(fresh(short).state(5))[1] == {"A1": "x", "A2": "x"}
    assert content(fresh(short).state()) == before


def test_snapshot_due_saves_the_missing_snapshot_of_a_restore(short: Sheets) -> None:
    sheet = short.create("acme", "plan")
    sheet.set("A1", "x")
    restore_without_snapshot(sheet, 1)
    for number in range(10):
        sheet.set("A2", str(number))
    assert [sheet.snapshot_due(), sheet.snapshot_due()] == [
        3,
        7,
    ]  # no older snapshot exists, so 3 is not due immediately


def test_a_restore_that_lacked_its_snapshot_keeps_its_content_after_the_floor_rises(short: Sheets) -> None:
    """The restore needs version 2, and the floor may rise to 4. Maintenance first saves the snapshot of the restore."""
    sheet = short.create("acme", "plan")
    for number in range(8):
        sheet.set("A1", f"text {number}")
    assert sheet.snapshot_due() == 4
    restored = restore_without_snapshot(sheet, 2)
    assert fresh(short).snapshot_due() == restored
    assert raise_floor(sheet.log, 4) == 4
    assert content(fresh(short).state())[1] == {"A1": "text 0"}


def test_a_restore_writes_nothing_if_no_engine_can_compute_its_state(
    short: Sheets, monkeypatch: pytest.MonkeyPatch
) -> None:
    sheet = short.create("acme", "plan")
    sheet.set("A1", "x")
    with monkeypatch.context() as patched:
        patched.setattr(Sheet, "state", no_engine)
        with pytest.raises(Unavailable):
            sheet.restore(1)
    assert fresh(short).version == 2


def test_a_restore_commits_its_snapshot_together_with_its_entry(
    store: Store, short: Sheets, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is killed after the commit of a restore has saved the state, and leaves no work to maintenance."""
    sheet = short.create("acme", "plan")
    for number in range(8):
        sheet.set("A1", f"text {number}")
    assert sheet.snapshot_due() == 4
    index = store.environment.index
    commit = index.commit

    def last_commit(writes: Sequence[Write], blobs: Mapping[str, bytes]) -> None:
        commit(writes, blobs)
        if writes:  # a commit without writes puts blobs ahead
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(index, "commit", last_commit)
        with pytest.raises(Killed):
            sheet.restore(2)
    assert raise_floor(sheet.log, 4) == 4
    assert content(fresh(short).state())[1] == {"A1": "text 0"}
    assert fresh(short).snapshot_due() is None


def test_a_restore_after_lost_races_has_the_newest_title(short: Sheets, monkeypatch: pytest.MonkeyPatch) -> None:
    sheet, other = short.create("acme", "plan", title="Plan"), fresh(short)
    sheet.set("A1", "good")
    sheet.set("A1", "bad")
    append, races = Log.append, iter([lambda: other.set("B1", "late"), lambda: other.rename("Renamed")])

    def losing(log: Log, events: Event, **arguments: Any) -> Entry:
        if log is sheet.log and (race := next(races, None)):
            race()
        return append(log, events, **arguments)

    monkeypatch.setattr(Log, "append", losing)
    restored = sheet.restore(2).version
    assert restored == 6
    assert raise_floor(sheet.log, restored) == restored
    assert content(fresh(short).state())[1] == {"A1": "good"}
    assert fresh(short).title == "Renamed"


def test_maintenance_reads_no_entry_of_a_short_sheet(engines: EnginePool, monkeypatch: pytest.MonkeyPatch) -> None:
    with stratalog.open("memory:") as store:
        sheet = Sheets(store, engines, SETTINGS).create("acme", "plan")
        sheet.set("A1", "x")
        sheet.restore(1)
        sheet.set("A1", "y")
        monkeypatch.setattr(Log, "read", no_engine)
        assert sheet.snapshot_due() is None


class Killed(BaseException):
    """The process is killed."""


def no_engine(*_: object, **__: object) -> None:
    raise Unavailable("no engine is free")


def test_blame_begins_with_the_content_at_the_floor(short: Sheets) -> None:
    sheet = short.create("acme", "plan")
    sheet.set("A1", "first")
    sheet.restore(2)
    sheet.set("A1", "second")
    assert raise_floor(sheet.log, 3) == 3
    assert lines(fresh(short).blame("A1")) == [(4, "first", "second")]


def test_blame_lists_a_restore_of_a_forgotten_version_with_its_content(short: Sheets) -> None:
    sheet = short.create("acme", "plan")
    sheet.set("A1", "first")
    sheet.restore(1)
    sheet.set("A1", "second")
    sheet.restore(2)
    sheet.set("A1", "third")
    assert raise_floor(sheet.log, 3) == 3
    assert lines(fresh(short).blame("A1")) == [(6, "first", "third"), (5, "second", "first")]


def lines(changes: list[CellHistory]) -> list[tuple[int, str, str]]:
    return [(change.version, change.before, change.after) for change in changes]


def test_each_route_works_or_reports_a_forgotten_version(store: Store, short: Sheets) -> None:
    sheet = short.import_file("acme", "plan", b"1,2\n3,4\n", file_name="plan.csv")
    edit(sheet, random.Random(1), 30)
    floor = floors(sheet)[-1]
    with serving(application(engines=ENGINES), store) as client:
        assert client.get(f"{PATH}/load").status_code == 200
        assert raise_floor(sheet.log, floor) == floor
        head = sheet.version
        for at, wrong in ((floor, 0), (1, FORGOTTEN)):
            for method, path, body in routes(at, head):
                answer = client.request(method, PATH + path, json=body)
                expected = {"/append": (409,), "/moves": (200, FORGOTTEN)}.get(path.split("?")[0], (200, 201, wrong))
                assert answer.status_code in expected, (method, path, answer.text)
        assert client.get(f"{PATH}/").json()["first"] == floor
        for path in ("/original.xlsx", "/import-report"):
            assert client.get(PATH + path).status_code == FORGOTTEN
        assert client.delete(f"{PATH}/").status_code == 204
    called = {path.split("?")[0].replace("A1", "{cell:str}") for _, path, _ in routes(1, 1)}
    known = {path for handler in SHEET_HANDLERS for path in handler.paths}
    assert known - called == {"/original.xlsx", "/import-report", "/import"}


def routes(at: int, head: int) -> list[tuple[str, str, Any]]:
    """Return requests of all routes except the import, its report and its file: (method, path, body)."""
    return [
        ("GET", "/", None),
        ("GET", "/load", None),
        ("GET", f"/load?at={at}", None),
        ("GET", f"/load?known={at}&after={at}", None),
        ("GET", f"/entries?after={at}", None),
        ("GET", f"/state?at={at}", None),
        ("GET", f"/cells/A1?at={at}", None),
        ("GET", f"/changes?source={at}&target={head}", None),
        ("GET", f"/moves?source={at}&target={head}", None),
        ("GET", f"/blame?cell=A1&at={at}", None),
        ("GET", "/blame?cell=A1", None),
        ("GET", f"/activity?before={at}", None),
        ("GET", "/activity?limit=1000", None),
        ("GET", "/versions", None),
        ("GET", f"/refused?at={at}", None),
        ("GET", f"/export.xlsx?at={at}", None),
        ("GET", f"/export-report?at={at}", None),
        ("GET", f"/export.csv?at={at}", None),
        ("POST", "/rename", {"title": f"Title {at}"}),
        ("PUT", "/cells/A1", {"content": f"text {at}"}),
        ("POST", "/rows", {"row": 1}),
        ("POST", "/append", {"message": MESSAGE, "version": at}),
        ("POST", "/versions", {"version": at, "label": "label"}),
        ("POST", "/fork", {"name": f"copy-{at}", "version": at}),
        ("POST", "/restore", {"version": at}),
    ]

"""The commands of `stratalog sheet`: edit a sheet, read and restore its versions, import and export files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from apps.sheet.tests.packages import package, rows
from apps.sheet.tests.workbooks import workbooks
from stratalog import Store
from stratalog.cli import main
from stratalog_sheet import EnginePool, Sheet, Sheets, SheetSettings
from stratalog_sheet.models import LongOpening

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, engines: EnginePool, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs a command with the engines of the tests, so that no command starts an engine."""

    class SheetsOfCommand(Sheets):
        def __init__(self, store: Store) -> None:
            super().__init__(store, engines)

        def close(self) -> None:
            """Close the models but not the engines. The next command opens its models anew, as a process does."""
            for models in engines._idle:
                for model in list(models._held):
                    models.drop(model)

    monkeypatch.setattr("stratalog_sheet.Sheets", SheetsOfCommand)
    monkeypatch.setenv("STRATALOG_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str, code: int = 0) -> Result:
        result = CliRunner().invoke(main, ["sheet", *arguments])
        assert result.exit_code == code, result.output
        return result

    return call


@pytest.fixture
def plan(run: Run) -> Run:
    run("create", "acme/plan", "--title", "Plan", "--author", "ann")
    run("set", "acme/plan", "B2", "5", "--author", "ada")
    run("set", "acme/plan", "B3", "=B2*2", "--author", "bob")
    return run


def test_get_prints_a_cell_at_the_current_and_at_an_earlier_version(plan: Run) -> None:
    plan("set", "acme/plan", "B2", "6")
    assert plan("get", "acme/plan", "B3").output == "12\n"
    assert plan("get", "acme/plan", "B3", "--at", "3").output == "10\n"
    printed = json.loads(plan("get", "acme/plan", "B3", "--json").output)
    assert (printed["content"], printed["value"], printed["formatted"]) == ("=B2*2", 12, "12")


def test_a_content_that_starts_with_a_dash_follows_a_double_dash(plan: Run) -> None:
    plan("set", "acme/plan", "A1", "--", "-7")
    assert plan("get", "acme/plan", "A1").output == "-7\n"


def test_the_history_of_a_cell_follows_inserted_rows(plan: Run) -> None:
    plan("insert-row", "acme/plan", "1", "--count", "2", "--author", "cid")
    changes = [json.loads(line) for line in plan("history", "acme/plan", "B4", "--json").output.splitlines()]
    assert [(change["author"], change["cell"], change["after"]) for change in changes] == [("ada", "B2", "5")]
    lines = plan("history", "acme/plan").output.splitlines()
    assert lines[0].split()[-4:] == ["2", "rows", "at", "1"]
    assert len(lines) == 4


def test_a_version_is_named_listed_restored_and_forked(plan: Run) -> None:
    plan("name", "acme/plan", "2", "before")
    assert "before" in plan("versions", "acme/plan").output
    plan("restore", "acme/plan", "2")
    assert plan("get", "acme/plan", "B3").output == "\n"
    plan("fork", "acme/plan", "acme/what-if", "--at", "3", "--title", "What if")
    assert plan("get", "acme/what-if", "B3").output == "10\n"
    listed = [json.loads(line) for line in plan("list", "--json").output.splitlines()]
    assert [(sheet["name"], sheet["title"]) for sheet in listed] == [("plan", "Plan"), ("what-if", "What if")]


def test_a_restore_continues_the_opening_of_a_version_that_takes_long_to_open(
    plan: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[Sheet] = []
    state = Sheet.state

    def long_state(sheet: Sheet, at: int) -> bytes:
        tries.append(sheet)
        if len(tries) < 3:
            raise LongOpening(at, len(tries))
        return state(sheet, at)

    monkeypatch.setattr(Sheet, "state", long_state)
    plan("restore", "acme/plan", "2")
    assert tries == [tries[0]] * 3  # the same sheet each time, so its engine continues the opening


def test_a_time_before_the_first_version_is_refused_with_the_time_of_that_version(plan: Run) -> None:
    for command in (["get", "acme/plan", "B2"], ["fork", "acme/plan", "acme/what-if"]):
        refused = plan(*command, "--at", "2020-01-01", code=3).output
        assert "there was no version at that time" in refused
        assert "time='2020-01-01' first='2" in refused
    plan("fork", "acme/plan", "acme/what-if", "--at", "0", code=3)


def test_an_unknown_tab_is_refused_with_the_names_of_the_tabs(plan: Run) -> None:
    for command in (["get", "acme/plan", "B2"], ["set", "acme/plan", "B2", "6"], ["history", "acme/plan", "B2"]):
        assert "sheet='Sheet9' known='Sheet1'" in plan(*command, "--tab", "Sheet9", code=3).output
    assert "known='Sheet1'" in plan("export", "acme/plan", "out.csv", "--tab", "Sheet9", code=3).output


def test_a_sheet_is_renamed(plan: Run) -> None:
    assert plan("rename", "acme/plan", "Budget", "--author", "cid").output == "the title of acme/plan is “Budget”\n"
    (listed,) = [json.loads(line) for line in plan("list", "--json").output.splitlines()]
    assert (listed["name"], listed["title"]) == ("plan", "Budget")
    assert "cid" in plan("history", "acme/plan").output.splitlines()[0]
    plan("rename", "acme/plan", " ", code=2)


def test_a_sheet_is_deleted_only_after_confirmation(plan: Run) -> None:
    refused = CliRunner().invoke(main, ["sheet", "delete", "acme/plan"], input="n\n")
    assert refused.exit_code == 1
    assert "delete “Plan” (acme/plan) with its 3 versions?" in refused.output
    assert plan("get", "acme/plan", "B2").output == "5\n"
    assert plan("delete", "acme/plan", "--yes").output == "deleted “Plan” (acme/plan)\n"
    plan("get", "acme/plan", "B2", code=3)
    plan("delete", "acme/plan", "--yes", code=3)


def test_a_workbook_is_imported_and_exported(run: Run, tmp_path: Path) -> None:
    path = next(path for path in workbooks() if path.name == "loadPivotTables.xlsx")
    run("import", str(path))
    run("set", "local/loadPivotTables", "A1", "changed")
    assert run("get", "local/loadPivotTables", "A1", "--at", "1").output == "Sepal Length\n"
    run("export", "local/loadPivotTables", "out.xlsx", "--at", "1")
    run("export", "local/loadPivotTables", "original.xlsx", "--original")
    assert (tmp_path / "original.xlsx").read_bytes() == path.read_bytes()
    run("import", "out.xlsx", "local/again")
    assert run("get", "local/again", "A1").output == "Sepal Length\n"


def test_an_export_to_a_dash_is_written_to_standard_output(plan: Run, tmp_path: Path) -> None:
    plan("export", "acme/plan", "plan.xlsx")
    assert plan("export", "acme/plan", "-").stdout_bytes[:2] == (tmp_path / "plan.xlsx").read_bytes()[:2] == b"PK"
    assert not (tmp_path / "-").exists()


def test_imports_and_exports_report_losses(run: Run, tmp_path: Path) -> None:
    (tmp_path / "book.xlsx").write_bytes(package({"S": rows('<c r="A1"><f>NOSUCH(1)</f></c>')}))
    assert "formulas that the engine does not know are kept as they are (1: S!A1)" in run("import", "book.xlsx").output
    (finding,) = [json.loads(line) for line in run("report", "local/book", "--json").output.splitlines()]
    assert (finding["code"], finding["where"]) == ("formula", ["S!A1"])
    run("set", "local/book", "A2", "=[@none")
    lost = "formulas that the engine cannot read are exported as text (1: S!A2)"
    assert lost in run("export", "local/book", "out.xlsx").output
    (tmp_path / "list.csv").write_text("a,007\n")
    run("import", "list.csv")
    assert run("report", "local/list").output == "no part of an imported file is missing\n"
    run("export", "local/list", "out.csv", "--tab", "Sheet1")
    assert (tmp_path / "out.csv").read_bytes() == b"a,007\r\n"
    assert "--tab" in run("export", "local/list", "out.xlsx", "--tab", "Sheet1", code=2).output


def test_an_option_that_would_be_ignored_is_refused(plan: Run, tmp_path: Path) -> None:
    assert "--at" in plan("export", "acme/plan", "out.xlsx", "--original", "--at", "1", code=2).output
    assert not (tmp_path / "out.xlsx").exists()
    assert "--tab" in plan("history", "acme/plan", "--tab", "Sheet1", code=2).output


def test_the_snapshot_command_prints_the_number_of_saved_snapshots(plan: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert plan("snapshot", "acme").output == "saved 0 snapshots\n"
    short = SheetSettings(undo_entries=1, snapshot_entries=2)
    monkeypatch.setattr("stratalog_sheet.sheets.SheetSettings", lambda: short)
    assert plan("snapshot", "acme").output == "saved 1 snapshot\n"
    assert plan("snapshot").output == "saved 0 snapshots\n"


def test_errors_not_found_invalid_and_conflict_have_their_exit_codes(plan: Run) -> None:
    assert "sheet not found" in plan("get", "acme/none", "A1", code=3).output
    assert "version not found" in plan("get", "acme/plan", "A1", "--at", "99", code=3).output
    assert "not a cell" in plan("get", "acme/plan", "nonsense", code=2).output
    plan("create", "acme/plan", code=4)
    plan("fork", "acme/plan", "other/plan", code=2)


def test_a_missing_engine_is_reported_with_the_setup_command(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stratalog_sheet.Sheets", Sheets)
    run("create", "acme/plan")
    monkeypatch.setenv("STRATALOG_SHEET_ENGINE", str(tmp_path / "nowhere"))
    assert "stratalog sheet setup" in run("get", "acme/plan", "A1", code=5).output

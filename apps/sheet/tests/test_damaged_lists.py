"""A list of sheets, and the snapshots of an organisation, name each damaged sheet and continue with the others."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

import stratalog
from apps.sheet.tests.test_commands import Run, run
from stratalog import Corrupt
from stratalog.keys import NAME_SORT, directory_partition, name_partition
from stratalog_sheet import EnginePool, Sheets

__all__ = ["run"]


@pytest.fixture
def damaged(run: Run, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return a store with three sheets. The sheet ``b``, or its line of the directory, is damaged."""
    for name in "abc":
        run("create", f"acme/{name}")
    partition, sort = request.param
    database = apsw.Connection(str(tmp_path / "store" / "index.sqlite"))
    database.execute("UPDATE items SET body = x'c1' WHERE partition = ? AND sort = ?", (partition, sort))
    assert database.changes() == 1
    return tmp_path / "store"


SHEET = (name_partition("acme", "b"), NAME_SORT)
LINE = (directory_partition("acme", "logs", 0), "b")


@pytest.mark.parametrize("damaged", [SHEET, LINE], indirect=True, ids=["sheet", "line"])
@pytest.mark.parametrize("organisation", [(), ("acme",)])
def test_a_list_of_sheets_names_a_damaged_sheet_and_lists_the_others(
    run: Run, damaged: Path, organisation: tuple[str, ...]
) -> None:
    result = run("list", *organisation, code=6)
    assert [name for name in ("acme/a", "acme/b", "acme/c") if f"{name} " in result.stdout] == ["acme/a", "acme/c"]
    assert "b" in result.stderr


@pytest.mark.parametrize("damaged", [SHEET, LINE], indirect=True, ids=["sheet", "line"])
def test_the_snapshots_of_the_other_sheets_are_saved_and_the_damage_is_named(
    run: Run, damaged: Path, engines: EnginePool, caplog: pytest.LogCaptureFixture
) -> None:
    assert "saved 0 snapshots" in run("snapshot", code=6).stdout
    with stratalog.open(str(damaged)) as store:
        assert Sheets(store, engines).snapshots_due("acme") == 0
    assert len(caplog.records) == 1


@pytest.mark.parametrize("damaged", [SHEET, LINE], indirect=True, ids=["sheet", "line"])
def test_a_list_without_a_function_for_damage_raises_the_error(damaged: Path, engines: EnginePool) -> None:
    with stratalog.open(str(damaged)) as store, pytest.raises(Corrupt):
        list(Sheets(store, engines).list("acme"))


@pytest.mark.parametrize("damaged", [SHEET], indirect=True)
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_list_of_sheets_reports_damage_in_the_form_of_all_lists(
    run: Run, damaged: Path, options: tuple[str, ...]
) -> None:
    lines = run("list", *options, code=6).stderr.splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["damaged:"]

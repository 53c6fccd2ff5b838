"""Loads and imports have limits in bytes. A restore of an earlier version makes a sheet small enough again."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from apps.sheet.tests.helpers import put, revision
from stratalog import LimitExceeded, Store
from stratalog.cli import main
from stratalog.codec import encode
from stratalog_sheet import EnginePool, Sheet, Sheets, files, load_plan, models

TEXT = "x" * 4000


def write(sheet: Sheet, row: int) -> int:
    """Write a long text, and return the bytes of the message."""
    message = revision(sheet, put(0, row, TEXT))
    sheet.append(message)
    return len(encode(message))


def test_a_load_is_bounded_in_bytes(
    sheet: Sheet, store: Store, engines: EnginePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = sum(write(sheet, row) for row in range(3))
    loaded = sheet.load()
    loaded_bytes = size + len(loaded.data)
    monkeypatch.setattr(load_plan, "SHEET_LOAD_BYTES_MAX", loaded_bytes)
    assert sheet.load() == loaded
    monkeypatch.setattr(load_plan, "SHEET_LOAD_BYTES_MAX", loaded_bytes - 1)
    with pytest.raises(LimitExceeded, match="restore an earlier version") as refused:
        sheet.load()
    assert (refused.value.details["value"], refused.value.details["limit"]) == (loaded_bytes, loaded_bytes - 1)
    with pytest.raises(LimitExceeded):
        Sheets(store, engines).open("acme", "plan").get("A1")
    sheet.restore(2)
    assert sheet.get("A1").formatted == TEXT
    assert sheet.load().messages == []


def test_messages_before_a_restored_state_do_not_count_toward_the_load_limit(
    sheet: Sheet, monkeypatch: pytest.MonkeyPatch
) -> None:
    for row in range(3):
        write(sheet, row)
    sheet.restore(1)
    monkeypatch.setattr(load_plan, "SHEET_LOAD_BYTES_MAX", 4000)
    assert sheet.load().messages == []


def test_an_open_model_is_not_advanced_beyond_the_load_limit(sheet: Sheet, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sheet.get("A1").formatted == ""
    for row in range(3):
        write(sheet, row)
    monkeypatch.setattr(models, "SHEET_LOAD_BYTES_MAX", 4000)
    monkeypatch.setattr(load_plan, "SHEET_LOAD_BYTES_MAX", 8000)
    with pytest.raises(LimitExceeded):
        sheet.get("A1")


@pytest.mark.parametrize("name", ["large.xlsx", "large.csv"])
def test_the_command_line_refuses_a_too_large_file_before_reading_all_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(files, "SHEET_XLSX_BYTES_MAX", 1000)
    file = tmp_path / name
    with file.open("wb") as opened:
        opened.truncate(1 << 40)  # a sparse file that is too large to be read whole
    result = CliRunner().invoke(main, ["sheet", "import", str(file), "acme/plan", "--store", str(tmp_path / "store")])
    assert result.exit_code != 0
    assert f"value={1 << 40}" in result.output
    assert "limit=1000" in result.output
    assert not (tmp_path / "store").exists()

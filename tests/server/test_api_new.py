"""The application that `stratalog new` writes passes its own test, and a server runs it unchanged."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from stratalog.cli import main
from tests import http_calls
from tests.processes import run
from tests.server.api import BUDGET, mutation
from tests.server.test_api_serve import served


def new(name: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, ["new", name])
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.slow
def test_a_new_application_passes_its_own_test_and_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert new("tasks").startswith("wrote tasks/tasks.py, tasks/test_tasks.py\n")
    folder = tmp_path / "tasks"
    own_test = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_tasks.py"]
    assert "2 passed" in run(own_test, cwd=folder).stdout
    with served(folder, "tasks:app") as (url, _):
        assert http_calls.put(url + BUDGET).status_code == 201
        body = {"group": "g", "mutations": [mutation("ada", 1, "addTask", id=1, title="Buy milk")]}
        assert http_calls.post(f"{url}{BUDGET}/push", json=body).json()["outcomes"][0]["status"] == "applied"
        assert http_calls.get(f"{url}{BUDGET}/items").json()["items"][0]["metadata"] == {"id": 1, "title": "Buy milk"}
        assert http_calls.delete(url + BUDGET).status_code == 403


def test_an_existing_folder_and_an_invalid_module_name_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    for name, reason in (
        ("there", "already exists"),
        ("my-app", "not the name of a Python module"),
        ("class", "not the name"),
    ):
        assert reason in new(name, code=2)

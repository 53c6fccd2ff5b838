"""Arguments and file names that are not UTF-8 get an error or JSON that a program can parse, and no traceback."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import stratalog
from stratalog.client import connect
from stratalog.errors import Invalid
from tests.cli.conftest import Run

NAME = os.fsdecode(b"caf\xe9")
ESCAPED = "caf\\udce9"
URL = "http://127.0.0.1:1/v1/organisations/acme/documents/plan"


@pytest.mark.parametrize(
    "arguments",
    [
        ("init", NAME),
        ("list", "--store", NAME),
        ("list", "--settings", NAME),
        ("mutate", "acme/budget", NAME, "key=a"),
        ("mutate", "acme/budget", "put", NAME),
        ("show", "acme/budget", "--at", NAME),
        (NAME,),
    ],
)
def test_the_json_error_has_the_escape_of_an_argument(arguments: tuple[str, ...], budget: Run) -> None:
    error = json.loads(budget("--json", *arguments, code=2).stderr)["error"]
    assert any(ESCAPED in text for text in (error["message"], *error["details"].values()))


def test_a_result_in_json_has_the_escape_of_a_file_name(run: Run, tmp_path: Path) -> None:
    printed = json.loads(run("--json", "checkpoint-key", "acme.example", NAME).stdout)
    assert printed["file"] == ESCAPED
    assert (tmp_path / NAME).exists()


def test_a_store_in_a_folder_that_is_not_utf_8_is_refused_and_makes_no_folder(run: Run, tmp_path: Path) -> None:
    assert "UTF-8" in run("init", str(tmp_path / NAME / "data"), code=2).stderr
    assert not (tmp_path / NAME).exists()


@pytest.mark.parametrize("path", [NAME, "a\0b", "\ud800"])
def test_a_path_that_sqlite_cannot_open_is_invalid_for_a_store_and_for_a_client(path: str, tmp_path: Path) -> None:
    with pytest.raises(Invalid):
        stratalog.open(f"{tmp_path}/{path}")
    with pytest.raises(Invalid):
        connect(URL, f"{tmp_path}/{path}", create=True)
    assert list(tmp_path.iterdir()) == []


def test_a_store_in_memory_needs_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / NAME).mkdir()
    monkeypatch.chdir(tmp_path / NAME)
    connect(URL, create=True).close()
    with pytest.raises(Invalid, match="UTF-8"):
        stratalog.open("data")

"""Fixtures that run the program on a store in a temporary folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stratalog.cli import main

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("STRATALOG_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str, code: int = 0, typed: str | None = None) -> Result:
        result = CliRunner().invoke(main, arguments, input=typed)
        assert result.exit_code == code, result.output
        return result

    return call


@pytest.fixture
def budget(run: Run) -> Run:
    """Run the program on a store whose document has three versions. The third version is a rejection."""
    run("init")
    run("create", "acme/budget")
    run("mutate", "acme/budget", "put", "key=cells/C2", "value=100", "--client", "ada")
    run("mutate", "acme/budget", "put", '{"key": "cells/C2", "value": 105}', "--client", "bob", "--id", "1")
    run("mutate", "acme/budget", "append", "key=cells/C2", "item=1", code=1)
    return run

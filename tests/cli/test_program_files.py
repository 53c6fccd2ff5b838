"""Only the user who runs a command may access the files that it creates."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from stratalog.cli import main


def test_only_the_user_can_access_a_store_that_a_command_creates(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        for arguments in (["init"], ["create", "acme/plan"], ["mutate", "acme/plan", "put", "key=a", "value=1"]):
            result = CliRunner().invoke(main, [*arguments, "--store", str(tmp_path / "data")])
            assert result.exit_code == 0, result.output
        made = list((tmp_path / "data").rglob("*"))
        assert len(made) >= 2
        assert {oct(path.stat().st_mode & 0o077) for path in (tmp_path / "data", *made)} == {"0o0"}
        assert os.umask(0o022) == 0o022, "a command changed the umask of its caller"
    finally:
        os.umask(before)


@pytest.mark.parametrize("arguments", [["--help"], ["no-such-command"]])
def test_a_command_restores_the_umask_after_help_and_after_an_error(arguments: list[str]) -> None:
    before = os.umask(0o022)
    try:
        CliRunner().invoke(main, arguments)
        assert os.umask(before) == 0o022
    finally:
        os.umask(before)

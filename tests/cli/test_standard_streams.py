"""Commands whose standard input or output is closed, or cannot encode a text, end without a traceback."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import stratalog
from tests.processes import COMMAND_LINE, environment, run

NAME = os.fsdecode(b"caf\xe9")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A folder with a store that has a document and a record."""
    with stratalog.open(tmp_path / "data") as opened:
        opened.create("acme", "plan").put("a", "☃")
        opened.records("acme").put("logo", b"body")
    return tmp_path


@pytest.mark.parametrize(
    ("redirection", "command", "code", "printed"),
    [
        ("<&-", ("delete", "acme/plan"), 1, "error: aborted\n"),
        ("<&-", ("import", "acme/other", "-"), 2, "error: standard input is closed\n"),
        ("<&-", ("records", "put", "acme/other", "-"), 2, "error: standard input is closed\n"),
        (">&-", ("export", "acme/plan", "-"), 2, "error: standard output is closed\n"),
        (">&-", ("records", "get", "acme/logo"), 2, "error: standard output is closed\n"),
        (">&-", ("work", "--drain"), 0, ""),
        ("2>&-", ("verify", "--quick"), 0, ""),
    ],
)
def test_a_command_with_a_closed_stream_reports_it_and_changes_nothing(
    redirection: str, command: tuple[str, ...], code: int, printed: str, store: Path
) -> None:
    arguments = ["sh", "-c", f'exec "$@" {redirection}', "sh", *COMMAND_LINE, *command]
    done = subprocess.run(arguments, cwd=store, env=environment(), capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (code, printed)
    with stratalog.open(store / "data", create=False) as opened:
        assert [line.id for line in opened.list("acme")] == ["plan"]
        assert [line.id for line in opened.records("acme").list()] == ["logo"]


@pytest.mark.parametrize(
    ("encoding", "command", "printed"),
    [
        ("utf-8:strict", ("records", "get", "acme/logo", "--output", NAME), "wrote caf\\udce9\n"),
        ("latin-1", ("show", "acme/plan", "a"), '"\\u2603"\n'),
    ],
)
def test_a_text_that_standard_output_cannot_encode_is_escaped(
    encoding: str, command: tuple[str, ...], printed: str, store: Path
) -> None:
    done = run([*COMMAND_LINE, *command], cwd=store, env={**environment(), "PYTHONIOENCODING": encoding})
    assert done.stdout == printed

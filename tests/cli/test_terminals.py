"""Names and values of other users cannot control the terminal on which a command prints them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import stratalog
from stratalog.cli import main
from stratalog.cli.output import printable

ERASE = "\x1b[2J"
TITLE = "\x1b]0;mine\x07"
C1_ERASE = "\x9b2J"
HOSTILE = f"a{ERASE}b{C1_ERASE}c\nd\re{TITLE}\x7f\u202ef\u2028\x1b[8mg"
ESCAPED = "a\\u001b[2Jb\\u009b2Jc\\nd\\re\\u001b]0;mine\\u0007\\u007f\\u202ef\\u2028\\u001b[8mg"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store whose document, key, value, author and rejection contain control characters."""
    monkeypatch.setenv("STRATALOG_STORE", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    with stratalog.open(tmp_path / "data") as opened:
        document = opened.create("acme", HOSTILE)
        document.mutate("put", {"key": "k", "value": HOSTILE}, author=HOSTILE)
        document.mutate("append", {"key": "k", "item": 1}, author=HOSTILE)


@pytest.mark.parametrize(
    "command",
    [
        ("list",),
        ("show", "NAME"),
        ("show", "NAME", "k"),
        ("log", "NAME"),
        ("history", "NAME", "k"),
        ("diff", "NAME", "0"),
        ("verify",),
        ("fork", "NAME", "acme/other"),
        ("export", "NAME", "export.jsonl"),
        ("mutate", "NAME", "put", "key=k", "value=2", "--client", f"ada{HOSTILE}"),
    ],
)
def test_control_characters_are_printed_as_escapes(command: tuple[str, ...], store: None) -> None:
    name = f"acme/{HOSTILE}"
    arguments = [name if argument == "NAME" else argument for argument in command]
    result = CliRunner().invoke(main, arguments, color=True)
    assert ESCAPED in result.output
    assert not {"\x07", "\x7f", "\x9b", "\r", "\u202e", "\u2028"} & {*result.output}
    assert all(text not in result.output for text in (ERASE, "\x1b[8m", "\x1b]"))
    as_json = CliRunner().invoke(main, [*arguments, "--json"], color=True).output
    assert not {"\x07", "\x1b", "\x7f", "\x9b", "\u202e", "\u2028"} & {*as_json}
    assert all(json.loads(line) for line in as_json.splitlines())


def test_an_error_is_one_line_although_its_argument_has_control_characters(store: None) -> None:
    for as_json in ((), ("--json",)):
        result = CliRunner().invoke(main, ["serve", "--host", HOSTILE, *as_json], color=True)
        assert result.exit_code == 2
        assert ERASE not in result.output
        assert result.output.count("\n") == 1


def test_styles_of_click_are_kept() -> None:
    assert printable("\x1b[31m\x1b[1mred\x1b[0m") == "\x1b[31m\x1b[1mred\x1b[0m"
    assert printable("café\t☃") == "café\\t☃"


def test_a_style_in_a_users_text_ends_with_its_line() -> None:
    assert printable("\x1b[30mann") == "\x1b[30mann\x1b[0m"

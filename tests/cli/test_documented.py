"""The guide describes every command and option. Every command has --json, --store and an example."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from stratalog.cli import main
from stratalog.cli.program import EXIT_CODES

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "command-line.md").read_text()


def commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield every command with its full name, including the commands of our applications, which are plugins."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


COMMANDS = dict(commands(main))
each_command = pytest.mark.parametrize("name", COMMANDS)


def section(name: str) -> str:
    """Return the section of the guide about a command."""
    _, heading, rest = GUIDE.partition(f"\n### {name}\n")
    assert heading, f"the guide has no heading for {name}"
    return rest.partition("\n##")[0]


@each_command
def test_a_command_is_in_the_guide_with_its_options(name: str) -> None:
    options = [
        text for parameter in COMMANDS[name].params if isinstance(parameter, click.Option) for text in parameter.opts
    ]
    documented = set(re.findall(r"`(-[-\w]+)", section(name))) | {"--store", "--settings", "--json"}
    assert set(options) <= documented


@each_command
def test_a_command_has_an_example_in_its_help_and_in_the_guide(name: str) -> None:
    example = (COMMANDS[name].epilog or "").removeprefix("Example: ")
    assert example.startswith(f"stratalog {name}")
    assert re.search(rf"^{re.escape(example)}( *#.*)?$", section(name), re.MULTILINE)


@each_command
def test_a_command_has_the_options_json_and_store(name: str) -> None:
    assert {"--json", "--store"} <= {text for parameter in COMMANDS[name].params for text in parameter.opts}


def test_the_exit_codes_are_in_the_guide_and_in_the_help() -> None:
    shown = " ".join(CliRunner().invoke(main, ["--help"]).output.split())
    for code, meaning in EXIT_CODES.items():
        assert f"| {code} | {meaning} |" in GUIDE
        assert f"{code} {meaning}" in shown


def test_the_version_option_prints_the_version() -> None:
    assert CliRunner().invoke(main, ["--version"]).output.startswith("stratalog, version ")

"""Pages of the commands, made from click's data: usage, help, options and an example of each."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from scripts.website.markup import code, prose, table
from scripts.website.navigation import contents
from stratalog.cli.program import EXIT_CODES, Program

__all__ = ["command_pages"]

FOLDER = "reference/commands"
EXAMPLE = "Example: "
WIDTH = 88
INDEX = """# Commands

The commands `stratalog COMMAND …` read and change a store. [The command line](../../guides/command-line.md) explains
what all commands have in common. The build makes these pages from `stratalog COMMAND --help`.

"""


def command_pages(program: click.Group | None = None) -> dict[str, str]:
    """Return a page for each command that is not hidden, with its subcommands, and the index page.

    The keys are paths in the source folder.
    """
    program = program or entire_program()
    context = click.Context(program, info_name="stratalog", terminal_width=WIDTH)
    commands = {name: program.get_command(context, name) for name in program.list_commands(context)}
    shown = {name: command for name, command in commands.items() if command and not command.hidden}
    shared: set[str | None] = {option.name for option in program.params}
    pages = {
        f"{FOLDER}/{name}.md": "\n".join(command_text(command, name, context, shared, level=1))
        for name, command in shown.items()
    }
    return pages | {f"{FOLDER}/index.md": index_page(program, shown, context)}


def entire_program() -> click.Group:
    """Return the program with the commands of the applications."""
    from stratalog import cli

    matches = [value for value in vars(cli).values() if isinstance(value, Program)]
    assert len(matches) == 1
    return matches[0]


def index_page(program: click.Group, commands: dict[str, click.Command], context: click.Context) -> str:
    summaries = (
        [f"[`{name}`]({name}.md)", prose(command.get_short_help_str(limit=200))] for name, command in commands.items()
    )
    return "\n".join(
        [
            INDEX,
            table(["command", "what it does"], summaries),
            "## Options of every command\n",
            options_table(program, context, set()),
            "## Exit codes\n",
            table(["code", "meaning"], ([code(str(number)), prose(text)] for number, text in EXIT_CODES.items())),
            contents([f"{FOLDER}/{name}" for name in commands]).replace(":maxdepth: 1", ":maxdepth: 1\n:hidden:"),
        ]
    )


def command_text(
    command: click.Command, name: str, parent: click.Context, shared: set[str | None], level: int
) -> Iterator[str]:
    """Yield a command's section, and the sections of its subcommands."""
    context = click.Context(command, info_name=name, parent=parent, terminal_width=WIDTH)
    yield f"{'#' * level} {context.command_path.removeprefix('stratalog ')}\n"
    yield from help_text(command)
    yield f"```text\n{command.get_usage(context).removeprefix('Usage: ')}\n```\n"
    if command.epilog and command.epilog.startswith(EXAMPLE):
        yield f"For example:\n\n```sh\n{command.epilog.removeprefix(EXAMPLE)}\n```\n"
    if options := options_table(command, context, shared):
        yield options
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            matches = command.get_command(context, below)
            if matches and not matches.hidden:
                yield from command_text(matches, below, context, shared, level + 1)


def help_text(command: click.Command) -> Iterator[str]:
    """Yield the paragraphs of a help text. Click does not rewrap a paragraph that begins with a backspace."""
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b"):
            yield "```text\n" + paragraph.removeprefix("\b").strip("\n") + "\n```\n"
        elif paragraph.strip():
            yield prose(paragraph) + "\n"


def options_table(command: click.Command, context: click.Context, shared: set[str | None]) -> str:
    """Return a table of the options that are not ``shared`` by all commands."""
    records = (
        item.get_help_record(context)
        for item in command.get_params(context)
        if isinstance(item, click.Option) and item.name not in shared and "--help" not in item.opts
    )
    return table(["option", "what it does"], ([code(record[0]), prose(record[1])] for record in records if record))

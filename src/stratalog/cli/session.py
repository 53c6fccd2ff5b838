"""The session of a command: the values of the common options, the opened store, and the printing of results."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click

from stratalog.cli.naming import split_name
from stratalog.cli.output import note, print_json, print_line, print_table
from stratalog.documents import Document
from stratalog.errors import StratalogError
from stratalog.homes import shown_url
from stratalog.log import LogSettings
from stratalog.ports.meter import Meter
from stratalog.settings import CHUNK_CACHE, SETTINGS, Settings, read_settings
from stratalog.store import Store, open_store

__all__ = ["ENVIRONMENT", "STORE_DEFAULT", "CommandGroup", "Session", "command", "of_every_command", "pass_session"]

ENVIRONMENT = "STRATALOG_STORE"
STORE_DEFAULT = "./data"
NO_COMMAND = 2
"""The exit code of a group without a command: the program's code for a command that is not valid."""
SUMMARY_CHARACTERS_MAX = 400
F = TypeVar("F", bound=Callable[..., Any])


class Session:
    """One run of the program: the store's URL, the settings, and whether results are printed as JSON."""

    def __init__(self) -> None:
        self.url = STORE_DEFAULT
        self.json = False
        self.settings = Settings()
        self._store: Store | None = None

    @property
    def shown_url(self) -> str:
        """The store's URL without a password."""
        return shown_url(self.url)

    def open(self, *, create: bool = False, meter: Meter | None = None, settings: LogSettings | None = None) -> Store:
        """Return the store, opened once and closed when the command ends. The user's settings override ``settings``.

        Later calls ignore their arguments.
        """
        if self._store is None:
            chosen = self.settings.over("log", settings or LogSettings())
            cache = os.environ.get(CHUNK_CACHE)
            opened = open_store(self.url, create=create, meter=meter, settings=chosen, chunk_cache=cache)
            self._store = click.get_current_context().with_resource(opened)
        return self._store

    def document(self, name: str) -> Document:
        """Return the document named ORGANISATION/DOCUMENT."""
        return self.open().document(*split_name(name))

    def answer(self, plain: object, *lines: str) -> None:
        """Print the result of a command: ``plain`` as JSON if that was requested, else the lines. See `printable`."""
        if self.json:
            print_json(plain)
        else:
            for line in lines:
                print_line(line)

    def answer_list(
        self,
        pairs: Iterable[tuple[object, Sequence[str]]],
        nothing: str,
        *,
        head: Sequence[Sequence[str]] = (),
        right: Sequence[int] = (),
        damaged: Sequence[object] = (),
    ) -> None:
        """Print a list of (plain, row) pairs: JSON lines as they arrive, else one table, or ``nothing`` as a note.

        If an error ends the list, print the rows before it, then raise the error. If ``damaged`` has an element after
        the last pair, the list is not known to be empty, so ``nothing`` is not printed.
        """
        rows = []
        try:
            for plain, row in pairs:
                if self.json:
                    print_json(plain)
                else:
                    rows.append(row)
        except StratalogError:
            if rows:
                print_table([*head, *rows], right=right)
            raise
        if rows:
            print_table([*head, *rows], right=right)
        elif not (self.json or damaged):
            note(nothing)


pass_session = click.make_pass_decorator(Session, ensure=True)


def of_every_command(function: F, *, reads_environment: bool = False) -> F:
    """Add ``--store``, ``--settings`` and ``--json`` to a command or to the program.

    A user may give these options before or after the command's name.
    """
    store = click.option(
        "--store",
        metavar="URL",
        envvar=ENVIRONMENT if reads_environment else None,
        expose_value=False,
        callback=_set_store,
        help=f"The store: a folder, or a postgresql:// or aws:// URL.  [default: ${ENVIRONMENT}, else {STORE_DEFAULT}]",
    )
    settings = click.option(
        "--settings",
        metavar="FILE",
        envvar=SETTINGS if reads_environment else None,
        expose_value=False,
        callback=_set_settings,
        help=f"Settings: a JSON object, or a file that contains this object.  [default: ${SETTINGS}]",
    )
    as_json = click.option(
        "--json", is_flag=True, expose_value=False, callback=_set_json, help="Print JSON; lists as JSON lines."
    )
    return store(settings(as_json(function)))


def command(name: str, *, example: str) -> Callable[[Callable[..., Any]], click.Command]:
    """Decorate a command with the common options, the session as its first argument, and an example in its help."""

    def decorate(function: Callable[..., Any]) -> click.Command:
        made = click.command(name, epilog=f"Example: {example}")
        return made(of_every_command(pass_session(function)))

    return decorate


class CommandGroup(click.Group):
    """A group of commands.

    Without a command the group prints its help, which click itself would print as an error. The help shows the whole
    first sentence of each command's help, which click itself would cut short.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        session = ctx.find_object(Session)
        if not args and not ctx.resilient_parsing:
            if session is not None and session.json:
                ctx.fail("Missing command.")
            click.echo(ctx.get_help(), err=True)
            ctx.exit(NO_COMMAND)
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, made.get_short_help_str(SUMMARY_CHARACTERS_MAX)) for name, made in commands if made is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _set_store(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.ensure_object(Session).url = value


def _set_settings(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.ensure_object(Session).settings = read_settings(value)


def _set_json(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        context.ensure_object(Session).json = True

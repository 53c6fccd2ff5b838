"""The program: the group of all commands, which reports an error as one line and an exit code."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from types import FrameType
from typing import Any, Protocol

import click

from stratalog.cli.output import counted, json_line, note, print_line
from stratalog.cli.plugins import OWN_PLUGINS, plugin_command, plugin_names
from stratalog.cli.session import CommandGroup, Session, of_every_command
from stratalog.errors import (
    Closed,
    Conflict,
    Corrupt,
    Invalid,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    StratalogError,
    Unavailable,
)
from stratalog.limits import DAMAGED_PARTS_NAMED_MAX, DAMAGED_PARTS_PRINTED_MAX

__all__ = [
    "CONFLICT",
    "CONTRADICTED",
    "DAMAGED",
    "EXIT_CODES",
    "FAILED",
    "MISSING",
    "NOT_PROVABLE",
    "DamagedPart",
    "Failed",
    "Program",
    "damage_text",
    "fail_for_damage",
]

FAILED = 1
USAGE = 2
MISSING = 3
CONFLICT = 4
UNREACHABLE = 5
DAMAGED = 6
NOT_PROVABLE = 7
CONTRADICTED = 8
# An older click raises a plain UsageError for an unknown command.
_SYNTAX_ERRORS = (click.MissingParameter, click.NoSuchOption, getattr(click, "NoSuchCommand", click.NoSuchOption))
EXIT_CODES: dict[int, str] = {
    0: "done",
    FAILED: "a mutation was rejected, a verification or another part of the work failed, or the user aborted",
    USAGE: "the command or its input is not valid",
    MISSING: "not found: it does not exist, or it is no longer kept",
    CONFLICT: "a conflict with the stored state",
    UNREACHABLE: "the store could not be reached, or its response was lost",
    DAMAGED: "stored bytes are damaged",
    NOT_PROVABLE: "a checkpoint cannot be proven, since the versions up to it are forgotten",
    CONTRADICTED: "a checkpoint is contradicted: the store holds another history",
}
_CODES: tuple[tuple[type[StratalogError], int], ...] = (
    (NotFound, MISSING),
    (Conflict, CONFLICT),
    (Invalid, USAGE),
    (LimitExceeded, USAGE),
    (Unavailable, UNREACHABLE),
    (OutcomeUnknown, UNREACHABLE),
    (Closed, UNREACHABLE),
    (Corrupt, DAMAGED),
)
_EPILOG = "Exit codes: " + "; ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items()) + "."


class DamagedPart(Protocol):
    """A damaged part of a store or backup, and the reason."""

    @property
    def what(self) -> str: ...

    @property
    def reason(self) -> str: ...


class Failed(click.ClickException):
    """A command ran and found a fault. The command has printed its result; only the exit code remains to be set.

    If the command raises Failed from a StratalogError, the program also reports that error.
    """

    def __init__(self, code: int) -> None:
        super().__init__("")
        self.code = code


def damage_text(parts: Sequence[DamagedPart], more: int = 0) -> str:
    """Return the result of a comparison: verified, or the number of damaged parts in ``parts`` and ``more``."""
    return counted(len(parts) + more, "damaged part") if parts or more else "verified"


def fail_for_damage(
    parts: Sequence[DamagedPart | Corrupt], what: str = "damaged", more: int = 0, *, json_names: bool = False
) -> None:
    """Raise Failed, with the exit code of damage, if there are damaged parts. Before that, print some of them as notes.

    ``more`` is the number of damaged parts that are not in ``parts``. If ``json_names``, the result in JSON names the
    parts, so a command with ``--json`` prints no notes.
    """
    is_shown = not (json_names and click.get_current_context().ensure_object(Session).json)
    printed = parts[:DAMAGED_PARTS_PRINTED_MAX] if is_shown else ()
    for part in printed:
        note(f"{what}: {part}" if isinstance(part, Corrupt) else f"{what}: {part.what}: {part.reason}")
    if is_shown and (unprinted := len(parts) - len(printed) + more):
        advice = f"; --json names at most {DAMAGED_PARTS_NAMED_MAX:,} parts" if json_names else ""
        note(f"{what}: {counted(unprinted, 'more part')}{advice}")
    if parts or more:
        raise Failed(DAMAGED)


class Program(CommandGroup):
    """The built-in commands in the order of addition, then plugins' commands. A plugin cannot take a built-in name."""

    def __init__(self) -> None:
        super().__init__(
            "stratalog",
            help="Versioned, totally ordered documents. Before or after a command: --store, --settings, --json.",
            epilog=_EPILOG,
            context_settings={"help_option_names": ["-h", "--help"]},
        )
        of_every_command(self, reads_environment=True)
        click.version_option(version("stratalog"), prog_name="stratalog")(self)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.commands, *(name for name in plugin_names() if name not in self.commands)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or plugin_command(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] in OWN_PLUGINS and self.get_command(ctx, args[0]) is None:
            ctx.fail(f"the command {args[0]!r} is not installed; to install it: pip install stratalog-{args[0]}")
        return super().resolve_command(ctx, args)

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Any:
        arguments = list(sys.argv[1:] if args is None else args)
        as_json = "--json" in arguments
        options["standalone_mode"] = False
        try:
            with _ended_by_signals(), _private_files(), _escaped_output():
                code = super().main(arguments, *rest, **options)
        except Failed as exc:
            code = exc.code
            if isinstance(exc.__cause__, StratalogError):
                _report_error(as_json, code, exc.__cause__)
        except click.UsageError as exc:
            code = _report(as_json, USAGE, "usage", _usage_text(exc), {})
        except click.ClickException as exc:
            code = _report(as_json, USAGE, "usage", exc.format_message(), {})
        except click.Abort:
            code = _report(as_json, FAILED, "aborted", "aborted", {})
        except StratalogError as exc:
            code = _report_error(as_json, _code(exc), exc)
        except OSError as exc:
            # The library turns an OSError of the store into its own errors, so this error concerns a file of the user.
            text = f"{exc.filename}: {exc.strerror}" if exc.filename else exc.strerror or str(exc)
            code = _report(as_json, USAGE, "usage", text, {})
        sys.exit(code if isinstance(code, int) else 0)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """At SIGTERM or SIGHUP, end the block as Ctrl+C does, then end the process by the signal.

    So the command removes its temporary files, and the caller of the program sees the signal. A repeated signal ends
    the process at once. A signal that the caller ignores, as `nohup` does, or handles stays as it is.
    """
    ended: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        ended.append(number)
        raise KeyboardInterrupt

    numbers: list[int] = []
    if threading.current_thread() is threading.main_thread():  # no other thread may set a handler
        names = ("SIGTERM", "SIGHUP")  # Windows has no SIGHUP
        present = [getattr(signal, name) for name in names if hasattr(signal, name)]
        numbers = [number for number in present if signal.getsignal(number) is signal.SIG_DFL]
    try:
        for number in numbers:
            signal.signal(number, end)
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
        if ended:
            os.kill(os.getpid(), ended[0])


@contextmanager
def _private_files() -> Iterator[None]:
    """Make created files, above all stores, accessible to the user alone. The library itself sets no umask."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def _escaped_output() -> Iterator[None]:
    """Print escapes in place of characters that standard output cannot encode, such as those of a file name."""
    out = sys.stdout
    if not isinstance(out, io.TextIOWrapper) or out.errors != "strict":
        yield
        return
    out.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        # A change flushes the stream, which fails if the reader of a pipe has gone.
        with suppress(OSError):
            out.reconfigure(errors="strict")


def _code(error: StratalogError) -> int:
    return next((code for kind, code in _CODES if isinstance(error, kind)), FAILED)


def _usage_text(error: click.UsageError) -> str:
    """Return the error's text. If a part of the command is missing or unknown, the text names the command's help."""
    text = " ".join(line.strip() for line in error.format_message().splitlines())  # click lists choices in lines
    is_about_syntax = isinstance(error, _SYNTAX_ERRORS) or type(error) is click.UsageError
    if not is_about_syntax or error.ctx is None:
        return text
    return f"{text if text.endswith(('.', '?')) else text + '.'} See `{error.ctx.command_path} --help`."


def _report_error(as_json: bool, exit_code: int, error: StratalogError) -> int:
    return _report(as_json, exit_code, error.code, str(error), dict(error.details), error.message)


def _report(as_json: bool, exit_code: int, code: str, line: str, details: dict[str, Any], message: str = "") -> int:
    if as_json:
        plain = {name: value if isinstance(value, int | str | bytes) else str(value) for name, value in details.items()}
        error = {"error": {"code": code, "message": message or line, "details": plain}}
        click.echo(json_line(error), err=True)
    else:
        print_line(f"{click.style('error:', fg='red', bold=True)} {line}", to_error=True)
    return exit_code

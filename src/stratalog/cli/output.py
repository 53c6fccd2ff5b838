"""Output for people and programs: aligned columns, local times, colour on a terminal; JSON on request."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from stratalog.codec import escaped
from stratalog.protocol.readable import to_plain

__all__ = [
    "confirm",
    "counted",
    "dim",
    "json_line",
    "local_time",
    "note",
    "print_json",
    "print_line",
    "print_table",
    "printable",
    "progress",
    "short",
    "size_text",
]

VALUE_CHARACTERS = 72
_ESCAPES = {
    ord(character): f"\\u{ord(character):04x}"
    for character in map(chr, [*range(32), *range(127, 160), *range(0x2028, 0x202F), *range(0x2066, 0x206A)])
} | {ord("\t"): "\\t", ord("\n"): "\\n", ord("\r"): "\\r"}
"""The escapes, as in JSON, of control characters, line separators, and characters that reverse the order of a text."""

_STYLES = re.compile("(\x1b\\[(?!8m)[0-9]{1,3}m)")
"""The codes of `click.style`. Code 8 is left out, because it hides text."""
_RESET = "\x1b[0m"


def printable(text: str) -> str:
    """Return a text as one line that cannot control a terminal: see `_ESCAPES`. The styles of `click.style` stay.

    Names, authors, reasons and values come from other users. Printed as they are, they could move the cursor, erase or
    forge lines, and change the terminal's settings.
    """
    if text.isascii() and text.isprintable():
        return text
    parts = _STYLES.split(text)
    line = "".join(part if position % 2 else part.translate(_ESCAPES) for position, part in enumerate(parts))
    # A style that a user's text begins must not continue in the next line.
    return line if len(parts) == 1 or line.endswith(_RESET) else line + _RESET


def print_line(text: str, *, to_error: bool = False) -> None:
    """Print a text as one line, as `printable` returns it."""
    click.echo(printable(text), err=to_error)


def print_json(value: Any) -> None:
    """Print the line of `json_line`."""
    click.echo(json_line(value))


def json_line(value: Any) -> str:
    """Return one line of JSON. Structs are objects; bytes are ``{"$bytes": base64}``.

    An argument or a file name that is not UTF-8 contains lone surrogates. The line has their escapes, as
    `stratalog.codec.escaped` writes them. It also has JSON's escapes of the characters in `_ESCAPES`.
    """
    plain = to_plain(msgspec.to_builtins(value, builtin_types=(bytes,)))
    try:
        line = msgspec.json.encode(plain).decode()
    except UnicodeEncodeError:
        line = msgspec.json.encode(_escaped(plain)).decode()
    return line.translate(_ESCAPES)


def print_table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
    """Print rows in columns, each as wide as its widest `printable` cell without colours. No line ends in spaces.

    The columns whose positions are in ``right`` are aligned to the right, all others to the left.
    """
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(click.unstyle(cell)) for cell in column) for column in zip(*shown, strict=True)]
    for row in shown:
        cells = [
            _aligned(cell, widths[position], position in right, position == len(row) - 1)
            for position, cell in enumerate(row)
        ]
        click.echo("  ".join(cells).rstrip())


def note(text: str) -> None:
    """Print a line on the error stream, so that a pipe receives the result only. See `printable`."""
    print_line(dim(text), to_error=True)


def confirm(question: str) -> None:
    """Ask the user on the error stream. Raises Abort unless the answer is yes, also if standard input is closed."""
    if sys.stdin is None:
        raise click.Abort
    click.confirm(printable(question), abort=True, err=True)


def counted(count: int, noun: str, nouns: str = "") -> str:
    """Return a number with its noun: ``1 log``, ``2,000 logs``. ``nouns`` is an irregular plural."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {nouns or noun + 's'}"


def dim(text: str) -> str:
    """Return text in a dim style, for secondary information."""
    return click.style(text, dim=True)


def local_time(time_ms: int) -> str:
    """Return a time in milliseconds since 1970 as ISO in the local time zone, to the second.

    A time that is not in the years 1 to 9999 stays in milliseconds. An external source may send such a time.
    """
    try:
        moment = datetime.fromtimestamp(time_ms / 1000, tz=UTC).astimezone()
    except (ValueError, OverflowError):
        return f"{time_ms} ms"
    return moment.isoformat(sep=" ", timespec="seconds")[:19]


def short(value: Any, characters: int = VALUE_CHARACTERS) -> str:
    """Return a value as one line of JSON, cut to ``characters``."""
    text = msgspec.json.encode(to_plain(value)).decode()
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


def size_text(size: int) -> str:
    """Return a size in bytes as text in B, KiB, MiB or GiB."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024  # type: ignore[assignment]
    return f"{size:.1f} GiB"


@contextmanager
def progress(label: str, length: int | None) -> Iterator[Callable[[int], None]]:
    """Show a progress bar if the error stream is a terminal. Yield a function to call with the number of new steps.

    ``length`` is the number of steps. If ``length`` is None, the bar counts the steps.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda steps: None
        return
    counted: Iterable[int] = range(length) if length is not None else itertools.count()
    with click.progressbar(counted, length=length, label=printable(label), file=sys.stderr, show_pos=True) as bar:
        yield bar.update


def _aligned(cell: str, width: int, right: bool, last: bool) -> str:
    space = " " * (width - len(click.unstyle(cell)))
    if right:
        return space + cell
    return cell if last else cell + space


def _escaped(plain: Any) -> Any:
    if isinstance(plain, str):
        return escaped(plain)
    if isinstance(plain, list):
        return [_escaped(item) for item in plain]
    return {escaped(name): _escaped(item) for name, item in plain.items()} if isinstance(plain, dict) else plain

"""Shared parts of the commands on tables: options, and the parsing of typed columns and keys."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from stratalog import Invalid, Unavailable
from stratalog.cli import Session, split_name
from stratalog_table.limits import DURATION_MS_MAX, RETENTION_DAYS_MAX

__all__ = [
    "FAILED",
    "data_url",
    "default_data_url",
    "filled",
    "key_column",
    "module",
    "of_retention_days",
    "of_table",
    "opened_files",
    "opened_table",
    "reached",
    "reaching",
    "seconds",
    "typed_key",
    "value_column",
]

FAILED = 1
"""The exit code of a command that finished with failures."""

of_table = click.argument("table", metavar="ORGANISATION/TABLE")
of_retention_days = click.option(
    "--keep-days",
    "retention_days",
    type=click.IntRange(0, RETENTION_DAYS_MAX),
    metavar="DAYS",
    help="Keep data files for this time after the last version that needs them. With 0, only `table maintain --age` "
    "applies.",
)


def module(name: str) -> Any:
    """Import a module of this application. Commands import modules only on use, because importing pyarrow is slow."""
    return import_module(f"stratalog_table.{name}")


def opened_files(session: Session, name: str) -> tuple[Any, Any]:
    """Open a table and its data files."""
    table = opened_table(session, name)
    return table, module("rows").data_files_of(table)


def opened_table(session: Session, name: str) -> Any:
    """Open a table by its name as typed."""
    return module("table").open_table(session.open(), *split_name(name))


@contextmanager
def reaching(url: str) -> Iterator[None]:
    """Turn an OSError of the data folder ``url`` into Unavailable. Elsewhere an OSError concerns a file of the user."""
    try:
        yield
    except OSError as exc:
        raise Unavailable("the table's data files cannot be reached", data=url, reason=str(exc)) from exc


def reached(data_files: Any, parts: Iterator[Any]) -> Iterator[Any]:
    """Yield the parts of a scan. Raises Unavailable, as in `reaching`."""
    with reaching(data_files.folder.url):
        yield from parts


def key_column(text: str) -> Any:
    """Parse NAME:TYPE as a column of the row key."""
    order = module("row_order")
    name, kind = _typed(text, order.key_kind, f"types are {order.KEY_TYPES}")
    return module("model").Column(name, kind.name)


def value_column(text: str) -> Any:
    """Parse NAME:TYPE as a value column."""
    app = module("columns")
    return app.ValueColumn(*_typed(text, app.column_type, "types are those of Arrow"))


def _typed(text: str, read: Any, types: str) -> tuple[str, Any]:
    """Parse NAME:TYPE. Both parts may contain colons. The last colon that a valid type follows separates them."""
    parts = text.split(":")
    for position in range(len(parts) - 1, 0, -1):
        with suppress(Invalid):
            return ":".join(parts[:position]), read(":".join(parts[position:]))
    raise click.BadParameter(f"{text!r} is not NAME:TYPE, as in id:long; {types}")


def filled(text: str) -> str:
    """Return the text of an option. Raises BadParameter for an empty text, as from a variable that is not set.

    The command would otherwise run as if the option were not given, and for example ingest the same rows twice.
    """
    if not text:
        raise click.BadParameter("the text is empty; leave the option out, or give it a value")
    return text


def seconds(text: str) -> float:
    """Parse a number of seconds such as 0.5, from 0 to `DURATION_MS_MAX`. Raises BadParameter."""
    with suppress(ValueError):
        value = float(text)
        if 0 <= value <= DURATION_MS_MAX / 1000:
            return value
    raise click.BadParameter(f"{text!r} is not from 0 to {DURATION_MS_MAX // 1000} seconds")


def typed_key(kind: str, text: str) -> Any:
    """Parse a key of the type ``kind`` from the command line. A user types a key of bytes in hexadecimal."""
    try:
        return module("row_order").parse_key(kind, text)
    except Invalid as exc:
        raise click.BadParameter(f"{text!r} is not a key of type {kind}") from exc


def data_url(session: Session, table: str, data: str | None) -> str:
    """Return the URL of a table's data files: ``data``, or a folder next to the store without ``data``."""
    if data and "://" in data:
        return data
    url = Path(data).absolute().as_uri() if data else default_data_url(session, table)
    if not url:
        raise click.UsageError("give the location of the data files by --data, as in s3://bucket/files")
    return url


def default_data_url(session: Session, table: str) -> str:
    """Return the URL of the folder next to the store, or "" if the store is not in a folder."""
    if session.url == "memory:" or ("://" in session.url and not session.url.startswith("file://")):
        return ""
    folder = os.path.abspath(session.url.removeprefix("file://"))  # without the slash at the end of data/
    return Path(f"{folder}-lake/{table}").as_uri()

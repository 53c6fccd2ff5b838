"""Commands that make, change, show and delete a document."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any

import click

from stratalog.cli.naming import parse_arguments, split_name, version_of
from stratalog.cli.output import confirm, dim, note, print_json, print_line, print_table, short
from stratalog.cli.program import CONFLICT, FAILED, Failed
from stratalog.cli.session import Session, command
from stratalog.documents import View
from stratalog.documents.document import DEFAULT_CLIENT
from stratalog.errors import NotFound
from stratalog.log.lifecycle import delete_log
from stratalog.log.names import DOCUMENT_OR_LOG
from stratalog.protocol.messages import Outcome

__all__ = ["COMMANDS"]

ROWS_MAX = 40
_COLOURS = {"applied": "green", "seen": "yellow"}
_MISSING = object()


@command("create", example="stratalog create acme/budget")
@click.argument("document", metavar="ORGANISATION/DOCUMENT")
def create(session: Session, document: str) -> None:
    """Create an empty document."""
    made = session.open().create(*split_name(document))
    plain = {"name": document, "incarnation": made.log.record.incarnation, "version": 0}
    session.answer(plain, f"created {document}")


@command("delete", example="stratalog delete acme/budget --yes")
@click.argument("document", metavar="ORGANISATION/DOCUMENT")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def delete(session: Session, document: str, yes: bool) -> None:
    """Delete a document or log. Its forks keep the versions that they need."""
    log = session.open().log(*split_name(document), noun=DOCUMENT_OR_LOG)
    if not yes:
        confirm(f"delete {document}, whose newest version is {log.head().version}?")
    delete_log(log)
    session.answer({"name": document, "deleted": True}, f"deleted {document}")


@command("mutate", example="stratalog mutate acme/budget put key=cells/C2 value=100 --client ada --id 7")
@click.argument("document", metavar="ORGANISATION/DOCUMENT")
@click.argument("name")
@click.argument("arguments", nargs=-1)
@click.option("--client", default=DEFAULT_CLIENT, show_default=True, help="The client that makes the mutation.")
@click.option("--id", "number", default=0, help="The mutation's number within its client.  [default: the next]")
@click.option("--author", default="", help="The author shown in the history.  [default: the client]")
def mutate(
    session: Session, document: str, name: str, arguments: tuple[str, ...], client: str, number: int, author: str
) -> None:
    """Apply one mutation: put, del, patch, inc, append.

    ARGUMENTS are one JSON text, or pairs name=value. A value that is valid JSON is read as JSON, any other value as
    text.
    """
    args = parse_arguments(arguments)
    outcome = session.document(document).mutate(name, args, client=client, id=number, author=author)
    session.answer(outcome, _outcome_line(outcome))
    if outcome.status not in ("applied", "seen"):
        raise Failed(FAILED if outcome.status in ("rejected", "collected") else CONFLICT)


@command("show", example="stratalog show acme/budget cells/C2 --at 3")
@click.argument("document", metavar="ORGANISATION/DOCUMENT")
@click.argument("key", required=False)
@click.option("--at", metavar="VERSION|TIME", help="The version to show.  [default: the newest]")
@click.option(
    "--limit", type=click.IntRange(min=0), help=f"How many keys to show; 0 for all.  [default: {ROWS_MAX}, JSON: all]"
)
def show(session: Session, document: str, key: str | None, at: str | None, limit: int | None) -> None:
    """Show a document, or one value. If KEY ends in a slash, show the keys that start with KEY."""
    opened = session.document(document)
    view = opened.at(version_of(opened, at))
    if key and not key.endswith("/"):
        return _show_value(session, view, document, key)
    prefix = key or ""
    if session.json:
        shown = dict(_first(view.scan(prefix), limit or 0))
        return print_json({"name": document, "version": view.version, "content": shown})
    print_line(dim(f"{document} at version {view.version}"))
    return _show_rows(view.scan(prefix), ROWS_MAX if limit is None else limit)


def _show_value(session: Session, view: View, document: str, key: str) -> None:
    value = view.get(key, _MISSING)
    if value is _MISSING:
        raise NotFound("key not found", document=document, key=key, version=view.version)
    if session.json:
        print_json({"name": document, "version": view.version, "key": key, "value": value})
    elif isinstance(value, dict) and value:
        print_table([[dim(field), short(item, 200)] for field, item in value.items()])
    else:
        print_line(short(value, 100_000))


def _first(pairs: Iterator[tuple[str, Any]], limit: int) -> Iterator[tuple[str, Any]]:
    """Return the first ``limit`` pairs, or all pairs for 0. `islice` refuses a number above `sys.maxsize`."""
    return islice(pairs, min(limit, sys.maxsize)) if limit else pairs


def _show_rows(pairs: Iterator[tuple[str, Any]], limit: int) -> None:
    rows = [[key, short(value)] for key, value in _first(pairs, limit)]
    if rows:
        print_table(rows)
    else:
        note("no keys")
    if limit and next(pairs, None) is not None:
        note(f"… more than {limit} keys; --limit 0 shows all")


def _outcome_line(outcome: Outcome) -> str:
    status = click.style(outcome.status, fg=_COLOURS.get(outcome.status, "red"))
    parts = [status, f"{outcome.client}#{outcome.id}"]
    if outcome.version is not None:
        parts.append(f"version {outcome.version}")
    if outcome.reason is not None:
        parts.append(outcome.reason)
    if outcome.expected is not None:
        parts.append(f"the client's next number is {outcome.expected}")
    return "  ".join(parts)


COMMANDS = [create, delete, mutate, show]

"""The smallest application: a book that guests sign, with one mutator, one route and one command.

`pyproject.toml` names two entry points, by which Stratalog finds an installed guest book. They make these commands and
settings work: `stratalog guestbook sign acme/book ada`, `stratalog serve guestbook`, and
`STRATALOG_APPLICATION=guestbook` on AWS.
"""

from __future__ import annotations

from typing import Any

import click

from stratalog import BUILT_IN_MUTATORS, Document, Draft, Rejected
from stratalog.cli import Session, command, of_every_command
from stratalog.server import PREFIX, Application, Name, Served, reading

__all__ = ["app", "guestbook"]


def sign(draft: Draft, args: dict[str, Any]) -> None:
    """``{guest}``: add a guest to the book. A guest signs once."""
    guest = args["guest"].strip()
    if not guest:
        raise Rejected("the guest's name is empty")
    if f"guests/{guest}" in draft:
        raise Rejected("this guest has signed")
    draft.put(f"guests/{guest}", True)


def guests(document: Document) -> list[str]:
    """Return the guests who signed, sorted by name."""
    return [key.removeprefix("guests/") for key, _ in document.scan("guests/")]


@reading(PREFIX + "/documents/{document:str}/guests", opt={"action": "read"}, summary="The guests who signed the book")
def show_guests(service: Served, organisation: Name, document: Name) -> list[str]:
    """The list is sorted by name."""
    return guests(service.store.document(organisation, document))


@click.group("guestbook", epilog="Example: stratalog guestbook sign acme/book ada")
@of_every_command
def guestbook() -> None:
    """Sign a guest book."""


@command("sign", example="stratalog guestbook sign acme/book ada")
@click.argument("name", metavar="ORGANISATION/BOOK")
@click.argument("guest")
def sign_command(session: Session, name: str, guest: str) -> None:
    """Sign a book. Create it first: `stratalog create acme/book`."""
    session.open().rules = app.rules
    document = session.document(name)
    outcome = document.mutate("sign", {"guest": guest})
    signed = guests(document)
    session.answer({"status": outcome.status, "guests": signed}, outcome.reason or ", ".join(signed))


guestbook.add_command(sign_command)
app = Application(mutators={**BUILT_IN_MUTATORS, "sign": sign}, routes=[show_guests])

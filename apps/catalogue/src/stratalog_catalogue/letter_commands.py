"""Commands on the dead letters of a catalogue: list, read and dismiss them."""

from __future__ import annotations

import click

from stratalog.cli import Session, command, fail_for_damage, local_time, standard_output
from stratalog.errors import Corrupt

__all__ = ["dead_letters", "dismiss", "letter"]

of_organisation = click.argument("organisation")


@command("dead-letters", example="stratalog catalogue dead-letters acme")
@of_organisation
def dead_letters(session: Session, organisation: str) -> None:
    """List all dead letters of an organisation with their reasons, including the letters of other programs.

    The catalogue makes dead letters of records, files and pages that it could not read or store, of records that it
    could not turn into a work, and of sources whose polls failed repeatedly. A damaged letter is named in an error, the
    other letters are listed, and the exit code is 6.
    """
    damaged = list[Corrupt]()
    letters = session.open().records(organisation).dead_letters(damaged=damaged.append)
    rows = ((made, [made.id, str(made.failures), local_time(made.last_ms), made.reason]) for made in letters)
    session.answer_list(rows, "no dead letters", right=[1], damaged=damaged)
    fail_for_damage(damaged)


@command("letter", example="stratalog catalogue letter acme source/books/new.json~0123456789abcdef > new.json")
@of_organisation
@click.argument("id")
def letter(session: Session, organisation: str, id: str) -> None:
    """Write the original bytes of a dead letter."""
    records = session.open().records(organisation)
    standard_output().writelines(records.open_dead_letter(id))


@command("dismiss", example="stratalog catalogue dismiss acme source/books/new.json~0123456789abcdef")
@of_organisation
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
def dismiss(session: Session, organisation: str, ids: tuple[str, ...]) -> None:
    """Delete dead letters. A later collection deletes their bytes."""
    records = session.open().records(organisation)
    for id in ids:
        records.resolve_dead_letter(id)
        session.answer({"id": id}, f"{id} is dismissed")

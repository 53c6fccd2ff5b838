"""Commands on the store: create it, and list its content."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import click

from stratalog.cli.output import local_time, note
from stratalog.cli.program import fail_for_damage
from stratalog.cli.session import Session, command
from stratalog.errors import Corrupt, NotFound
from stratalog.homes import make_store, shown_url
from stratalog.keys import names_partition
from stratalog.log import Log
from stratalog.log.directory import LOGS
from stratalog.maintenance.checked_items import list_checked, listed_ids
from stratalog.maintenance.collection import MaintenanceFailure
from stratalog.store import Store

__all__ = ["COMMANDS"]

Fail = Callable[[str, Corrupt], None]
"""Called with the name of a damaged part and its error."""


@command("init", example="stratalog init ./data")
@click.argument("url", required=False, metavar="[URL]")
def init(session: Session, url: str | None) -> None:
    """Create a store: a folder, the missing tables in PostgreSQL, or the missing table, bucket and queues on AWS.

    An existing store keeps its content, and only gets what it lacks, such as the versioning of its bucket or the tables
    of this version. URL is the same as --store: a folder,
    postgresql://USER@HOST/DATABASE?schema=…&blobs=… or aws://NAME?bucket=…&queue=…&region=…&prefix=…&freed=…
    """
    given = url or session.url
    made, store = make_store(given), shown_url(given)
    lines = [f"made {what}" for what in made]
    session.answer({"store": store, "made": made}, *lines, f"store ready at {store}")
    if any(what.startswith("bucket ") for what in made):
        note("S3 may need 15 minutes until each write to a new bucket makes a version; begin to write after this time")


@command("list", example="stratalog list acme")
@click.argument("organisation", required=False)
@click.option(
    "--named", metavar="NAME", help="Only documents and logs of this name. Without ORGANISATION, in any organisation."
)
def list_(session: Session, organisation: str | None, named: str | None) -> None:
    """List the documents and logs of an organisation, or of all organisations. `records list` lists records.

    Damaged documents and logs are named, the others are listed, and the exit code is 6.
    """
    store, damaged = session.open(), list[MaintenanceFailure]()

    def fail(what: str, error: Corrupt) -> None:
        damaged.append(MaintenanceFailure.of(what, error))

    if named is not None:
        names = _names_of_holders(store, named, organisation, fail)
    else:
        every = store.organisations(damaged=lambda error: fail("an organisation", error))
        names = _names(store, [organisation] if organisation else every, fail)
    nothing = "no documents or logs; to create a document: stratalog create acme/budget"
    head = [["name", "kind", "version", "changed"]]
    session.answer_list(_rows(store, names, fail), nothing, head=head, right=[2], damaged=damaged)
    fail_for_damage(damaged)


def _names(store: Store, organisations: Iterable[str], fail: Fail) -> Iterator[tuple[str, str]]:
    for organisation in organisations:
        for name in listed_ids(store.environment.index, organisation, LOGS, fail):
            yield organisation, name


def _names_of_holders(store: Store, name: str, organisation: str | None, fail: Fail) -> Iterator[tuple[str, str]]:
    """Yield ``name`` with each organisation that has a document or log of the name, or only with ``organisation``."""
    for line in list_checked(store.environment.index, names_partition(name)):
        if line.position is None and organisation not in (None, line.sort):
            continue
        if line.fault:
            fail(f"{line.sort}/{name}", Corrupt(f"a line of the list of names is damaged: {line.fault}"))
        if line.position is None:
            yield line.sort, name


def _rows(store: Store, names: Iterable[tuple[str, str]], fail: Fail) -> Iterator[tuple[dict[str, object], list[str]]]:
    for organisation, name in names:
        try:
            yield _row(store.log(organisation, name))
        except NotFound:
            continue  # the log was deleted since it was listed
        except Corrupt as exc:
            fail(f"{organisation}/{name}", exc)


def _row(log: Log) -> tuple[dict[str, object], list[str]]:
    record, head = log.record, log.head()
    name, changed_ms = f"{record.organisation}/{record.name}", head.created_ms or record.created_ms
    plain = {"name": name, "kind": record.kind, "version": head.version, "changed_ms": head.created_ms}
    return plain, [name, record.kind, str(head.version), local_time(changed_ms)]


COMMANDS = [init, list_]

"""Commands on the store: make one, list what is in it."""

from __future__ import annotations

import click

from stratalog.assembly import Store
from stratalog.cli.output import local_time, note, print_json, print_table
from stratalog.cli.session import Session, command

__all__ = ["COMMANDS"]


@command("init", example="stratalog init --store ./data")
def init(session: Session) -> None:
    """Make a store, or leave the one that is there as it is."""
    session.open(create=True)
    if session.json:
        print_json({"store": session.url})
    else:
        click.echo(f"store ready at {session.url}")


@command("list", example="stratalog list acme")
@click.argument("organisation", required=False)
def list_(session: Session, organisation: str | None) -> None:
    """List the documents and logs of an organisation, or of all."""
    store = session.open()
    rows = [["name", "kind", "version", "changed"]]
    for owner in [organisation] if organisation else store.organisations():
        for line in store.list(owner):
            version, changed_ms = _head(store, owner, line.id)
            if session.json:
                name = f"{owner}/{line.id}"
                print_json({"name": name, "kind": line.kind, "version": version, "changed_ms": changed_ms})
            rows.append([f"{owner}/{line.id}", line.kind, str(version), local_time(changed_ms or line.created_ms)])
    if session.json:
        return
    if len(rows) == 1:
        note("nothing here yet; try: stratalog create acme/budget")
    else:
        print_table(rows, right=[2])


def _head(store: Store, organisation: str, name: str) -> tuple[int, int]:
    head = store.log(organisation, name).head()
    return head.version, head.created_ms


COMMANDS = [init, list_]

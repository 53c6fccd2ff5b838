"""The command that erases the content of a version."""

from __future__ import annotations

import click

from stratalog.cli.naming import split_name
from stratalog.cli.session import Session, command
from stratalog.documents import redact as redact_version
from stratalog.log.names import DOCUMENT_OR_LOG

__all__ = ["COMMANDS"]


@command("redact", example="stratalog redact acme/budget --version 7")
@click.argument("name", metavar="ORGANISATION/NAME")
@click.option("--version", type=int, required=True, metavar="VERSION", help="The version to erase.")
@click.option("--record", "is_record", is_flag=True, help="NAME is a record.")
def redact(session: Session, name: str, version: int, is_record: bool) -> None:
    """Erase the content of a version of a document, log or record for good; the hash chain still verifies.

    The author, the time, the write id and a record's metadata stay. Run `collect` later to free the blobs.
    """
    organisation, id = split_name(name)
    store = session.open()
    snapshots: list[int] = []
    if is_record:
        store.records(organisation).redact(id, version)
    else:
        log = store.log(organisation, id, noun=DOCUMENT_OR_LOG)
        is_document = log.record.kind == "document"
        snapshots = redact_version(store.document(organisation, id), version) if is_document else log.redact(version)
    line = f"erased version {version} of {name}"
    if snapshots:
        line += f", and the snapshots of versions {', '.join(map(str, snapshots))}"
    session.answer({"name": name, "version": version, "snapshots": snapshots}, line)


COMMANDS = [redact]

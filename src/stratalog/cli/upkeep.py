"""Commands that keep a store well: snapshots, archives, forgetting, verification, sweeping."""

from __future__ import annotations

from collections.abc import Mapping

import click

from stratalog.assembly import Store
from stratalog.cli.naming import version_of
from stratalog.cli.output import print_json, print_table, progress
from stratalog.cli.program import FAILED, Failed
from stratalog.cli.session import Session, command
from stratalog.documents import verify as verify_document
from stratalog.documents.rebuild import Verified
from stratalog.errors import Corrupt, StratalogError
from stratalog.log.retention import free_segments
from stratalog.log.sweep import sweep_deleted
from stratalog.operations.collect import collect_family, owners

__all__ = ["COMMANDS"]


@command("snapshot", example="stratalog snapshot acme/budget")
@click.argument("document", metavar="ORGANISATION/DOCUMENT")
@click.option("--at", metavar="VERSION|TIME", help="Of which version.  [default: now]")
def snapshot(session: Session, document: str, at: str | None) -> None:
    """Make the snapshot of a version, so that it loads without replaying what came before."""
    opened = session.document(document)
    version = opened.snapshot(version_of(opened, at))
    session.answer({"name": document, "version": version}, f"{document} has a snapshot at version {version}")


@command("archive", example="stratalog archive acme/budget --upto 10000")
@click.argument("document", metavar="ORGANISATION/DOCUMENT")
@click.option("--upto", metavar="VERSION|TIME", help="Only segments that end by then.  [default: all sealed ones]")
def archive(session: Session, document: str, upto: str | None) -> None:
    """Move sealed segments of the log to blobs; their versions stay readable."""
    opened = session.document(document)
    count = opened.archive(version_of(opened, upto))
    session.answer({"name": document, "archived_segments": count}, f"archived {count} segments of {document}")


@command("forget", example="stratalog forget acme/budget --below 500")
@click.argument("document", metavar="ORGANISATION/DOCUMENT")
@click.option("--below", metavar="VERSION|TIME", required=True, help="The oldest version to keep.")
def forget(session: Session, document: str, below: str) -> None:
    """Forget the versions below one, as far as no fork needs them; the state there is proven first."""
    opened = session.document(document)
    floor = opened.forget_below(version_of(opened, below) or 0, lambda version: _prove(session, document, version))
    session.answer({"name": document, "floor": floor}, f"{document} keeps its versions from {floor} on")


@command("verify", example="stratalog verify acme/budget")
@click.argument("documents", metavar="[ORGANISATION/DOCUMENT]...", nargs=-1)
@click.option("--upto", type=int, metavar="VERSION", help="Stop there.  [default: the newest]")
def verify(session: Session, documents: tuple[str, ...], upto: int | None) -> None:
    """Rebuild documents from their logs and compare every snapshot; all documents where none is named."""
    rows, failed = [], False
    for name in documents or _all_documents(session.open()):
        try:
            found = _verify(session, name, upto)
        except Corrupt as exc:
            failed = True
            rows.append([click.style("FAILED", fg="red"), name, str(exc)])
            _line(session, {"name": name, "verified": False, "reason": exc.message, "details": _text(exc)})
        else:
            what = f"version {found.version}, {found.snapshots} snapshots, digest {found.digest[:12]}"
            rows.append([click.style("verified", fg="green"), name, what])
            said = {"version": found.version, "snapshots": found.snapshots, "digest": found.digest, "root": found.root}
            _line(session, {"name": name, "verified": True, **said})
    if rows and not session.json:
        print_table(rows)
    if failed:
        raise Failed(FAILED)


@command("sweep", example="stratalog sweep")
@click.argument("organisation", required=False)
def sweep(session: Session, organisation: str | None) -> None:
    """Free what was deleted, archived, forgotten or pruned long enough ago, and blobs that nothing refers to."""
    store = session.open()
    total = {"deleted_logs": 0, "segments": 0, "record_versions": 0, "blobs": 0}
    for owner in [organisation] if organisation else list(store.organisations()):
        _sweep(store, owner, total)
    said = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in total.items())
    session.answer(total, f"freed {said}")


def _sweep(store: Store, organisation: str, total: dict[str, int]) -> None:
    records = store.records(organisation)
    with progress(f"sweeping {organisation}", None) as step:
        total["deleted_logs"] += sweep_deleted(store.place, organisation)
        for listing in store.list(organisation):
            total["segments"] += free_segments(store.log(organisation, listing.id))
            step(1)
        for record in records.list():
            total["record_versions"] += records.free(record.id)
            step(1)
        for owner in owners(store.place, organisation):
            total["blobs"] += len(collect_family(store.place, owner).garbage)
            step(1)


def _verify(session: Session, name: str, upto: int | None = None) -> Verified:
    document = session.document(name)
    last = document.version if upto is None else upto
    with progress(f"verifying {name}", max(0, last - document.log.first)) as step:
        return verify_document(document, upto, progress=step)


def _prove(session: Session, name: str, version: int) -> None:
    _verify(session, name, version)


def _all_documents(store: Store) -> list[str]:
    return [
        f"{organisation}/{listing.id}"
        for organisation in store.organisations()
        for listing in store.list(organisation)
        if listing.kind == "document"
    ]


def _line(session: Session, plain: Mapping[str, object]) -> None:
    if session.json:
        print_json(plain)


def _text(error: StratalogError) -> dict[str, str]:
    return {name: str(value) for name, value in error.details.items()}


COMMANDS = [snapshot, archive, forget, verify, sweep]

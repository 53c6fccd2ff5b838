"""Commands on copies: fork, replay, merge, and copy for a whole store."""

from __future__ import annotations

import click

from stratalog.cli.naming import split_name, version_of
from stratalog.cli.output import counted, dim, note, progress, short
from stratalog.cli.program import damage_text, fail_for_damage
from stratalog.cli.session import Session, command
from stratalog.documents import merge as merge_fork
from stratalog.documents import replay as replay_fork
from stratalog.documents.replay import Replayed, ReplayReport
from stratalog.errors import Invalid
from stratalog.homes import is_inside, shown_url
from stratalog.maintenance.store_copy import copy_store
from stratalog.store import open_store

__all__ = ["COMMANDS"]


@command("fork", example="stratalog fork acme/budget acme/budget-copy --at 3")
@click.argument("document", metavar="ORGANISATION/DOCUMENT")
@click.argument("name", metavar="ORGANISATION/NAME")
@click.option("--at", metavar="VERSION|TIME", help="The last shared version.  [default: the newest]")
def fork(session: Session, document: str, name: str, at: str | None) -> None:
    """Create a document that shares its history up to a version with another document; nothing is copied.

    The fork is in the same organisation. To copy a document into another organisation, export and import it.
    """
    source = session.document(document)
    organisation, own = split_name(name)
    if organisation != source.organisation:
        raise Invalid(
            "a fork must be in its source's organisation; export and import instead", organisation=organisation
        )
    made = source.fork(own, at=version_of(source, at))
    version = made.log.first
    plain = {"name": name, "source": document, "version": version}
    session.answer(plain, f"forked {document} at version {version} as {name}")


@command("replay", example="stratalog replay acme/budget-copy acme/budget")
@click.argument("fork", metavar="FORK")
@click.argument("target", metavar="TARGET")
@click.option("--after", metavar="VERSION", type=int, help="Only the fork's mutations after this version.")
def replay(session: Session, fork: str, target: str, after: int | None) -> None:
    """Run a fork's own mutations on another document, write nothing, and show which results would differ."""
    _print_report(session, replay_fork(session.document(fork), session.document(target), after=after))


@command("merge", example="stratalog merge acme/budget-copy acme/budget")
@click.argument("fork", metavar="FORK")
@click.argument("target", metavar="TARGET")
def merge(session: Session, fork: str, target: str) -> None:
    """Commit a fork's own mutations on another document. A repeated merge changes nothing."""
    with progress("merging", None):
        report = merge_fork(session.document(fork), session.document(target))
    _print_report(session, report)


@command("copy", example="stratalog copy ./data aws://acme-stratalog")
@click.argument("source")
@click.argument("target")
def copy(session: Session, source: str, target: str) -> None:
    """Copy a whole store to another URL, for example a folder to AWS. A missing target is created.

    An interrupted copy resumes, and a repeated copy writes only new data. At its end the command compares samples of
    every document, log and record in both stores. Damage in the source is named, the rest is copied, and the exit code
    is 6. Write to only one of the two stores afterwards. Queued pushes are not copied.
    """
    if is_inside(target, source):
        reason = "the target must not be the source or a folder inside it; give another folder"
        raise Invalid(reason, source=shown_url(source), target=shown_url(target))
    with open_store(source, create=False) as ours:
        # Read the source before the target is created. Opening a store on AWS sends no request, so it proves nothing.
        next(ours.organisations(), None)
        with open_store(target) as theirs, progress(f"copying {shown_url(source)}", None) as step:
            done = copy_store(ours, theirs, step)
    written = f"{counted(done.items_written, 'item')} and {counted(done.blobs_written, 'blob')} written"
    copied = f"{counted(done.logs, 'log')} and {counted(done.records, 'record')}"
    copied += f" of {counted(done.organisations, 'organisation')}"
    state = damage_text(done.failures, done.more_failures)
    session.answer(done, f"copied {shown_url(source)} to {shown_url(target)}: {copied}, {written}, {state}")
    fail_for_damage(done.failures, "damaged", done.more_failures, json_names=True)


def _print_report(session: Session, report: ReplayReport) -> None:
    session.answer_list(((replayed, _row(replayed)) for replayed in report), "the fork has no mutations of its own")
    if report and not session.json:
        note(f"{counted(len(report), 'mutation')}, {report.different} with a different result")


def _row(replayed: Replayed) -> list[str]:
    mark = click.style("same", fg="green") if replayed.same else click.style("differs", fg="yellow")
    if replayed.reason_after is not None:
        mark = click.style("rejected", fg="red")
    into = f"version {replayed.merged_in}" if replayed.merged_in else ""
    changes = "; ".join(f"{key}: {short(a, 30)} → {short(b, 30)}" for key, (a, b) in replayed.differences.items())
    detail = replayed.reason_after or changes or dim(short(replayed.args, 60))
    return [mark, f"{replayed.client}#{replayed.id}", replayed.name, into, detail]


COMMANDS = [fork, replay, merge, copy]

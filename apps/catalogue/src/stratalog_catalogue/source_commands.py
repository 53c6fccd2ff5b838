"""Commands on the sources of a catalogue: list, pause, resume, remove and rename them."""

from __future__ import annotations

import click

from stratalog import Corrupt, Invalid, NotFound
from stratalog.cli import FAILED, Failed, Session, command, note, progress, split_name

__all__ = ["pause", "remove", "rename", "resume", "sources"]

of_source = click.argument("source", metavar="ORGANISATION/SOURCE")


@command("sources", example="stratalog catalogue sources acme")
@click.argument("organisation")
def sources(session: Session, organisation: str) -> None:
    """List the sources and their settings. The exit code is 1 if the settings of a source cannot be read."""
    from stratalog_catalogue.sources import read_source, source_names

    records = session.open().records(organisation)
    rows, unreadable = [], []
    for name in source_names(records):
        try:
            source = read_source(records, name)
        except NotFound:  # removed since the names were listed
            continue
        except (Corrupt, Invalid) as exc:
            unreadable.append(f"{name}: {exc}")
        else:
            paused = "paused" if source.paused else ""
            rows.append((source, [name, source.adapter, source.format, paused, source.location]))
    session.answer_list(rows, "no source can be read" if unreadable else "no sources")
    for line in unreadable:
        note(line)
    if unreadable:
        raise Failed(FAILED)


@command("pause", example="stratalog catalogue pause acme/books")
@of_source
def pause(session: Session, source: str) -> None:
    """Skip a source in polls that do not name the source."""
    _pause(session, source, True)


@command("resume", example="stratalog catalogue resume acme/books")
@of_source
def resume(session: Session, source: str) -> None:
    """End the pause of a source: polls read it again."""
    _pause(session, source, False)


@command("remove", example="stratalog catalogue remove acme/books")
@of_source
def remove(session: Session, source: str) -> None:
    """Forget a source, and the dead letter of its polls. Its records, works and other dead letters stay."""
    from stratalog_catalogue.sources import remove_source

    organisation, name = split_name(source)
    remove_source(session.open().records(organisation), name)
    session.answer({"source": name}, f"{source} is no longer read")


@command("rename", example="stratalog catalogue rename acme/books volumes")
@of_source
@click.argument("name")
def rename(session: Session, source: str, name: str) -> None:
    """Rename a source and move its records with all versions. An interrupted run resumes."""
    from stratalog_catalogue.source_rename import rename_source

    organisation, old = split_name(source)
    with progress("moving records", None) as step:
        done = rename_source(session.open().records(organisation), old, name, step)
    moved = f"{done.records:,} records, {done.versions:,} versions and {done.letters:,} dead letters moved"
    session.answer(done, f"{source} is now {name}: {moved}; the next poll makes their works")


def _pause(session: Session, source: str, paused: bool) -> None:
    from stratalog_catalogue.sources import pause_source

    organisation, name = split_name(source)
    made = pause_source(session.open().records(organisation), name, paused)
    session.answer(made, f"{source} is {'paused' if paused else 'polled again'}")

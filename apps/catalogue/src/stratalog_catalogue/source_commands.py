"""Commands on the sources of a catalogue: list, pause, remove and rename them."""

from __future__ import annotations

import click

from stratalog.cli import Session, command, progress, split_name

__all__ = ["pause", "remove", "rename", "resume", "sources"]

of_source = click.argument("source", metavar="ORGANISATION/SOURCE")


@command("sources", example="stratalog catalogue sources acme")
@click.argument("organisation")
def sources(session: Session, organisation: str) -> None:
    """List the sources and their settings."""
    from stratalog_catalogue.sources import read_sources

    rows = (
        (source, [source.name, source.adapter, source.format, "paused" if source.paused else "", source.location])
        for source in read_sources(session.open().records(organisation))
    )
    session.answer_list(rows, "no sources")


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

"""Commands on a catalogue: poll sources, make works from records, search works, and compare versions of records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import msgspec

from stratalog import Store
from stratalog.cli import (
    FAILED,
    CommandGroup,
    Failed,
    FiniteRange,
    Session,
    command,
    local_time,
    note,
    of_every_command,
    progress,
    size_text,
    split_name,
)
from stratalog.errors import ContentionError, OutcomeUnknown, Unavailable
from stratalog_catalogue.letter_commands import dead_letters, dismiss, letter
from stratalog_catalogue.limits import CATALOGUE_INTERVAL_SECONDS_MAX
from stratalog_catalogue.serve import serve
from stratalog_catalogue.source_commands import pause, remove, rename, resume, sources

__all__ = ["catalogue"]

of_organisation = click.argument("organisation")
of_source = click.argument("source", metavar="ORGANISATION/SOURCE")
of_sources = click.option(
    "--source", "sources", multiple=True, metavar="NAME", help="Only this source. The option may be repeated."
)
of_dry_run = click.option("--dry-run", is_flag=True, help="Report the changes of a run without making the changes.")
DRY_RUN = " (dry run)"
ADAPTERS = ("folder", "http", "oai")
FORMATS = ("json", "jsonl", "xml", "csv", "rfc822", "file")


@click.group("catalogue", cls=CommandGroup, epilog="Example: stratalog catalogue poll acme")
@of_every_command
def catalogue() -> None:
    """Store the records of other systems as they are, and make works of one model from them."""


@command("add", example="stratalog catalogue add acme/books ./inbox --format json --id isbn --time changed")
@of_source
@click.argument("location", metavar="FOLDER|URL")
@click.option("--adapter", type=click.Choice(ADAPTERS), default="folder", show_default=True)
@click.option("--format", "form", type=click.Choice(FORMATS), required=True)
@click.option(
    "--transformer", default="plain", show_default=True, help="The transformer that makes works of the records."
)
@click.option(
    "--records",
    default="",
    metavar="PATH",
    help="The path of the list of records, or in XML the name of a record's element.",
)
@click.option(
    "--id", "id_fields", default="id", show_default=True, metavar="FIELD,…", help="The fields that form a record's id."
)
@click.option(
    "--time", default="", metavar="FIELD", help="The field with the time at which the source last changed a record."
)
@click.option("--next", "next_page", default="", metavar="FIELD", help="The field in which a page names the next page.")
@click.option(
    "--complete", is_flag=True, help="The source gives complete states. A poll deletes the records that a state lacks."
)
@click.option("--encoding", default="", help="The encoding of text that is not UTF-8 and declares no encoding.")
@click.option(
    "--deletions",
    default=20.0,
    show_default=True,
    metavar="PERCENT",
    help="The percentage of records that a complete state may delete without --allow-deletions. "
    "Up to 25 records may be deleted in any case, but none if the state is empty.",
)
@click.option("--pattern", default="**/*", show_default=True, help="The glob pattern of the files of a folder.")
@click.option("--prefix", default="oai_dc", show_default=True, help="The metadata format of OAI-PMH.")
@click.option("--set", "part", default="", metavar="NAME", help="OAI-PMH: only this set.")
@click.option("--since", default="", metavar="DATE", help="OAI-PMH: only records changed at this date or later.")
@click.option("--until", default="", metavar="DATE", help="OAI-PMH: only records changed at this date or earlier.")
@click.option(
    "--due", default=3600.0, show_default=True, metavar="SECONDS", help="The time until the next poll is due."
)
def add(session: Session, source: str, location: str, adapter: str, form: str, transformer: str, **more: Any) -> None:
    """Add a source, or replace all settings of an existing source. If the store does not exist, create it."""
    if not location:
        raise click.UsageError("the location is empty; give a folder or a URL")
    app = _module("sources")
    organisation, name = split_name(source)
    _module("transformers").transformer(transformer)
    address = str(Path(location).absolute()) if adapter == "folder" else location
    made = app.Source(
        name=name,
        adapter=adapter,
        location=address,
        format=form,
        transformer=transformer,
        records=more["records"],
        id=more["id_fields"],
        time=more["time"],
        next=more["next_page"],
        complete=more["complete"],
        encoding=more["encoding"],
        deletions_percent_max=more["deletions"],
        pattern=more["pattern"],
        metadata_prefix=more["prefix"],
        set=more["part"],
        since=more["since"],
        until=more["until"],
        every_seconds=more["due"],
    )
    app.add_source(session.open(create=True).records(organisation), made)
    session.answer(made, f"{source} is read from {address}")


@command("poll", example="stratalog catalogue poll acme")
@of_organisation
@of_sources
@click.option(
    "--every",
    type=FiniteRange(1, CATALOGUE_INTERVAL_SECONDS_MAX),
    metavar="SECONDS",
    help="Keep running, and poll the due sources at this interval.",
)
@click.option("--no-works", is_flag=True, help="Store records, and make no works.")
@click.option(
    "--allow-deletions", is_flag=True, help="Delete all records that a complete state lacks, without a limit."
)
@of_dry_run
def poll(
    session: Session,
    organisation: str,
    sources: tuple[str, ...],
    every: float | None,
    no_works: bool,
    allow_deletions: bool,
    dry_run: bool,
) -> None:
    """Read new records from the sources, store them, and make works of them.

    The exit code is 1 if a failure became a dead letter, if a source could not be read to its end, or if a complete
    state lacks too many records.
    """
    store = session.open()
    if every is not None and dry_run:
        raise click.UsageError("--dry-run polls each source once; it cannot be combined with --every")
    if every is None:
        works = not no_works and not dry_run
        if not _poll_once(session, store, organisation, sources, False, works, allow_deletions, dry_run):
            raise Failed(FAILED)
        return
    while True:
        try:
            _poll_once(session, store, organisation, sources, True, not no_works)
        except (ContentionError, OutcomeUnknown, Unavailable) as exc:
            note(f"the poll ended early: {exc}")
        store.environment.clock.sleep(every)


@command("ingest", example="stratalog catalogue ingest acme/books new.json")
@of_source
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(exists=True, dir_okay=False))
@of_dry_run
def ingest(session: Session, source: str, files: tuple[str, ...], dry_run: bool) -> None:
    """Store the records of files, from any folder, as records of a source.

    If each file of the source is a complete state, the command deletes the records that a file lacks. The command does
    not change the source's checkpoint, and makes no works.
    """
    folder, ingest = _module("folder"), _module("ingest")
    take = _module("dry_run").preview if dry_run else ingest.take
    organisation, name = split_name(source)
    records = session.open().records(organisation)
    settings = _module("sources").read_source(records, name)
    total = ingest.IngestCounts()
    with progress("ingesting", None) as step:
        for file in map(Path, files):
            for piece in folder.poll_file(settings, file):
                total.add(take(records, settings, piece, step))
    session.answer(total, _ingest_line(source, total) + (DRY_RUN if dry_run else ""))
    if total.failed or total.withheld:
        raise Failed(FAILED)


@command("reprocess", example="stratalog catalogue reprocess acme --processes 2")
@of_organisation
@of_sources
@click.option("--changed", is_flag=True, help="Make only works that are out of date.")
@click.option("--processes", default=1, show_default=True, type=click.IntRange(1, 64), help="The number of processes.")
@click.option("--anew", is_flag=True, help="Start from the beginning, even if an earlier run was interrupted.")
def reprocess(
    session: Session, organisation: str, sources: tuple[str, ...], changed: bool, processes: int, anew: bool
) -> None:
    """Make all works again from the stored records. The command reads no source. An interrupted run resumes."""
    with progress("reprocessing", None) as step:
        done = _module("workers").reconcile(
            session.open(),
            organisation,
            sources=sources,
            everything=not changed,
            url=session.url,
            processes=processes,
            resume=not anew,
            progress=step,
        )
    session.answer(_scanned(done), _scan_line(done))
    if done.failed:
        raise Failed(FAILED)


@command("redrive", example="stratalog catalogue redrive acme")
@of_organisation
@of_sources
def redrive(session: Session, organisation: str, sources: tuple[str, ...]) -> None:
    """Retry dead letters. The exit code is 1 if dead letters remain."""
    remaining = list[str]()

    def rows() -> Iterator[tuple[object, list[str]]]:
        for retried in _module("redrive").redrive(session.open(), organisation, _connect, sources=sources):
            yield retried, [retried.id, "resolved" if retried.resolved else "dead", retried.reason]
            if not retried.resolved:
                remaining.append(retried.id)

    session.answer_list(rows(), "no dead letters")
    if remaining:
        raise Failed(FAILED)


@command("stats", example="stratalog catalogue stats acme")
@of_organisation
def stats(session: Session, organisation: str) -> None:
    """Count the records of the last scan by source, format and kind. Also count the present dead letters."""
    catalogue_stats = _module("summary").read_stats(session.open().records(organisation))
    if session.json:
        session.answer(catalogue_stats, "")
        return
    rows = [
        (None, [summary.source, row.format, row.kind, f"{row.records:,}", f"{row.versions:,}", size_text(row.bytes)])
        for summary in catalogue_stats.sources
        for row in summary.rows
    ]
    head = [["source", "format", "kind", "records", "versions", "size"]]
    scanned = "the last scan found no records"
    nothing = scanned if catalogue_stats.sources else "no scan yet; run stratalog catalogue poll"
    session.answer_list(rows, nothing, head=head, right=[3, 4, 5])
    for source, count in catalogue_stats.dead_letters.items():
        note(f"{count} dead letters of {source}")
    if catalogue_stats.more_dead_letters:
        note("there are more dead letters, which are not counted")


@command("search", example="stratalog catalogue search acme sparse matrix")
@of_organisation
@click.argument("words", nargs=-1)
@click.option("--source", default="", metavar="NAME", help="Only works of this source.")
@click.option("--begins", default="", metavar="TEXT", help="Only ids that begin with this text.")
@click.option(
    "--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="The maximum number of works."
)
def search(session: Session, organisation: str, words: tuple[str, ...], source: str, begins: str, limit: int) -> None:
    """Find works by words of their titles or ids, or by the beginning of their ids."""
    records = session.open().records(organisation)
    hits = _module("queries").search(records, " ".join(words), source=source, begins=begins, limit=limit)
    session.answer_list(((hit, [hit.source, hit.id, hit.title]) for hit in hits), "no works match")


@command("versions", example="stratalog catalogue versions acme/debian bash/amd64")
@of_source
@click.argument("id")
def versions(session: Session, source: str, id: str) -> None:
    """List the versions of a source's record, newest first."""
    organisation, name = split_name(source)
    history = _module("queries").show_versions(session.open().records(organisation), name, id)
    rows = ((version, _version_row(version)) for version in history)
    session.answer_list(rows, "no versions", head=[["version", "stored", "source's time", "size", ""]], right=[0, 3])


@command("diff", example="stratalog catalogue diff acme/debian bash/amd64 1 2")
@of_source
@click.argument("id")
@click.argument("before", type=click.IntRange(0))
@click.argument("after", type=click.IntRange(1))
def diff(session: Session, source: str, id: str, before: int, after: int) -> None:
    """Show the differences between two versions of a source's record."""
    organisation, name = split_name(source)
    difference = _module("queries").differences(session.open().records(organisation), name, id, before, after)
    texts = [f"{change.path}: {_side(change.before)} → {_side(change.after)}" for change in difference.changes]
    session.answer(difference, *([*texts, *difference.lines] or ["the same"]))


@command("migrate", example="stratalog catalogue migrate acme/miro vhs-miro")
@of_source
@click.argument("table")
def migrate(session: Session, source: str, table: str) -> None:
    """Copy the rows of a versioned hybrid store on DynamoDB and S3. An interrupted run resumes."""
    organisation, name = split_name(source)
    records = session.open().records(organisation)
    settings = _module("sources").read_source(records, name)
    with progress("migrating", None) as step:
        done = _module("migration").migrate(records, settings, table, progress=step)
    session.answer(done, f"{done.rows:,} rows: {done.new:,} new, {done.same:,} there already, {done.failed:,} failed")
    if done.failed:
        raise Failed(FAILED)


def _poll_once(
    session: Session,
    store: Store,
    organisation: str,
    sources: tuple[str, ...],
    due: bool,
    works: bool,
    allow: bool = False,
    dry_run: bool = False,
) -> bool:
    """Poll the sources. Then, if ``works`` is true, make works of their records. Return False after any failure."""
    polls, well = _module("polls"), True
    with progress("polling", None) as step:
        given = {"sources": sources, "due_only": due, "allow_deletions": allow, "dry_run": dry_run}
        polled = list(polls.poll(store, organisation, _connect, **given, progress=step))
    for outcome in polled:
        session.answer(
            outcome,
            _ingest_line(f"{organisation}/{outcome.source}", outcome.taken)
            + (DRY_RUN if outcome.dry_run else "")
            + (outcome.reason and f" — {outcome.reason}"),
        )
        well = well and not (outcome.taken.failed or outcome.reason)
    if not session.json and any(outcome.taken.failed for outcome in polled):
        note(f"to see why records failed: stratalog catalogue dead-letters {organisation}")
        note("a complete state of which a part failed deletes no record")
    if not polled and not due:
        note("no source to poll")
    if works and polled:
        names = [outcome.source for outcome in polled]
        with progress("making works", None) as step:
            # The poll has reported the sources whose settings cannot be read. Other sources still get their works.
            options = {"sources": names, "skip_unreadable": True}
            done = _module("workers").reconcile(store, organisation, **options, progress=step)
        session.answer(_scanned(done), _scan_line(done))
        well = well and not done.failed
    return well


def _connect() -> Any:
    """Return an HTTP client."""
    import httpx

    return httpx.Client(timeout=30, headers={"User-Agent": "stratalog-catalogue"})


def _module(name: str) -> Any:
    return import_module(f"stratalog_catalogue.{name}")


def _ingest_line(source: str, counts: Any) -> str:
    line = f"{counts.new:,} new, {counts.same:,} unchanged, {counts.deleted:,} deleted, {counts.failed:,} failed"
    line += f", {counts.withheld:,} deletions withheld" if counts.withheld else ""
    line += f"; {counts.conflicting:,} not stored: another record has the id and time" if counts.conflicting else ""
    return f"{source}: {counts.read:,} read, {line}"


def _scanned(done: Any) -> dict[str, int]:
    return {name: getattr(done, name) for name in ("looked_at", "made", "same", "deleted", "failed")}


def _scan_line(done: Any) -> str:
    return f"{done.made:,} works made, {done.same:,} unchanged, {done.deleted:,} deleted, {done.failed:,} failed"


def _version_row(version: Any) -> list[str]:
    time = "" if version.source_time_ms is None else local_time(version.source_time_ms)
    state = "deleted" if version.deleted else ""
    return [str(version.version), local_time(version.stored_ms), time, size_text(version.size), state]


def _side(value: Any) -> str:
    return "nothing" if value is msgspec.UNSET else msgspec.json.encode(value).decode()


_ALL: tuple[Callable[..., Any], ...] = (
    add, poll, ingest, reprocess, redrive, dead_letters, letter, dismiss, sources, pause, resume, remove, rename, stats,
    search, versions, diff, migrate, serve,
)  # fmt: skip
for _command in _ALL:
    catalogue.add_command(_command)  # type: ignore[arg-type]

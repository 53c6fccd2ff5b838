"""Maintenance commands: snapshots, archives, forgetting, sweeping, collection, and a pass that does all of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import click
import msgspec

from stratalog.cli.naming import FiniteRange, version_of
from stratalog.cli.output import note, print_json, print_line, print_table, progress, size_text
from stratalog.cli.program import FAILED, Failed
from stratalog.cli.serve import open_for
from stratalog.cli.session import Session, command
from stratalog.clock import Observation
from stratalog.errors import Corrupt, NotFound
from stratalog.keys import escape
from stratalog.log.directory import LOGS, RECORDS, list_ids
from stratalog.log.retention import free_segments
from stratalog.log.sweep import sweep_deleted
from stratalog.maintenance.collection import CollectionReport, MaintenanceFailure
from stratalog.maintenance.collection import collect as collect_blobs
from stratalog.maintenance.policy import MaintenancePolicy, read_policy
from stratalog.maintenance.store_pass import MaintenanceReport
from stratalog.maintenance.store_pass import maintain as maintain_store
from stratalog.records.retention import free_versions
from stratalog.records.versions import Name
from stratalog.store import Store

__all__ = ["COMMANDS", "every_organisation"]


@command("snapshot", example="stratalog snapshot acme/budget")
@click.argument("document", metavar="ORGANISATION/DOCUMENT")
@click.option("--at", metavar="VERSION|TIME", help="The version to take the snapshot of.  [default: the newest]")
def snapshot(session: Session, document: str, at: str | None) -> None:
    """Make the snapshot of a version, so that it loads without replaying the versions before it."""
    opened = session.document(document)
    version = opened.snapshot(version_of(opened, at))
    session.answer({"name": document, "version": version}, f"{document} has a snapshot at version {version}")


@command("archive", example="stratalog archive acme/budget --upto 10000")
@click.argument("document", metavar="ORGANISATION/DOCUMENT")
@click.option(
    "--upto",
    metavar="VERSION|TIME",
    help="Only segments that end at or before this version.  [default: all sealed segments]",
)
def archive(session: Session, document: str, upto: str | None) -> None:
    """Move sealed segments of the log to blobs; their versions stay readable."""
    opened = session.document(document)
    counts: list[int] = []
    failures = []
    try:
        opened.archive(version_of(opened, upto), report=counts.append)
    except Corrupt as exc:
        failures = [MaintenanceFailure.of(document, exc)]
    count = sum(counts)
    session.answer({"name": document, "archived_segments": count}, f"archived {count} segments of {document}")
    _fail_for(failures)


@command("forget", example="stratalog forget acme/budget --below 500")
@click.argument("document", metavar="ORGANISATION/DOCUMENT")
@click.option("--below", metavar="VERSION|TIME", required=True, help="The oldest version to keep.")
@click.option("--application", metavar="NAME", help="The application of the document: a short name, or MODULE:NAME.")
def forget(session: Session, document: str, below: str, application: str | None) -> None:
    """Forget the versions below a given version, unless a fork needs them.

    The command first verifies the oldest state to keep. With --application it keeps the versions that the application
    needs, as a table does with --keep-days.
    """
    open_for(session, application)
    opened = session.document(document)
    version = version_of(opened, below) or 0
    with progress(f"verifying {document}", max(0, version - opened.log.first)) as step:
        floor = opened.forget_below(version, progress=step)
    session.answer({"name": document, "floor": floor}, f"{document} keeps its versions from {floor} on")


@command("sweep", example="stratalog sweep")
@click.argument("organisation", required=False)
def sweep(session: Session, organisation: str | None) -> None:
    """Free data that was deleted, archived, forgotten or pruned long enough ago, and unreferenced blobs."""
    sweep = _Sweep(session.open())
    for owner in [organisation] if organisation else every_organisation(sweep.store, sweep.failures):
        sweep.run(owner)
    counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in sweep.total.items())
    session.answer(sweep.total, f"freed {counts}")
    _fail_for(sweep.failures)


class _Sweep:
    """A sweep of several organisations. It continues after a damaged log or record."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.total = {"deleted_logs": 0, "segments": 0, "record_versions": 0, "blobs": 0}
        self.failures: list[MaintenanceFailure] = []

    def run(self, organisation: str) -> None:
        """Free the due data of one organisation."""
        store, environment = self.store, self.store.environment
        with progress(f"sweeping {organisation}", None) as step:
            with self._noted(f"{organisation}, deleted logs"):
                sweep_deleted(environment, organisation, report=partial(self._count, "deleted_logs"))
            damaged = partial(_note_key, self.failures, f"the directory of {organisation}")
            for log in list_ids(environment.index, organisation, LOGS, damaged=damaged):
                # The next sweep frees a log that was deleted since it was listed.
                with self._noted(f"{organisation}/{log}"), suppress(NotFound):
                    opened = store.log(organisation, log)
                    report = partial(self._count, "segments")
                    if opened.record.kind == "document":
                        store.document(organisation, log).free_segments(report=report)
                    else:
                        free_segments(opened, report=report)
                step(1)
            for record in list_ids(environment.index, organisation, RECORDS, damaged=damaged):
                with self._noted(f"{organisation}/records/{record}"):
                    free_versions(
                        environment, Name(organisation, record), report=partial(self._count, "record_versions")
                    )
                step(1)
            collected = collect_blobs(environment, escape(organisation), report=step, queue=lambda: store.queue)
            self._count("blobs", len(collected.garbage))
            self.failures += collected.failures

    def _count(self, name: str, count: int) -> None:
        self.total[name] += count

    @contextmanager
    def _noted(self, what: str) -> Iterator[None]:
        """Note damage, so that it stops no other part of the sweep."""
        try:
            yield
        except Corrupt as exc:
            self.failures.append(MaintenanceFailure.of(what, exc))


def every_organisation(store: Store, failures: list[MaintenanceFailure]) -> list[str]:
    """Return the organisations of the store. Add each damaged key of their list to ``failures``."""
    return list(store.organisations(damaged=partial(_note_key, failures, "the list of organisations")))


def _note_key(failures: list[MaintenanceFailure], what: str, error: Corrupt) -> None:
    failures.append(MaintenanceFailure.of(what, error))


dry_run_option = click.option("--dry-run", is_flag=True, help="Change nothing; report what would be done.")
until_option = click.option(
    "--until",
    type=FiniteRange(min=0),
    metavar="SECONDS",
    help="Stop after this time; the next run resumes.  [default: no limit]",
)


@command("collect", example="stratalog collect acme --dry-run")
@click.argument("organisation", required=False)
@dry_run_option
@until_option
def collect(session: Session, organisation: str | None, dry_run: bool, until: float | None) -> None:
    """Delete the unreferenced blobs of an organisation or of all organisations. A dry run lists these blobs."""
    store = session.open()
    stop = _after(store, until)
    reports: list[CollectionReport] = []
    failures: list[MaintenanceFailure] = []
    for owner in [organisation] if organisation else every_organisation(store, failures):
        with progress(f"collecting {owner}", None) as step:
            collected = partial(collect_blobs, store.environment, escape(owner), queue=lambda: store.queue)
            reports.append(collected(dry_run=dry_run, stop=stop, report=step))
        if not reports[-1].is_finished:
            break
    for report in reports:
        _say_collected(session, report, dry_run)
    _fail_for([*failures, *(failure for report in reports for failure in report.failures)])


@command("maintain", example="stratalog maintain --policy policy.json --until 600")
@click.argument("application", required=False)
@click.option(
    "--policy",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The retention policy, a JSON object.  [default: keep everything but garbage]",
)
@dry_run_option
@until_option
def maintain(
    session: Session, application: str | None, policy: Path | None, dry_run: bool, until: float | None
) -> None:
    """Run a maintenance pass: due snapshots, retention, archives, sweeping, collecting, measuring, scrubbing.

    Run the command as often as you like. With APPLICATION, a short name or MODULE:NAME, the application's own steps run
    too. The pass measures the usage of organisations if the application or the settings have quotas.
    """
    store, loaded = open_for(session, application)
    measures = bool(session.settings.quotas) or (loaded is not None and loaded.has_quotas)
    chosen = read_policy(policy.read_bytes()) if policy else MaintenancePolicy()
    with progress("maintaining", None) as step:
        report = maintain_store(
            store,
            chosen,
            steps=loaded.maintenance if loaded is not None else (),
            seconds=until,
            dry_run=dry_run,
            report=lambda what: step(1),
            measures=measures,
        )
    if session.json:
        print_json(report)
    else:
        _say_maintained(report, dry_run)
    _fail_for(report.failures)


def _say_collected(session: Session, report: CollectionReport, dry_run: bool) -> None:
    if session.json:
        print_json({**msgspec.to_builtins(report), "looked_at": report.looked_at, "dry_run": dry_run})
        return
    for key in report.garbage if dry_run else ():
        print_line(key)
    deleted = "would delete" if dry_run else "deleted"
    print_line(
        f"{report.scope}: listed {report.looked_at} blobs, retained {report.retained} that may be in use,"
        f" {report.young} young and {report.changed} changed meanwhile;"
        f" {deleted} {len(report.garbage)} ({size_text(report.garbage_bytes)})"
    )
    if not report.is_finished:
        note("stopped before the end; the next run resumes")


def _say_maintained(report: MaintenanceReport, dry_run: bool) -> None:
    counts = {name: value for name, value in msgspec.to_builtins(report).items() if type(value) is int}
    rows = [[f"{value:,}", name.replace("_", " ")] for name, value in counts.items()]
    if dry_run:
        click.echo("a dry run changes nothing; without steps and measurements a pass would have this result:")
    print_table(rows, right=[0])
    for key in report.garbage if dry_run else ():
        print_line(key)
    if not report.is_finished:
        note("stopped before the end; the next run resumes")


def _fail_for(failures: Sequence[MaintenanceFailure]) -> None:
    """Print the failures, and raise Failed if there are any."""
    for failure in failures:
        note(f"{failure.what}: {failure.code}: {failure.reason}")
        if failure.key:
            note(f"  damaged or missing: {failure.key}")
    if failures:
        raise Failed(FAILED)


def _after(store: Store, seconds: float | None) -> Callable[[], bool]:
    """Return a function that returns whether ``seconds`` have passed since this call; always False for None."""
    started = Observation(store.environment.clock)
    return lambda: seconds is not None and started.age_seconds() >= seconds


COMMANDS = [snapshot, archive, forget, sweep, collect, maintain]

"""Commands for backups: make, list, verify and prune them, and restore."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import click

from stratalog.backups.backup import back_up
from stratalog.backups.cut import CutIndex
from stratalog.backups.failures_of_log import failures_of_log
from stratalog.backups.format import BackupFailure, BackupManifest
from stratalog.backups.prune import prune_backups
from stratalog.backups.repository import BackupRepository
from stratalog.backups.restore import names_without_state, restore_store
from stratalog.backups.restored_log import restorable_log, restore_log
from stratalog.backups.verification import verify_backup
from stratalog.backups.view import BackupIndex, store_over
from stratalog.cli.naming import milliseconds, split_name
from stratalog.cli.output import counted, local_time, note, progress, size_text
from stratalog.cli.program import FAILED, DamagedPart, Failed, damage_text, fail_for_damage
from stratalog.cli.session import CommandGroup, Session, command
from stratalog.clock import SystemClock
from stratalog.errors import Invalid, NotFound
from stratalog.homes import is_inside, open_blobs
from stratalog.log.names import DOCUMENT_OR_LOG, read_name, require_name
from stratalog.store import Store

__all__ = ["COMMANDS"]

DAMAGED_IN_STORE = "damaged in the store"
"""The text before a failure of a backup. The backup may have the part: made anew, or as in an earlier backup."""

SHOWN = ("id", "started_ms", "finished_ms", "organisations", "logs", "records", "blobs", "failures", "more_failures")
"""The fields of a manifest in JSON."""

id_option = click.option("--backup", "id", metavar="ID", help="The id of the backup.  [default: the newest]")


class _Backups(CommandGroup):
    """The group of backup commands. The group reads `backup TO` as `backup make TO`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # The group has no option of its own except the help, so other options before TO belong to `make`.
        if (
            args
            and args[0].startswith("-")
            and args[0] not in ctx.help_option_names
            and not self.commands.keys() & args
        ):
            args = ["make", *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return super().resolve_command(ctx, args if args[0] in self.commands else ["make", *args])


@click.group("backup", cls=_Backups, epilog="Example: stratalog backup /mnt/backups")
def backup() -> None:
    """Back up a store while it is in use; list, verify and prune backups.

    `stratalog backup TO` is short for `stratalog backup make TO`.
    """


@command("make", example="stratalog backup make /mnt/backups")
@click.argument("to")
@click.option(
    "--anew", is_flag=True, help="Read and write every object. This replaces damaged objects of earlier backups."
)
@click.option("--check", is_flag=True, help="List the blobs of unchanged logs and records too, and name the lost ones.")
def make(session: Session, to: str, anew: bool, check: bool) -> None:
    """Back up the whole store to a folder or to s3://BUCKET/PREFIX. The word `make` may be left out.

    The backup does not block writers. Without --anew, the command writes no object that the last backup in this place
    contains. An interrupted backup resumes. The backup contains no queued pushes.

    The command does not look at the blobs of logs and records that are unchanged since the last backup, so it does not
    notice their loss. With --check it does. To find damaged blobs too, use `stratalog verify`.
    """
    if is_inside(to, session.url):
        reason = "a backup inside the store's own folder would be lost with the store; give another folder"
        raise Invalid(reason, folder=to, store=session.shown_url)
    with _repository(to, create=True) as repository, progress(f"backing up to {to}", None) as step:
        report = back_up(session.open(), repository, step, anew=anew, checks_blobs=check)
    manifest = report.manifest
    stored = counted(manifest.logs, "log"), counted(manifest.records, "record"), counted(manifest.blobs, "blob")
    written = f"{counted(report.written_blobs, 'object')} with {size_text(report.written_bytes)} written"
    session.answer(
        {**_plain(manifest), "written_blobs": report.written_blobs, "written_bytes": report.written_bytes},
        f"backup {manifest.id}: {', '.join(stored)}; {written}",
    )
    fail_for_damage(manifest.failures, DAMAGED_IN_STORE, manifest.more_failures, json_names=True)


@command("list", example="stratalog backup list /mnt/backups")
@click.argument("to", metavar="FOLDER|s3://BUCKET/PREFIX")
def list_(session: Session, to: str) -> None:
    """List the backups in a folder or bucket, oldest first. Damaged manifests are named, and the exit code is 6."""
    with _repository(to) as repository:
        manifests, damaged = repository.intact_manifests()
    rows = ((_plain(manifest), _row(manifest)) for manifest in manifests)
    head = [["id", "begun", "logs", "records", "blobs", ""]]
    session.answer_list(rows, "no intact backup" if damaged else "no backups yet", head=head, right=[2, 3, 4])
    fail_for_damage(damaged)


@command("verify", example="stratalog backup verify /mnt/backups")
@click.argument("to", metavar="FOLDER|s3://BUCKET/PREFIX")
@id_option
def verify(session: Session, to: str, id: str | None) -> None:
    """Read and hash every object of a backup, and recompute all histories."""
    with _repository(to) as repository:
        manifest = repository.manifest(id)
        with progress(f"verifying {manifest.id}", None) as step:
            report = verify_backup(repository, manifest, step)
    histories = counted(report.histories, "history", "histories")
    read = f"{counted(report.objects, 'object')} with {size_text(report.content_bytes)} and {histories}"
    session.answer(report, f"backup {report.id}: {read} read, {len(report.findings) + report.more_findings:,} damaged")
    fail_for_damage(report.findings, "damaged", report.more_findings, json_names=True)


@command("prune", example="stratalog backup prune /mnt/backups --retain 30")
@click.argument("to", metavar="FOLDER|s3://BUCKET/PREFIX")
@click.option(
    "--retain", type=click.IntRange(1), required=True, metavar="COUNT", help="How many of the newest backups to keep."
)
@click.option("--dry-run", is_flag=True, help="Remove nothing; report what would be removed.")
def prune(session: Session, to: str, retain: int, dry_run: bool) -> None:
    """Remove old backups, and the objects that no other backup in the folder or bucket needs.

    Objects younger than seven days stay, since a backup may be running. The command does not open a store.
    """
    with _repository(to) as repository, progress(f"pruning {to}", None) as step:
        pruned = prune_backups(repository, retain, dry_run=dry_run, progress=step)
    done = "would remove" if dry_run else "removed"
    removed = f"{counted(len(pruned.backups), 'backup')} and {counted(pruned.blobs, 'object')}"
    session.answer(pruned, f"{done} {removed} with {size_text(pruned.stored_bytes)}")


@command("restore", example="stratalog restore /mnt/backups --store ./restored")
@click.argument("from_", metavar="FROM")
@id_option
@click.option(
    "--time",
    "time",
    metavar="TIME",
    help="The state at this ISO time. For a time after the backup: the state in the backup.",
)
@click.option("--name", metavar="ORGANISATION/NAME", help="Restore only this log or document.")
@click.option("--version", type=click.IntRange(0), metavar="VERSION", help="The state at this version; needs --name.")
@click.option("--as", "new_name", metavar="NAME", help="The new name, without the organisation.  [default: unchanged]")
def restore(
    session: Session,
    from_: str,
    id: str | None,
    time: str | None,
    name: str | None,
    version: int | None,
    new_name: str | None,
) -> None:
    """Restore a backup into a new store, or one log or document into a new or existing store.

    With --time and without --backup, the command uses the first backup that began after that time, since this backup
    contains the entire state of that time. If there is no such backup, the command uses the newest. Only an empty store
    can receive a whole store. Damage in the backup is named, the rest is restored, and the exit code is 6. But with
    --name a damaged or missing object of the backup ends the command. If the state of a document at that time needs a
    version that was redacted later, the document is named, and the exit code is 1. Repeat the command after an
    interruption: without --name it resumes, with --name it starts again.
    """
    if name is None and (version is not None or new_name is not None):
        raise click.UsageError("--version and --as need --name, the name of one log or document")
    if version is not None and time is not None:
        raise click.UsageError("give either --version or --time")
    time_ms = None if time is None else milliseconds(time)
    with _repository(from_) as repository:
        manifest = _chosen(repository, id, time_ms)
        source = store_over(BackupIndex(repository, manifest.root), repository, manifest)
        with repository.reading(manifest.id):
            if name is None:
                _restore_all(session, repository, manifest, source, time_ms)
            else:
                _restore_single(session, repository, manifest, source, time_ms, name, version, new_name)


def _restore_all(
    session: Session, repository: BackupRepository, manifest: BackupManifest, source: Store, time_ms: int | None
) -> None:
    cut = f"{manifest.id} {time_ms}" if time_ms is not None else manifest.id
    if time_ms is not None:
        source = store_over(CutIndex(source.environment, time_ms=time_ms), repository, manifest)
    target = session.open(create=True)
    with progress(f"restoring {manifest.id}", None) as step:
        done = restore_store(source, target, cut, step, lambda: repository.require_backup(manifest.id))
    unreadable = names_without_state(target) if time_ms is not None else []
    failures: list[DamagedPart] = [*done.failures, *_not_held(manifest, source)]
    more = done.more_failures + manifest.more_failures
    restored = f"{counted(done.logs, 'log')} and {counted(done.records, 'record')}"
    restored += f" of {counted(done.organisations, 'organisation')}"
    if time_ms is not None and not done.logs and not done.records:
        note("nothing was stored by that time; the restored store is empty")
    session.answer(
        {
            "backup": manifest.id,
            "time_ms": time_ms,
            "restored": done,
            "without_state": unreadable,
            "failures": failures,
            "more_failures": more,
        },
        f"restored backup {manifest.id} to {session.shown_url}: {restored}, {damage_text(failures, more)}",
    )
    for name in unreadable:
        note(f"{name} has no state of that time, since a version was redacted: restore it with --name at another time")
    fail_for_damage(failures, "damaged", more, json_names=True)
    if unreadable:
        raise Failed(FAILED)


def _restore_single(
    session: Session,
    repository: BackupRepository,
    manifest: BackupManifest,
    source: Store,
    time_ms: int | None,
    name: str,
    version: int | None,
    new_name: str | None,
) -> None:
    organisation, log = split_name(name)
    if new_name is not None and new_name.startswith(f"{organisation}/"):
        given = new_name.removeprefix(f"{organisation}/")
        raise click.BadParameter(
            f"{new_name!r} begins with the organisation; to restore as {organisation}/{given}, give --as {given}",
            param_hint="'--as'",
        )
    index = source.environment.index
    if time_ms is not None:
        index = CutIndex(source.environment, time_ms=time_ms)
    if read_name(index, organisation, log) is None and _is_record(source, organisation, log):
        raise Invalid(
            "a record is only restored with its whole store; restore that, and read the record there", name=name
        )
    if version is not None:
        prefix = require_name(index, organisation, log, noun=DOCUMENT_OR_LOG).prefix
        index = CutIndex(source.environment, prefix=prefix, version=version)
    cut = store_over(index, repository, manifest)
    restorable_log(cut, organisation, log, new_name or log)  # a log that cannot be restored must not make a store
    with progress(f"restoring {name}", None) as step:
        made = restore_log(cut, organisation, log, session.open(create=True), new_name or log, step)
    head = session.open().log(organisation, made.name).head()
    failures = failures_of_log(cut.environment, require_name(index, organisation, log), _not_held(manifest, source))
    plain = {
        "backup": manifest.id,
        "name": f"{organisation}/{made.name}",
        "version": head.version,
        "failures": failures,
        "more_failures": manifest.more_failures,  # their number; nobody knows whether they concern this log
    }
    session.answer(
        plain, f"restored {name} of backup {manifest.id} as {organisation}/{made.name}: version {head.version}"
    )
    fail_for_damage(failures, "damaged", manifest.more_failures, json_names=True)


def _is_record(store: Store, organisation: str, name: str) -> bool:
    try:
        store.records(organisation).stat(name)
    except NotFound:
        return False
    return True


def _chosen(repository: BackupRepository, id: str | None, time_ms: int | None) -> BackupManifest:
    """Return the named backup, else the first that began after ``time_ms``, else the newest. Raises NotFound.

    A backup whose time is after the time of a later backup is not used: one of the two clocks was wrong, so the backup
    may have begun before ``time_ms``, and lack writes of that time. Later backups have these writes.
    """
    if id is None and time_ms is not None:
        chosen: BackupManifest | None = None
        for manifest in reversed(repository.manifests()):
            if chosen is not None and manifest.started_ms > chosen.started_ms:
                continue
            if manifest.started_ms <= time_ms:
                break
            chosen = manifest
        if chosen is not None:
            return chosen
        newest = repository.manifest()
        note(f"no backup began after that time; using the newest, which began at {local_time(newest.started_ms)}")
        return newest
    return repository.manifest(id)


@contextmanager
def _repository(url: str, *, create: bool = False) -> Iterator[BackupRepository]:
    clock = SystemClock()
    with closing(open_blobs(url, create=create, clock=clock)) as blobs:
        yield BackupRepository(blobs, clock)


def _not_held(manifest: BackupManifest, backup: Store) -> list[BackupFailure]:
    """Return the failures of a backup, except those of parts that the backup has whole.

    If an earlier backup copied a blob that the store lost later, the backup has the blob.
    """
    failures = (failure for failure in manifest.failures if not failure.is_complete)
    return [failure for failure in failures if backup.environment.blobs.stat(failure.what) is None]


def _plain(manifest: BackupManifest) -> dict[str, object]:
    return {name: getattr(manifest, name) for name in SHOWN}


def _row(manifest: BackupManifest) -> list[str]:
    failed = f"{len(manifest.failures) + manifest.more_failures:,} {DAMAGED_IN_STORE}" if manifest.failures else ""
    counts = [f"{count:,}" for count in (manifest.logs, manifest.records, manifest.blobs)]
    return [manifest.id, local_time(manifest.started_ms), *counts, failed]


for subcommand in (make, list_, verify, prune):
    backup.add_command(subcommand)

COMMANDS = [backup, restore]

"""Commands for the maintenance of a table: passes, unreadable data files, and jobs."""

from __future__ import annotations

from typing import Any

import click

from stratalog.cli import Failed, Session, command, note
from stratalog_table.command_parts import FAILED, module, of_table, opened_files, opened_table, reaching, seconds
from stratalog_table.limits import FILES_PER_JOB_MAX

__all__ = ["cancel", "damaged", "jobs", "maintain"]

ROWS_MAX = 10_000_000
FILES_MIN = 8
AGE_SECONDS = 900
LEASE_SECONDS = 300
WATCH_SECONDS = 60.0


@command("maintain", example="stratalog table maintain acme/events --rows-max 1000000")
@of_table
@click.option(
    "--rows-max", default=ROWS_MAX, show_default=True, type=click.IntRange(1), help="Split leaves with more rows."
)
@click.option(
    "--files-min",
    default=FILES_MIN,
    show_default=True,
    type=click.IntRange(2, FILES_PER_JOB_MAX),
    help="Merge the files of a leaf once it has this many files of similar size.",
)
@click.option(
    "--age",
    default=AGE_SECONDS,
    show_default=True,
    type=seconds,
    metavar="SECONDS",
    help="Collect files that have been unreferenced for this time.",
)
@click.option(
    "--lease",
    default=LEASE_SECONDS,
    show_default=True,
    type=seconds,
    metavar="SECONDS",
    help="The time after which another worker may take over a job whose claim was not renewed.",
)
@click.option("--watch", is_flag=True, help="Keep running, one pass after another.")
@click.option(
    "--every",
    default=WATCH_SECONDS,
    show_default=True,
    type=seconds,
    metavar="SECONDS",
    help="The pause of --watch between two passes.",
)
def maintain(
    session: Session,
    table: str,
    rows_max: int,
    files_min: int,
    age: float,
    lease: float,
    watch: bool,
    every: float,
) -> None:
    """Run one maintenance pass: split leaves, move references down, merge files, collect garbage.

    Several passes may run at once. After a failure of one file or leaf, the pass lists the failure and continues, and
    the exit code is 1. With --watch, the next pass also follows a pass that could not reach the store or the files.
    """
    opened, data_files = opened_files(session, table)
    options = {
        "rows_max": rows_max,
        "files_min": files_min,
        "age_ms": round(age * 1000),
        "lease_ms": round(lease * 1000),
    }
    while watch:
        try:
            _pass(session, opened, data_files, options)
        except module("transaction_group").TRANSIENT as exc:
            note(f"the pass ended early: {exc}")
        opened.store.environment.clock.sleep(every)
    if _pass(session, opened, data_files, options).faults:
        raise Failed(FAILED)


def _pass(session: Session, opened: Any, data_files: Any, options: dict[str, int]) -> Any:
    """Run one pass, print its result, and return its report."""
    with reaching(data_files.folder.url):
        done = module("maintenance").maintain_table(opened, data_files, **options)
    parts = [f"{done.splits} leaves split", f"{done.moved} references moved"]
    session.answer(done, ", ".join([*parts, f"{done.jobs} merged", f"{done.collected} collected"]))
    for fault in done.faults:
        note(f"could not {fault.action} {fault.subject}: {fault.reason}")
    return done


@command("damaged", example="stratalog table damaged acme/events --retry")
@of_table
@click.option("--retry", is_flag=True, help="Read the files again. Readable files are no longer set aside.")
def damaged(session: Session, table: str, retry: bool) -> None:
    """List the data files that maintenance could not read and has set aside. These files stay in the table."""
    opened = opened_table(session, table)
    if retry:
        data_files = module("rows").data_files_of(opened)
        with reaching(data_files.folder.url):
            count = module("maintenance").retry_damaged(opened, data_files)
        note(f"{count} files can be read again")
    rows = ((file, [file.filename, file.reason]) for file in opened.at().damaged())
    session.answer_list(rows, "no data file is set aside", head=[["file", "reason"]])


@command("jobs", example="stratalog table jobs acme/events")
@of_table
def jobs(session: Session, table: str) -> None:
    """List merge and ingest jobs, with their outcomes and the reasons of refusals."""
    opened = opened_table(session, table)
    rows = (
        (job, [job.job, job.partition or "-", job.status, str(job.created), str(job.finished or ""), _reason(job)])
        for job in opened.jobs.jobs()
    )
    session.answer_list(rows, "no jobs yet", head=[["job", "partition", "status", "created", "finished", "reason"]])


@command("cancel", example="stratalog table cancel acme/events 7f3kq2 --partition root")
@of_table
@click.argument("job")
@click.option("--partition", required=True, metavar="ID", help="The job's partition, as `table jobs` shows it.")
def cancel(session: Session, table: str, job: str, partition: str) -> None:
    """Cancel a merge job, so that another job can merge its files. The table refuses the commit of the job's worker."""
    opened = opened_table(session, table)
    version = opened.cancel_job(job, partition)
    session.answer({"table": table, "job": job, "version": version}, f"cancelled {job}, version {version}")


def _reason(job: Any) -> str:
    return job.reasons[-1][1] if job.reasons else ""

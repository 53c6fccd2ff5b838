"""The work of `repair`, and of `verify` without `--quick`: inspect histories, show damage, resume an inspection."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from stratalog.cli.output import note, print_json, print_line, print_table, progress, size_text
from stratalog.cli.program import CONTRADICTED, DAMAGED, FAILED, MISSING, NOT_PROVABLE, Failed
from stratalog.cli.session import Session
from stratalog.errors import Invalid, NotFound, StratalogError, VersionForgotten
from stratalog.log.callbacks import Report
from stratalog.maintenance.damage import StoredDamage
from stratalog.maintenance.inspection import (
    HistoryInspection,
    inspect_history,
    inspect_store,
    inspected_histories,
)
from stratalog.maintenance.repair import RepairReport, RepairResults, repair_histories, repair_store
from stratalog.maintenance.verification import HistoryName, is_deleted
from stratalog.store import Store

__all__ = [
    "NO_HISTORIES",
    "VerificationResults",
    "inspect_histories",
    "reports_of",
    "show_repair",
    "shown_results",
    "title",
]

R = TypeVar("R")

FAULTS = (CONTRADICTED, DAMAGED, FAILED)
"""The exit codes of the faults that a verification can find, worst first."""

NO_HISTORIES = "the store has no documents, logs or records"

LINE_START = b'{"history":'
"""The beginning of each `FinishedHistory` in JSON."""


class FinishedHistory(msgspec.Struct):
    """One line of the file from which a verification resumes: an inspected history and its damage."""

    history: HistoryName
    damages: tuple[StoredDamage, ...] = ()


class VerificationResults:
    """The results of a verification until now: the rows of their table, their damages, and their exit codes."""

    def __init__(self) -> None:
        self.rows: list[Sequence[str]] = []
        self.damages: list[StoredDamage] = []
        self.codes: set[int] = set()

    def add_damages(self, damages: Sequence[StoredDamage]) -> None:
        """Add damages, and the exit code of damage if there are any."""
        self.damages += damages
        if damages:
            self.codes.add(DAMAGED)

    def worst(self, worst_first: Sequence[int]) -> int:
        """Return the first of the given exit codes that a result has; 0 if none has."""
        return next((code for code in worst_first if code in self.codes), 0)


@contextmanager
def shown_results(session: Session) -> Iterator[VerificationResults]:
    """Yield empty results. At the end, and after an error, print their table and a line for each damage.

    Raises Failed with the worst exit code. If an error ends the verification, a fault found before decides the code.
    """
    results = VerificationResults()
    try:
        yield results
    except StratalogError as exc:
        if code := results.worst(FAULTS):
            raise Failed(code) from exc
        raise
    finally:
        if results.rows:
            print_table(results.rows)
        if not session.json:
            _show_damages(results.damages)
    if code := results.worst((*FAULTS, NOT_PROVABLE, MISSING)):
        raise Failed(code)


def title(history: HistoryName) -> str:
    """Return a history's name as it is typed: ORGANISATION/NAME."""
    return f"{history.organisation}/{history.name}"


def inspect_histories(
    session: Session, histories: Iterable[HistoryName], upto: int | None, resume: Path | None, *, of_store: bool
) -> None:
    """Inspect the histories in order.

    With ``of_store`` they are all histories of the store. Then skip a log that was deleted since it was listed, and
    without ``upto`` inspect also the items outside histories.
    ``resume`` is a file of finished histories. The command skips these histories and reports their damage again. The
    command appends each newly finished history to the file. Raises Failed, see `shown_results`.
    """
    finished = _read_finished(resume)
    passed = {line.history for line in finished}
    if passed:
        note(f"skipped {len(passed)} histories that {resume} lists as finished")
    left = (history for history in histories if history not in passed)
    with shown_results(session) as results:
        for line in finished:
            results.add_damages(line.damages)
            if session.json and line.damages:
                print_json(_plain_result(line.history, line.damages))
        is_any = bool(finished)
        for history, report in reports_of(session, left, inspect_history, upto, results, of_store=of_store):
            is_any = True
            results.add_damages(report.damages)
            if resume is not None:
                _add_finished(resume, FinishedHistory(history, report.damages))
            if session.json:
                print_json(_plain(report))
            else:
                results.rows.append(_row(report))
        around = inspect_store(session.open()) if of_store and upto is None else ()
        results.add_damages(around)
        if session.json and around:
            print_json({"name": "", "kind": "store", "verified": False, "damages": around})
        if of_store and not is_any and not results.codes:
            note(NO_HISTORIES)


def reports_of(
    session: Session,
    histories: Iterable[HistoryName],
    read: Callable[[Store, HistoryName, int | None, Report], R],
    upto: int | None,
    results: VerificationResults,
    *,
    of_store: bool,
) -> Iterator[tuple[HistoryName, R]]:
    """Read the histories in order, and yield the report of each.

    A log has no report if its version ``upto`` is forgotten, or if its floor rose during each attempt to read it. Then
    the reason is printed as JSON, or added to the rows of the results, and MISSING to their exit codes. With
    ``of_store``, skip a log that was deleted since it was listed.
    """
    store = session.open()
    for history in histories:
        try:
            with progress(f"verifying {title(history)}", None) as step:
                report = read(store, history, upto, step)
        except VersionForgotten as exc:
            _add_unread(session, history, exc, results)
        except NotFound:
            if not of_store or not is_deleted(store, history):
                raise
        else:
            yield history, report


def _add_unread(session: Session, history: HistoryName, error: VersionForgotten, results: VerificationResults) -> None:
    name = title(history)
    if session.json:
        print_json({"name": name, "kind": history.kind, "verified": False, "reason": error.message})
    else:
        results.rows.append([click.style("not verified", fg="yellow"), name, str(error)])
    results.codes.add(MISSING)


def show_repair(session: Session, named: Iterable[HistoryName] | None, dry_run: bool) -> None:
    """Repair the named histories, or the whole store for None. Raises Failed if damage remains, see `shown_results`."""
    store, repairs, around = session.open(), RepairResults(), RepairReport()
    is_finished = False
    with shown_results(session) as results:
        try:
            with progress("repairing", None) as step:
                histories = _counted(list(inspected_histories(store)) if named is None else named, step)
                repair_histories(store, histories, repairs, dry_run=dry_run, of_store=named is None)
            if named is None:
                around = repair_store(store, dry_run=dry_run)
            is_finished = True
        finally:
            for history, error in repairs.unread.items():
                _add_unread(session, history, error, results)
            report = repairs.report()
            remaining = [*report.remaining, *around.remaining]
            repaired = [*report.repaired, *around.repaired]
            if is_finished or repaired or remaining:  # an error before any result is the whole answer
                _show_repaired(session, repaired, remaining, dry_run)
            results.add_damages(remaining)


def _show_repaired(
    session: Session, repaired: Sequence[StoredDamage], remaining: Sequence[StoredDamage], dry_run: bool
) -> None:
    if session.json:
        print_json({"repaired": repaired, "remaining": remaining, "dry_run": dry_run})
    else:
        for damage in repaired:
            print_line(f"{'would repair' if dry_run else 'repaired'} {damage.kind} {damage.key}")
        print_line(f"{'would repair' if dry_run else 'repaired'} {len(repaired)}, cannot repair {len(remaining)}")
        if remaining:
            note("a backup may have the rest: stratalog restore BACKUPS --name ORGANISATION/NAME --as NEW-NAME")


def _show_damages(damages: Sequence[StoredDamage]) -> None:
    """Print a line for each damage: the object's kind and key, its history, and whether repair can restore it."""
    for damage in damages:
        versions = f" {damage.first}" if damage.first else ""
        versions += f" to {damage.last}" if damage.last > damage.first else ""
        needed = f"; {damage.history}{versions} needs it" if damage.history else ""
        repair = "; repair can restore it" if damage.derivable else ""
        print_line(f"{click.style(damage.fault, fg='red')} {damage.kind} {damage.key}: {damage.reason}{needed}{repair}")


def _counted(histories: Iterable[HistoryName], step: Callable[[int], None]) -> Iterator[HistoryName]:
    for history in histories:
        yield history
        step(1)


def _plain_result(history: HistoryName, damages: Sequence[StoredDamage]) -> dict[str, Any]:
    return {"name": title(history), "kind": history.kind, "verified": not damages, "damages": damages}


def _plain(report: HistoryInspection) -> dict[str, Any]:
    chain = report.chain
    plain = _plain_result(report.history, report.damages) | {"kind": report.kind, "bytes_read": report.bytes_read}
    if chain is not None:
        plain |= {"origin": chain.origin, "start": chain.start, "version": chain.version, "hash": chain.hash.hex()}
        plain |= {"redacted": chain.redacted, "findings": chain.findings}
    if report.kind == "document":
        plain |= {"snapshots": report.snapshots, "digest": report.digest, "root": report.root}
    return plain


def _row(report: HistoryInspection) -> list[str]:
    name = title(report.history)
    if report.damages:
        count = len(report.damages)
        return [click.style("FAILED", fg="red"), name, f"{count} damaged object{'s' if count > 1 else ''}"]
    assert report.chain is not None
    what = f"{'' if report.kind == 'document' else f'{report.kind}, '}version {report.chain.version}"
    if report.kind == "document":
        what += f", {report.snapshots} snapshots, digest {report.digest[:12]}"
    else:
        what += f", hash {report.chain.hash.hex()[:12]}"
    what += f", read {size_text(report.bytes_read)} of blobs" if report.bytes_read else ""
    if report.chain.redacted:
        what += f", redacted: {', '.join(map(str, report.chain.redacted))}"
    return [click.style("verified", fg="green"), name, what]


def _read_finished(file: Path | None) -> list[FinishedHistory]:
    """Read the file's lines. Cut off an incomplete last line, whose write was interrupted. Raises Invalid."""
    if file is None or not file.exists():
        return []
    content = file.read_bytes()
    *lines, cut = content.split(b"\n")
    if cut[: len(LINE_START)] != LINE_START[: len(cut)]:
        raise Invalid("not a file of verify --resume", path=file)
    try:
        finished = [_decode_finished(line) for line in lines]
    except (msgspec.DecodeError, RecursionError) as exc:
        raise Invalid("not a file of verify --resume", path=file, reason=str(exc)) from exc
    if cut:
        os.truncate(file, len(content) - len(cut))
    return finished


def _add_finished(file: Path, line: FinishedHistory) -> None:
    with file.open("ab") as out:
        out.write(msgspec.json.encode(line) + b"\n")


_decode_finished = msgspec.json.Decoder(FinishedHistory).decode

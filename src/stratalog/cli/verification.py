"""The command that verifies histories."""

from __future__ import annotations

from collections.abc import Iterator

import click

from stratalog.cli.naming import split_name
from stratalog.cli.output import print_json, print_table, progress
from stratalog.cli.program import FAILED, Failed
from stratalog.cli.session import Session, command
from stratalog.log.verification import Finding
from stratalog.maintenance.verification import HistoryName, HistoryReport, list_histories, verify_history
from stratalog.store import Store

__all__ = ["COMMANDS"]

record_option = click.option("--record", "records", multiple=True, metavar="ORGANISATION/RECORD", help="A record.")


@command("verify", example="stratalog verify acme/budget")
@click.argument("names", metavar="[ORGANISATION/NAME]...", nargs=-1)
@record_option
@click.option("--upto", type=int, metavar="VERSION", help="Stop there, but in records.  [default: the newest]")
def verify(session: Session, names: tuple[str, ...], records: tuple[str, ...], upto: int | None) -> None:
    """Compute the hash chains of logs, documents and records anew, all of them where none is named.

    Documents are rebuilt from their logs too, and compared with every snapshot.
    """
    rows, failed = [], False
    store = session.open()
    for history in chosen_histories(store, names, records):
        with progress(f"verifying {title(history)}", None) as step:
            report = verify_history(store, history, upto, step)
        failed = failed or bool(report.findings)
        if session.json:
            print_json(_plain(report))
        else:
            rows.append(_row(report))
    if rows:
        print_table(rows)
    if failed:
        raise Failed(FAILED)


def chosen_histories(store: Store, names: tuple[str, ...], records: tuple[str, ...]) -> Iterator[HistoryName]:
    """Those named on the command line, or all of the store."""
    if not names and not records:
        yield from list_histories(store)
    for name in names:
        yield HistoryName("log", *split_name(name))
    for name in records:
        yield HistoryName("record", *split_name(name))


def title(history: HistoryName) -> str:
    """The name as people type it."""
    return f"{history.organisation}/{history.name}"


def _plain(report: HistoryReport) -> dict[str, object]:
    chain, rebuilt = report.chain, report.rebuilt
    plain: dict[str, object] = {
        "name": title(report.history),
        "kind": report.kind,
        "verified": not report.findings,
        "origin": chain.origin,
        "start": chain.start,
        "version": chain.version,
        "hash": chain.hash.hex(),
        "redacted": chain.redacted,
        "findings": chain.findings,
    }
    if rebuilt is not None:
        plain |= {"snapshots": rebuilt.snapshots, "digest": rebuilt.digest, "root": rebuilt.root}
    return plain


def _row(report: HistoryReport) -> list[str]:
    kind = "" if report.kind == "document" else f"{report.kind}, "
    if report.findings:
        faults = "; ".join(map(_finding_text, report.findings))
        return [click.style("FAILED", fg="red"), title(report.history), f"{kind}{faults}"]
    what = f"{kind}version {report.chain.version}"
    if report.rebuilt is not None:
        what += f", {report.rebuilt.snapshots} snapshots, digest {report.rebuilt.digest[:12]}"
    else:
        what += f", hash {report.chain.hash.hex()[:12]}"
    if report.chain.redacted:
        what += f", redacted: {', '.join(map(str, report.chain.redacted))}"
    return [click.style("verified", fg="green"), title(report.history), what]


def _finding_text(finding: Finding) -> str:
    until = f" to {finding.last}" if finding.last > finding.version else ""
    return f"{finding.kind} version {finding.version}{until}: {finding.reason}"


COMMANDS = [verify]

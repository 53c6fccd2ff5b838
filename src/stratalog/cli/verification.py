"""Commands that verify and repair the content of a store, and that make checkpoints to verify against."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from stratalog.cli.files import read_text
from stratalog.cli.inspection import NO_HISTORIES, inspect_histories, reports_of, show_repair, shown_results, title
from stratalog.cli.naming import split_name
from stratalog.cli.output import note, print_json, progress
from stratalog.cli.program import CONTRADICTED, DAMAGED, FAILED, NOT_PROVABLE
from stratalog.cli.session import Session, command
from stratalog.clock import SystemClock
from stratalog.errors import Corrupt
from stratalog.log.listed_items import Damaged, raise_damage
from stratalog.log.verification import Finding
from stratalog.maintenance.checkpoint import (
    Checkpoint,
    Descent,
    StoreCheckpoint,
    checkpoint_of,
    checkpoints_of,
    merkle_root,
    prove_descent,
    read_checkpoint,
    read_lines,
)
from stratalog.maintenance.inspection import inspected_histories
from stratalog.maintenance.signed_note import (
    VerifierKey,
    new_signing_key,
    open_note,
    read_signing_key,
    read_verifier_key,
    sign_note,
)
from stratalog.maintenance.verification import HistoryName, HistoryReport, list_histories, verify_history
from stratalog.store import Store

__all__ = ["COMMANDS"]

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
PLUS_SIGNS_OF_KEY = 2
NEW_FILE = click.Path(dir_okay=False, path_type=Path)
record_option = click.option(
    "--record", "records", multiple=True, metavar="ORGANISATION/RECORD", help="A record to include."
)


@command("verify", example="stratalog verify acme/budget")
@click.argument("names", metavar="[ORGANISATION/NAME]...", nargs=-1)
@record_option
@click.option(
    "--upto", type=int, metavar="VERSION", help="Stop at this version, except in records.  [default: the newest]"
)
@click.option(
    "--against", type=FILE, metavar="FILE", help="Prove that the store still holds the histories of this checkpoint."
)
@click.option("--lines", type=FILE, metavar="FILE", help="The list written with the checkpoint of a whole store.")
@click.option("--key", metavar="KEY|FILE", help="The verifier key of the checkpoint's signature.")
@click.option(
    "--quick",
    is_flag=True,
    help="Verify hash chains and rebuild documents; trust the chunks of snapshots and other index items.",
)
@click.option(
    "--resume",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A file of finished histories. The command skips them, and appends each history that it finishes.",
)
def verify(
    session: Session,
    names: tuple[str, ...],
    records: tuple[str, ...],
    upto: int | None,
    against: Path | None,
    lines: Path | None,
    key: str | None,
    quick: bool,
    resume: Path | None,
) -> None:
    """Read and hash everything that the named logs, documents and records refer to; without names, the whole store.

    The command reads and hashes every entry, value, argument, body, archive and chunk. It rebuilds documents from their
    logs, and compares the documents with every snapshot. It prints each damaged object with the history that needs the
    object, and states whether `repair` can restore the object.

    With --quick the command computes the hash chains and rebuilds documents. It trusts a snapshot if the snapshot's
    root is right and no chunk is missing.
    With --against the command verifies only the histories of the checkpoint. With the checkpoint of one history, a
    given name replaces the name in the checkpoint, for example after a restore under a new name.
    """
    if against is not None:
        _refuse({"--upto": upto, "--quick": quick or None, "--resume": resume}, "has no effect with --against")
        chosen = list(chosen_histories(session.open(), names, records)) if names or records else []
        _verify_against(session, against, lines, key, chosen)
        return
    _refuse({"--lines": lines, "--key": key}, "needs --against")
    if not quick:
        named = chosen_histories(session.open(), names, records) if names or records else None
        histories = inspected_histories(session.open()) if named is None else named
        inspect_histories(session, histories, upto, resume, of_store=named is None)
        return
    _refuse({"--resume": resume}, "has no effect with --quick")
    damaged = list[Corrupt]()
    listed = chosen_histories(session.open(), names, records, damaged.append)
    _verify_chains(session, listed, upto, damaged, of_store=not names and not records)


@command("repair", example="stratalog repair --dry-run")
@click.argument("names", metavar="[ORGANISATION/NAME]...", nargs=-1)
@record_option
@click.option("--dry-run", is_flag=True, help="Write nothing; report what would be repaired.")
def repair(session: Session, names: tuple[str, ...], records: tuple[str, ...], dry_run: bool) -> None:
    """Restore damaged objects from intact objects, and print the damage that remains. Nothing is deleted.

    The command makes snapshots and their chunks from entries, and archives from entries that are not freed yet. It
    restores values from other copies of the same bytes. It restores the items by which logs are listed from their name
    records. You may repeat the command, and run it while others write.
    """
    named = chosen_histories(session.open(), names, records) if names or records else None
    show_repair(session, named, dry_run)


@command("checkpoint", example="stratalog checkpoint acme/budget --key signing.key")
@click.argument("names", metavar="[ORGANISATION/NAME]", nargs=-1)
@record_option
@click.option("--all", "of_store", is_flag=True, help="Sign all logs, documents and records; needs --lines.")
@click.option("--lines", type=NEW_FILE, metavar="FILE", help="A new file for the list of histories, which --all needs.")
@click.option("--key", type=FILE, required=True, metavar="FILE", help="The signing key; see checkpoint-key.")
def checkpoint(
    session: Session, names: tuple[str, ...], records: tuple[str, ...], of_store: bool, lines: Path | None, key: Path
) -> None:
    """Print origin, version and hash of a history as a signed note. With --all, the note has one hash of all histories.

    Store the note where nobody can change it. `verify --against` proves later that the store still holds the histories.
    """
    if of_store and (names or records):
        raise click.UsageError("--all signs the whole store; give no names with it")
    if not of_store:
        _refuse({"--lines": lines}, "needs --all")
    signing = read_signing_key(read_text(key))
    text = _store_checkpoint(session, lines) if of_store else _checkpoint_of_history(session, names, records)
    signed = sign_note(text, signing)
    if session.json:
        print_json({"note": signed, "key": str(signing.verifier)})
    else:
        click.echo(signed, nl=False)  # without escapes, since the signature is of these bytes


@command("checkpoint-key", example="stratalog checkpoint-key example.com/ledger signing.key")
@click.argument("name")
@click.argument("file", type=NEW_FILE)
def checkpoint_key(session: Session, name: str, file: Path) -> None:
    """Create a signing key, write it to a new file, and print its public verifier key."""
    signing = new_signing_key(SystemClock(), name)
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write(signing.encoded() + "\n")
    except FileExistsError as exc:
        raise click.UsageError(f"{file} exists; give another file, or delete it first") from exc
    session.answer({"key": str(signing.verifier), "file": str(file)}, str(signing.verifier))


def _refuse(options: Mapping[str, object], why: str) -> None:
    """Raise UsageError for the first given option: the command would ignore it, which would mislead the user."""
    for name, value in options.items():
        if value is not None:
            raise click.UsageError(f"{name} {why}")


def _checkpoint_of_history(session: Session, names: tuple[str, ...], records: tuple[str, ...]) -> str:
    if len(names) + len(records) != 1:
        raise click.UsageError("name exactly one log, document or record, or give --all")
    [history] = chosen_histories(session.open(), names, records)
    return checkpoint_of(session.open(), history).text()


def _store_checkpoint(session: Session, lines: Path | None) -> str:
    if lines is None:
        raise click.UsageError("--all needs --lines FILE: the list cannot be derived from the checkpoint later")
    listed = [checkpoint.line() for checkpoint in checkpoints_of(session.open())]
    try:
        # Never overwrite a file: without its list, nobody could verify an earlier checkpoint.
        with lines.open("x", encoding="utf-8") as out:
            out.writelines(f"{line}\n" for line in listed)
    except FileExistsError as exc:
        raise click.UsageError(f"{lines} exists; give another file, or delete it first") from exc
    return StoreCheckpoint(len(listed), merkle_root(listed)).text()


def _verify_chains(
    session: Session, histories: Iterator[HistoryName], upto: int | None, damaged: Sequence[Corrupt], *, of_store: bool
) -> None:
    """Verify the histories in order. With ``of_store``, skip a log that was deleted since it was listed.

    ``damaged`` has the damaged keys of the lists, once all histories are listed.
    """
    with shown_results(session) as results:
        is_any = False
        for _, report in reports_of(session, histories, verify_history, upto, results, of_store=of_store):
            is_any = True
            if report.findings:
                results.codes.add(DAMAGED)
            if session.json:
                print_json(_plain(report))
            else:
                results.rows.append(_row(report))
        for error in damaged:
            note(f"damaged: {error}")
            results.codes.add(DAMAGED)
        if of_store and not is_any and not results.codes:
            note(NO_HISTORIES)


def _verifier_key(text: str) -> VerifierKey:
    """Return the key in the file named ``text``, or else the key that ``text`` itself is.

    Raises BadParameter if ``text`` is neither, and Invalid for an invalid key.
    """
    if Path(text).is_file():
        return read_verifier_key(read_text(Path(text)))
    if text.count("+") < PLUS_SIGNS_OF_KEY:
        raise click.BadParameter(f"{text!r} is neither a file nor a verifier key, as in NAME+HASH+KEY")
    return read_verifier_key(text)


def _verify_against(
    session: Session, against: Path, lines: Path | None, key: str | None, chosen: list[HistoryName]
) -> None:
    verifier = None if key is None else _verifier_key(key)
    noted = read_checkpoint(open_note(read_text(against), verifier))
    if isinstance(noted, Checkpoint):
        _refuse({"--lines": lines}, "has no effect with the checkpoint of one history")
        checkpoints = [noted]
    elif lines is None:
        raise click.UsageError("the checkpoint of a whole store needs --lines FILE, the list written with it")
    else:
        checkpoints = read_lines(noted, read_text(lines))
    if chosen and (len(chosen), len(checkpoints)) != (1, 1):
        raise click.UsageError("give at most one name, and none with the checkpoint of several histories")
    if verifier is None:
        note("the signature was not verified: give --key")
    with shown_results(session) as results:
        for checkpoint in checkpoints:
            with progress(f"verifying {title(checkpoint.history)}", None) as step:
                descent = prove_descent(session.open(), checkpoint, chosen[0] if chosen else None, step)
            results.codes.add(_exit_code(descent))
            if session.json:
                print_json(_plain_descent(descent))
            else:
                results.rows.append(_descent_row(descent))


def _exit_code(descent: Descent) -> int:
    if descent.status == "contradicted":
        return CONTRADICTED
    if descent.report is not None and descent.report.findings:
        return FAILED
    return 0 if descent.status == "proven" else NOT_PROVABLE


def _plain_descent(descent: Descent) -> dict[str, object]:
    noted = descent.checkpoint
    checkpoint = {"version": noted.version, "origin": noted.origin, "hash": noted.hash.hex()}
    report = {"name": title(noted.history)} if descent.report is None else _plain(descent.report)
    return {**report, "status": descent.status, "reason": descent.reason, "checkpoint": checkpoint}


def _descent_row(descent: Descent) -> list[str]:
    name = title(descent.report.history if descent.report else descent.checkpoint.history)
    if descent.status == "proven" and descent.report is not None and descent.report.findings:
        return _row(descent.report)
    colour = {"proven": "green", "not-provable": "yellow"}.get(descent.status, "red")
    faults = map(_finding_text, descent.report.findings if descent.report else ())
    return [click.style(descent.status.replace("-", " "), fg=colour), name, "; ".join([descent.reason, *faults])]


def chosen_histories(
    store: Store, names: tuple[str, ...], records: tuple[str, ...], damaged: Damaged = raise_damage
) -> Iterator[HistoryName]:
    """Yield the histories named on the command line; without names, all histories of the store.

    ``damaged`` is called as by `list_histories`.
    """
    if not names and not records:
        yield from list_histories(store, damaged)
    for name in names:
        yield HistoryName("log", *split_name(name))
    for name in records:
        yield HistoryName("record", *split_name(name))


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
    return f"{finding.kind} version {finding.version}{until}: {finding.reason}{finding.key and f' {finding.key}'}"


COMMANDS = [verify, repair, checkpoint, checkpoint_key]

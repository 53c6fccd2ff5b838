"""Commands on spreadsheets. A command imports its larger dependencies only when it runs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import msgspec

from stratalog.cli import (
    CommandGroup,
    Session,
    command,
    confirm,
    dim,
    fail_for_damage,
    local_time,
    note,
    of_every_command,
    output_file,
    short,
    size_text,
    split_name,
    standard_output,
    version_of,
)
from stratalog.errors import Corrupt
from stratalog_sheet.serve import serve

__all__ = ["sheet"]

ORGANISATION = "local"
NAME = "ORGANISATION/SHEET"
in_tab = click.option("--tab", metavar="NAME", help="The sheet of the workbook.  [default: the first]")
by_author = click.option("--author", default="", help="The author shown in the history.")


@click.group("sheet", cls=CommandGroup, epilog="Example: stratalog sheet import budget.xlsx acme/budget")
@of_every_command
def sheet() -> None:
    """Import spreadsheets, read any version, change and export them."""


@command("setup", example="stratalog sheet setup")
def setup(session: Session) -> None:
    """Fetch the spreadsheet's engine from npm, pinned by its content, unless it is installed."""
    from stratalog_sheet.engine_files import install_engine

    folder = install_engine(note)
    session.answer({"folder": str(folder)}, f"the engine is in {folder}")


@command("create", example="stratalog sheet create acme/budget --title Budget")
@click.argument("name", metavar=NAME)
@click.option("--title", default="", help="The title of the sheet.  [default: its name]")
@by_author
def create(session: Session, name: str, title: str, author: str) -> None:
    """Create an empty sheet; a missing store is created."""
    organisation, sheet = split_name(name)
    made = _sheets(session, create=True).create(organisation, sheet, title=title, author=author)
    session.answer({"name": name, "title": made.title, "version": 1}, f"created {name}")


@command("import", example="stratalog sheet import budget.xlsx acme/budget")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("name", metavar=f"[{NAME}]", required=False)
@click.option("--title", default="", help="The title of the sheet.  [default: the file's name]")
@by_author
def import_(session: Session, file: Path, name: str | None, title: str, author: str) -> None:
    """Create a sheet from an .xlsx workbook or a .csv file; a missing store is created. The file itself is kept.

    Without ORGANISATION/SHEET, the sheet has the file's name, without its ending, in the organisation local. The
    command lists the parts that it could not import.
    """
    from stratalog_sheet.files import read_path

    name = name or f"{ORGANISATION}/{file.stem}"
    organisation, sheet = split_name(name)
    body = read_path(file)
    made = _sheets(session, create=True).import_file(
        organisation, sheet, body, file_name=file.name, title=title, author=author
    )
    report = made.files.import_report()
    for line in report.lines():
        note(line)
    plain = {"name": name, "title": made.title, "version": 1, "report": msgspec.to_builtins(report)}
    session.answer(plain, f"imported {file.name} as {name}")


@command("list", example="stratalog sheet list acme")
@click.argument("organisation", required=False)
def list_(session: Session, organisation: str | None) -> None:
    """List the sheets of one organisation, or of all organisations.

    Damaged sheets are named, the others are listed, and the exit code is 6.
    """
    sheets, damaged = _sheets(session), list[Corrupt]()
    rows = (
        (
            {"organisation": wanted, **msgspec.structs.asdict(info)},
            [f"{wanted}/{info.name}", info.title, str(info.version), local_time(info.changed_ms)],
        )
        for wanted in _chosen(sheets, organisation, damaged)
        for info in sheets.list(wanted, damaged=damaged.append)
    )
    session.answer_list(rows, "no sheets", head=[["sheet", "title", "version", "changed"]], damaged=damaged)
    fail_for_damage(damaged)


@command("rename", example="stratalog sheet rename acme/budget 'Budget 2027' --author ada")
@click.argument("name", metavar=NAME)
@click.argument("title")
@by_author
def rename(session: Session, name: str, title: str, author: str) -> None:
    """Change a sheet's title. The name in commands and addresses stays."""
    opened = _opened(session, name)
    change = opened.rename(title, author=author)
    plain = {"name": name, "title": opened.title, "version": change.version}
    session.answer(plain, f"the title of {name} is “{opened.title}”")


@command("delete", example="stratalog sheet delete acme/budget --yes")
@click.argument("name", metavar=NAME)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def delete(session: Session, name: str, yes: bool) -> None:
    """Delete a sheet with all its versions. Its copies stay."""
    opened = _opened(session, name)
    title, version = opened.title, opened.version
    if not yes:
        versions = "1 version" if version == 1 else f"{version} versions"
        confirm(f"delete “{title}” ({name}) with its {versions}?")
    opened.delete()
    session.answer({"name": name, "title": title, "deleted": True}, f"deleted “{title}” ({name})")


@command("get", example="stratalog sheet get acme/budget B7 --at 12")
@click.argument("name", metavar=NAME)
@click.argument("cell")
@in_tab
@click.option("--at", metavar="VERSION|TIME", help="The version to read.  [default: the newest]")
def get(session: Session, name: str, cell: str, tab: str | None, at: str | None) -> None:
    """Print the text shown in one cell; with --json also the content that was typed, and the value."""
    opened = _opened(session, name)
    content = opened.get(cell, sheet=tab, at=_version_of(opened, at))
    session.answer({"name": name, "cell": cell, **msgspec.structs.asdict(content)}, content.formatted)


@command("set", example="stratalog sheet set acme/budget B7 '=SUM(B2:B6)' --author ada")
@click.argument("name", metavar=NAME)
@click.argument("cell")
@click.argument("content")
@in_tab
@by_author
def set_(session: Session, name: str, cell: str, content: str, tab: str | None, author: str) -> None:
    """Set the content of one cell, as if a user typed it. Put `--` before a content that starts with a dash."""
    change = _opened(session, name).set(cell, content, sheet=tab, author=author)
    session.answer({"name": name, "cell": cell, "version": change.version}, f"version {change.version}")


@command("insert-row", example="stratalog sheet insert-row acme/budget 7 --count 2")
@click.argument("name", metavar=NAME)
@click.argument("row", type=click.IntRange(min=1))
@click.option("--count", type=click.IntRange(min=1), default=1, show_default=True, help="How many rows to insert.")
@in_tab
@by_author
def insert_row(session: Session, name: str, row: int, count: int, tab: str | None, author: str) -> None:
    """Insert empty rows before row ROW. References in formulas are adjusted."""
    change = _opened(session, name).insert_rows(row, count, sheet=tab, author=author)
    session.answer({"name": name, "row": row, "version": change.version}, f"version {change.version}")


@command("history", example="stratalog sheet history acme/budget B7")
@click.argument("name", metavar=NAME)
@click.argument("cell", required=False)
@in_tab
@click.option(
    "--at", metavar="VERSION|TIME", help="The version in which the cell has the name CELL.  [default: the newest]"
)
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many lines to print.")
def history(session: Session, name: str, cell: str | None, tab: str | None, at: str | None, limit: int) -> None:
    """List the changes of a sheet and their authors, newest first; with CELL the changes of that cell.

    The list follows the cell through inserted and removed rows and columns. With --at, CELL is a name in that version,
    and the list has no later changes.
    """
    if cell is None and tab is not None:
        raise click.UsageError("--tab needs a cell: the history of a sheet has the changes of all its tabs")
    if cell is None and at is not None:
        raise click.UsageError("--at needs a cell: the history of a sheet has the changes of all its versions")
    opened = _opened(session, name)
    if cell is None:
        done = opened.activity(None, limit)
        session.answer_list(((change, _activity_row(change)) for change in done), "no changes")
        return
    changes = opened.blame(cell, sheet=tab, limit=limit, at=_version_of(opened, at))
    session.answer_list(((change, _change_row(change)) for change in changes), "no known changes of the cell")


@command("export", example="stratalog sheet export acme/budget budget.xlsx --at 12")
@click.argument("name", metavar=NAME)
@click.argument("file", metavar="FILE|-", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--at", metavar="VERSION|TIME", help="The version to export.  [default: the newest]")
@click.option("--original", is_flag=True, help="Write the imported file, byte for byte.")
@click.option(
    "--tab", metavar="NAME", help="The sheet of the workbook to write as CSV; needs a .csv file.  [default: the first]"
)
def export(session: Session, name: str, file: Path, at: str | None, original: bool, tab: str | None) -> None:
    """Write a version as an .xlsx workbook, or one sheet of it as CSV if FILE ends in .csv.

    The command lists the parts of the version that it could not write. The file - is standard output, as .xlsx.
    """
    if original and at is not None:
        raise click.UsageError("--at needs an export: --original writes the imported file, which has no versions")
    opened = _opened(session, name)
    body, report = _exported(opened, file, _version_of(opened, at), original, tab)
    for line in report.lines():
        note(line)
    if str(file) == "-":
        standard_output().write(body)
        return
    with output_file(file) as out:
        out.write(body)
    plain = {"name": name, "file": str(file), "bytes": len(body), "report": msgspec.to_builtins(report)}
    session.answer(plain, f"wrote {file}, {size_text(len(body))}")


@command("report", example="stratalog sheet report acme/budget")
@click.argument("name", metavar=NAME)
def report(session: Session, name: str) -> None:
    """List the parts of the imported file that could not be imported."""
    findings = _opened(session, name).files.import_report().findings
    rows = (
        (msgspec.to_builtins(finding), [finding.text, str(finding.count), ", ".join(finding.where[:5])])
        for finding in findings
    )
    session.answer_list(rows, "no part of an imported file is missing", head=[["what", "times", "where"]], right=[1])


@command("refused", example="stratalog sheet refused acme/budget")
@click.argument("name", metavar=NAME)
@click.option("--at", metavar="VERSION|TIME", help="The version that lacks the commands.  [default: the newest]")
def refused(session: Session, name: str, at: str | None) -> None:
    """List the committed commands that the engine cannot execute; with --json also their content.

    The sheet lacks the changes of these commands. The list has only the commands of messages that a load of the version
    contains: the newest messages, back to a stored state.
    """
    opened = _opened(session, name)
    commands = opened.refused(_version_of(opened, at))
    rows = ((command, [str(command.version), command.author, command.type, command.reason]) for command in commands)
    session.answer_list(rows, "no refused commands", head=[["version", "by", "command", "reason"]], right=[0])


@command("versions", example="stratalog sheet versions acme/budget")
@click.argument("name", metavar=NAME)
def versions(session: Session, name: str) -> None:
    """List the versions that have a name."""
    named_versions = _opened(session, name).versions()
    rows = (
        (named, [str(named.version), named.label, named.author, local_time(named.created_ms)])
        for named in named_versions
    )
    session.answer_list(rows, "no named versions", head=[["version", "name", "by", "when"]], right=[0])


@command("name", example="stratalog sheet name acme/budget 12 'as sent to the bank'")
@click.argument("name", metavar=NAME)
@click.argument("version", type=click.IntRange(min=1))
@click.argument("label")
@by_author
def name_(session: Session, name: str, version: int, label: str, author: str) -> None:
    """Give a version a name. An empty name removes the version's name."""
    change = _opened(session, name).name_version(version, label, author=author)
    plain = {"name": name, "named": version, "label": label, "version": change.version}
    session.answer(plain, f"version {version} is “{label}”" if label else f"version {version} has no name")


@command("restore", example="stratalog sheet restore acme/budget 12")
@click.argument("name", metavar=NAME)
@click.argument("version", type=click.IntRange(min=1))
@by_author
def restore(session: Session, name: str, version: int, author: str) -> None:
    """Restore the state of a version, as a new version. Later versions are kept."""
    from stratalog_sheet.models import until_opened

    opened = _opened(session, name)
    # Continue a long opening within this command: a second command would start new engines, and so open from the start.
    change = until_opened(lambda: opened.restore(version, author=author))
    plain = {"name": name, "restored": version, "version": change.version}
    session.answer(plain, f"restored version {version} as version {change.version}")


@command("fork", example="stratalog sheet fork acme/budget acme/what-if --at 12")
@click.argument("name", metavar=NAME)
@click.argument("fork", metavar="ORGANISATION/FORK")
@click.option("--at", metavar="VERSION|TIME", help="The last shared version.  [default: the newest]")
@click.option("--title", default="", help="The title of the new sheet.  [default: the source's title and “(copy)”]")
@by_author
def fork(session: Session, name: str, fork: str, at: str | None, title: str, author: str) -> None:
    """Create a sheet that shares the history of another sheet up to a version. The history is not copied."""
    opened = _opened(session, name)
    organisation, wanted = split_name(fork)
    if organisation != opened.organisation:
        raise click.UsageError("a fork must be in its source's organisation")
    version = _version_of(opened, at)
    version = opened.version if version is None else version
    made = opened.fork(version, wanted, title=title, author=author)
    session.answer(
        {"name": fork, "title": made.title, "forked_at": version}, f"forked {name} at version {version} as {fork}"
    )


@command("snapshot", example="stratalog sheet snapshot")
@click.argument("organisation", required=False)
def snapshot(session: Session, organisation: str | None) -> None:
    """Save the due snapshots of one organisation's sheets, or of all sheets, so that the sheets load quickly.

    Damaged sheets are named, the snapshots of the others are saved, and the exit code is 6.
    """
    sheets, damaged = _sheets(session), list[Corrupt]()
    chosen = _chosen(sheets, organisation, damaged)
    saved = sum(sheets.snapshots_due(wanted, damaged=damaged.append) for wanted in chosen)
    session.answer({"kept": saved}, f"saved {saved} snapshots" if saved != 1 else "saved 1 snapshot")
    fail_for_damage(damaged)


def _chosen(sheets: Any, organisation: str | None, damaged: list[Corrupt]) -> Iterable[str]:
    return [organisation] if organisation else sheets.store.organisations(damaged=damaged.append)


def _sheets(session: Session, *, create: bool = False) -> Any:
    from stratalog_sheet import Sheets

    sheets = Sheets(session.open(create=create))
    click.get_current_context().call_on_close(sheets.close)
    return sheets


def _opened(session: Session, name: str) -> Any:
    return _sheets(session).open(*split_name(name))


def _version_of(opened: Any, at: str | None) -> int | None:
    return version_of(opened.log, at, first=1)  # a sheet has no version 0


def _exported(opened: Any, file: Path, at: int | None, original: bool, tab: str | None) -> tuple[bytes, Any]:
    from stratalog_sheet.file_reports import FileReport

    is_csv = file.suffix.lower() == ".csv"
    if tab is not None and (original or not is_csv):
        raise click.UsageError("--tab needs a .csv file: an .xlsx file has all sheets")
    if original:
        return opened.original()[1], FileReport()
    if is_csv:
        return opened.files.csv(sheet=tab, at=at), FileReport()
    exported: tuple[bytes, Any] = opened.files.export(at)
    return exported


def _activity_row(entry: Any) -> list[str]:
    return [str(entry.version), dim(local_time(entry.created_ms)), entry.author or dim("no author"), entry.text]


def _change_row(change: Any) -> list[str]:
    text = f"{short(change.before)} → {short(change.after)}"
    author = change.author or dim("no author")
    return [str(change.version), dim(local_time(change.created_ms)), author, change.cell, text, change.how]


for subcommand in (
    setup,
    create,
    import_,
    list_,
    rename,
    delete,
    get,
    set_,
    insert_row,
    history,
    refused,
    versions,
    name_,
    restore,
    fork,
    export,
    report,
    snapshot,
    serve,
):
    sheet.add_command(subcommand)

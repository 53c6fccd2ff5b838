"""Commands on history: versions, the changes of one key, the difference of two versions."""

from __future__ import annotations

from typing import Any

import click

from stratalog.cli.naming import version_of
from stratalog.cli.output import dim, local_time, note, print_json, print_line, short
from stratalog.cli.session import Session, command
from stratalog.codec import encode
from stratalog.documents.document import Document
from stratalog.documents.history import Difference, KeyChange, Version

__all__ = ["COMMANDS"]

VERSIONS_MAX = 20
KEYS_MAX = 3


@command("log", example="stratalog log acme/budget --limit 5")
@click.argument("document", metavar="ORGANISATION/DOCUMENT")
@click.option("--after", metavar="VERSION|TIME", help="Only versions after this version.")
@click.option("--upto", metavar="VERSION|TIME", help="Only versions up to this version.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=VERSIONS_MAX,
    show_default=True,
    help="How many versions to list; 0 for all.",
)
def log(session: Session, document: str, after: str | None, upto: str | None, limit: int) -> None:
    """List versions, newest first: time, author, mutations and changed keys."""
    opened = session.document(document)
    last = version_of(opened, upto)
    last = opened.version if last is None else last
    start = max(version_of(opened, after) or 0, last - limit if limit else 0)

    def read(floor: int) -> list[Version]:
        first = max(floor, start)
        return list(opened.versions(first, max(last, first)))

    versions = sorted(opened.log.above_floor(read), key=lambda version: -version.version)
    session.answer_list(((version, _version_row(version)) for version in versions), "no versions", right=[0])
    _note_floor(session, opened, start)


@command("diff", example="stratalog diff acme/budget 3 7")
@click.argument("document", metavar="ORGANISATION/DOCUMENT")
@click.argument("source", metavar="VERSION|TIME")
@click.argument("target", metavar="VERSION|TIME", required=False)
def diff(session: Session, document: str, source: str, target: str | None) -> None:
    """Show the keys whose values differ between two versions. The second version is the newest by default."""
    opened = session.document(document)
    old, new = version_of(opened, source) or 0, version_of(opened, target)
    differences = list(opened.diff(old, opened.version if new is None else new))
    if session.json:
        for difference in differences:
            print_json(difference)
        return
    width = max((len(difference.key) for difference in differences), default=0)
    for difference in differences:
        _print_difference(difference, width)
    if not differences:
        note("no differences")


@command("history", example="stratalog history acme/budget cells/C2")
@click.argument("document", metavar="ORGANISATION/DOCUMENT")
@click.argument("key")
@click.option("--at", metavar="VERSION|TIME", help="The last version to list.  [default: the newest]")
def history(session: Session, document: str, key: str, at: str | None) -> None:
    """List the changes of one key, newest first: time, author, mutation and new value."""
    opened = session.document(document)
    changes = opened.history(key, at=version_of(opened, at))
    session.answer_list(((change, _change_row(change)) for change in changes), "no changes of the key", right=[0])
    _note_floor(session, opened)


def _note_floor(session: Session, opened: Document, after: int = 0) -> None:
    """Name the floor if a list of the changes after the version ``after`` ends there."""
    floor = opened.log.floor()
    if after < floor and not session.json:
        note(f"the changes up to version {floor} are forgotten")


def _version_row(version: Version) -> list[str]:
    changes = [click.style(f"+{key}", fg="green") for key in version.changed[:KEYS_MAX]]
    changes += [click.style(f"-{key}", fg="red") for key in version.deleted[: KEYS_MAX - len(changes)]]
    rest = len(version.changed) + len(version.deleted) - len(changes)
    if rest:
        changes.append(dim(f"and {rest} more"))
    changes += [
        click.style(f"rejected: {mutation.reason}", fg="red") for mutation in version.mutations if mutation.reason
    ][:1]
    number = click.style(str(version.version), bold=True)
    return [number, local_time(version.created_ms), version.author, _mutations(version), " ".join(changes)]


def _mutations(row: Version | KeyChange) -> str:
    """Return the first mutation of a version as text. If the version has several mutations, add their number."""
    mutations = row.mutations
    if row.redacted:
        return click.style("redacted", fg="red")
    if not mutations:
        return dim("maintenance")
    first = f"{mutations[0].client}#{mutations[0].id} {mutations[0].name}"
    return first if len(mutations) == 1 else f"{first} (of {len(mutations)})"


def _change_row(change: KeyChange) -> list[str]:
    value = "" if change.redacted else click.style("deleted", fg="red") if change.deleted else short(change.value)
    number = click.style(str(change.version), bold=True)
    return [number, local_time(change.created_ms), change.author, _mutations(change), value]


def _print_difference(difference: Difference, width: int) -> None:
    key = difference.key.ljust(width)
    before, after = _shown(difference.before, difference.after)
    if difference.was:
        print_line(click.style(f"- {key}  {before}", fg="red"))
    if difference.is_now:
        print_line(click.style(f"+ {key}  {after}", fg="green"))


def _shown(before: Any, after: Any) -> tuple[str, str]:
    """Return two values as text. If both are objects, the texts contain only the fields that differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        # Compare the encoded values: in Python, True equals 1.
        old, new = ({(name, encode(value)) for name, value in side.items()} for side in (before, after))
        changed = {name for name, _ in old ^ new}
        before = {name: value for name, value in before.items() if name in changed}
        after = {name: value for name, value in after.items() if name in changed}
    return short(before, 100), short(after, 100)


COMMANDS = [log, diff, history]

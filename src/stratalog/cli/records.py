"""Commands on records: named values of up to 64 GiB with versions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import click

from stratalog.cli.files import output_file, standard_input, standard_output
from stratalog.cli.naming import milliseconds, parse_arguments, split_name
from stratalog.cli.output import dim, local_time, print_json, size_text
from stratalog.cli.program import fail_for_damage
from stratalog.cli.session import CommandGroup, Session, command, of_every_command
from stratalog.clock import SystemClock, new_id
from stratalog.codec import is_decimal
from stratalog.errors import Corrupt, NotFound, StratalogError, VersionForgotten
from stratalog.limits import BODY_PART_BYTES
from stratalog.log.directory import RECORDS
from stratalog.maintenance.checked_items import listed_ids
from stratalog.maintenance.collection import MaintenanceFailure
from stratalog.records import Records, RecordVersion

__all__ = ["COMMANDS"]

NAME = "ORGANISATION/RECORD"
PREVIEW_BYTES = 60
HEAD = ["version", "stored", "size", "sha256", "metadata"]
_write_id = click.option(
    "--write-id",
    metavar="ID",
    help="Your own id of this write. A repetition stores nothing while this write's version is the latest.",
)


@click.group("records", cls=CommandGroup, epilog="Example: stratalog records put acme/report report.pdf")
@of_every_command
def records() -> None:
    """Named values of up to 64 GiB with versions: put, get, list, history, delete, prune."""


@command("put", example="stratalog records put acme/report report.pdf --meta author=ada")
@click.argument("record", metavar=NAME)
@click.argument("file", metavar="FILE|-", type=click.Path(exists=True, dir_okay=False, allow_dash=True), default="-")
@click.option("--meta", metavar="NAME=VALUE", multiple=True, help="Metadata of the version; may be repeated.")
@click.option(
    "--expected",
    type=int,
    metavar="VERSION",
    help="Store only if this is the latest version; 0: only if the record is new.",
)
@click.option("--source-time", metavar="TIME", help="The ISO time at which the source last changed the value.")
@_write_id
def put(
    session: Session,
    record: str,
    file: str,
    meta: tuple[str, ...],
    expected: int | None,
    source_time: str | None,
    write_id: str | None,
) -> None:
    """Store a file, or standard input, as the next version.

    If the bytes and the given --meta and --source-time are those of the latest version, nothing is stored.
    """
    handle, id = _open(session, record)
    metadata = parse_arguments(meta) if meta else None
    # With a write id of its own, the version of this put differs from an earlier version with the same bytes.
    own_id = new_id(SystemClock()) if write_id is None else write_id
    source_ms = None if source_time is None else milliseconds(source_time)
    with nullcontext(standard_input()) if file == "-" else Path(file).open("rb") as source:
        stored = handle.put(
            id,
            iter(partial(source.read, BODY_PART_BYTES), b""),
            expected=expected,
            metadata=metadata,
            source_time_ms=source_ms,
            write_id=own_id,
            first_attempt=write_id is None,
        )
    unchanged = "" if stored.write_id == own_id else "; it already had these bytes, so nothing was stored"
    line = f"{record} is at version {stored.version}, {size_text(stored.size)}{unchanged}"
    session.answer(_plain(record, stored), line)


@command("get", example="stratalog records get acme/report --at 2 --output report.pdf")
@click.argument("record", metavar=NAME)
@click.option("--at", metavar="VERSION|TIME", help="The version to read.  [default: the latest]")
@click.option(
    "--output", type=click.Path(dir_okay=False), metavar="FILE", help="The file to write.  [default: standard output]"
)
def get(session: Session, record: str, at: str | None, output: str | None) -> None:
    """Write the body of a version to a file or to standard output; with --json print it with its version."""
    handle, id = _open(session, record)
    number = _version_of(handle, id, at)
    if output not in (None, "-"):
        # Without --at another writer may add versions meanwhile, so read the version that the answer describes.
        version = handle.stat(id, number)
        with output_file(output) as out:
            for part in handle.open(id, version.version):
                out.write(part)
        session.answer(_plain(record, version), f"wrote {output}")
    elif session.json:
        content = handle.get(id, number)
        print_json({**_plain(record, content.version), "body": content.body})
    else:
        for part in handle.open(id, number):
            standard_output().write(part)


@command("list", example="stratalog records list acme")
@click.argument("organisation")
@click.option("--after", metavar="RECORD", default="", help="Only records after this record.")
def list_(session: Session, organisation: str, after: str) -> None:
    """List an organisation's records, including deleted records.

    Damaged records are named, the others are listed, and the exit code is 6.
    """
    handle, damaged = session.open().records(organisation), list[MaintenanceFailure]()
    rows = ((_plain(name, version), [name, *_row(version)]) for name, version in _latest(handle, after, damaged))
    session.answer_list(rows, "no records", head=[["name", *HEAD]], right=[1], damaged=damaged)
    fail_for_damage(damaged)


def _latest(handle: Records, after: str, damaged: list[MaintenanceFailure]) -> Iterator[tuple[str, RecordVersion]]:
    def fail(what: str, error: StratalogError) -> None:
        damaged.append(MaintenanceFailure.of(what, error))

    for id in listed_ids(handle.environment.index, handle.organisation, RECORDS, fail, after=after):
        name = f"{handle.organisation}/{id}"
        try:
            yield name, handle.stat(id)
        except Corrupt as exc:
            fail(name, exc)


@command("versions", example="stratalog records versions acme/report")
@click.argument("record", metavar=NAME)
def versions(session: Session, record: str) -> None:
    """List the kept versions of a record, oldest first, without opening a body."""
    handle, id = _open(session, record)
    rows = ((_plain(record, version), _row(version)) for version in handle.versions(id))
    session.answer_list(rows, "no versions", head=[HEAD], right=[0])


@command("history", example="stratalog records history acme/report")
@click.argument("record", metavar=NAME)
def history(session: Session, record: str) -> None:
    """List the kept versions, newest first, each with the beginning of its body."""
    handle, id = _open(session, record)
    rows = (_begun(handle, record, version) for version in handle.versions(id, reverse=True))
    session.answer_list(rows, "no versions", head=[[*HEAD, "begins"]], right=[0])


@command("delete", example="stratalog records delete acme/report")
@click.argument("record", metavar=NAME)
@_write_id
def delete(session: Session, record: str, write_id: str | None) -> None:
    """Store a deletion as the next version; the versions before it stay."""
    handle, id = _open(session, record)
    stored = handle.delete(id, write_id=write_id)
    session.answer(_plain(record, stored), f"deleted {record} in version {stored.version}; undelete restores it")


@command("undelete", example="stratalog records undelete acme/report")
@click.argument("record", metavar=NAME)
@_write_id
def undelete(session: Session, record: str, write_id: str | None) -> None:
    """Store the body before the deletion as a new version, or do nothing if the record is not deleted."""
    handle, id = _open(session, record)
    before = handle.stat(id)
    stored = handle.undelete(id, write_id=write_id)
    # A repeated call with the write id of a restoration finds that restoration as the latest version.
    is_restored = stored.version > before.version or stored.write_id == write_id
    text = f"restored {record} in version {stored.version}"
    session.answer(_plain(record, stored), text if is_restored else f"{record} is not deleted; nothing was changed")


@command("prune", example="stratalog records prune acme/report --retain 3")
@click.argument("record", metavar=NAME)
@click.option("--retain", type=int, metavar="COUNT", help="Retain this many of the newest versions.")
@click.option("--before", metavar="TIME", help="Forget versions that were superseded at or before this ISO time.")
def prune(session: Session, record: str, retain: int | None, before: str | None) -> None:
    """Forget old versions: give either --retain or --before. `sweep` frees their space later."""
    before_ms = None if before is None else milliseconds(before)
    if (retain is None) == (before is None):
        raise click.UsageError("give either --retain or --before")
    handle, id = _open(session, record)
    oldest = handle.prune(id, retain=retain, before_ms=before_ms)
    session.answer({"name": record, "oldest_retained": oldest}, f"{record} keeps its versions from {oldest} on")


def _open(session: Session, record: str) -> tuple[Records, str]:
    organisation, id = split_name(record)
    return session.open().records(organisation), id


def _version_of(handle: Records, id: str, text: str | None) -> int | None:
    """Return the version with the number ``text``, or the newest version at the ISO time ``text``; None for None.

    Raises NotFound for a time before version 1, VersionForgotten for a time before the oldest kept version, and
    BadParameter for any other text.
    """
    if text is None or is_decimal(text):
        return None if text is None else int(text)
    time_ms = milliseconds(text, "a version or an ISO time")
    oldest: RecordVersion | None = None
    for oldest in handle.versions(id, reverse=True):
        if oldest.created_ms <= time_ms:
            return oldest.version
    first = "" if oldest is None else local_time(oldest.created_ms)
    if oldest is None or oldest.version > 1:
        raise VersionForgotten("the version at that time is forgotten", record=id, time=text, first=first)
    raise NotFound("there was no version at that time", record=id, time=text, first=first)


def _plain(name: str, version: RecordVersion) -> dict[str, Any]:
    return {
        "name": name,
        "version": version.version,
        "created_ms": version.created_ms,
        "size": version.size,
        "sha256": version.digest.hex(),
        "deleted": version.deleted,
        "redacted": version.redacted,
        "principal": version.principal,
        "hash": version.hash.hex(),
        "source_time_ms": version.source_time_ms,
        "metadata": dict(version.metadata),
    }


def _begun(handle: Records, name: str, version: RecordVersion) -> tuple[dict[str, Any], list[str]]:
    """Return a version with the first bytes of its body, as a JSON object and as a row of a table."""
    begins = (
        b""
        if version.deleted or version.redacted
        else next(iter(handle.open(version.id, version.version)), b"")[:PREVIEW_BYTES]
    )
    return {**_plain(name, version), "begins": begins}, [*_row(version), dim(_readable(begins))]


def _readable(begins: bytes) -> str:
    """Return the beginning of a body in ASCII. For bytes that are not UTF-8 text the result says so."""
    text = begins.decode(errors="replace")
    # The cut may be within a character, so the end may be a replacement.
    return "(not UTF-8 text)" if "\ufffd" in text[:-1] else ascii(text)[1:-1]


def _row(version: RecordVersion) -> list[str]:
    gone = "deleted" if version.deleted else "redacted" if version.redacted else ""
    size = click.style(gone, fg="red") if gone else size_text(version.size)
    metadata = " ".join(f"{name}={value}" for name, value in version.metadata.items())
    return [str(version.version), local_time(version.created_ms), size, version.digest.hex()[:12], metadata]


for _command in (put, get, list_, versions, history, delete, undelete, prune):
    records.add_command(_command)

COMMANDS = [records]

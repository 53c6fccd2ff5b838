"""The verification of a copy: run the same reads on source and target, and compare the results."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from stratalog.documents import Document, Rules
from stratalog.errors import Conflict, Corrupt, NotFound, Redacted, VersionForgotten
from stratalog.keys import RecordKey, failures_partition, names_partition
from stratalog.log import Environment, Log, open_log
from stratalog.log.bodies import BodyRef, blob_addresses
from stratalog.log.directory import LOGS, RECORDS, line_partition, list_lines
from stratalog.log.listed_items import ListedItem, list_items
from stratalog.maintenance.checked_items import get_checked, has_damaged_key, list_checked
from stratalog.maintenance.mirror import Fail, raise_failure
from stratalog.maintenance.shapes import shape_fault
from stratalog.ports.index import required
from stratalog.records import Records
from stratalog.records.content import body_prefix
from stratalog.records.floor import read_floor
from stratalog.records.versions import Name, decode_ref

__all__ = ["check_copy"]

SAMPLES = 3
MOVED = "the source was written to during the copy; stop its writers, and copy again"


def check_copy(
    source: Environment,
    target: Environment,
    organisations: Sequence[str],
    fail: Fail = raise_failure,
    left_out: Collection[tuple[str, str, str]] = (),
    *,
    is_incomplete: bool = False,
) -> tuple[int, int]:
    """Compare every log and record by samples and return the numbers of logs and records. Writes nothing.

    * For a document it compares the content digests at the head, at the oldest version and at a few versions between.
    * For any other log it compares the entries at these versions.
    * For a record it compares the latest version, with the hash of its body, the floor, and the failures. The target
      must have the blobs of the latest version and of the failures.

    `stratalog verify` reads every version.

    Calls ``fail`` for each log or record that is damaged in the source. If ``fail`` returns, the check continues.
    ``left_out`` are the organisation, shelf and id of the logs and records that are not compared. ``is_incomplete``
    means that the copy left out damaged items: then ``fail`` is also called for each log that cannot be read in the
    target only.

    Raises Conflict if the source was written to meanwhile, Corrupt if the two differ.
    """
    logs = records = 0
    for organisation in organisations:
        for listing in _same(source, target, organisation, LOGS, left_out):
            _check_log(source, target, organisation, listing, fail, is_incomplete)
            logs += 1
        for listing in _same(source, target, organisation, RECORDS, left_out):
            _check_record(source, target, organisation, listing, fail)
            records += 1
        _check_failures(source, target, organisation, fail)
    return logs, records


def _same(
    source: Environment,
    target: Environment,
    organisation: str,
    shelf: str,
    left_out: Collection[tuple[str, str, str]],
) -> Iterator[str]:
    """Yield the ids of the logs, or of the records. Raises Conflict if the directories of the two stores differ."""

    def lines(environment: Environment) -> Iterator[ListedItem]:
        listed = list_lines(environment.index, organisation, shelf)
        return (line for line in listed if (organisation, shelf, line.sort) not in left_out)

    theirs = lines(target)
    for ours in lines(source):
        there = next(theirs, None)
        while there is not None and there.sort < ours.sort and _may_have(source, organisation, shelf, there):
            there = next(theirs, None)
        is_sound = ours.item is not None and not shape_fault(ours.item)  # a damaged line is made anew in the target
        if there is None or there.sort != ours.sort or (is_sound and there.item != ours.item):
            raise Conflict(MOVED, organisation=organisation, id=ours.sort)
        yield ours.sort
    for there in theirs:
        if not _may_have(source, organisation, shelf, there):
            raise Conflict(MOVED, organisation=organisation, id=there.sort)


def _may_have(source: Environment, organisation: str, shelf: str, line: ListedItem) -> bool:
    """Return whether the source may have a line of the target under a damaged sort key."""
    return has_damaged_key(source.index, line_partition(organisation, shelf, line.sort))


def _check_log(
    source: Environment, target: Environment, organisation: str, name: str, fail: Fail, is_incomplete: bool
) -> None:
    try:
        ours = open_log(source, organisation, name)
        head = ours.head().version
        samples = _samples(source, ours)
    except NotFound as exc:
        raise Conflict(MOVED, organisation=organisation, log=name) from exc
    except Corrupt as exc:
        return fail(f"{organisation}/{name}", exc)
    theirs = open_log(target, organisation, name)
    lines = [get_checked(environment.index, names_partition(name), organisation) for environment in (source, target)]
    is_lost = lines[0].item is None and has_damaged_key(source.index, names_partition(name))
    is_same = lines[0] == lines[1] or lines[0].fault or is_lost
    if not is_same or (head, ours.record) != (theirs.head().version, theirs.record):
        raise Conflict(MOVED, organisation=organisation, log=name)
    for version in samples:
        try:
            content = _content_of(ours, version)
        except Corrupt as exc:
            fail(f"{organisation}/{name}", exc)
            continue
        try:
            copied = _content_of(theirs, version)
        except Corrupt as exc:
            if not is_incomplete:
                raise
            fail(f"{organisation}/{name}", exc)
            continue
        if content != copied:
            raise Corrupt("a copied log differs from its source", organisation=organisation, log=name, version=version)
    return None


def _samples(environment: Environment, log: Log) -> list[int]:
    oldest, head = log.floor(), log.head().version
    between = [oldest + int(environment.clock.random() * (head - oldest + 1)) for _ in range(SAMPLES)]
    return sorted({oldest, head, *between})


def _content_of(log: Log, version: int) -> Any:
    """Return a document's content digest at a version, or another log's entry; None if the version is forgotten.

    Return the class `Redacted` if the content needs a redacted version.
    """
    try:
        if log.record.kind == "document":
            return Document(log, Rules()).at(version).content_digest()
        return log.entry(version) if version > log.floor() else None
    except VersionForgotten:
        return None
    except Redacted:
        return Redacted


def _check_record(source: Environment, target: Environment, organisation: str, id: str, fail: Fail) -> None:
    try:
        ours, floor = Records(source, organisation).stat(id), read_floor(source.index, Name(organisation, id))
    except Corrupt as exc:
        fail(f"{organisation}/{id}", exc)
        return
    theirs = Records(target, organisation).stat(id)
    if ours.version != theirs.version or floor != read_floor(target.index, Name(organisation, id)):
        raise Conflict(MOVED, organisation=organisation, record=id)
    if ours != theirs:
        raise Corrupt(
            "a copied record differs from its source", organisation=organisation, record=id, version=ours.version
        )
    _check_body(source, target, Name(organisation, id), theirs.ref, fail)


def _check_failures(source: Environment, target: Environment, organisation: str, fail: Fail) -> None:
    partition = failures_partition(organisation)
    listed = list(list_checked(source.index, partition))
    damaged = {line.sort for line in listed if line.fault}
    if any(line.position is not None for line in listed):  # any failure that the source lacks may be the damaged one
        theirs_only = {line.sort for line in list_items(target.index, partition)} - {line.sort for line in listed}
        damaged |= theirs_only
    sound = [line.item for line in listed if line.item is not None and not line.fault]
    theirs = (line for line in list_items(target.index, partition) if line.sort not in damaged)
    for ours in sound:
        line, key = next(theirs, None), RecordKey(ours.sort)
        there = None if line is None else line.item
        if there is None or (there.sort, required(there, "w")) != (ours.sort, required(ours, "w")):
            raise Conflict(MOVED, organisation=organisation, record=key)
        if there != ours:
            raise Corrupt("copied failures differ from their source", organisation=organisation, record=key)
        ref = decode_ref(there.attributes["x"]) if "x" in there.attributes else None
        _check_body(source, target, Name(organisation, key, key), ref, fail)
    if (extra := next(theirs, None)) is not None:
        raise Conflict(MOVED, organisation=organisation, record=extra.sort)


def _check_body(source: Environment, target: Environment, name: Name, ref: BodyRef | None, fail: Fail) -> None:
    """Compare which blobs of a record's body exist in the two stores. A body that is not in blobs has none.

    A damaged blob of the source is missing in the target.
    """
    missing = None if ref is None else _missing_blob(target, name, ref)
    if missing is None or ref is None:
        return
    if _missing_blob(source, name, ref) is None and _is_readable(source, missing):
        raise Corrupt("a copied record lacks a blob that its source has", key=missing)
    fail(f"{name.organisation}/{name.id}", Corrupt("a body's blob is missing", key=missing))


def _is_readable(environment: Environment, key: str) -> bool:
    try:
        environment.blobs.get(key)
    except (Corrupt, NotFound):
        return False
    return True


def _missing_blob(environment: Environment, name: Name, ref: BodyRef) -> str | None:
    """Return the key of a missing blob of a body; None if all exist."""
    prefix = body_prefix(name)
    addresses = blob_addresses(environment.blobs, prefix, ref)
    try:
        keys = (f"{prefix}/{address.hex()}" for address in addresses)
        return next((key for key in keys if environment.blobs.stat(key) is None), None)
    except Corrupt:
        return f"{prefix}/{ref.address.hex()}"  # the manifest of a large body is damaged

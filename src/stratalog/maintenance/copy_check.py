"""The verification of a copy: run the same reads on source and target, and compare the results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from stratalog.documents import Document, Rules
from stratalog.errors import Conflict, Corrupt, Redacted, VersionForgotten
from stratalog.keys import RecordKey, failures_partition, names_partition
from stratalog.log import Environment, Log, open_log
from stratalog.log.bodies import BodyRef, blob_addresses
from stratalog.log.directory import LOGS, RECORDS, list_directory
from stratalog.ports.index import required
from stratalog.records import Records
from stratalog.records.content import body_prefix
from stratalog.records.floor import read_floor
from stratalog.records.versions import Name, decode_ref

__all__ = ["check_copy"]

SAMPLES = 3
MOVED = "the source was written to during the copy; stop its writers, and copy again"


def check_copy(source: Environment, target: Environment, organisations: Sequence[str]) -> tuple[int, int]:
    """Compare every log and record by samples and return the numbers of logs and records. Writes nothing.

    * For a document it compares the content digests at the head, at the oldest version and at a few versions between.
    * For any other log it compares the entries at these versions.
    * For a record it compares the latest version, with the hash of its body, the floor, and the failures. The target
      must have the blobs of the latest version and of the failures.

    `stratalog verify` reads every version.

    Raises Conflict if the source was written to meanwhile, Corrupt if the two differ.
    """
    logs = records = 0
    for organisation in organisations:
        for listing in _same(source, target, organisation, LOGS):
            _check_log(source, target, organisation, listing)
            logs += 1
        for listing in _same(source, target, organisation, RECORDS):
            _check_record(source, target, organisation, listing)
            records += 1
        _check_failures(source, target, organisation)
    return logs, records


def _same(source: Environment, target: Environment, organisation: str, shelf: str) -> Iterator[str]:
    """Yield the ids of the logs, or of the records. Raises Conflict if the directories of the two stores differ."""
    theirs = list_directory(target.index, organisation, shelf)
    for ours in list_directory(source.index, organisation, shelf):
        if next(theirs, None) != ours:
            raise Conflict(MOVED, organisation=organisation, id=ours.id)
        yield ours.id
    if (other := next(theirs, None)) is not None:
        raise Conflict(MOVED, organisation=organisation, id=other.id)


def _check_log(source: Environment, target: Environment, organisation: str, name: str) -> None:
    ours, theirs = (open_log(environment, organisation, name) for environment in (source, target))
    lines = [environment.index.get(names_partition(name), organisation) for environment in (source, target)]
    if (ours.head().version, ours.record, lines[0]) != (theirs.head().version, theirs.record, lines[1]):
        raise Conflict(MOVED, organisation=organisation, log=name)
    for version in _samples(source, ours):
        if _content_of(ours, version) != _content_of(theirs, version):
            raise Corrupt("a copied log differs from its source", organisation=organisation, log=name, version=version)


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


def _check_record(source: Environment, target: Environment, organisation: str, id: str) -> None:
    ours, theirs = (Records(environment, organisation).stat(id) for environment in (source, target))
    floors = [read_floor(environment.index, Name(organisation, id)) for environment in (source, target)]
    if ours.version != theirs.version or floors[0] != floors[1]:
        raise Conflict(MOVED, organisation=organisation, record=id)
    if ours != theirs or not _has_body(target, Name(organisation, id), theirs.ref):
        raise Corrupt(
            "a copied record differs from its source", organisation=organisation, record=id, version=ours.version
        )


def _check_failures(source: Environment, target: Environment, organisation: str) -> None:
    theirs = target.index.query(failures_partition(organisation))
    for ours in source.index.query(failures_partition(organisation)):
        there, key = next(theirs, None), RecordKey(ours.sort)
        if there is None or (there.sort, required(there, "w")) != (ours.sort, required(ours, "w")):
            raise Conflict(MOVED, organisation=organisation, record=key)
        ref = decode_ref(there.attributes["x"]) if "x" in there.attributes else None
        if there != ours or not _has_body(target, Name(organisation, key, key), ref):
            raise Corrupt("copied failures differ from their source", organisation=organisation, record=key)
    if (other := next(theirs, None)) is not None:
        raise Conflict(MOVED, organisation=organisation, record=other.sort)


def _has_body(environment: Environment, name: Name, ref: BodyRef | None) -> bool:
    """Return whether all blobs of a body exist; True for a body that is not in blobs."""
    prefix = body_prefix(name)
    addresses = blob_addresses(environment.blobs, prefix, ref) if ref is not None else ()
    return all(environment.blobs.stat(f"{prefix}/{address.hex()}") is not None for address in addresses)

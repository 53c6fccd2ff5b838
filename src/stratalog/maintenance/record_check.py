"""The check of a record: its hash chain with every body, its floor, its directory line, and its failures."""

from __future__ import annotations

from typing import Any

from stratalog.errors import Corrupt, NotFound, VersionForgotten
from stratalog.keys import dead_letters_partition, failures_partition, number, parse_number
from stratalog.log import Environment
from stratalog.log.bodies import BodyRef, read_body_back
from stratalog.log.callbacks import Report
from stratalog.log.directory import RECORDS, is_listed, line_partition
from stratalog.log.verification import ChainReport, Finding
from stratalog.maintenance.damage import DamageList, Fault, item_key
from stratalog.ports.index import Item
from stratalog.records.content import body_prefix
from stratalog.records.floor import FLOOR_SORT, floor_from_item
from stratalog.records.verification import verify_record
from stratalog.records.versions import Name, decode_ref, inline_content, unchecked_latest_item

__all__ = ["check_failures", "check_record"]


def check_record(environment: Environment, name: Name, damages: DamageList, progress: Report | None) -> ChainReport:
    """Check all stored objects of a record, and return the report of its chain.

    Raises Unavailable, and NotFound if neither a version nor a directory line exists and no damage was found.
    """
    check_failures(environment, name, damages)
    _check_directory(environment, name, damages)
    _check_floor(environment, name, damages)
    try:
        report = verify_record(environment, name, progress=progress)
    except VersionForgotten:
        raise
    except NotFound:
        if not is_listed(environment.index, name.organisation, RECORDS, name.id) and not len(damages):
            raise
        finding = Finding("missing", 1, 1, "the listed record has no version")
        report = ChainReport(origin="", start=0, version=0, hash=b"", findings=(finding,))
    if any(finding.version == report.start + 1 for finding in report.findings):
        is_there = environment.index.get(name.partition, FLOOR_SORT) is not None
        key = item_key(name.partition, FLOOR_SORT)
        fault: Fault = "contradicts" if is_there else "missing"
        if is_there or report.findings[0].kind == "missing":
            damages.add("record floor", key, fault, "it does not lead to the first kept version")
    for finding in report.findings:
        damages.add_finding(
            finding, "record version", "record body", lambda version: item_key(name.partition, number(version))
        )
        if finding.key:
            _read_body(environment, name, finding.version, damages)
    return report


def _read_body(environment: Environment, name: Name, version: int, damages: DamageList) -> None:
    """Add each damaged blob of a version's body. The check of the chain stops at the first damaged blob of a body."""
    item = environment.index.get(name.partition, number(version))
    if item is not None and "x" in item.attributes:
        _add_damaged_blobs(environment, name, decode_ref(item.attributes["x"]), damages, (version, version))


def _add_damaged_blobs(
    environment: Environment, name: Name, ref: BodyRef, damages: DamageList, at: tuple[int, int]
) -> None:
    for reading in read_body_back(environment.blobs, body_prefix(name), ref):
        if reading.damage is not None:
            damages.add_blob("record body", reading.key, reading.damage, at=at)


def _check_directory(environment: Environment, name: Name, damages: DamageList) -> None:
    directory = line_partition(name.organisation, RECORDS, name.id)
    key = item_key(directory, name.id)
    line = environment.index.get(directory, name.id)
    floor = environment.index.get(name.partition, FLOOR_SORT)
    is_complete = floor is None or floor.attributes.get("v") == 1
    first = environment.index.get(name.partition, number(1)) if is_complete else None
    if line is None:
        if unchecked_latest_item(environment.index, name.partition) is not None:
            damages.add("directory line", key, "missing", "a record is not listed", derivable=True)
    elif line.attributes["k"] != "record" or (first is not None and first.attributes["c"] != line.attributes["c"]):
        damages.add("directory line", key, "contradicts", "its kind or time differs from that of the first version")


def _check_floor(environment: Environment, name: Name, damages: DamageList) -> None:
    item, key = environment.index.get(name.partition, FLOOR_SORT), item_key(name.partition, FLOOR_SORT)
    try:
        floor = floor_from_item(item)
    except Corrupt as exc:
        damages.add("record floor", key, "damaged", str(exc))
        return
    latest = unchecked_latest_item(environment.index, name.partition)
    newest = parse_number(latest.sort) if latest is not None else floor.version
    if not 1 <= floor.freed <= floor.freeing <= floor.version <= newest:
        damages.add("record floor", key, "contradicts", "its numbers are out of order")
    waiting = [mark.version for mark in floor.marks]
    if waiting != sorted(waiting) or any(not floor.freeing < version <= floor.version for version in waiting):
        damages.add("record floor", key, "contradicts", "its marks of versions to free are out of range")


def check_failures(environment: Environment, name: Name, damages: DamageList) -> None:
    """Check the failures and the dead letter of a record, which may have no version."""
    index = environment.index
    failure = index.get(failures_partition(name.organisation), name.key)
    letter = index.get(dead_letters_partition(name.organisation), name.id)
    failure_key = item_key(failures_partition(name.organisation), name.key)
    letter_key = item_key(dead_letters_partition(name.organisation), name.id)
    if failure is None:
        if letter is not None and index.get(letter.partition, letter.sort) is not None:
            damages.add("failures", failure_key, "missing", "a dead letter has no failures", derivable=True)
        return
    if failure.attributes["d"] and letter is None:
        damages.add(
            "dead letter", letter_key, "missing", "a record with too many failures is not listed", derivable=True
        )
        damages.add("failures", failure_key, "contradicts", "they reached the maximum, but there is no dead letter")
    elif letter is not None and dict(letter.attributes) != dict(failure.attributes):
        damages.add("dead letter", letter_key, "contradicts", "it differs from the record's failures")
        damages.add("failures", failure_key, "contradicts", "they differ from the dead letter")
    _read_failed_body(environment, name, failure, damages)


def _read_failed_body(environment: Environment, name: Name, failure: Item, damages: DamageList) -> None:
    attributes: Any = failure.attributes
    if "n" not in attributes:
        return
    try:
        if "x" not in attributes:
            inline_content(failure)
            return
        _add_damaged_blobs(environment, name, decode_ref(attributes["x"]), damages, (0, 0))
    except Corrupt as exc:
        damages.add("failures", item_key(failure.partition, failure.sort), "damaged", str(exc))

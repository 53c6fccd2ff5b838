"""The check of the items outside logs and records.

These items are organisation lines, deleted logs, uploads, attempt records, rejected mutations and dead letters.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from stratalog.codec import decode, decompress, is_decimal
from stratalog.documents.rejections import read_rejection, require_intact_letter
from stratalog.errors import Corrupt
from stratalog.keys import (
    NAME_SORT,
    ORGANISATIONS_PARTITION,
    QUEUE_ATTEMPTS_PARTITION,
    REJECTED_PARTITION,
    dead_letters_partition,
    deleted_partition,
    entries_partition,
    escape,
    failures_partition,
    family_partition,
    forks_partition,
    name_partition,
    number,
    parse_number,
    split_prefix,
    unescape,
    uploads_partition,
)
from stratalog.limits import BLOB_BYTES_MAX
from stratalog.log import Environment
from stratalog.log.bodies import BodyRef, read_body_back
from stratalog.log.directory import LOGS, RECORDS, is_listed
from stratalog.log.entries import END
from stratalog.log.names import read_name
from stratalog.log.pins import Pin
from stratalog.log.segments import list_segments
from stratalog.log.sweep import UNNAMED
from stratalog.maintenance.damage import DamageList, item_key
from stratalog.maintenance.record_check import check_failures
from stratalog.maintenance.verification import HistoryName
from stratalog.ports.index import Item
from stratalog.ports.queue import Queue
from stratalog.records.versions import Name, unchecked_latest_item
from stratalog.struct_types import resolved

__all__ = ["blob_owners", "check_organisation", "check_queue", "unlisted"]


def blob_owners(environment: Environment) -> Iterator[HistoryName]:
    """Yield the owners of the store's blobs in order of key, except records whose id is too long to be in the key.

    The owner of a family's blobs is the log that the family began with.
    """
    last = None
    for stat in environment.blobs.list(""):
        parts = stat.key.split("/")
        if len(parts) > 3 and (owner := _owner(parts)) is not None and owner != last:
            yield owner
            last = owner


def _owner(parts: list[str]) -> HistoryName | None:
    organisation, second, third = parts[:3]
    if second == "records":
        return None if "~" in third else HistoryName("record", unescape(organisation), unescape(third))
    log, at, _ = second.partition("@")
    return HistoryName("log", unescape(organisation), unescape(log)) if at else None


def unlisted(environment: Environment, owner: HistoryName) -> bool:
    """Return whether the owner of blobs is live and missing from its directory."""
    if owner.kind == "record":
        name = Name(owner.organisation, owner.name)
        listed = is_listed(environment.index, owner.organisation, RECORDS, owner.name)
        return not listed and unchecked_latest_item(environment.index, name.partition) is not None
    record = read_name(environment.index, owner.organisation, owner.name)
    if record is None or record.deleted_ms:
        return False
    return not is_listed(environment.index, owner.organisation, LOGS, owner.name)


def check_organisation(environment: Environment, organisation: str, damages: DamageList) -> None:
    """Check an organisation's line, uploads and deleted logs, and the failures of records without a version."""
    line = environment.index.get(ORGANISATIONS_PARTITION, organisation)
    if line is None:
        key = item_key(ORGANISATIONS_PARTITION, organisation)
        damages.add("organisation line", key, "missing", "an organisation with blobs is not listed", derivable=True)
    for item in environment.index.query(uploads_partition(organisation)):
        if item.sort.rpartition("/")[2] != item.attributes["w"]:
            key = item_key(item.partition, item.sort)
            damages.add("upload", key, "contradicts", "its id differs from that of its key")
    _check_deleted(environment, organisation, damages)
    _check_unlisted_failures(environment, organisation, damages)


def _check_unlisted_failures(environment: Environment, organisation: str, damages: DamageList) -> None:
    """Check the failures of the records that the directory does not list: they may have failed from the beginning."""
    ids = {item.sort for item in environment.index.query(dead_letters_partition(organisation))}
    keys = (item.sort for item in environment.index.query(failures_partition(organisation)))
    ids.update(unescape(key) for key in keys if "~" not in key)  # the key of a long id has a digest in place of its end
    for id in sorted(ids):
        if not is_listed(environment.index, organisation, RECORDS, id):
            check_failures(environment, Name(organisation, id), damages)


def _check_deleted(environment: Environment, organisation: str, damages: DamageList) -> None:
    """Check the line of each deleted log, and that its last entry is the end marker, which a sweep does not remove.

    A log that never had a name has no end marker, and its restoration may be under way.
    """
    for gone in environment.index.query(deleted_partition(organisation)):
        if UNNAMED in gone.attributes:
            continue
        segments = list(list_segments(environment.index, gone.sort))
        if not segments:
            continue  # the sweep has deleted the segment records, so the last segment is unknown
        _check_line(environment, gone, damages)
        partition = entries_partition(gone.sort, segments[-1].first)
        last = next(environment.index.query(partition, reverse=True, limit=1), None)
        if last is None or last.attributes.get("k") != END:
            sort = number(parse_number(last.sort) + 1 if last else segments[-1].first)
            damages.add("end marker", item_key(partition, sort), "missing", "a deleted log has no end marker")


def _check_line(environment: Environment, gone: Item, damages: DamageList) -> None:
    key, attributes = item_key(gone.partition, gone.sort), gone.attributes
    organisation, log = split_prefix(gone.sort)
    record = read_name(environment.index, organisation, log)
    name_key = item_key(name_partition(organisation, log), NAME_SORT)
    if record is None:
        damages.add("name record", name_key, "missing", "a deleted log has no name record")
    elif record.prefix == gone.sort and record.deleted_ms != attributes["m"]:
        damages.add("deleted incarnation", key, "contradicts", "its time differs from that of the name record")
        damages.add(
            "name record", name_key, "contradicts", "its time of deletion differs from that of the deleted incarnation"
        )
    elif not record.deleted_ms and not is_listed(environment.index, record.organisation, LOGS, record.name):
        damages.add("name record", name_key, "contradicts", "its log is live, but no directory line lists the log")
    family = family_partition(str(attributes["o"]))
    if environment.index.get(family, gone.sort) is None:
        damages.add("deleted incarnation", key, "contradicts", "its family does not list it")
        damages.add(
            "family member", item_key(family, gone.sort), "missing", "a deleted log is not a member of its family"
        )
    ancestors = str(attributes["l"]).split()
    if len(ancestors) % 2 or not all(map(is_decimal, ancestors[1::2])):
        damages.add("deleted incarnation", key, "damaged", "it names an ancestor without a version")
        return
    for ancestor, version in zip(ancestors[::2], ancestors[1::2], strict=True):
        pin = Pin(parse_number(version), gone.sort)
        if environment.index.get(forks_partition(ancestor), pin.sort) is None:
            damages.add("deleted incarnation", key, "contradicts", "an ancestor that it names has no pin of this log")


def check_queue(environment: Environment, queue: Queue, damages: DamageList) -> None:
    """Check attempt records, rejected mutations and dead letters. Queued messages can only be received, not read."""
    # The query is the check: the recording index records every item that does not decode or has a wrong shape.
    for _ in environment.index.query(QUEUE_ATTEMPTS_PARTITION):
        pass
    for item in environment.index.query(REJECTED_PARTITION):
        try:
            require_intact_letter(item.sort, read_rejection(item))
        except Corrupt as exc:
            damages.add("rejected mutation", item_key(item.partition, item.sort), "damaged", exc.message)
    for letter in queue.dead_letters():
        try:
            _check_message(environment, letter.body)
        except (Corrupt, msgspec.DecodeError, RecursionError, ValueError, TypeError) as exc:
            damages.add("dead message", letter.id, "damaged", str(exc))


def _check_message(environment: Environment, body: bytes) -> None:
    if body[:1] != b"\x01":
        return
    organisation, document, incarnation, token, _, codec, inline, claim = decode(body[1:])
    if inline and codec == "z":
        decode(decompress(inline, BLOB_BYTES_MAX))
    if claim is None:
        return
    prefix = f"{escape(organisation)}/queue/{escape(document)}@{incarnation}/{token}"
    readings = list(read_body_back(environment.blobs, prefix, msgspec.convert(claim, resolved(BodyRef))))
    if any(reading.damage is not None and not reading.damage.is_missing for reading in readings):
        raise Corrupt("the push of a dead letter is damaged", key=readings[0].key)

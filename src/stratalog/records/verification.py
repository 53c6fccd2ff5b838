"""Verification of a record: recompute its chain from the stored bodies."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from stratalog.errors import Corrupt, NotFound, VersionForgotten
from stratalog.keys import number, parse_number
from stratalog.limits import VERIFY_ATTEMPTS_MAX
from stratalog.log.callbacks import Report
from stratalog.log.chain import body_digest, genesis
from stratalog.log.environment import Environment
from stratalog.log.verification import (
    DAMAGE_ERRORS,
    INTACT_ERRORS,
    ChainReport,
    Damage,
    Finding,
    Link,
    certain_part,
    check_chain,
    damage_of,
)
from stratalog.ports.index import Item, required
from stratalog.records.chain import extras_of
from stratalog.records.content import stream_item
from stratalog.records.floor import Floor, read_floor
from stratalog.records.versions import TOMBSTONE, Name, checked_item, unchecked_latest_item

__all__ = ["verify_record"]


def verify_record(environment: Environment, name: Name, *, progress: Report | None = None) -> ChainReport:
    """Recompute a record's chain, from the oldest version kept to the latest. Reads and hashes every body.

    If another process prunes the record meanwhile, the report has only the findings of versions that are still kept.
    Raises NotFound, Unavailable, and VersionForgotten if no attempt of `VERIFY_ATTEMPTS_MAX` was certain.
    """
    for _ in range(VERIFY_ATTEMPTS_MAX):
        floor = read_floor(environment.index, name)
        latest = unchecked_latest_item(environment.index, name.partition)
        if latest is None:
            raise NotFound("record not found", record=name.id)
        # The version at the floor is kept, and nothing deletes the latest version. So a floor above it is damage.
        last = max(floor.version, parse_number(latest.sort))
        try:
            report = _verified(environment, name, floor, last, progress)
        except VersionForgotten:
            continue
        certain = certain_part(report, floor.version - 1, read_floor(environment.index, name).version - 1)
        if certain is not None:
            return certain
    raise VersionForgotten("the floor rose during each attempt to verify the record", record=name.id)


def _verified(environment: Environment, name: Name, floor: Floor, last: int, progress: Report | None) -> ChainReport:
    start = floor.version - 1
    origin = floor.origin or _origin(environment, name)
    if not origin:
        finding = Finding("missing", 1, 1, "the first version, which names the origin, cannot be read")
        return ChainReport(origin="", start=0, version=last, hash=b"", findings=(finding,))
    before = floor.hash if start else genesis(origin)

    def links() -> Iterator[Link | Damage]:
        return _links(environment, name, start, last)

    return check_chain(origin, start, before, links, progress)


def _origin(environment: Environment, name: Name) -> str:
    item = environment.index.get(name.partition, number(1))
    origin = item.attributes.get("og") if item is not None else None
    return origin if isinstance(origin, str) else ""


def _links(environment: Environment, name: Name, after: int, upto: int) -> Iterator[Link | Damage]:
    for item in environment.index.query(name.partition, after=number(after), before=number(upto + 1)):
        version = parse_number(item.sort)
        if after + 1 < version:
            yield _gap(after + 1, version - 1)
        yield _link(environment, name, version, item)
        after = version
    if after < upto:
        yield _gap(after + 1, upto)


def _gap(first: int, last: int) -> Damage:
    return Damage(first, "missing", "a version of the record is missing", last=last)


def _link(environment: Environment, name: Name, version: int, item: Item) -> Link | Damage:
    attributes: Any = item.attributes
    try:
        checked_item(item)
        digest = attributes["d"] if "d" in attributes else _digest(environment, name, item)
        who = attributes.get("p", ""), "", attributes["w"]
        extras = extras_of(attributes)
        return Link(version, attributes["c"], *who, digest, attributes["ch"], "d" in attributes, extras)
    except INTACT_ERRORS:
        raise
    except DAMAGE_ERRORS as exc:
        return damage_of(version, exc, attributes.get("ch", b""))


def _digest(environment: Environment, name: Name, item: Item) -> bytes:
    """Return the digest that represents the body in the chain. Raises Corrupt if the body is not the item's."""
    attributes: Any = item.attributes
    if attributes.get("k") == TOMBSTONE:
        if attributes["n"]:
            raise Corrupt("a deletion must have the size 0", record=name.id, version=parse_number(item.sort))
        return body_digest(required(item, "s"), attributes["h"])
    body, size = hashlib.sha256(), 0
    for part in stream_item(environment, name, item):
        body.update(part)
        size += len(part)
    if (body.digest(), size) != (attributes["h"], attributes["n"]):
        raise Corrupt("a body does not have the hash of its version", record=name.id, version=parse_number(item.sort))
    return body_digest(required(item, "s"), body.digest())

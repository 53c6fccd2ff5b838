"""The floor of a record: the oldest version kept, and the progress of freeing the older versions.

One item holds the floor, so one conditional write marks any number of versions as forgotten. A late write may put an
item at the key of a freed version. Readers ignore this item, because its version is below the floor.

A redaction writes the floor too, with the next revision. So if two readings of the floor are equal, no version was
forgotten or redacted in between.
"""

from __future__ import annotations

import msgspec

from stratalog.clock import new_id
from stratalog.codec import encode
from stratalog.log.commit import commit_once
from stratalog.log.environment import Environment
from stratalog.ports.index import Absent, Attribute, Check, Condition, Equals, Index, Item, Put
from stratalog.ports.stored_attributes import (
    Count,
    Hash,
    Packed,
    PositiveVersion,
    StoredVersion,
    Time,
    decode_attribute,
    read_attributes,
)
from stratalog.records.versions import Name

__all__ = [
    "FLOOR_SORT",
    "Floor",
    "Mark",
    "StoredRecordFloor",
    "floor_check",
    "floor_from_item",
    "floor_put",
    "read_floor",
    "store_floor",
]

FLOOR_SORT = "!floor"
NOUN = "the floor of a record"


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """The versions below ``version`` were forgotten at ``marked_ms``, and are freed later by the observation rule."""

    version: StoredVersion
    marked_ms: Time


class Floor(msgspec.Struct, frozen=True, kw_only=True):
    """The floor: all versions below ``version`` are forgotten.

    Items of versions below ``freeing`` may be deleted already. All versions below ``freed`` are deleted.
    """

    version: int = 1
    freeing: int = 1
    freed: int = 1
    marks: tuple[Mark, ...] = ()
    """Marks for which freeing has not begun yet, oldest first."""

    revision: int = 0
    """The number of changes of the floor and of redactions. Each change is conditional on the revision before it."""

    hash: bytes = b""
    """The hash of the last forgotten version, from which the chain continues. Empty if no version is forgotten."""

    origin: str = ""
    """The origin of the history; empty while no version is forgotten, since version 1 then contains the origin."""


class StoredRecordFloor(msgspec.Struct, frozen=True, gc=False):
    """The attributes of the floor of a record."""

    v: PositiveVersion
    e: PositiveVersion
    g: PositiveVersion
    p: Packed
    r: Count
    w: str
    ch: Hash = b""
    og: str = ""


def read_floor(index: Index, name: Name) -> Floor:
    """Read the floor with a consistent read."""
    return floor_from_item(index.get(name.partition, FLOOR_SORT))


def floor_from_item(item: Item | None) -> Floor:
    """Return the floor that an item stores; without an item, a floor that forgets nothing. Raises Corrupt."""
    if item is None:
        return Floor()
    stored = read_attributes(item, StoredRecordFloor, NOUN)
    return Floor(
        version=stored.v,
        freeing=stored.e,
        freed=stored.g,
        marks=decode_attribute(item, "p", _decode_marks, NOUN),
        revision=stored.r,
        hash=stored.ch,
        origin=stored.og,
    )


def store_floor(environment: Environment, name: Name, floor: Floor) -> Floor:
    """Replace the stored floor, on condition that its revision is still ``floor.revision``; return the new floor.

    Raises ConditionFailed if another process changed the floor: nothing is written. Raises Unavailable,
    OutcomeUnknown.
    """
    write_id = new_id(environment.clock)

    def landed() -> bool:
        item = environment.index.get(name.partition, FLOOR_SORT)
        return item is not None and item.attributes["w"] == write_id

    commit_once(environment, [floor_put(name, floor, write_id)], landed)
    return _next(floor)


def floor_put(name: Name, floor: Floor, write_id: str) -> Put:
    """Return the write that stores ``floor`` with the next revision, if the stored floor has ``floor.revision``."""
    stored = _next(floor)
    attributes: dict[str, Attribute] = {
        "v": stored.version,
        "e": stored.freeing,
        "g": stored.freed,
        "p": encode(stored.marks),
        "r": stored.revision,
        "w": write_id,
    }
    if stored.version > 1:
        attributes |= {"ch": stored.hash, "og": stored.origin}
    return Put(Item(name.partition, FLOOR_SORT, attributes), _unchanged(floor))


def floor_check(name: Name, floor: Floor) -> Check:
    """Return a check that makes a commit fail if the stored floor is not ``floor``."""
    return Check(name.partition, FLOOR_SORT, _unchanged(floor))


def _next(floor: Floor) -> Floor:
    return msgspec.structs.replace(floor, revision=floor.revision + 1)


def _unchanged(floor: Floor) -> Condition:
    return Equals("r", floor.revision) if floor.revision else Absent()


_decode_marks = msgspec.msgpack.Decoder(tuple[Mark, ...]).decode

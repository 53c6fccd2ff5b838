"""The floor of a record: the oldest version kept, and how far the older ones are on their way out.

One item says it for all versions, so that marking a thousand of them is one conditional write. It also tells a version
from a late write that fell into a place freed long ago, which nobody may take for one.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stratalog.clock import new_id
from stratalog.codec import encode
from stratalog.errors import Corrupt
from stratalog.log.commit import commit_once
from stratalog.log.environment import Environment
from stratalog.ports.index import Absent, Attribute, Check, Equals, Index, Item, Put
from stratalog.records.versions import Name

__all__ = ["FLOOR_SORT", "Floor", "Mark", "floor_check", "floor_from_item", "read_floor", "store_floor"]

FLOOR_SORT = "!floor"


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """At ``marked_ms`` the versions below ``version`` were given up; they are freed long after."""

    version: int
    marked_ms: int


class Floor(msgspec.Struct, frozen=True, kw_only=True):
    """Versions below ``version`` are forgotten, below ``freeing`` on their way out, below ``freed`` gone."""

    version: int = 1
    freeing: int = 1
    freed: int = 1
    marks: tuple[Mark, ...] = ()
    """What waits to be freed, oldest first."""

    revision: int = 0
    hash: bytes = b""
    """The hash of the version before the oldest retained, which that one continues. Empty while none is forgotten."""

    origin: str = ""
    """What the history began with, which version 1 said before it was forgotten."""


def read_floor(index: Index, name: Name) -> Floor:
    """The floor, read consistently."""
    return floor_from_item(index.get(name.partition, FLOOR_SORT))


def floor_from_item(item: Item | None) -> Floor:
    """The floor an item holds; the lowest where there is none. Raises Corrupt."""
    if item is None:
        return Floor()
    attributes: Any = item.attributes
    try:
        return Floor(
            version=attributes["v"],
            freeing=attributes["e"],
            freed=attributes["g"],
            marks=_decode_marks(attributes["p"]),
            revision=attributes["r"],
            hash=attributes.get("ch", b""),
            origin=attributes.get("og", ""),
        )
    except (KeyError, msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise Corrupt("an item is no floor of a record", partition=item.partition) from exc


def store_floor(environment: Environment, name: Name, floor: Floor) -> Floor:
    """Store ``floor`` in place of the revision it was made from, and answer it as stored.

    Raises ConditionFailed — somebody changed it, nothing written; Unavailable; OutcomeUnknown.
    """
    stored = msgspec.structs.replace(floor, revision=floor.revision + 1)
    write_id = new_id(environment.clock)
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
    condition = Equals("r", floor.revision) if floor.revision else Absent()

    def landed() -> bool:
        item = environment.index.get(name.partition, FLOOR_SORT)
        return item is not None and item.attributes["w"] == write_id

    commit_once(environment, [Put(Item(name.partition, FLOOR_SORT, attributes), condition)], landed)
    return stored


def floor_check(name: Name, floor: Floor) -> Check:
    """Lets a commit stand only while nothing has changed about the floor."""
    return Check(name.partition, FLOOR_SORT, Equals("r", floor.revision) if floor.revision else Absent())


_decode_marks = msgspec.msgpack.Decoder(tuple[Mark, ...]).decode

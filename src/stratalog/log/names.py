"""The name record of a log: which incarnation lives under the name, its current segment, its floor, its parent."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec

from stratalog.codec import encode
from stratalog.errors import Corrupt, NotFound
from stratalog.keys import NAME_SORT, log_prefix, name_partition
from stratalog.ports.index import Attribute, Condition, Equals, Index, Item, Put

__all__ = ["NameRecord", "Parent", "name_put", "read_name", "require_name"]


class Parent(msgspec.Struct, frozen=True, array_like=True):
    """One ancestor of a fork: versions up to ``version``, from where the ancestor before it ends, are that log's."""

    organisation: str
    name: str
    incarnation: str
    version: int
    hash: bytes
    """The hash of that version: the fork's first own entry continues from it."""

    @property
    def prefix(self) -> str:
        """What the parent's partitions start with."""
        return log_prefix(self.organisation, self.name, self.incarnation)


class NameRecord(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The one item of a log that changes: on roll-over, deletion, a raised floor and a fork."""

    organisation: str
    name: str
    kind: str
    incarnation: str
    created_ms: int
    revision: int = 1
    """Counts the changes of this record; each one is conditional on the last."""

    origin: str
    """The random id that the history began with; forks, copies and imports keep it."""

    hash: bytes
    """The hash of the version before the segment below: what an empty segment continues from."""

    segment: int = 1
    """The first version of the segment that was current when the record was last written; seals lead on from it."""

    floor: int = 0
    """The oldest version kept. 0 while everything is."""

    floor_hash: bytes = b""
    """The hash of that version, from which the entries above it are verified; empty while everything is kept."""

    owner: str = ""
    """The owner of the blobs of this log's family."""

    lineage: tuple[Parent, ...] = ()
    """A fork's ancestors, oldest first; the log's own versions start after the last one's."""

    deleted_ms: int = 0

    redacted: bool = False
    """Whether a version was ever redacted: then a fork looks whether storage has a state of its version."""

    @cached_property
    def prefix(self) -> str:
        """What the partitions of this incarnation start with."""
        return log_prefix(self.organisation, self.name, self.incarnation)


def read_name(index: Index, organisation: str, name: str) -> NameRecord | None:
    """The record as it stands, also that of a deleted log; None where the name was never used."""
    item = index.get(name_partition(organisation, name), NAME_SORT)
    return None if item is None else _from_item(item, organisation, name)


def require_name(index: Index, organisation: str, name: str, incarnation: str | None = None) -> NameRecord:
    """The record of a living log, of the given incarnation if one is named. Raises NotFound."""
    record = read_name(index, organisation, name)
    if record is None or record.deleted_ms or incarnation not in (None, record.incarnation):
        raise NotFound("no such log", organisation=organisation, log=name)
    return record


def name_put(record: NameRecord, condition: Condition | None = None) -> Put:
    """The write that stores ``record`` in place of the revision before it, or under ``condition``."""
    attributes: dict[str, Attribute] = {
        "k": record.kind,
        "i": record.incarnation,
        "c": record.created_ms,
        "r": record.revision,
        "s": record.segment,
        "f": record.floor,
        "o": record.owner,
        "g": record.origin,
        "h": record.hash,
    }
    if record.floor_hash:
        attributes["fh"] = record.floor_hash
    if record.lineage:
        attributes["p"] = encode(record.lineage)
    if record.deleted_ms:
        attributes["d"] = record.deleted_ms
    if record.redacted:
        attributes["x"] = 1
    item = Item(name_partition(record.organisation, record.name), NAME_SORT, attributes)
    return Put(item, condition or Equals("r", record.revision - 1))


_decode_lineage = msgspec.msgpack.Decoder(tuple[Parent, ...]).decode


def _from_item(item: Item, organisation: str, name: str) -> NameRecord:
    attributes: Any = item.attributes
    try:
        return NameRecord(
            organisation=organisation,
            name=name,
            kind=attributes["k"],
            incarnation=attributes["i"],
            created_ms=attributes["c"],
            revision=attributes["r"],
            segment=attributes["s"],
            floor=attributes["f"],
            owner=attributes["o"],
            origin=attributes["g"],
            hash=attributes["h"],
            floor_hash=attributes.get("fh", b""),
            lineage=_decode_lineage(attributes["p"]) if "p" in attributes else (),
            deleted_ms=attributes.get("d", 0),
            redacted=bool(attributes.get("x", 0)),
        )
    except (KeyError, msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise Corrupt("an item is no name record", partition=item.partition, reason=str(exc)) from exc

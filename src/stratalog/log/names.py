"""The name record of a log: the incarnation that has the name, its current segment, its floor, its ancestors."""

from __future__ import annotations

from functools import cached_property

import msgspec

from stratalog.codec import encode
from stratalog.errors import NotFound
from stratalog.keys import NAME_SORT, log_prefix, name_partition, split_prefix
from stratalog.ports.index import Attribute, Check, Condition, Equals, Index, Item, Put
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

__all__ = [
    "DOCUMENT_OR_LOG",
    "NameRecord",
    "Parent",
    "StoredName",
    "name_check",
    "name_put",
    "read_name",
    "read_name_of",
    "require_name",
    "reread_name",
]


NOUN = "a name record"
DOCUMENT_OR_LOG = "document or log"
"""The noun of `require_name` where a user may name a document or another log."""


class Parent(msgspec.Struct, frozen=True, array_like=True):
    """One ancestor of a fork. It stores the fork's versions up to ``version`` that no older ancestor stores."""

    organisation: str
    name: str
    incarnation: str
    version: StoredVersion
    hash: bytes
    """The hash of ``version``. The fork's first own entry continues from the hash in the last ancestor."""

    @property
    def prefix(self) -> str:
        """The prefix of the ancestor's partitions."""
        return log_prefix(self.organisation, self.name, self.incarnation)


class NameRecord(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The item under the name of a log. It changes on roll-over, deletion, redaction, a raised floor and a fork.

    The sweep also changes it, if a wrong clock dated the deletion.

    The record of a new log replaces the record of a deleted log of the same name.
    """

    organisation: str
    name: str
    kind: str
    incarnation: str
    created_ms: int
    revision: int = 1
    """Counts the changes of this record; each change is conditional on the revision before it."""

    origin: str
    """The random id of the beginning of the history; forks, copies and imports keep it."""

    hash: bytes
    """The hash of the version before ``segment``. The first entry of the current segment continues from this hash."""

    segment: int = 1
    """The first version of the current segment."""

    floor: int = 0
    """The oldest version kept; 0 while all versions are kept."""

    floor_hash: bytes = b""
    """The hash of the version ``floor``. A verification of the entries above starts from it. Empty without a floor."""

    owner: str = ""
    """The owner of the blobs of this log's family."""

    lineage: tuple[Parent, ...] = ()
    """A fork's ancestors, oldest first. The log's own versions start after the ``version`` of the last ancestor."""

    deleted_ms: int = 0

    redacted: bool = False
    """Whether any version was redacted. If so, a fork checks that storage has a state of the forked version."""

    @cached_property
    def prefix(self) -> str:
        """The prefix of this incarnation's partitions."""
        return log_prefix(self.organisation, self.name, self.incarnation)

    @property
    def first(self) -> int:
        """The version before the log's own first entry: in a fork the version of the fork, else 0."""
        return self.lineage[-1].version if self.lineage else 0


def read_name(index: Index, organisation: str, name: str) -> NameRecord | None:
    """Return the current record, even if the log is deleted; None if no log ever had the name."""
    item = index.get(name_partition(organisation, name), NAME_SORT)
    return None if item is None else _from_item(item, organisation, name)


def read_name_of(index: Index, prefix: str) -> NameRecord | None:
    """Return the record of the log with this prefix, even if the log is deleted; None if another log has the name.

    Raises Corrupt for a prefix of another form.
    """
    record = read_name(index, *split_prefix(prefix))
    return record if record is not None and record.prefix == prefix else None


def require_name(
    index: Index, organisation: str, name: str, incarnation: str | None = None, *, noun: str = "log"
) -> NameRecord:
    """Return the record of an existing log; with ``incarnation``, only of this incarnation.

    Raises NotFound, whose message calls the log a ``noun``.
    """
    record = read_name(index, organisation, name)
    if record is None or record.deleted_ms or incarnation not in (None, record.incarnation):
        raise NotFound(f"{noun} not found", organisation=organisation, log=name)
    return record


def reread_name(index: Index, known: NameRecord | Parent) -> NameRecord:
    """Return the present record of a log that the caller has read before. Raises NotFound if that log is deleted."""
    return require_name(index, known.organisation, known.name, known.incarnation)


def name_put(record: NameRecord, condition: Condition | None = None) -> Put:
    """Return the write that stores ``record`` in place of the revision before it, or under ``condition``."""
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


def name_check(record: NameRecord) -> Check:
    """Return the check that lets a commit succeed only if the record has not changed since the caller read it."""
    return Check(name_partition(record.organisation, record.name), NAME_SORT, Equals("r", record.revision))


class StoredName(msgspec.Struct, frozen=True, gc=False):
    """The attributes of a name record."""

    k: str
    i: str
    c: Time
    r: Count
    s: PositiveVersion
    f: StoredVersion
    o: str
    g: str
    h: Hash
    fh: Hash = b""
    p: Packed = b""
    d: Time = 0
    x: Count = 0


_decode_lineage = msgspec.msgpack.Decoder(tuple[Parent, ...]).decode


def _from_item(item: Item, organisation: str, name: str) -> NameRecord:
    stored = read_attributes(item, StoredName, NOUN)
    return NameRecord(
        organisation=organisation,
        name=name,
        kind=stored.k,
        incarnation=stored.i,
        created_ms=stored.c,
        revision=stored.r,
        segment=stored.s,
        floor=stored.f,
        owner=stored.o,
        origin=stored.g,
        hash=stored.h,
        floor_hash=stored.fh,
        lineage=decode_attribute(item, "p", _decode_lineage, NOUN) if "p" in item.attributes else (),
        deleted_ms=stored.d,
        redacted=bool(stored.x),
    )

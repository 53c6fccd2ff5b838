"""Versions of a record, and the index items that store them. `formats/records.md` describes the bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from stratalog.codec import Value, canonical, encode, sha256, unpack_item
from stratalog.errors import Corrupt, Invalid, LimitExceeded
from stratalog.keys import RecordKey, number, parse_number, record_key, record_partition
from stratalog.limits import BODY_PART_BYTES, INTEGER_MAX, METADATA_BYTES_MAX
from stratalog.log.bodies import BodyRef, decode_body_ref
from stratalog.ports.index import Attribute, Index, Item
from stratalog.ports.stored_attributes import Count, Hash, Packed, Time, decode_attribute, read_attributes

__all__ = [
    "BEFORE_VERSIONS",
    "TOMBSTONE",
    "Name",
    "Record",
    "RecordVersion",
    "StoredRecordVersion",
    "check_metadata",
    "check_source_time",
    "checked_item",
    "decode_ref",
    "inline_content",
    "latest_item",
    "unchecked_latest_item",
    "version_from_item",
]

TOMBSTONE = "t"
NOUN = "a version of a record"
BEFORE_VERSIONS = number(0)
"""No version has this sort key. The other items of a record's partition sort before this key."""


class Name(msgspec.Struct, frozen=True):
    """The identity of a record: its organisation and its id in the organisation."""

    organisation: str
    id: str
    known_key: RecordKey | None = None
    """The key, for a record whose id is unknown; ``id`` is then unused.

    The collector finds such records by their blobs.
    """

    @property
    def key(self) -> RecordKey:
        """The id as one component of keys. Raises Invalid or LimitExceeded for an id that cannot be a key."""
        return self.known_key or record_key(self.id)

    @property
    def partition(self) -> str:
        """The partition of the record's versions. Raises the errors of ``key``."""
        return record_partition(self.organisation, self.key)


class RecordVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a record without its body. ``created_ms`` never decreases from a version to the next."""

    id: str
    version: int
    created_ms: int
    write_id: str
    size: int
    digest: bytes
    """The SHA-256 of the whole body; empty for a deletion or a redacted version."""

    source_time_ms: int | None = None
    """The time of the value's last change, given by the source."""

    metadata: Mapping[str, Value] = {}
    deleted: bool = False
    principal: str = ""
    """The id of the principal that requested the version. Empty if no principal was identified."""

    redacted: bool = False
    """Whether the body was erased: its size and digest are no longer known."""

    hash: bytes = b""
    """The hash that names the history of the record up to this version; see `formats/chain.md`."""

    ref: BodyRef | None = None
    """The reference to the body; None if the item itself holds the body."""


class Record(msgspec.Struct, frozen=True):
    """A version with its body, whose hash was verified."""

    version: RecordVersion
    body: bytes


class StoredRecordVersion(msgspec.Struct, frozen=True, gc=False):
    """The attributes of a version of a record."""

    c: Time
    w: str
    n: Count
    h: Hash
    ch: Hash
    s: bytes = b""
    b: bytes = b""
    z: bytes = b""
    x: Packed = b""
    u: Packed = b""
    d: bytes = b""
    t: Time | None = None
    k: str = ""
    o: str = ""
    p: str = ""
    og: str = ""


def version_from_item(name: Name, item: Item) -> RecordVersion:
    """Return the version that an item holds. Raises Corrupt."""
    stored = read_attributes(item, StoredRecordVersion, NOUN)
    return RecordVersion(
        id=name.id,
        version=parse_number(item.sort),
        created_ms=stored.c,
        write_id=stored.w,
        size=stored.n,
        digest=stored.h,
        source_time_ms=stored.t,
        metadata=decode_attribute(item, "u", _decode_metadata, NOUN) if "u" in item.attributes else {},
        deleted=stored.k == TOMBSTONE,
        principal=stored.p,
        redacted="d" in item.attributes,
        hash=stored.ch,
        ref=decode_attribute(item, "x", decode_body_ref, NOUN) if "x" in item.attributes else None,
    )


def checked_item(item: Item) -> Item:
    """Return ``item``, whose attributes have the types and ranges of a version. Raises Corrupt."""
    read_attributes(item, StoredRecordVersion, NOUN)
    return item


def inline_content(item: Item) -> bytes:
    """Return the body that an item itself holds, verified. Raises Corrupt."""
    attributes: Mapping[str, Any] = item.attributes
    body = unpack_item(attributes, BODY_PART_BYTES, f"{item.partition}/{item.sort}")
    if body is None:
        raise Corrupt("an item has neither a body nor a pointer", partition=item.partition, sort=item.sort)
    if sha256(body) != attributes.get("h"):
        raise Corrupt("a body does not have its recorded hash", partition=item.partition, sort=item.sort)
    return body


def unchecked_latest_item(index: Index, partition: str) -> Item | None:
    """Return the latest version, the partition's last item, read consistently; None if the record has no version.

    Its attributes may be damaged. A caller that uses them calls `latest_item`.
    """
    return next(index.query(partition, after=BEFORE_VERSIONS, reverse=True, limit=1), None)


def latest_item(index: Index, partition: str) -> Item | None:
    """Return the latest version as `unchecked_latest_item` does. Raises Corrupt if its attributes are damaged."""
    latest = unchecked_latest_item(index, partition)
    return None if latest is None else checked_item(latest)


def check_metadata(metadata: Mapping[str, Value] | None) -> dict[str, Attribute]:
    """Return the attribute that stores ``metadata``; ``{}`` without metadata. Raises Invalid or LimitExceeded."""
    if not metadata:
        return {}
    if not isinstance(metadata, Mapping):
        raise Invalid("metadata must be a mapping", value=type(metadata).__name__)
    stored = encode(canonical(dict(metadata), "metadata"))
    if len(stored) > METADATA_BYTES_MAX:
        raise LimitExceeded("a record's metadata is too large", value=len(stored), limit=METADATA_BYTES_MAX)
    return {"u": stored}


def check_source_time(source_time_ms: int | None) -> dict[str, Attribute]:
    """Return the attribute that stores the source's time; ``{}`` without a time. Raises Invalid."""
    if source_time_ms is None:
        return {}
    if type(source_time_ms) is not int or abs(source_time_ms) > INTEGER_MAX:
        raise Invalid("a source's time must be an integer of milliseconds", value=source_time_ms)
    return {"t": source_time_ms}


def decode_ref(stored: Attribute) -> BodyRef:
    """Return the body reference that an item stores. Raises Corrupt."""
    try:
        return decode_body_ref(stored)  # type: ignore[arg-type]
    except (TypeError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise Corrupt("a pointer to a body cannot be decoded", reason=str(exc)) from exc


_decode_metadata = msgspec.msgpack.Decoder(dict[str, Any]).decode

"""Entries and events, and the index items that store them. `formats/log.md` describes the bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter, eq
from typing import Annotated, Any

import msgspec

from stratalog.codec import PLAIN, ZSTD, Plain, Value, canonical, compress, encode, reread, unpack_item
from stratalog.errors import Corrupt, Invalid, LimitExceeded
from stratalog.keys import parse_number
from stratalog.limits import (
    AUTHOR_BYTES_MAX,
    ENTRY_BYTES_MAX,
    ENTRY_EVENTS_MAX,
    EVENT_TYPE_BYTES_MAX,
    INTEGER_MAX,
    PRINCIPAL_BYTES_MAX,
    WRITE_ID_BYTES_MAX,
)
from stratalog.log.bodies import decode_body_ref, read_body
from stratalog.ports.blobs import Blobs
from stratalog.ports.index import Item
from stratalog.ports.stored_attributes import Hash, Packed, Time, decode_attribute, read_attributes

__all__ = [
    "END",
    "SEAL",
    "Entry",
    "Event",
    "StoredEntry",
    "StoredRedaction",
    "Upcasters",
    "check_author",
    "check_principal",
    "check_write_id",
    "decode_events",
    "encode_events",
    "entry_from_item",
    "inline_body",
    "inline_entries",
]

SEAL = "s"
END = "e"
COMPRESS_BYTES_MIN = 512
NOUN = "an entry"

Upcasters = Mapping[tuple[str, int], Callable[[Any], Any]]
"""(type, schema) → the function that turns an event's data of this type and schema into data of schema + 1."""


class Event(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One event: a type and its data. ``schema`` is the version of the structure of ``data`` for this type, from 1."""

    type: str
    data: Any = None
    schema: int = 1


class _PlainEvent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An event that msgspec alone can validate. Other events take a slower path.

    The length limit of ``type`` counts characters. A character has up to four bytes, so the limit is a quarter.
    """

    type: Annotated[str, msgspec.Meta(max_length=EVENT_TYPE_BYTES_MAX // 4)]
    data: Plain
    schema: Annotated[int, msgspec.Meta(ge=1, le=INTEGER_MAX)]


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One entry: the events of one append. Its number is its version. ``created_ms`` never decreases along a log."""

    version: int
    created_ms: int
    author: str
    write_id: str
    events: tuple[Event, ...]
    principal: str = ""
    """The id of the principal that asked for the entry; empty without a principal. ``author`` is the name to show."""

    hash: bytes = b""
    """The hash identifies the history up to this entry; see `stratalog.log.chain`."""

    salt: bytes = b""
    """Random bytes in the body's digest. Without the salt nobody can check a guess of a redacted body by its digest."""

    redacted: bytes = b""
    """The digest of the body in the chain, if events and salt were erased; else ``b""``.

    In an entry whose events were erased, ``events`` is empty.
    """


class StoredEntry(msgspec.Struct, frozen=True, gc=False):
    """The attributes of an entry; see `stratalog.ports.stored_attributes`."""

    c: Time
    w: str
    h: Hash
    s: bytes
    a: str = ""
    p: str = ""
    b: bytes = b""
    z: bytes = b""
    x: Packed = b""


class StoredRedaction(msgspec.Struct, frozen=True, gc=False):
    """The attributes of an entry whose events were erased."""

    c: Time
    w: str
    h: Hash
    d: bytes
    a: str = ""
    p: str = ""


def encode_events(events: Sequence[Event], *, checked: bool = False) -> bytes:
    """Return the canonical bytes of an entry's events. ``checked`` means that the events' data is already canonical.

    Raises Invalid or LimitExceeded for events that may not be stored.
    """
    if not 1 <= len(events) <= ENTRY_EVENTS_MAX:
        raise LimitExceeded("an entry has too few or too many events", value=len(events), limit=ENTRY_EVENTS_MAX)
    body = encode(events) if checked else _checked_body(events)
    if len(body) > ENTRY_BYTES_MAX:
        raise LimitExceeded("an entry's events are too large", value=len(body), limit=ENTRY_BYTES_MAX)
    return body


def inline_body(body: bytes) -> tuple[str, bytes]:
    """Return the tag of a codec, and ``body`` in this codec. A long body is compressed, if that saves bytes."""
    if len(body) >= COMPRESS_BYTES_MIN and len(packed := compress(body)) < len(body):
        return ZSTD.tag, packed
    return PLAIN.tag, body


def entry_from_item(item: Item, blobs: Blobs, owner: str, upcasters: Upcasters | None = None) -> Entry:
    """Return the entry that an item stores. If the item has no body, read the body from blobs.

    Raises Corrupt, and Unsupported for a codec of a newer Stratalog.
    """
    version = parse_number(item.sort)
    if "d" in item.attributes:
        erased = read_attributes(item, StoredRedaction, NOUN)
        return Entry(version, erased.c, erased.a, erased.w, (), erased.p, erased.h, redacted=erased.d)
    stored = read_attributes(item, StoredEntry, NOUN)
    try:
        events = decode_events(stored.b or _stored_body(item, blobs, owner))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise Corrupt("an item is not an entry", partition=item.partition, sort=item.sort, reason=str(exc)) from exc
    # An upcaster is the application's code. Its errors are no damage.
    if upcasters:
        events = tuple(_upcast(event, upcasters) for event in events)
    return Entry(version, stored.c, stored.a, stored.w, events, stored.p, stored.h, stored.s)


def inline_entries(items: Sequence[Item], first: int) -> list[Entry] | None:
    """Return the entries of ``items`` in half the time of `entry_from_item`; None if an item needs `entry_from_item`.

    ``items`` are in order. So the version of the last item shows whether ``items`` start at ``first`` without a gap.
    """
    if parse_number(items[-1].sort) != first + len(items) - 1:
        return None
    try:
        entries = [
            Entry(version, a["c"], a.get("a", ""), a["w"], decode_events(a["b"]), a.get("p", ""), a["h"], a["s"])
            for version, a in enumerate(map(_attributes_of, items), first)
        ]
    except (KeyError, TypeError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return entries if all(map(_has_own_types, entries)) else None


def _has_own_types(entry: Entry) -> bool:
    """Return whether the facts of an entry have the types and range of `StoredEntry`. This takes 0.1 µs."""
    return (
        type(entry.created_ms) is int
        and -INTEGER_MAX <= entry.created_ms <= INTEGER_MAX
        and type(entry.author) is type(entry.write_id) is type(entry.principal) is str
        and type(entry.hash) is type(entry.salt) is bytes
    )


def check_author(author: str) -> str:
    """Return ``author``. Raises Invalid or LimitExceeded."""
    return _bounded(author, "author", AUTHOR_BYTES_MAX)


def check_principal(principal: str) -> str:
    """Return ``principal``. Raises Invalid or LimitExceeded."""
    return _bounded(principal, "principal", PRINCIPAL_BYTES_MAX)


def check_write_id(write_id: str) -> str:
    """Return ``write_id``. Raises Invalid or LimitExceeded."""
    if not write_id:
        raise Invalid("a write id must have at least one character", value=write_id)
    return _bounded(write_id, "write id", WRITE_ID_BYTES_MAX)


decode_events = msgspec.msgpack.Decoder(Annotated[tuple[Event, ...], msgspec.Meta(min_length=1)]).decode
_plain_events = msgspec.msgpack.Decoder(list[_PlainEvent])
_data_of = attrgetter("data")
_attributes_of: Callable[[Item], Any] = attrgetter("attributes")


def _stored_body(item: Item, blobs: Blobs, owner: str) -> bytes:
    body = unpack_item(item.attributes, ENTRY_BYTES_MAX, f"{item.partition}/{item.sort}")
    if body is not None:
        return body
    return read_body(blobs, f"{owner}/bodies", decode_attribute(item, "x", decode_body_ref, NOUN))


def _checked_body(events: Sequence[Event]) -> bytes:
    body, plain = reread(events, _plain_events)
    if plain is not None:
        # Most entries have one event. A direct comparison of its data takes a quarter of the time of the code below.
        if len(events) == 1 and plain[0].data == events[0].data:
            return body
        if all(map(eq, map(_data_of, plain), map(_data_of, events))):
            return body
    return encode([_checked(event) for event in events])


def _checked(event: Event) -> list[Value]:
    if not isinstance(event, Event):
        raise Invalid("an entry has events only", type=type(event).__name__)
    if type(event.schema) is not int or not 1 <= event.schema <= INTEGER_MAX:
        raise Invalid("an event's schema version is out of range", value=event.schema, limit=INTEGER_MAX)
    kind = _bounded(event.type, "event type", EVENT_TYPE_BYTES_MAX)
    return [kind, canonical(event.data, "event data"), event.schema]


def _upcast(event: Event, upcasters: Upcasters) -> Event:
    while change := upcasters.get((event.type, event.schema)):
        event = Event(event.type, change(event.data), event.schema + 1)
    return event


def _bounded(text: str, what: str, limit: int) -> str:
    if type(text) is not str:
        raise Invalid(f"{what} must be text", value=text)
    size = len(text) if text.isascii() else len(canonical(text, what).encode())
    if size > limit:
        raise LimitExceeded(f"{what} is too long", value=size, limit=limit)
    return text

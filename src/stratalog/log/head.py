"""The head: the end of a log, and the search for it."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import msgspec

from stratalog.clock import Clock, Observation
from stratalog.errors import NotFound, Unavailable
from stratalog.keys import entries_partition, parse_number
from stratalog.limits import OBSERVATION_SECONDS_MAX
from stratalog.log.entries import END, SEAL
from stratalog.log.names import NameRecord, reread_name
from stratalog.ports.index import Index, Item
from stratalog.ports.stored_attributes import Time, read_attributes

__all__ = ["LOOKS_MAX", "Head", "find_head", "first_head", "follow_head", "head_rank"]

LOOKS_MAX = 3
"""The number of tries of a read. A try that took longer than the observation rule allows is repeated."""


class Head(msgspec.Struct, frozen=True, gc=False):
    """The end of a log, read or written after ``seen`` was taken: the last version, its segment and its time."""

    version: int
    segment: int
    created_ms: int
    hash: bytes
    """The hash identifies the history up to ``version``."""

    seen: Observation


class _StoredFacts(msgspec.Struct, frozen=True, gc=False):
    c: Time
    h: bytes


head_rank = attrgetter("version", "seen.boot_ms")
"""Orders the heads that one process has seen of one incarnation."""


def first_head(name: NameRecord, seen: Observation) -> Head:
    """Return a head from which a search can start: the version just before the segment that ``name`` names.

    ``seen`` was taken right before ``name`` was read.
    """
    return Head(name.segment - 1, name.segment, name.created_ms, name.hash, seen)


def find_head(index: Index, clock: Clock, name: NameRecord) -> Head:
    """Return the head of the incarnation of ``name``. Reads the name record and the last item. Raises NotFound.

    Raises Unavailable if each try took so long that the segment read may have been freed meanwhile.
    """
    for _ in range(LOOKS_MAX):
        seen = Observation(clock)
        name = reread_name(index, name)
        current = _head_from(index, clock, name, first_head(name, seen))
        if current is not None:
            return current
    raise Unavailable(
        "the reads of the head took too long to be consistent; read again",
        organisation=name.organisation,
        log=name.name,
    )


def follow_head(index: Index, clock: Clock, name: NameRecord, head: Head | None) -> Head:
    """Return the head. A search from ``head`` needs one read while its segment is the last segment. Raises NotFound.

    If ``head`` is older than the observation rule allows, another process may have freed its segment. A delayed writer
    may then have put an item there, which is not an entry of the log. So the search begins at the name record.
    """
    if head is not None and head.seen.age_seconds() <= OBSERVATION_SECONDS_MAX:
        current = _head_from(index, clock, name, head)
        if current is not None:
            return current
    return find_head(index, clock, name)


def _head_from(index: Index, clock: Clock, name: NameRecord, head: Head) -> Head | None:
    """Return the head, read now. None if ``head`` is too old after the read, or its segment's entries are gone."""
    seen = Observation(clock)
    current = _walk(index, name, head.segment, seen)
    if current is None and head.version < head.segment:
        current = msgspec.structs.replace(head, seen=seen)
    return current if head.seen.age_seconds() <= OBSERVATION_SECONDS_MAX else None


def _walk(index: Index, name: NameRecord, segment: int, seen: Observation) -> Head | None:
    """Follow the seals from ``segment`` on and return the head; None if a segment on this path has no items."""
    while True:
        last = _last_item(index, name.prefix, segment)
        if last is None:
            return None
        attributes: Any = last.attributes
        kind = attributes.get("k")
        if kind == END:
            raise NotFound("the log was deleted", organisation=name.organisation, log=name.name)
        if kind != SEAL:
            return Head(parse_number(last.sort), segment, *_facts(last), seen)
        segment = parse_number(last.sort)


def _facts(entry: Item) -> tuple[int, bytes]:
    """Return the time and the hash of an entry."""
    stored = read_attributes(entry, _StoredFacts, "an entry")
    return stored.c, stored.h


def _last_item(index: Index, prefix: str, segment: int) -> Item | None:
    return next(index.query(entries_partition(prefix, segment), reverse=True, limit=1), None)

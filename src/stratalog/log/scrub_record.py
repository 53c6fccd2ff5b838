"""The scrub record: how far the scrub of a store's blobs came, and what the last round that came to its end showed.

The scrub writes it. Code that forgets history reads it, to look an old value up where it would else read it again.
"""

from __future__ import annotations

import msgspec

from stratalog.keys import MAINTENANCE_PARTITION
from stratalog.limits import SCRUB_CLOCKS_SECONDS_MAX, SCRUB_PROOF_SECONDS_MAX
from stratalog.log.environment import Environment
from stratalog.ports.index import Item, Put

__all__ = ["ScrubRecord", "load_scrub_record", "save_scrub_record", "scrubbed_before_ms"]

FORMAT = 2
SCRUB_SORT = "scrub"


class ScrubRecord(msgspec.Struct, array_like=True):
    """The position, and what the last whole round was."""

    after: str = ""
    """The key of the blob that was read last; empty between two rounds."""

    began_ms: int = 0
    passed_ms: int = 0
    """When the last pass ended."""

    bytes_read: int = 0
    """In this round."""

    damaged: int = 0
    """Blobs of this round that were damaged."""

    round_began_ms: int = 0
    round_bytes: int = 0
    round_damaged: int = 0
    """Of the last round that came to its end."""


def load_scrub_record(environment: Environment) -> ScrubRecord:
    """The record; an empty one where there is none or it cannot be read. Raises Unavailable."""
    item = environment.index.get(MAINTENANCE_PARTITION, SCRUB_SORT)
    if item is None or item.attributes.get("f") != FORMAT:
        return ScrubRecord()
    try:
        return _decode(item.attributes["b"])  # type: ignore[arg-type]
    except (KeyError, TypeError, msgspec.DecodeError, UnicodeDecodeError):
        return ScrubRecord()


def save_scrub_record(environment: Environment, record: ScrubRecord) -> None:
    """Replace the record. Raises Unavailable, OutcomeUnknown: the scrub then reads some blobs again."""
    body = msgspec.msgpack.encode(record)
    environment.index.commit([Put(Item(MAINTENANCE_PARTITION, SCRUB_SORT, {"f": FORMAT, "b": body}))])


def scrubbed_before_ms(environment: Environment) -> int:
    """Blobs that were stored before this time, and stand, were read whole within `SCRUB_PROOF_SECONDS_MAX`. 0: none.

    A round that met a damaged blob proves nothing of the others: what damaged one may have damaged more since. Blobs
    are dated by the storage's clock and rounds by a process's, so the two may disagree by `SCRUB_CLOCKS_SECONDS_MAX`.
    """
    record, now_ms = load_scrub_record(environment), environment.clock.wall_ms()
    age_ms = now_ms - record.round_began_ms
    if not record.round_began_ms or record.round_damaged or not 0 <= age_ms < SCRUB_PROOF_SECONDS_MAX * 1000:
        return 0
    return max(0, record.round_began_ms - SCRUB_CLOCKS_SECONDS_MAX * 1000)


_decode = msgspec.msgpack.Decoder(ScrubRecord).decode

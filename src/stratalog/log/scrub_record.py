"""The scrub record: the position of the blob scrub, and the result of its last complete round.

A round reads every blob of the store once. The scrub writes the record. Code that forgets history reads the
record, so that it need not read old blobs that a recent round has verified.
"""

from __future__ import annotations

import msgspec

from stratalog.keys import MAINTENANCE_PARTITION
from stratalog.limits import SCRUB_CLOCKS_SECONDS_MAX, SCRUB_PROOF_SECONDS_MAX
from stratalog.log.environment import Environment
from stratalog.log.listed_items import get_listed
from stratalog.ports.index import Item, Put

__all__ = ["ScrubRecord", "load_scrub_record", "save_scrub_record", "scrubbed_before_ms"]

FORMAT = 3
SCRUB_SORT = "scrub"


class ScrubRecord(msgspec.Struct, array_like=True):
    """The position of the current round, and the result of the last complete round."""

    after: str = ""
    """The key of the blob read last; empty until the round has read a blob, and between two rounds."""

    began_ms: int = 0
    """The time at which the current round began; ``round_began_ms`` between two rounds."""

    passed_ms: int = 0
    """The time at which the last pass that read blobs began."""

    counted: str = ""
    """The key of the blob counted last. A round first adds up the sizes of all blobs."""

    total_bytes: int = 0
    """The stored bytes of the counted blobs."""

    damaged: int = 0
    """The number of damaged blobs in this round."""

    round_began_ms: int = 0
    round_damaged: int = 0
    """The two ``round_`` fields describe the last complete round."""


def load_scrub_record(environment: Environment) -> ScrubRecord:
    """Return the record; an empty record if it does not exist or cannot be read. Raises Unavailable."""
    item = get_listed(environment.index, MAINTENANCE_PARTITION, SCRUB_SORT).item
    if item is None or item.attributes.get("f") != FORMAT:
        return ScrubRecord()
    try:
        return _decode(item.attributes["b"])  # type: ignore[arg-type]
    except (KeyError, TypeError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ScrubRecord()


def save_scrub_record(environment: Environment, record: ScrubRecord) -> None:
    """Replace the record. Raises Unavailable, OutcomeUnknown: the scrub then reads some blobs again."""
    body = msgspec.msgpack.encode(record)
    environment.index.commit([Put(Item(MAINTENANCE_PARTITION, SCRUB_SORT, {"f": FORMAT, "b": body}))])


def scrubbed_before_ms(environment: Environment) -> int:
    """Return a time T in milliseconds: the last complete round verified each blob that was stored before T and exists.

    The result is 0 without such a round, or if the round began more than `SCRUB_PROOF_SECONDS_MAX` ago. It is also 0 if
    the round found a damaged blob: the cause may have damaged more blobs since. The clock of the storage dates blobs,
    and the clock of a process dates rounds. These clocks may differ by `SCRUB_CLOCKS_SECONDS_MAX`.
    """
    record, now_ms = load_scrub_record(environment), environment.clock.wall_ms()
    age_ms = now_ms - record.round_began_ms
    if not record.round_began_ms or record.round_damaged or not 0 <= age_ms < SCRUB_PROOF_SECONDS_MAX * 1000:
        return 0
    return max(0, record.round_began_ms - SCRUB_CLOCKS_SECONDS_MAX * 1000)


_decode = msgspec.msgpack.Decoder(ScrubRecord).decode

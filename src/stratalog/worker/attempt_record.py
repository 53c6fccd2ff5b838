"""The attempt record of a queued message that failed. The index holds it until the message is settled.

A mutation that a worker rejected after the last attempt leaves a record of its own for good. It is a dead letter,
though its message is settled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import msgspec

from stratalog.errors import Corrupt
from stratalog.keys import QUEUE_ATTEMPTS_PARTITION, REJECTED_PARTITION
from stratalog.ports.index import Attribute, Delete, Index, Item, Put

__all__ = [
    "AttemptRecord",
    "RejectedMutation",
    "drop_attempts",
    "list_rejections",
    "read_attempts",
    "write_attempts",
    "write_rejection",
]

Stored = TypeVar("Stored", bound=msgspec.Struct)


class AttemptRecord(msgspec.Struct, frozen=True):
    """Why and when a message failed, which of its mutations was tried alone, and how often.

    ``receives`` counts the receives of the message when that trial began. ``redriven_ms`` is when the dead letter was
    redriven.
    """

    reason: str = ""
    failed_ms: int = 0
    client: str = ""
    id: int = 0
    tries: int = 0
    receives: int = 0
    redriven_ms: int = 0


class RejectedMutation(msgspec.Struct, frozen=True):
    """A mutation that a worker committed as a rejection, since it kept failing. ``redriven_ms`` is 0 until it was.

    ``args`` are the canonical bytes of edited arguments; empty where it is to run as it came.
    """

    organisation: str
    document: str
    incarnation: str
    client: str
    id: int
    reason: str
    receives: int
    rejected_ms: int
    redriven_ms: int = 0
    args: bytes = b""


def read_attempts(index: Index, message_id: str) -> AttemptRecord:
    """The record of a message; an empty one where there is none. Raises Corrupt, Unavailable."""
    item = index.get(QUEUE_ATTEMPTS_PARTITION, message_id)
    return AttemptRecord() if item is None else _read(item, AttemptRecord)


def write_attempts(index: Index, message_id: str, record: AttemptRecord) -> None:
    """Replace the record of a message. Raises what ``commit`` raises."""
    index.commit([_put(QUEUE_ATTEMPTS_PARTITION, message_id, record)])


def drop_attempts(index: Index, message_id: str) -> None:
    """Delete the record of a settled message. Raises what ``commit`` raises."""
    index.commit([Delete(QUEUE_ATTEMPTS_PARTITION, message_id)])


def list_rejections(index: Index, *, after: str = "") -> Iterator[tuple[str, RejectedMutation]]:
    """The mutations that workers rejected, by letter: the id of the message, a slash, the mutation's position in it.

    A letter with edited arguments has another slash and their hash.
    """
    for item in index.query(REJECTED_PARTITION, after=after or None):
        yield item.sort, _read(item, RejectedMutation)


def write_rejection(index: Index, letter: str, rejection: RejectedMutation) -> None:
    """Replace the record of a rejected mutation. Raises what ``commit`` raises."""
    index.commit([_put(REJECTED_PARTITION, letter, rejection)])


def _put(partition: str, sort: str, record: msgspec.Struct) -> Put:
    attributes: dict[str, Attribute] = msgspec.to_builtins(record, builtin_types=(bytes,))
    return Put(Item(partition, sort, attributes))


def _read(item: Item, kind: type[Stored]) -> Stored:
    try:
        return msgspec.convert(dict(item.attributes), kind)
    except msgspec.ValidationError as exc:
        raise Corrupt("an item is no attempt record of the queue", sort=item.sort, reason=str(exc)) from exc

"""The attempt record of a queued message: its last failure, and the mutation that last ran alone.

The index stores the record until the message is settled.
"""

from __future__ import annotations

import msgspec

from stratalog.keys import QUEUE_ATTEMPTS_PARTITION
from stratalog.ports.index import Attribute, Delete, Index, Item, Put
from stratalog.ports.stored_attributes import read_attributes

__all__ = ["AttemptRecord", "drop_attempts", "read_attempts", "write_attempts"]


class AttemptRecord(msgspec.Struct, frozen=True):
    """The reason and time of a message's last failure, and the mutation of the message that last ran alone.

    ``client`` and ``id`` name this mutation. ``tries`` is the number of its runs alone. ``receives`` is the number of
    receives of the message when the last of these runs began. A run that ended with an error of a port is not counted,
    and sets ``receives`` to 0. ``redriven_ms`` is the time of the last redrive of the dead letter.
    """

    reason: str = ""
    failed_ms: int = 0
    client: str = ""
    id: int = 0
    tries: int = 0
    receives: int = 0
    redriven_ms: int = 0


def read_attempts(index: Index, message_id: str) -> AttemptRecord:
    """Return the record of a message; an empty record if none is stored. Raises Corrupt, Unavailable."""
    item = index.get(QUEUE_ATTEMPTS_PARTITION, message_id)
    return AttemptRecord() if item is None else read_attributes(item, AttemptRecord, "an attempt record of the queue")


def write_attempts(index: Index, message_id: str, record: AttemptRecord) -> None:
    """Store the record of a message in place of an earlier record. Raises the errors of ``Index.commit``."""
    attributes: dict[str, Attribute] = msgspec.to_builtins(record)
    index.commit([Put(Item(QUEUE_ATTEMPTS_PARTITION, message_id, attributes))])


def drop_attempts(index: Index, message_id: str) -> None:
    """Delete the record of a settled message. Raises the errors of ``Index.commit``."""
    index.commit([Delete(QUEUE_ATTEMPTS_PARTITION, message_id)])

"""Notes: what is known of a queued message that failed, kept in the index until the message is settled."""

from __future__ import annotations

import msgspec

from stratalog.errors import Corrupt
from stratalog.keys import QUEUE_NOTES_PARTITION
from stratalog.ports.index import Attribute, Delete, Index, Item, Put

__all__ = ["Note", "drop_note", "read_note", "write_note"]


class Note(msgspec.Struct, frozen=True):
    """Why a message failed and when, and which of its mutations was on trial, for the how manieth time.

    ``receives`` is the giving-out during which that trial began; ``redriven_ms`` is when the dead letter was redriven.
    """

    reason: str = ""
    failed_ms: int = 0
    client: str = ""
    id: int = 0
    tries: int = 0
    receives: int = 0
    redriven_ms: int = 0


def read_note(index: Index, message_id: str) -> Note:
    """The note of a message; an empty one where there is none. Raises Corrupt, Unavailable."""
    item = index.get(QUEUE_NOTES_PARTITION, message_id)
    if item is None:
        return Note()
    try:
        return msgspec.convert(dict(item.attributes), Note)
    except msgspec.ValidationError as exc:
        raise Corrupt("an item is no note of a message", sort=message_id, reason=str(exc)) from exc


def write_note(index: Index, message_id: str, note: Note) -> None:
    """Keep the note in place of the one before. Raises what ``commit`` raises."""
    attributes: dict[str, Attribute] = msgspec.to_builtins(note)
    index.commit([Put(Item(QUEUE_NOTES_PARTITION, message_id, attributes))])


def drop_note(index: Index, message_id: str) -> None:
    """Forget the note of a message that is settled. Raises what ``commit`` raises."""
    index.commit([Delete(QUEUE_NOTES_PARTITION, message_id)])

"""What an entry of a document says: the mutations, their outcomes, and the patch they made together.

``formats/documents.md`` describes the bytes. The shapes are read as plain lists where speed matters: in the fold.
"""

from __future__ import annotations

import msgspec

from stratalog.errors import Redacted, Unsupported
from stratalog.log import Entry, Event
from stratalog.protocol.messages import payload_hash

__all__ = [
    "BASE",
    "COLLECT",
    "COMMIT",
    "FLOOR",
    "RESUME",
    "Commit",
    "Merged",
    "PatchRow",
    "Recorded",
    "Resume",
    "check_schema",
    "read_commit",
]

COMMIT = "commit"
COLLECT = "collect"
FLOOR = "floor"
BASE = "base"
RESUME = "resume"


class Recorded(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One mutation as committed. ``args`` are canonical bytes; a large argument in them is a reference."""

    client: str
    id: int
    name: str
    args: bytes
    reason: str | None = None
    """Why it was rejected; None where it was applied."""

    payload: bytes | None = None
    """The payload hash, where it cannot be had from ``args`` because they hold references."""

    origin: tuple[str, int] | None = None
    """The client and id it had where it was first applied, when it is a replay."""

    @property
    def hash(self) -> bytes:
        """What tells two payloads of one number apart."""
        return self.payload or payload_hash(self.name, self.args)


class PatchRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One key an entry changed."""

    key: str
    value: bytes | None
    """As stored in the slot; None where the key was deleted."""

    before: int
    """The version that changed the key before; 0 for none; negative where that version deleted it."""

    by: tuple[int, ...]
    """Which of the entry's mutations touched the key."""


class Merged(msgspec.Struct, frozen=True, array_like=True):
    """How far an entry takes the merge of a fork."""

    client: str
    """As whom the fork is merged."""

    version: int
    """The fork's version that holds the last mutation merged so far."""

    hash: bytes
    """The fork's hash at that version; see `stratalog.log.chain`."""


class Commit(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The data of a ``commit`` event."""

    mutations: tuple[Recorded, ...] = ()
    patch: tuple[PatchRow, ...] = ()
    bindings: tuple[tuple[str, str, str], ...] = ()
    """(client, group, owner) of clients seen for the first time."""

    fields_bytes: int | None = None
    """The size of all fields after this entry, where one changed."""

    merged: Merged | None = None
    """In an entry of a merge: how far that has come. Other entries leave the element out."""

    def event(self) -> Event:
        """The event that says it."""
        data = msgspec.to_builtins(self, builtin_types=(bytes,))
        return Event(COMMIT, data if self.merged is not None else data[:-1])


class Resume(msgspec.Struct, frozen=True, array_like=True):
    """The data of a ``resume`` event: clients of a lost branch go on where they were told to be. See `resumption`."""

    group: str
    owner: str
    clients: tuple[tuple[str, int, int, tuple[tuple[int, int], ...]], ...]
    """(client, last number here, last number it was told, what went with lost branches).

    What went are ranges of numbers (above, up to) in order. The last one ends with the number it was told.
    """

    order_lead: int
    """How far the orders of cookies are ahead of versions from here on."""

    def event(self) -> Event:
        """The event that says it."""
        return Event(RESUME, msgspec.to_builtins(self))


def read_commit(entry: Entry) -> Commit:
    """The commit an entry holds; an empty one for an entry of another type, which changes no key. Raises Redacted."""
    if entry.redacted:
        raise Redacted("the version is redacted", version=entry.version)
    event = entry.events[0]
    if event.type != COMMIT:
        return Commit()
    check_schema(event)
    return msgspec.convert(event.data, Commit)


def check_schema(event: Event) -> None:
    """Raise Unsupported for an event that a newer Stratalog wrote."""
    if event.schema != 1 or event.type not in (BASE, COMMIT, COLLECT, FLOOR, RESUME):
        raise Unsupported(
            "a document's entry is of a type or schema unknown here", type=event.type, schema=event.schema
        )

"""The content of a document's entry: its mutations with their outcomes, and the patch that they made together.

``formats/documents.md`` describes the bytes. The fold reads these structures as plain lists, for speed.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec

from stratalog.errors import Corrupt, Redacted, Unsupported
from stratalog.log import Entry, Event
from stratalog.ports.stored_attributes import StoredVersion
from stratalog.protocol.messages import payload_hash
from stratalog.struct_types import resolved

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
    "check_form",
    "check_schema",
    "commit_of",
    "read_commit",
    "resumed_clients",
]

T = TypeVar("T")

COMMIT = "commit"
COLLECT = "collect"
FLOOR = "floor"
BASE = "base"
RESUME = "resume"
_TYPES = frozenset((COMMIT, COLLECT, FLOOR, BASE, RESUME))


class Recorded(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One mutation as committed. In the canonical bytes ``args`` a reference replaces each large argument."""

    client: str
    id: int
    name: str
    args: bytes
    reason: str | None = None
    """The reason of a rejection; None for an applied mutation."""

    payload: bytes | None = None
    """The payload hash, stored only if the arguments have more than `VALUE_INLINE_BYTES_MAX` bytes together.

    ``args`` may then hold references. The hash cannot be computed from references.
    """

    origin: tuple[str, int] | None = None
    """For a replayed mutation, the client and id of the original mutation."""

    @property
    def hash(self) -> bytes:
        """The payload hash, which distinguishes two payloads that a client sent under one number."""
        return self.payload or payload_hash(self.name, self.args)


class PatchRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One key changed by an entry."""

    key: str
    value: Annotated[bytes, msgspec.Meta(min_length=1)] | None
    """The value as stored in the slot; None if the key was deleted."""

    before: int
    """The version that changed the key before; 0 if no such version is known; negated if that version
    deleted the key."""

    by: tuple[int, ...]
    """The mutations of the entry that touched the key, as positions in ``Commit.mutations``."""


class Merged(msgspec.Struct, frozen=True, array_like=True):
    """The progress of a fork's merge after an entry."""

    client: str
    """The client that commits the merge of the fork; see `merge_client`."""

    version: int
    """The fork's version that contains the last mutation merged so far."""

    hash: bytes
    """The fork's hash at that version; see `stratalog.log.chain`."""


class Commit(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The data of a ``commit`` event."""

    mutations: tuple[Recorded, ...] = ()
    patch: tuple[PatchRow, ...] = ()
    bindings: tuple[tuple[str, str, str], ...] = ()
    """(client, group, owner) of clients seen for the first time."""

    fields_bytes: int | None = None
    """The size of all fields after this entry, in bytes; None if the size did not change."""

    merged: Merged | None = None
    """In an entry of a merge, the merge's progress. The events of other entries omit this element."""

    def event(self) -> Event:
        """Return the ``commit`` event with this data."""
        data = msgspec.to_builtins(self, builtin_types=(bytes,))
        return Event(COMMIT, data if self.merged is not None else data[:-1])


class Resume(msgspec.Struct, frozen=True, array_like=True):
    """The data of a ``resume`` event, which raises clients of a lost branch to the numbers reported to them.

    See `resumption`.
    """

    group: str
    owner: str
    clients: tuple[tuple[str, int, int, tuple[tuple[int, int], ...]], ...]
    """(client, its last number in this history, the last number reported to it, ranges of numbers lost with branches).

    The ranges are (above, up to), in order. The last range ends with the number reported to the client.
    """

    order_lead: int
    """The order of a cookie minus its version, from this entry on."""

    def event(self) -> Event:
        """Return the ``resume`` event with this data."""
        return Event(RESUME, msgspec.to_builtins(self))


def read_commit(entry: Entry) -> Commit:
    """Return the commit of an entry. Raises Redacted, and Unsupported for a commit that a newer Stratalog wrote.

    An entry of another type changes no key; its commit is empty. Raises Corrupt for malformed data.
    """
    if entry.redacted:
        raise Redacted("the version is redacted", version=entry.version)
    event = entry.events[0]
    if event.type != COMMIT:
        return Commit()
    check_schema(event)
    return commit_of(event, entry.version)


def resumed_clients(entry: Entry) -> list[str]:
    """Return the clients that an entry resumes; none for an entry of another type. Raises Corrupt."""
    events = [event for event in entry.events if event.type == RESUME]
    return [client for event in events for client, *_ in _in_form(event, Resume, entry.version).clients]


def commit_of(event: Event, version: int) -> Commit:
    """Return the data of a ``commit`` event of entry ``version``. Raises Corrupt for malformed data."""
    return _in_form(event, Commit, version)


def check_schema(event: Event) -> None:
    """Raise Unsupported for an event that a newer Stratalog wrote."""
    if event.schema != 1 or event.type not in _TYPES:
        raise Unsupported("a document's entry has an unknown type or schema", type=event.type, schema=event.schema)


def check_form(event: Event, version: int) -> None:
    """Raise Corrupt if an event's data do not have the form of its type. ``version`` is the version of its entry."""
    _in_form(event, _FORMS[event.type], version)


def _in_form(event: Event, form: type[T], version: int) -> T:
    try:
        return msgspec.convert(event.data, resolved(form), builtin_types=(bytes,))
    except msgspec.ValidationError as exc:
        raise Corrupt(
            "an event of a document has another form than its type", type=event.type, version=version, reason=str(exc)
        ) from exc


class _Collected(msgspec.Struct, frozen=True, array_like=True):
    """The data of a ``collect`` event: (client, group) of each collected client, and the collected groups."""

    clients: tuple[tuple[str, str], ...]
    groups: tuple[str, ...]


_FORMS: dict[str, Any] = {
    COMMIT: Commit,
    COLLECT: _Collected,
    FLOOR: StoredVersion,
    BASE: tuple[StoredVersion, bytes],
    RESUME: Resume,
}

"""Fold: the changes that consecutive entries make in the three trees of a state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stratalog.codec import encode
from stratalog.documents.commits import BASE, COLLECT, COMMIT, FLOOR, RESUME, check_form, check_schema
from stratalog.errors import Redacted
from stratalog.log import Entry
from stratalog.protocol.keys import collection_of
from stratalog.protocol.messages import UNSTORABLE, payload_hash
from stratalog.tree.nodes import Slot

__all__ = ["BINDING", "COLLECTION", "GONE", "GROUP", "MEMBER", "RESUMED", "Fold", "member_of_row", "members_prefix"]

BINDING = "\0b/"
GROUP = "\0g/"
MEMBER = "\0m/"
RESUMED = "\0r/"
COLLECTION = "\0c/"
GONE = b""
NOTHING = encode(None)


class Fold:
    """Collects the changes of entries.

    It uses plain lists and dictionaries for speed, since it runs for each loaded entry.
    """

    def __init__(self, version: int, hash: bytes, fields_bytes: int, floor: int, orders: tuple[int, int]) -> None:
        self.version = version
        self.hash = hash
        self.fields_bytes = fields_bytes
        self.floor = floor
        self.orders = orders
        self.changes = 0
        """See `State.changes`."""

        self.content: dict[str, Slot] = {}
        self.tombstones: dict[str, Slot] = {}
        self._bookkeeping: dict[str, Slot] = {}
        self._newest: dict[str, tuple[list[Any], int]] = {}
        self._merged: dict[str, list[Any]] = {}

    def add(self, entry: Entry) -> None:
        """Add the next entry. Raises Redacted, and Unsupported for an event that a newer Stratalog wrote.

        Raises Corrupt for an event whose data do not have the form of its type. A check of each event takes a quarter
        of the time of the fold, so the fold checks the form of a commit only if it has met a wrong type.
        """
        if entry.redacted:
            raise Redacted("the state needs a redacted version; request a later version", version=entry.version)
        self.version, self.hash = entry.version, entry.hash
        for event in entry.events:
            check_schema(event)
            if event.type != COMMIT:
                check_form(event, entry.version)
            try:
                _FOLDS[event.type](self, event.data, entry.version)
            except (TypeError, ValueError, AttributeError, LookupError):
                check_form(event, entry.version)
                raise

    def client_slots(self) -> dict[str, Slot]:
        """Return the changes of the clients tree."""
        for client, (recorded, version) in self._newest.items():
            newest = [recorded[1], _payload(recorded)]
            if client in self._merged:
                newest.append(self._merged[client])
            self._bookkeeping[client] = Slot(encode(newest), version)
        return self._bookkeeping

    def _commit(self, data: list[Any], version: int) -> None:
        mutations, patch, bindings, fields_bytes, *merges = data
        if fields_bytes is not None and type(fields_bytes) is not int:
            raise TypeError("the size of the fields is a number")
        content, tombstones, mark = self.content, self.tombstones, Slot(NOTHING, version)
        self.changes += max(len(mutations), len(patch))
        for recorded in mutations:
            client, id, name, args, _, payload, *_ = recorded
            if not (type(client) is type(name) is str and type(id) is int and type(args) is bytes):
                raise TypeError("a mutation has a client, a number, a name and arguments")
            if payload is not None and type(payload) is not bytes:
                raise TypeError("a payload hash is bytes")
            self._newest[client] = (recorded, version)
        for key, value, before, _ in patch:
            if value is None:
                content[key] = Slot(GONE, version)
                tombstones[key] = mark
            else:
                if type(value) is not bytes or not value:
                    raise TypeError("a value is one or more bytes")
                content[key] = Slot(value, version)
                # The key was deleted before, so remove its tombstone.
                if before < 0 or key in tombstones:
                    tombstones[key] = Slot(GONE, version)
            # The row of a collection has the newest version that changed the collection, deletions included.
            tombstones[COLLECTION + collection_of(key)] = mark
        for client, group, owner in bindings:
            if not type(group) is type(owner) is str:
                raise TypeError("a group and an owner are texts")
            self._bind(client, group, owner, version)
        if fields_bytes is not None:
            self.fields_bytes = fields_bytes
        for client, fork_version, fork_hash in merges:
            if not (type(fork_version) is int and type(fork_hash) is bytes):
                raise TypeError("the progress of a merge has a version and a hash")
            self._merged[client] = [fork_version, fork_hash]

    def _bind(self, client: str, group: str, owner: str, version: int) -> None:
        self._bookkeeping[BINDING + client] = Slot(encode([group, owner]), version)
        if group:
            self._bookkeeping[members_prefix(group) + client] = Slot(NOTHING, version)

    def _resume(self, data: list[Any], version: int) -> None:
        """Raise clients to the numbers that a lost branch reported to them.

        The payload of a reported number is unknown, so it counts as equal to any payload (`UNSTORABLE`).
        """
        group, owner, clients, lead = data
        if lead != self.orders[0]:
            self.orders = lead, version + lead
        for client, _, reported, lost in clients:
            self._newest[client] = ([client, reported, UNSTORABLE, NOTHING, None, None], version)
            self._bookkeeping[RESUMED + client] = Slot(encode(lost), version)
            self._bind(client, group, owner, version)

    def _collect(self, data: list[Any], version: int) -> None:
        """Remove the rows of collected clients, and write a collected marker for each group."""
        clients, groups = data
        for client, group in clients:
            # `client_slots` later writes the clients in ``_newest`` over the rows below, and would restore this client.
            self._newest.pop(client, None)
            for key in (client, BINDING + client, RESUMED + client):
                self._bookkeeping[key] = Slot(GONE, version)
            if group:
                self._bookkeeping[members_prefix(group) + client] = Slot(GONE, version)
        for group in groups:
            self._bookkeeping[GROUP + group] = Slot(NOTHING, version)

    def _raise_floor(self, data: int, version: int) -> None:
        """Raise the floor. No read needs a tombstone at or below it, so the next snapshot drops these tombstones."""
        self.floor = max(self.floor, data)


def _nothing(fold: Fold, data: Any, version: int) -> None:
    """Ignore an event that only verification reads; it changes no state."""


_FOLDS: Mapping[str, Callable[[Fold, Any, int], None]] = {
    COMMIT: Fold._commit,
    COLLECT: Fold._collect,
    FLOOR: Fold._raise_floor,
    BASE: _nothing,
    RESUME: Fold._resume,
}


def members_prefix(group: str) -> str:
    """Return the prefix of the keys of a group's members.

    A name may hold any character. So the prefix holds the length of the name, and no key of another group has the
    prefix.
    """
    return f"{MEMBER}{len(group)}/{group}/"


def member_of_row(key: str) -> tuple[str, str]:
    """Return the group and the client of a row that begins with `members_prefix`."""
    length, _, rest = key.removeprefix(MEMBER).partition("/")
    return rest[: int(length)], rest[int(length) + 1 :]


def _payload(recorded: list[Any]) -> bytes:
    stored = recorded[5]
    return bytes(stored) if stored is not None else payload_hash(recorded[2], recorded[3])

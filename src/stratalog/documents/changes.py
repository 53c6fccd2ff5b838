"""The changes since a version: the keys, clients and rejections between that version and a newer state.

`changes_since` reads nothing if the changes are in memory. Otherwise it reads the entries, or compares the trees if
there are many entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from stratalog.documents.commits import Recorded, read_commit, resumed_clients
from stratalog.documents.layer import Layer
from stratalog.documents.snapshots import load_state
from stratalog.documents.state import State
from stratalog.log import Entry, Log
from stratalog.tree.chunks import Chunks
from stratalog.tree.diff import diff

__all__ = ["ENTRIES_READ_MAX", "Changes", "Member", "changes_since", "member_of", "members", "rejections"]

ENTRIES_READ_MAX = 200
"""Up to this many versions between two states, reading the entries is cheaper than comparing the trees."""


class Changes(msgspec.Struct, frozen=True):
    """The keys and clients touched by a range of versions.

    The sets may include a key or a client that no longer exists, or that has the same value before and after the range.
    """

    keys: set[str]
    clients: set[str]


class Member(msgspec.Struct, frozen=True):
    """A client with the group and owner it is bound to, and the number of its newest mutation (``id``)."""

    client: str
    group: str
    owner: str
    id: int


def changes_since(log: Log, state: State, version: int) -> Changes:
    """Return the keys and clients touched by the versions after ``version`` up to ``state``.

    Raises VersionForgotten, Redacted, and NotFound if the log or a needed chunk is deleted meanwhile. Raises Corrupt
    and Unavailable as `load_state` does.
    """
    if version >= state.snapshot_version:
        return Changes(set(state.content.changes(version)), _clients(state.clients.changes(version)))
    if state.version - version <= ENTRIES_READ_MAX:
        return _by_entries(log, version, state.version)
    return _by_trees(load_state(log, state.chunks, version), state)


def rejections(log: Log, after: int, upto: int, clients: set[str]) -> Iterator[Recorded]:
    """Yield the rejected mutations of ``clients`` in the versions ``after`` + 1 to ``upto``, in order.

    Raises VersionForgotten, Redacted.
    """
    for commit in map(read_commit, _entries(log, after, upto)):
        yield from (
            mutation for mutation in commit.mutations if mutation.reason is not None and mutation.client in clients
        )


def member_of(state: State, client: str) -> Member | None:
    """Return a client and its binding; None for a client that was collected or never seen."""
    binding, newest = state.binding(client), state.client(client)
    if binding is None or newest is None:
        return None
    return Member(client, *binding, newest.id)


def members(state: State, group: str) -> list[Member]:
    """Return the clients of a group, of any owner."""
    members = (member_of(state, client) for client in state.members(group))
    return [member for member in members if member is not None]


def _by_entries(log: Log, after: int, upto: int) -> Changes:
    changes = Changes(set(), set())
    for entry in _entries(log, after, upto):
        commit = read_commit(entry)
        changes.keys.update(change.key for change in commit.patch)
        changes.clients.update(recorded.client for recorded in commit.mutations)
        changes.clients.update(resumed_clients(entry))
    return changes


def _by_trees(old: State, new: State) -> Changes:
    keys = {key for key, _, _ in diff(new.chunks, old.roots.content, new.roots.content)}
    clients = {key for key, _, _ in diff(new.chunks, old.roots.clients, new.roots.clients)}
    return Changes(
        _newer(keys, old.content, new.content, new.chunks, old.version),
        _clients(_newer(clients, old.clients, new.clients, new.chunks, old.version)),
    )


def _newer(keys: set[str], old: Layer, new: Layer, chunks: Chunks, version: int) -> set[str]:
    """Return the keys that versions above ``version`` touched, or that ``new`` does not have.

    The function tests ``keys``, which differ between the trees, and the keys changed after either snapshot.
    """
    candidates = keys.union(old.changes(), new.changes())
    return {key for key in candidates if (slot := new.get(chunks, key)) is None or slot.version > version}


def _clients(keys: Iterable[str]) -> set[str]:
    return {key for key in keys if not key.startswith("\0")}


def _entries(log: Log, after: int, upto: int) -> Iterator[Entry]:
    return log.read(after, upto, head=log.known_head())

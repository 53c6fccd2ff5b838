"""Which clients are forgotten: those that a caller names, and whole groups that were idle for long.

A group is forgotten as a whole, and leaves a tombstone: what its clients still have on the way has no effect then. So
it is never applied twice, however late it comes. A client of a group that is in use is kept, and so is one without a
group, since without a tombstone its first mutation would be applied again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec

from stratalog.documents.commits import COLLECT
from stratalog.documents.fold import member_of_row
from stratalog.documents.state import State
from stratalog.limits import CLIENTS_COLLECTED_PER_ENTRY_MAX
from stratalog.log import Event

__all__ = ["IdleClients", "collection_of_clients", "idle_clients"]


class IdleClients(msgspec.Struct, frozen=True):
    """Some clients of idle groups, as many as one entry forgets."""

    clients: list[list[str]]
    """Pairs of client and group."""

    groups: list[str]
    """Theirs. A group of more clients than one entry forgets is marked with the first of them."""

    position: str
    """The row of the last one: the next search begins behind it."""

    def event(self) -> Event:
        """The event that forgets them."""
        return Event(COLLECT, [sorted(self.clients), sorted(self.groups)])


def collection_of_clients(state: State, clients: Sequence[str], groups: Sequence[str]) -> Event:
    """The event that forgets ``clients``, each with the group that ``state`` has it in, and buries ``groups``.

    It holds for the version after ``state`` only: a client that comes in between would leave its row in the group.
    """
    bindings = [(client, state.binding(client)) for client in clients]
    return Event(COLLECT, [[[client, bound[0] if bound else ""] for client, bound in bindings], list(groups)])


def idle_clients(
    state: State, version: int, after: str = "", limit: int = CLIENTS_COLLECTED_PER_ENTRY_MAX
) -> IdleClients | None:
    """The next clients of groups that committed nothing after ``version``, at most ``limit``. None: there are none.

    ``after`` is the position where the search before this one ended. It holds for the version after ``state`` only.
    """
    clients: list[list[str]] = []
    groups: list[str] = []
    position = after
    for group, rows in groupby(_members(state, after), key=lambda row: row[0]):
        members = _idle_members(state, group, rows, version, limit - len(clients))
        if members:
            clients += [[client, group] for client, _ in members]
            groups.append(group)
            position = members[-1][1]
        if len(clients) >= limit:
            break
    return IdleClients(clients, groups, position) if groups else None


def _members(state: State, after: str) -> Iterator[tuple[str, str, str]]:
    """Group, client and row of every client in a group, in order of the rows."""
    for row in state.member_rows(after):
        group, client = member_of_row(row)
        yield group, client, row


def _idle_members(
    state: State, group: str, rows: Iterator[tuple[str, str, str]], version: int, limit: int
) -> list[tuple[str, str]]:
    """The first clients of an idle group with their rows; none of one that was active after ``version``.

    All rows are looked at, also behind the limit. What is left of a group that was collected is idle.
    """
    idle: list[tuple[str, str]] = []
    is_collected = state.group_collected(group)
    for _, client, row in rows:
        if not is_collected and state.client_version(client) > version:
            return []
        if len(idle) < limit:
            idle.append((client, row))
    return idle

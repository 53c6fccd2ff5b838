"""The choice of clients to forget: clients that a caller names, and clients of groups that have long been idle.

An idle group is forgotten as a whole and leaves a collected marker. Mutations of its clients that arrive later have no
effect, so none is applied twice. The choice of idle clients leaves out each client of an active group, and each client
without a group. A client without a group would leave no collected marker, so its first mutation would be applied again
if the client sent it again. The choice also leaves out a weekly group until the state proves that no message of the
group waits in a queue (`stratalog.protocol.weekly_groups`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec

from stratalog.documents.commits import COLLECT
from stratalog.documents.fold import member_of_row, members_prefix
from stratalog.documents.state import State
from stratalog.limits import CLIENTS_COLLECTED_PER_ENTRY_MAX
from stratalog.log import Event
from stratalog.protocol.weekly_groups import WEEKS_APART_MIN, read_weekly_group

__all__ = ["IdleClients", "collection_of_clients", "idle_clients"]


class IdleClients(msgspec.Struct, frozen=True):
    """Clients of idle groups, at most as many as one entry forgets."""

    clients: list[list[str]]
    """Pairs of client and group."""

    groups: list[str]
    """The groups of ``clients``, including a group whose other clients a later entry forgets."""

    position: str
    """The row of the last client; the next search begins after it."""

    def event(self) -> Event:
        """Return the event that forgets these clients."""
        return Event(COLLECT, [sorted(self.clients), sorted(self.groups)])


def collection_of_clients(state: State, clients: Sequence[str], groups: Sequence[str]) -> Event:
    """Return the event that forgets ``clients``, each with its group in ``state``, and marks ``groups`` as collected.

    Commit the event only as the version directly after ``state``. An entry in between could bind one of the clients to
    a group, and the row of this client would then stay in the group.
    """
    bindings = [(client, state.binding(client)) for client in clients]
    return Event(COLLECT, [[[client, bound[0] if bound else ""] for client, bound in bindings], list(groups)])


def idle_clients(
    state: State, version: int, after: str = "", limit: int = CLIENTS_COLLECTED_PER_ENTRY_MAX
) -> IdleClients | None:
    """Return up to ``limit`` clients of groups that committed nothing after ``version``; None without such clients.

    ``after`` is the position where the previous search ended. Commit the result only as the version directly after
    ``state``.
    """
    clients: list[list[str]] = []
    groups: list[str] = []
    position = after
    for group, rows in groupby(_members(state, after), key=lambda row: row[0]):
        if not _may_expire(state, group, version):
            continue
        members = _idle_members(state, group, rows, version, limit - len(clients))
        if members:
            clients += [[client, group] for client, _ in members]
            groups.append(group)
            position = members[-1][1]
        if len(clients) >= limit:
            break
    return IdleClients(clients, groups, position) if groups else None


def _members(state: State, after: str) -> Iterator[tuple[str, str, str]]:
    """Yield group, client and row of every client in a group, in order of the rows."""
    for row in state.member_rows(after):
        group, client = member_of_row(row)
        yield group, client, row


def _idle_members(
    state: State, group: str, rows: Iterator[tuple[str, str, str]], version: int, limit: int
) -> list[tuple[str, str]]:
    """Return the first ``limit`` clients of an idle group with their rows; [] if a client was active after ``version``.

    Reads all rows, also beyond ``limit``, since any client may be the active one. If an earlier entry collected a part
    of the group, the other clients count as idle.
    """
    idle: list[tuple[str, str]] = []
    is_collected = state.group_collected(group)
    for _, client, row in rows:
        if not is_collected and state.client_version(client) > version:
            return []
        if len(idle) < limit:
            idle.append((client, row))
    return idle


def _may_expire(state: State, group: str, version: int) -> bool:
    """Return whether a group may be forgotten once it is idle: each group but a weekly group whose messages may wait.

    The messages of a weekly group were sent before a push of the group two weeks later. If a client of that group has
    committed nothing after ``version``, its push is as old. So a queue that deletes dead letters after this time has
    no dead letter of the weekly group.
    """
    weekly = read_weekly_group(group)
    if weekly is None:
        return True
    earliest = weekly._replace(week=weekly.week + WEEKS_APART_MIN)
    for row in state.member_rows(members_prefix(earliest.name)):
        later, client = member_of_row(row)
        if len(later) != len(group) or not later.startswith(f"{weekly.series}#"):
            break
        if read_weekly_group(later) is not None and 0 < state.client_version(client) <= version:
            return True
    return False

"""Which clients are forgotten: those that a caller names, and the groups that were idle for long."""

from __future__ import annotations

from collections.abc import Sequence

from stratalog.documents.commits import COLLECT
from stratalog.documents.state import State
from stratalog.log import Event

__all__ = ["collection_of_clients"]


def collection_of_clients(state: State, clients: Sequence[str], groups: Sequence[str]) -> Event:
    """The event that forgets ``clients``, each with the group that ``state`` has it in, and buries ``groups``.

    It holds for the version after ``state`` only: a client that comes in between would leave its row in the group.
    """
    bindings = [(client, state.binding(client)) for client in clients]
    return Event(COLLECT, [[[client, bound[0] if bound else ""] for client, bound in bindings], list(groups)])

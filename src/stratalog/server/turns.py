"""Turns: how many ready sockets of one caller the event loop serves before it looks for ready sockets again.

By default the event loop serves all ready sockets in one turn. When a caller sends on hundreds of sockets in the same
instant, the turn lasts as long as all of them, and the next request of every other caller waits for its end.
"""

from __future__ import annotations

import selectors
from collections import Counter
from typing import TypeVar

from stratalog.limits import ADDRESS_SOCKETS_PER_TURN_MAX, PRINCIPAL_SOCKETS_PER_TURN_MAX
from stratalog.server.shares import Allocation, Holder

__all__ = ["TurnSelector"]

READY_PER_SERVED_MAX = 64
"""A turn serves at least one in this many of the ready sockets of a principal, and of all addresses together.

Each turn looks at all ready sockets, so too many turns would cost too much time."""

T = TypeVar("T")
_Ready = tuple[selectors.SelectorKey, int]


class TurnSelector(selectors.DefaultSelector):
    """A selector that reports a few ready sockets of each caller, and holds back the others for later turns.

    A turn has `PRINCIPAL_SOCKETS_PER_TURN_MAX` sockets of each principal. Callers who are not authenticated share
    `ADDRESS_SOCKETS_PER_TURN_MAX` sockets, because one attacker may have many addresses. These addresses take turns.
    With very many ready sockets both numbers grow; see `READY_PER_SERVED_MAX`. Sockets that were held back longest come
    first; their bytes stay in the system's buffers. Sockets that count for nobody, and all other files, are always
    reported.

    Used from the event loop only.
    """

    def __init__(self) -> None:
        super().__init__()
        self._allocations: dict[int, Allocation] = {}
        self._held_back: dict[int, None] = {}

    def watch(self, descriptor: int, allocation: Allocation) -> None:
        """Count the socket for the first holder of ``allocation``, who may change, until `forget`."""
        self._allocations[descriptor] = allocation

    def forget(self, descriptor: int) -> None:
        """End `watch`. Call this before the socket is closed: the system may reuse its descriptor at once."""
        self._allocations.pop(descriptor, None)
        self._held_back.pop(descriptor, None)

    def select(self, timeout: float | None = None) -> list[_Ready]:
        """Wait for ready files, and return those of this turn."""
        ready = super().select(timeout)
        self._held_back = self._beyond_turn({key.fd for key, _ in ready}) if len(ready) > 1 else {}
        return [event for event in ready if event[0].fd not in self._held_back]

    def _beyond_turn(self, ready: set[int]) -> dict[int, None]:
        """Return the ready sockets that wait for a later turn, in the order of their first wait."""
        in_order = [descriptor for descriptor in self._held_back if descriptor in ready]
        in_order += ready.difference(in_order)
        of_principals: dict[Holder, list[int]] = {}
        of_addresses: list[tuple[int, int, int]] = []
        earlier: Counter[Holder] = Counter()
        for position, descriptor in enumerate(in_order):
            allocation = self._allocations.get(descriptor)
            if allocation is None or not allocation.holders:
                continue
            holder = allocation.holders[0]
            if holder[0] == "principal":
                of_principals.setdefault(holder, []).append(descriptor)
            else:
                of_addresses.append((earlier[holder], position, descriptor))
                earlier[holder] += 1
        of_addresses.sort()
        beyond = {descriptor for _, _, descriptor in _rest(of_addresses, ADDRESS_SOCKETS_PER_TURN_MAX)}
        for sockets in of_principals.values():
            beyond.update(_rest(sockets, PRINCIPAL_SOCKETS_PER_TURN_MAX))
        return {descriptor: None for descriptor in in_order if descriptor in beyond}


def _rest(sockets: list[T], per_turn: int) -> list[T]:
    """Return the sockets that wait for a later turn."""
    return sockets[max(per_turn, -(-len(sockets) // READY_PER_SERVED_MAX)) :]

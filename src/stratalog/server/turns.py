"""Turns: limits on the ready sockets of one caller that the event loop serves in one turn.

A turn is one iteration of the event loop. By default the loop serves all ready sockets in one turn. When a caller sends
on hundreds of sockets in the same instant, the turn serves all of these sockets. The next request of every other caller
waits until this turn ends.
"""

from __future__ import annotations

import selectors
from collections import Counter, OrderedDict
from typing import NamedTuple

from stratalog.clock import Clock
from stratalog.limits import ADDRESS_SOCKETS_PER_TURN_MAX, PRINCIPAL_SOCKETS_PER_TURN_MAX, RATE_HOLDERS_MAX
from stratalog.server.shares import Allocation, Holder

__all__ = ["RecentlyServed", "TurnSelector"]

READY_PER_SERVED_MAX = 64
"""A turn serves at least one in this many ready sockets of a principal, and of all addresses together.

Each turn looks at all ready sockets, so too many turns would cost too much time."""

SERVED_HALF_LIFE_SECONDS = 2.0

_Ready = tuple[selectors.SelectorKey, int]


class RecentlyServed:
    """For each address, how often its sockets were set up or served lately.

    The number halves in each `SERVED_HALF_LIFE_SECONDS`. This object remembers the `RATE_HOLDERS_MAX` addresses that
    were counted last.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: OrderedDict[Holder, tuple[float, int]] = OrderedDict()

    def count(self, address: Holder) -> float:
        """Return the count of the address."""
        count, then_ms = self._counts.get(address, (0.0, 0))
        return count and count * 0.5 ** ((self._clock.boot_ms() - then_ms) / 1000 / SERVED_HALF_LIFE_SECONDS)

    def add(self, address: Holder) -> None:
        """Add one to the count of the address."""
        self._counts[address] = (self.count(address) + 1, self._clock.boot_ms())
        self._counts.move_to_end(address)
        if len(self._counts) > RATE_HOLDERS_MAX:
            self._counts.popitem(last=False)


class TurnSelector(selectors.DefaultSelector):
    """A selector that reports a few ready sockets of each caller, and holds back the other sockets for later turns.

    A turn has at most `PRINCIPAL_SOCKETS_PER_TURN_MAX` sockets of each principal. Callers who are not authenticated
    share `ADDRESS_SOCKETS_PER_TURN_MAX` sockets, because one attacker may have many addresses. For the first half of
    these sockets the addresses take turns, and the socket that was held back longest comes first. The other half belong
    to the addresses with the lowest counts in `RecentlyServed`. So a caller who sends little does not wait until all
    addresses had a turn, and no caller waits for ever. With very many ready sockets both limits grow: see
    `READY_PER_SERVED_MAX`. The bytes of a socket that is held back stay in the system's buffers. The selector always
    reports sockets without a holder, and all other files.

    Used from the event loop only.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.served = RecentlyServed(clock)
        self._allocations: dict[int, Allocation] = {}
        self._held_back: dict[int, None] = {}

    def watch(self, descriptor: int, allocation: Allocation) -> None:
        """Count the socket for the first holder of ``allocation`` until `forget`. This holder may change."""
        self._allocations[descriptor] = allocation

    def forget(self, descriptor: int) -> None:
        """End `watch`. Call this method before the socket is closed: the system may reuse its descriptor at once."""
        self._allocations.pop(descriptor, None)
        self._held_back.pop(descriptor, None)

    def select(self, timeout: float | None = None) -> list[_Ready]:
        """Wait for ready files, and return the files that this turn serves."""
        ready = super().select(timeout)
        self._held_back = self._beyond_turn({key.fd for key, _ in ready}) if len(ready) > 1 else {}
        return [event for event in ready if event[0].fd not in self._held_back]

    def _beyond_turn(self, ready: set[int]) -> dict[int, None]:
        """Return the ready sockets that wait for a later turn, in the order of their first wait."""
        in_order = [descriptor for descriptor in self._held_back if descriptor in ready]
        in_order += ready.difference(in_order)
        of_principals: dict[Holder, list[int]] = {}
        of_addresses: list[_AddressSocket] = []
        earlier: Counter[Holder] = Counter()
        for position, descriptor in enumerate(in_order):
            allocation = self._allocations.get(descriptor)
            if allocation is None or not allocation.holders:
                continue
            holder = allocation.holders[0]
            if holder[0] == "principal":
                of_principals.setdefault(holder, []).append(descriptor)
            else:
                of_addresses.append(_AddressSocket(earlier[holder], position, descriptor, holder))
                earlier[holder] += 1
        beyond = set(self._beyond_addresses(of_addresses))
        for sockets in of_principals.values():
            beyond.update(sockets[_count(len(sockets), PRINCIPAL_SOCKETS_PER_TURN_MAX) :])
        return {descriptor: None for descriptor in in_order if descriptor in beyond}

    def _beyond_addresses(self, sockets: list[_AddressSocket]) -> list[int]:
        """Return the ready sockets of addresses that wait for a later turn, and count the other sockets as served."""
        sockets.sort()
        served = _count(len(sockets), ADDRESS_SOCKETS_PER_TURN_MAX)
        longest, others = sockets[: -(-served // 2)], sockets[-(-served // 2) :]
        lately = {socket.address: self.served.count(socket.address) for socket in others}
        others.sort(key=lambda socket: (lately[socket.address] + socket.earlier, socket.position))
        lightest = others[: served - len(longest)]
        for socket in (*longest, *lightest):
            self.served.add(socket.address)
        return [socket.descriptor for socket in others[len(lightest) :]]


class _AddressSocket(NamedTuple):
    """A ready socket of an address. If sockets are sorted by these fields, addresses take turns.

    ``earlier`` is the number of sockets of the address that have waited longer. ``position`` is the socket's position
    among all ready sockets.
    """

    earlier: int
    position: int
    descriptor: int
    address: Holder


def _count(ready: int, per_turn: int) -> int:
    """Return the number of the ``ready`` sockets that a turn serves."""
    return min(ready, max(per_turn, -(-ready // READY_PER_SERVED_MAX)))

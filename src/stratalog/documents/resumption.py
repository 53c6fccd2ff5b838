"""Resumption: how clients of a lost branch go on, after a restore from an older backup or a move to another copy.

Such a client was told numbers that this history does not have. It keeps its id: messages with it may be under way, and
under a new id some mutations would be applied twice. An entry raises its number here to the one it was told. The
mutations between are gone with the branch. `formats/sync.md` has the rules; a simulation of rule sets chose them.
"""

from __future__ import annotations

from collections.abc import Mapping

from stratalog.documents.commits import Resume
from stratalog.documents.state import Ranges, State
from stratalog.limits import COOKIE_ORDER_AHEAD_SECONDS_MAX

__all__ = ["resumption_of"]

LOST_RANGES_MAX = 16
ORDERS_PER_MS = 1000


def resumption_of(
    state: State, group: str, owner: str, reported: Mapping[str, int], order: int | None, now_ms: int
) -> Resume | None:
    """What to commit at ``state`` for a group that was told the numbers ``reported``, if anything.

    ``order`` is that of its cookie, where that is certainly of a lost branch. A client that is bound to others stays as
    it is.
    """
    clients = [
        (client, here, number, _joined(state.lost(client), (here, number)))
        for client, number in sorted(reported.items())
        if (here := _last(state, client)) < number and _may_resume(state, client, group, owner)
    ]
    lead = state.orders[0] if order is None else _lead(state, order, now_ms)
    if not clients and lead == state.orders[0]:
        return None
    return Resume(group, owner, tuple(clients), lead)


def _may_resume(state: State, client: str, group: str, owner: str) -> bool:
    binding = state.binding(client)
    if binding is None:
        return not state.group_collected(group) and state.group_owner(group) in (None, owner)
    return binding == (group, owner)


def _joined(before: Ranges, lost: tuple[int, int]) -> Ranges:
    """``before`` and one more range. The client may not know the others yet: an answer may have been lost."""
    if before and before[-1][1] == lost[0]:
        return (*before[:-1], (before[-1][0], lost[1]))
    return (*before[1 - LOST_RANGES_MAX :], lost)


def _last(state: State, client: str) -> int:
    newest = state.client(client)
    return newest.id if newest else 0


def _lead(state: State, order: int, now_ms: int) -> int:
    """The lead after which no order of this history was given on any other branch, too.

    Orders begin at the time then, in microseconds. No branch makes a version a microsecond, so none was there before.
    The lead moves once for each lost branch: later cookies of that one have orders below the first under the lead. A
    cookie that claims to be ahead of the time moves nobody else's orders.
    """
    lead, first = state.orders
    newest = now_ms * ORDERS_PER_MS
    if order < first or order > newest + COOKIE_ORDER_AHEAD_SECONDS_MAX * 1000 * ORDERS_PER_MS:
        return lead
    return max(state.order, order, newest) - state.version

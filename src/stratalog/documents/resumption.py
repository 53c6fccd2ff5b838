"""Resumption: raise the mutation numbers of clients of a lost branch, after a restore from an older backup or a move to
another copy.

The lost branch reported mutation numbers to these clients, and this history has no mutations with these numbers. A
client keeps its id: messages under that id may be in flight, and under a new id some mutations would be applied twice.
An entry raises the client's number in this history to the reported number. The mutations in between are lost with the
branch. `formats/sync.md` has the rules, which were chosen after a simulation of several sets of rules.
"""

from __future__ import annotations

from collections.abc import Mapping

from stratalog.documents.commits import Resume
from stratalog.documents.state import Ranges, State
from stratalog.limits import COOKIE_ORDER_AHEAD_SECONDS_MAX

__all__ = ["LOST_RANGES_MAX", "resumption_of"]

LOST_RANGES_MAX = 128
ORDERS_PER_MS = 1000


def resumption_of(
    state: State, group: str, owner: str, reported: Mapping[str, int], order: int | None, now_ms: int
) -> Resume | None:
    """Return the data of an event that raises clients of a group to the numbers ``reported`` to them. Commit it after
    ``state``.

    Return None if neither a number nor the order changes.

    ``order`` is the order of the group's cookie, if the cookie certainly belongs to a lost branch. A client bound to
    another group or owner is left unchanged.
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
    """Return the lost ranges with one more range, at most `LOST_RANGES_MAX`.

    Earlier ranges are kept too: the client may not have received them, since an answer may have been lost.
    """
    if before and before[-1][1] == lost[0]:
        return (*before[:-1], (before[-1][0], lost[1]))
    return (*before[1 - LOST_RANGES_MAX :], lost)


def _last(state: State, client: str) -> int:
    newest = state.client(client)
    return newest.id if newest else 0


def _lead(state: State, order: int, now_ms: int) -> int:
    """Return the lead: the number that is added to a version to get the order of its cookies.

    With this lead no new order equals an order that another branch gave out.

    New orders begin at the current time in microseconds. No branch commits a version per microsecond, so no branch has
    reached these orders. The lead changes once per lost branch: other cookies of that branch have orders below the
    first order under the new lead. A cookie whose order is more than `COOKIE_ORDER_AHEAD_SECONDS_MAX` ahead of the time
    is ignored. So this cookie cannot move other clients' orders.
    """
    lead, first = state.orders
    newest = now_ms * ORDERS_PER_MS
    if order < first or order > newest + COOKIE_ORDER_AHEAD_SECONDS_MAX * 1000 * ORDERS_PER_MS:
        return lead
    return max(state.order, order, newest) - state.version

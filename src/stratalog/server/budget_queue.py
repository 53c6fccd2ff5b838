"""Queue for a full budget: a caller waits a short time for free room before the server refuses the caller."""

from __future__ import annotations

import asyncio
from collections import deque

from stratalog.server.errors import Refused
from stratalog.server.shares import Allocation

__all__ = ["BudgetQueue"]


class BudgetQueue:
    """The callers that wait for room in one budget, in order of arrival. Used on one event loop.

    An amount of up to ``small_max`` bypasses the queue if the budget and the caller's share have room. A larger amount
    joins the queue if a caller waits for room in the process. A caller that waits only for its own share blocks no
    other caller.
    Each caller waits for at most ``seconds_max``. At most ``waits_of_holder_max`` callers with the same holders (the
    same principal and organisation) wait at once. The queue refuses further callers with these holders. Without shares
    this limit does not apply.
    """

    def __init__(self, *, seconds_max: float, waits_of_holder_max: int, small_max: int) -> None:
        self._seconds_max = seconds_max
        self._waits_of_holder_max = waits_of_holder_max
        self._small_max = small_max
        self._waiting: deque[_Waiting] = deque()

    async def add(self, allocation: Allocation, amount: int) -> None:
        """Add ``amount`` to the allocation as soon as there is room.

        Raises Refused as `Allocation.add` does: after ``seconds_max``, or at once if too many callers with the same
        holders are in the queue. After Refused, nothing is added.
        """
        # A large amount must not bypass a caller for which the process has too little room, even if this amount would
        # fit now. As in `wake`, a caller that lacks only room in its own share reserves nothing.
        is_full = any(_is_of_process(waiting.refused) for waiting in self._waiting)
        if amount <= self._small_max or not is_full:
            try:
                return allocation.add(amount)
            except Refused as exc:
                refused = exc
        else:
            refused = Refused(
                503, "unavailable", "too many bodies are waiting for memory", value=amount, scope="process"
            )
        await self._wait(_Waiting(allocation, amount, refused))
        return None

    def wake(self) -> None:
        """Admit waiting callers, in order, after an amount was released or a caller left the queue."""
        is_full = False
        for waiting in tuple(self._waiting):
            if is_full and waiting.amount > self._small_max:
                continue
            try:
                waiting.allocation.add(waiting.amount)
            except Refused as exc:
                waiting.refused = exc
                # Reserve the free room for the first caller for which the process has too little room. Otherwise later
                # callers with smaller amounts would starve this caller. A caller that lacks only room in its own share
                # reserves nothing.
                is_full = is_full or _is_of_process(exc)
            else:
                self._waiting.remove(waiting)
                waiting.admitted.set()

    async def _wait(self, waiting: _Waiting) -> None:
        holders = waiting.allocation.holders
        of_holder = sum(other.allocation.holders == holders for other in self._waiting)
        if holders and of_holder >= self._waits_of_holder_max:
            raise waiting.refused
        self._waiting.append(waiting)
        try:
            async with asyncio.timeout(self._seconds_max):
                await waiting.admitted.wait()
        except TimeoutError:
            # `wake` may have added the amount in the same iteration of the event loop in which the time ended.
            if not waiting.admitted.is_set():
                raise waiting.refused from None
        finally:
            # After a timeout or a cancellation the caller is still queued. Remove the caller, since later callers may
            # fit into the room that was reserved for it.
            if waiting in self._waiting:
                self._waiting.remove(waiting)
                self.wake()


class _Waiting:
    """One caller in the queue, with the error that it raises when its time is over."""

    def __init__(self, allocation: Allocation, amount: int, refused: Refused) -> None:
        self.allocation = allocation
        self.amount = amount
        self.refused = refused
        self.admitted = asyncio.Event()


def _is_of_process(refused: Refused) -> bool:
    """Return whether the process has too little room, not only a share of it."""
    return refused.details.get("scope") == "process"

"""Waiting for room in a budget: a caller whose turn would come in a moment is not refused at once."""

from __future__ import annotations

import asyncio
from collections import deque

from stratalog.server.errors import Refused
from stratalog.server.shares import Allocation

__all__ = ["BudgetQueue"]


class BudgetQueue:
    """The callers that wait for room in one budget, in the order in which they came. Used on one event loop.

    A small amount is taken past those that wait, where there is room. A caller that waits for its own share lets others
    pass. At most ``waits_of_holder_max`` of one holder wait, so that callers take turns; each for ``seconds_max``.
    """

    def __init__(self, *, seconds_max: float, waits_of_holder_max: int, small_max: int) -> None:
        self._seconds_max = seconds_max
        self._waits_of_holder_max = waits_of_holder_max
        self._small_max = small_max
        self._waiting: deque[_Waiting] = deque()

    async def add(self, allocation: Allocation, amount: int) -> None:
        """Take more, once there is room. Raises Refused as `Allocation.add` does, after a while."""
        if amount <= self._small_max or not self._waiting:
            try:
                return allocation.add(amount)
            except Refused as exc:
                refused = exc
        else:
            refused = Refused(503, "unavailable", "too many bodies wait for memory", value=amount, scope="process")
        await self._wait(_Waiting(allocation, amount, refused))
        return None

    def wake(self) -> None:
        """Something was released: give it to those that wait."""
        is_full = False
        for waiting in tuple(self._waiting):
            if is_full and waiting.amount > self._small_max:
                continue
            try:
                waiting.allocation.add(waiting.amount)
            except Refused as exc:
                waiting.refused = exc
                # What is left is for the first that waits, or a stream of smaller ones would keep it waiting.
                is_full = is_full or exc.details.get("scope") == "process"
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
            raise waiting.refused from None
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
                self.wake()


class _Waiting:
    """One that waits, with the error that it ends with if it waits too long."""

    def __init__(self, allocation: Allocation, amount: int, refused: Refused) -> None:
        self.allocation = allocation
        self.amount = amount
        self.refused = refused
        self.admitted = asyncio.Event()

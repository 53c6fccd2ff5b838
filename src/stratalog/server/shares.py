"""Shares: limits on the part of a server process's capacity that one caller uses at once.

A process has a limited number of connections, requests and bytes in flight. Without shares one principal or
organisation could take a whole resource and exclude all others. Each of these resources is a `Budget`.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Literal

from stratalog.process_fork import close_in_child
from stratalog.server.errors import Refused

__all__ = ["Allocation", "Budget", "Holder", "HolderKind"]

HolderKind = Literal["organisation", "principal", "address", "document"]
Holder = tuple[HolderKind, str]
"""A party for which allocations count, for example ``("principal", "ada")``."""


class Budget:
    """One limited resource of the process.

    All callers together get at most ``limit``. Each holder gets at most the share of its kind. ``resource`` is the name
    of the resource in errors, in the plural, for example "live connections". Safe to use from many threads.
    """

    def __init__(self, resource: str, limit: int, shares: Mapping[HolderKind, int]) -> None:
        self.resource = resource
        self.limit = limit
        self.shares = dict(shares)
        self.used = 0
        self._used_by: Counter[Holder] = Counter()
        # Worker threads make responses and take bytes for them, so the counts need a lock.
        self._lock = threading.Lock()
        close_in_child(self, "_lock")

    def take(self, *holders: Holder, amount: int = 1) -> Allocation:
        """Take ``amount`` for these holders until the allocation is released.

        The amount does not count for a holder whose kind has no share. Raises Refused and takes nothing: 429 when a
        holder would exceed its share, 503 when the process has too little left.
        """
        allocation = Allocation(self, tuple(holder for holder in holders if holder[0] in self.shares))
        allocation.add(amount)
        return allocation

    def used_by(self, holder: Holder) -> int:
        """Return the amount that the holder has now."""
        return self._used_by[holder]

    def _add(self, holders: tuple[Holder, ...], amount: int) -> None:
        with self._lock:
            self._check(holders, amount)
            self._change(holders, amount)

    def _move(self, before: tuple[Holder, ...], after: tuple[Holder, ...], amount: int) -> None:
        # Release and take under one lock. Otherwise another thread could take the released amount in between, and a
        # refused move could not restore it.
        with self._lock:
            self._change(before, -amount)
            try:
                self._check(after, amount)
            except Refused:
                self._change(before, amount)
                raise
            self._change(after, amount)

    def _release(self, holders: tuple[Holder, ...], amount: int) -> None:
        with self._lock:
            self._change(holders, -amount)

    def _check(self, holders: tuple[Holder, ...], amount: int) -> None:
        # Check shares first: a caller that exceeds its share gets 429 instead of 503, even while the process is full.
        for holder in holders:
            share, wanted = self.shares[holder[0]], self._used_by[holder] + amount
            if wanted > share:
                message = f"the {holder[0]} has used its share of {self.resource}"
                raise Refused(429, "too-many-requests", message, limit=share, value=wanted, scope=holder[0])
        if self.used + amount > self.limit:
            message = f"the server has too many {self.resource}"
            wanted = self.used + amount
            raise Refused(503, "unavailable", message, limit=self.limit, value=wanted, scope="process")

    def _change(self, holders: tuple[Holder, ...], amount: int) -> None:
        assert self.used + amount >= 0, "no more is released than was taken"
        self.used += amount
        for holder in holders:
            self._used_by[holder] += amount
            assert self._used_by[holder] >= 0, "no holder releases more than it took"
            if not self._used_by[holder]:
                # Forget a holder without an amount. Otherwise names that callers make up would fill the memory.
                del self._used_by[holder]


class Allocation:
    """The amount that one caller has taken from a budget."""

    def __init__(self, budget: Budget, holders: tuple[Holder, ...]) -> None:
        self._budget = budget
        self._holders = holders
        self.amount = 0

    @property
    def holders(self) -> tuple[Holder, ...]:
        """The holders for which the amount counts."""
        return self._holders

    def add(self, amount: int) -> None:
        """Take ``amount`` more. Raises Refused as `Budget.take` does, and then keeps the earlier amount."""
        self._budget._add(self._holders, amount)
        self.amount += amount

    def reduce(self, amount: int) -> None:
        """Give back the part above ``amount``, if any."""
        excess = max(0, self.amount - amount)
        if excess:
            self.amount -= excess
            self._budget._release(self._holders, excess)

    @property
    def amount_max(self) -> int:
        """The largest amount that these holders may ever take: the smallest of the limit and their shares."""
        return min([self._budget.limit, *(self._budget.shares[kind] for kind, _ in self._holders)])

    def assign(self, *holders: Holder) -> None:
        """Count the amount for these holders from now on. After Refused, the present holders stay."""
        wanted = tuple(holder for holder in holders if holder[0] in self._budget.shares)
        self._budget._move(self._holders, wanted, self.amount)
        self._holders = wanted

    def release(self) -> None:
        """Give back the whole amount. A second call does nothing."""
        self.reduce(0)

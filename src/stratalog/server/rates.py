"""Rates: a token bucket for each caller."""

from __future__ import annotations

import math
import threading
from collections import Counter, OrderedDict

from stratalog.clock import Clock
from stratalog.limits import RATE_HOLDERS_MAX
from stratalog.process_fork import close_in_child
from stratalog.server.errors import Refused
from stratalog.server.shares import Holder, HolderKind

__all__ = ["Rates"]


class Rates:
    """Limits each holder to ``per_second`` units on average and ``burst`` units at once.

    ``message`` is the text of the refusal.

    Each kind of holder has its own table of at most `RATE_HOLDERS_MAX` buckets. So a caller that makes up addresses
    cannot displace the buckets of principals. Safe to use from many threads.
    """

    def __init__(
        self, clock: Clock, per_second: float, burst: int, message: str = "the caller exceeds its rate of requests"
    ) -> None:
        self.message = message
        self.refused: Counter[HolderKind] = Counter()
        """The number of refusals by kind of holder."""

        self._clock = clock
        self._per_second = per_second
        self._burst = float(burst)
        self._buckets: dict[str, OrderedDict[str, tuple[float, int]]] = {}
        self._lock = threading.Lock()
        close_in_child(self, "_lock")

    def take(self, holder: Holder, amount: int = 1) -> None:
        """Take ``amount`` units. Raises Refused when the bucket has less. After Refused, nothing was taken.

        An amount larger than ``burst`` needs only a full bucket. Such an amount leaves the bucket below zero, so the
        bucket takes longer to fill.
        """
        needed = min(amount, self._burst)
        with self._lock:
            left, now_ms = self._left(holder), self._clock.boot_ms()
            buckets = self._buckets[holder[0]]
            # Remove and insert again: the table is ordered by the last use.
            buckets.pop(holder[1], None)
            buckets[holder[1]] = (left if left < needed else left - amount, now_ms)
            if len(buckets) > RATE_HOLDERS_MAX:
                buckets.popitem(last=False)
            self._check(holder, left, needed)

    def check(self, holder: Holder) -> None:
        """Raise Refused when the bucket has less than one unit. Takes nothing."""
        with self._lock:
            self._check(holder, self._left(holder))

    def is_spent(self, holder: Holder) -> bool:
        """Return whether the bucket has less than one unit."""
        with self._lock:
            return self._left(holder) < 1

    def _left(self, holder: Holder) -> float:
        now_ms = self._clock.boot_ms()
        buckets = self._buckets.setdefault(holder[0], OrderedDict())
        left, then_ms = buckets.get(holder[1], (self._burst, now_ms))
        return min(self._burst, left + (now_ms - then_ms) / 1000 * self._per_second)

    def _check(self, holder: Holder, left: float, needed: float = 1) -> None:
        if left < needed:
            self.refused[holder[0]] += 1
            seconds = math.ceil((needed - left) / self._per_second)
            details = {"limit": self._per_second, "scope": holder[0], "seconds": seconds}
            raise Refused(429, "too-many-requests", self.message, **details)

"""Paces: limit the share of a busy process's computing time that one principal's calls may use.

All threads of a process and its event loop share one interpreter. A caller whose calls compute all the time delays all
other callers.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from stratalog.limits import (
    CALLER_COMPUTED_BURST_SECONDS,
    CALLER_COMPUTED_SHARE_MAX,
    CALLER_PAUSE_SECONDS_MAX,
    RATE_HOLDERS_MAX,
)
from stratalog.server.shares import Holder

__all__ = ["Paces", "RecentCallers"]

RECENT_SECONDS = 1.0
"""A caller counts as recent for this long after its last call."""

LOAD_SECONDS = 0.25
LOADED_SHARE_MIN = 0.5
"""The load is the process's computing time as a share of one core, measured at most once per `LOAD_SECONDS`.

From `LOADED_SHARE_MIN` on, the process is loaded: the remaining time is too little for other callers."""

# The bucket may fall this far below zero. At the smallest share the debt is repaid within CALLER_PAUSE_SECONDS_MAX.
DEBT_SECONDS_MAX = CALLER_PAUSE_SECONDS_MAX * CALLER_COMPUTED_SHARE_MAX


class RecentCallers:
    """The callers of the last `RECENT_SECONDS`."""

    def __init__(self) -> None:
        self._called: OrderedDict[Holder, float] = OrderedDict()

    def note(self, caller: Holder, now: float) -> None:
        """Record a call of the caller."""
        self._called[caller] = now
        self._called.move_to_end(caller)

    def count(self, now: float) -> int:
        """Return the number of recent callers; forget older ones."""
        while self._called and next(iter(self._called.values())) < now - RECENT_SECONDS:
            self._called.popitem(last=False)
        return len(self._called)


class Paces:
    """Decides from the computing time of a principal's earlier calls when its next call may begin.

    Each principal has a token bucket of seconds. It fills at the principal's share of the time: an equal share among
    the recent principals, but at least `CALLER_COMPUTED_SHARE_MAX`. While the process is loaded and at least two
    principals are recent, a call begins only when the bucket is not below zero. Otherwise a call begins at once.

    Used from the event loop only. All times are the loop's, in seconds. ``process_seconds`` returns the process's
    computing time so far.
    """

    def __init__(self, process_seconds: Callable[[], float] = time.process_time) -> None:
        self._recent = RecentCallers()
        self._buckets: OrderedDict[Holder, tuple[float, float]] = OrderedDict()
        self._process_seconds = process_seconds
        self._looked = (0.0, process_seconds())
        self._load = 0.0

    def note(self, caller: Holder, now: float) -> None:
        """Record a call of the caller. Only calls of principals are recorded."""
        if caller[0] == "principal":
            self._recent.note(caller, now)

    def charge(self, caller: Holder, seconds: float, now: float) -> None:
        """Take the computing time of an ended call from the caller's bucket. Only principals have buckets."""
        if caller[0] != "principal":
            return
        self._buckets[caller] = (max(self._left(caller, now) - seconds, -DEBT_SECONDS_MAX), now)
        self._buckets.move_to_end(caller)
        # Forget the bucket with the oldest charge: it had the longest time to fill.
        if len(self._buckets) > RATE_HOLDERS_MAX:
            self._buckets.popitem(last=False)

    def may_begin_at(self, caller: Holder, now: float) -> float:
        """Return when the caller's next call may begin: ``now``, or later."""
        if caller not in self._buckets or self._recent.count(now) < 2 or not self.is_loaded(now):
            return now
        return now + max(0.0, -self._left(caller, now) / self._share(now))

    def _left(self, caller: Holder, now: float) -> float:
        left, then = self._buckets.get(caller, (CALLER_COMPUTED_BURST_SECONDS, now))
        return min(CALLER_COMPUTED_BURST_SECONDS, left + (now - then) * self._share(now))

    def _share(self, now: float) -> float:
        return max(CALLER_COMPUTED_SHARE_MAX, 1 / max(1, self._recent.count(now)))

    def is_loaded(self, now: float) -> bool:
        """Return whether the process computes `LOADED_SHARE_MIN` of the time. In an idle one a pause helps nobody."""
        then, computed = self._looked
        if now - then >= LOAD_SECONDS:
            self._looked = now, self._process_seconds()
            self._load = (self._looked[1] - computed) / (now - then)
        return self._load >= LOADED_SHARE_MIN

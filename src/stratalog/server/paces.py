"""Paces: beside others, the calls of one principal compute a part of a busy process's time only.

All threads of a process wait for one interpreter, and so does the event loop: who computes all the time delays all.
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
"""A caller is beside others for so long after their calls."""

LOAD_SECONDS = 0.25
LOADED_SHARE_MIN = 0.7
"""The load is looked at so often. From this part of one core on there is too little left for others."""

DEBT_SECONDS_MAX = CALLER_PAUSE_SECONDS_MAX * CALLER_COMPUTED_SHARE_MAX


class RecentCallers:
    """The callers of late."""

    def __init__(self) -> None:
        self._called: OrderedDict[Holder, float] = OrderedDict()

    def note(self, caller: Holder, now: float) -> None:
        """The caller calls."""
        self._called[caller] = now
        self._called.move_to_end(caller)

    def count(self, now: float) -> int:
        """How many they are."""
        while self._called and next(iter(self._called.values())) < now - RECENT_SECONDS:
            self._called.popitem(last=False)
        return len(self._called)


class Paces:
    """When the next call of each principal may begin, by what the earlier ones computed.

    A principal has a bucket of seconds, which fills by its share of the time: `CALLER_COMPUTED_SHARE_MAX`, or more
    where fewer principals call. While others call too and the process has little time left, a call begins where the
    bucket is not empty. Used from the event loop only, whose times these are. ``process_seconds`` says how long the
    process has computed.
    """

    def __init__(self, process_seconds: Callable[[], float] = time.process_time) -> None:
        self._recent = RecentCallers()
        self._buckets: OrderedDict[Holder, tuple[float, float]] = OrderedDict()
        self._process_seconds = process_seconds
        self._looked = (0.0, process_seconds())
        self._load = 0.0

    def note(self, caller: Holder, now: float) -> None:
        """The caller calls."""
        if caller[0] == "principal":
            self._recent.note(caller, now)

    def charge(self, caller: Holder, seconds: float, now: float) -> None:
        """A call of the caller computed for so long."""
        if caller[0] != "principal":
            return
        self._buckets[caller] = (max(self._left(caller, now) - seconds, -DEBT_SECONDS_MAX), now)
        self._buckets.move_to_end(caller)
        if len(self._buckets) > RATE_HOLDERS_MAX:
            self._buckets.popitem(last=False)

    def may_begin_at(self, caller: Holder, now: float) -> float:
        """When the caller's next call may begin: now, or later."""
        if caller not in self._buckets or self._recent.count(now) < 2 or not self.is_loaded(now):
            return now
        return now + max(0.0, -self._left(caller, now) / self._share(now))

    def _left(self, caller: Holder, now: float) -> float:
        left, then = self._buckets.get(caller, (CALLER_COMPUTED_BURST_SECONDS, now))
        return min(CALLER_COMPUTED_BURST_SECONDS, left + (now - then) * self._share(now))

    def _share(self, now: float) -> float:
        return max(CALLER_COMPUTED_SHARE_MAX, 1 / max(1, self._recent.count(now)))

    def is_loaded(self, now: float) -> bool:
        """Whether the process computes most of the time: else nobody gains by another's pause."""
        then, computed = self._looked
        if now - then >= LOAD_SECONDS:
            self._looked = now, self._process_seconds()
            self._load = (self._looked[1] - computed) / (now - then)
        return self._load >= LOADED_SHARE_MIN

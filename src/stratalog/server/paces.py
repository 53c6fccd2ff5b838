"""Paces: limit the share of a busy process's computing time that one principal's calls may use.

All threads of a process and its event loop share one interpreter. A caller whose calls compute all the time delays all
other callers.
"""

from __future__ import annotations

import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable

import msgspec

from stratalog.limits import (
    CALLER_COMPUTED_BURST_SECONDS,
    CALLER_COMPUTED_SHARE_MIN,
    CALLER_PAUSE_SECONDS_MAX,
    RATE_HOLDERS_MAX,
)
from stratalog.server.shares import Holder

__all__ = ["Paces", "RecentCallers"]

RECENT_SECONDS = 1.0
"""The time after its last call in which a caller counts as recent."""

LOAD_SECONDS = 0.25
LOADED_SHARE_MIN = 0.5
"""The load is the process's computing time as a share of one core, measured at most once per `LOAD_SECONDS`.

From `LOADED_SHARE_MIN` on, the process is loaded: too little computing time remains for other callers."""

CALLS_AVERAGED = 8
"""The expected computing time of a call is a moving average over about this many calls of the caller."""

# No bucket falls further than this below zero. Even at the smallest share, a bucket returns to zero within
# CALLER_PAUSE_SECONDS_MAX.
DEBT_SECONDS_MAX = CALLER_PAUSE_SECONDS_MAX * CALLER_COMPUTED_SHARE_MIN


class RecentCallers:
    """The callers of the last `RECENT_SECONDS`."""

    def __init__(self) -> None:
        self._called: OrderedDict[Holder, float] = OrderedDict()

    def note(self, caller: Holder, now: float) -> None:
        """Record a call of the caller."""
        self._called[caller] = now
        self._called.move_to_end(caller)

    def count(self, now: float) -> int:
        """Return the number of recent callers. Forget older callers."""
        while self._called and next(iter(self._called.values())) < now - RECENT_SECONDS:
            self._called.popitem(last=False)
        return len(self._called)


class Paces:
    """Decides from the computing time of a principal's earlier calls when the principal's next call may begin.

    Each principal has a token bucket of seconds. While at least two principals are recent, a call begins only when its
    principal's bucket is not below zero. Otherwise a call begins at once. The bucket fills at the largest of these
    shares of the time: an equal share among the recent principals, `CALLER_COMPUTED_SHARE_MIN`, and the share that all
    other work of the process leaves below `LOADED_SHARE_MIN`.

    A call takes its expected time from the bucket when it begins. When it ends, the call takes or returns the
    difference to its real time. If a call took nothing at its beginning, all waiting calls of all pools would begin
    together at the end of a pause.

    Used from the event loop only. All times are seconds of the loop's clock. ``process_seconds`` returns the process's
    computing time so far.
    """

    def __init__(self, process_seconds: Callable[[], float] = time.process_time) -> None:
        self._recent = RecentCallers()
        self._accounts: OrderedDict[Holder, _Account] = OrderedDict()
        self._process_seconds = process_seconds
        self._looked = (0.0, process_seconds())
        self._load = 0.0
        # The computing time of each principal's ended calls: in seconds since the last measurement, and as a share of
        # the time between the last two measurements.
        self._computed: defaultdict[Holder, float] = defaultdict(float)
        self._own_load: dict[Holder, float] = {}

    def note(self, caller: Holder, now: float) -> None:
        """Record a call of the caller. Only calls of principals are recorded."""
        if caller[0] == "principal":
            self._recent.note(caller, now)

    def begin(self, caller: Holder, now: float) -> float:
        """Take the expected computing time of a call from the caller's bucket. Return the seconds taken, for `end`.

        Only principals have buckets. A bucket near its lowest level gives less than the expected time.
        """
        if caller[0] != "principal":
            return 0.0
        account = self._change(caller, 0.0, now)
        before = account.left
        return before - self._change(caller, -account.expected, now).left

    def end(self, caller: Holder, taken: float, seconds: float, now: float) -> None:
        """Correct the bucket after a call of ``seconds`` of computing time. ``taken`` is the result of `begin`."""
        if caller[0] != "principal":
            return
        account = self._change(caller, taken - seconds, now)
        account.expected += (seconds - account.expected) / CALLS_AVERAGED
        self._computed[caller] += seconds

    def may_begin_at(self, caller: Holder, now: float) -> float:
        """Return the time when the caller's next call may begin: ``now``, or later."""
        if caller not in self._accounts or self._recent.count(now) < 2:
            return now
        return now + max(0.0, -self._left(caller, now) / self._share(caller, now))

    def is_loaded(self, now: float) -> bool:
        """Return whether the process computes at least `LOADED_SHARE_MIN` of the time."""
        self._look(now)
        return self._load >= LOADED_SHARE_MIN

    def _change(self, caller: Holder, seconds: float, now: float) -> _Account:
        account = self._accounts.setdefault(caller, _Account(left=CALLER_COMPUTED_BURST_SECONDS, then=now))
        left = min(CALLER_COMPUTED_BURST_SECONDS, self._left(caller, now) + seconds)
        account.left, account.then = max(left, -DEBT_SECONDS_MAX), now
        self._accounts.move_to_end(caller)
        # Forget the bucket with the oldest change, because this bucket had the longest time to fill.
        if len(self._accounts) > RATE_HOLDERS_MAX:
            self._accounts.popitem(last=False)
        return account

    def _left(self, caller: Holder, now: float) -> float:
        account = self._accounts[caller]
        filled = account.left + (now - account.then) * self._share(caller, now)
        return min(CALLER_COMPUTED_BURST_SECONDS, filled)

    def _share(self, caller: Holder, now: float) -> float:
        self._look(now)
        others_load = max(0.0, self._load - self._own_load.get(caller, 0.0))
        equal = 1 / max(1, self._recent.count(now))
        return max(CALLER_COMPUTED_SHARE_MIN, equal, LOADED_SHARE_MIN - others_load)

    def _look(self, now: float) -> None:
        """Measure the load, unless it was measured in the last `LOAD_SECONDS`."""
        then, before = self._looked
        passed = now - then
        if passed < LOAD_SECONDS:
            return
        self._looked = now, self._process_seconds()
        self._load = (self._looked[1] - before) / passed
        self._own_load = {caller: seconds / passed for caller, seconds in self._computed.items()}
        self._computed.clear()


class _Account(msgspec.Struct):
    """One principal's bucket, the time of its last change, and the expected computing time of the next call."""

    left: float
    then: float
    expected: float = 0.0

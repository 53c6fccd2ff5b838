"""Failed versions: the calls that ended an engine or exceeded a limit. `Unopenable` refuses such calls for a while."""

from __future__ import annotations

import threading
from collections import OrderedDict

import msgspec

from stratalog.clock import Clock, Observation
from stratalog.errors import LimitExceeded, StratalogError, Unavailable
from stratalog_sheet.limits import SHEET_KILLS_MAX, SHEET_UNOPENABLE_MAX

__all__ = ["OPENING", "Unopenable"]

OPENING = "open"


class _Failure(msgspec.Struct):
    since: Observation
    kills: int
    reason: str


class Unopenable:
    """Failures of engines by sheet, version and call. Safe to share between threads.

    `check` refuses a call for ``seconds`` after the call has exceeded a limit or crashed an engine. Engines killed by
    SIGKILL or SIGTERM count only from the `SHEET_KILLS_MAX`-th on. `check` allows the same call on another version.
    If there are more than `SHEET_UNOPENABLE_MAX` failures, `note` removes the failure that it has not updated for
    longest.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._failures: OrderedDict[tuple[str, int, str], _Failure] = OrderedDict()
        self._lock = threading.Lock()

    def check(self, owner: str, version: int, call: str = OPENING) -> None:
        """Raise LimitExceeded while the call is refused, by the rules of the class."""
        with self._lock:
            failure = self._failures.get((owner, version, call))
            if failure is None or failure.kills < SHEET_KILLS_MAX:
                return
            if failure.since.age_seconds() > self._seconds:
                del self._failures[owner, version, call]
                return
        text = f"version {version} of the sheet makes the engine fail; restore an earlier version (`restore`)"
        raise LimitExceeded(text, version=version, call=call, reason=failure.reason)

    def note(self, owner: str, version: int, call: str, error: StratalogError) -> None:
        """Record an engine's error if the call may have caused it."""
        kills = _kills(error)
        if not kills:
            return
        key = (owner, version, call)
        with self._lock:
            before = self._failures.pop(key, None)
            kills += before.kills if before else 0
            self._failures[key] = _Failure(Observation(self._clock), kills, error.message)
            while len(self._failures) > SHEET_UNOPENABLE_MAX:
                self._failures.popitem(last=False)

    def forget(self, owner: str, version: int, call: str) -> None:
        """Forget the failures of a call that succeeded, because these failures had another cause."""
        if self._failures:
            with self._lock:
                self._failures.pop((owner, version, call), None)


def _kills(error: StratalogError) -> int:
    if isinstance(error, LimitExceeded):
        return SHEET_KILLS_MAX
    ended_by = error.details.get("ended_by") if isinstance(error, Unavailable) else None
    if ended_by is None:
        return 0
    return 1 if ended_by in ("SIGKILL", "SIGTERM") else SHEET_KILLS_MAX

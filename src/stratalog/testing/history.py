"""Histories of simulated runs: the answers that actors got from one log, for the checkers."""

from __future__ import annotations

from collections.abc import Sequence

from stratalog.testing.checkers import Answered, CheckedAppend, HeadRead, LoggedEntry, check_appends
from stratalog.testing.faults import FAULTS
from stratalog.testing.scheduler import Scheduler

__all__ = ["APPEND_COLUMNS", "History"]

APPEND_COLUMNS = (
    "index.commit",
    "conflicts",
    "restarts",
    "acknowledged",
    "refused",
    "given up unknown",
    *(fault for fault in FAULTS if fault != "torn"),
)
"""The counts of every simulation whose actors append over faulty lines. The fault "torn" concerns only queues."""


class History:
    """The answers to the appends that actors made to one log, and the heads that they read.

    ``sent`` is the number of the scheduler's step before the call. The answer counts as received at the current step.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.appends: list[CheckedAppend] = []
        self.heads: list[HeadRead] = []
        self._scheduler = scheduler

    def append(self, writer: str, write_id: str, sent: int, outcome: Answered, version: int = 0) -> None:
        """Record that ``writer`` gets the outcome of an append now. ``version`` is set for an acknowledged append."""
        self._scheduler.counts.bump("given up unknown" if outcome is Answered.UNKNOWN else outcome.value)
        self.appends.append(CheckedAppend(writer, write_id, sent, self._scheduler.steps, outcome, version))

    def head(self, sent: int, version: int) -> None:
        """Record that an actor gets the head ``version`` from a consistent read now."""
        self.heads.append(HeadRead(sent, self._scheduler.steps, version))

    def check(self, logged: Sequence[LoggedEntry], floor: int = 0) -> None:
        """Check the history against ``logged``, the entries above ``floor``. Raises Violation."""
        check_appends(self.appends, self.heads, logged, floor)

"""Histories as the actors of a world make them: what they were told of a log, for the checkers to hold against it."""

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
"""What every world meets whose actors append over faulty lines. Only messages of a queue are torn."""


class History:
    """What actors were told of their appends to one log, and which heads they read."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.appends: list[CheckedAppend] = []
        self.heads: list[HeadRead] = []
        self._scheduler = scheduler

    def append(self, writer: str, write_id: str, sent: int, outcome: Answered, version: int = 0) -> None:
        """``writer`` is told now what became of an append of the step ``sent``."""
        self._scheduler.counts.bump("given up unknown" if outcome is Answered.UNKNOWN else outcome.value)
        self.appends.append(CheckedAppend(writer, write_id, sent, self._scheduler.steps, outcome, version))

    def head(self, sent: int, version: int) -> None:
        """Somebody is told now the head that was asked for at the step ``sent``."""
        self.heads.append(HeadRead(sent, self._scheduler.steps, version))

    def check(self, logged: Sequence[LoggedEntry], floor: int = 0) -> None:
        """Hold it against the log. Raises Violation."""
        check_appends(self.appends, self.heads, logged, floor)

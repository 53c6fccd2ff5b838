"""Weekly groups: client groups of senders that nobody informs when their group is forgotten.

A client that pulls learns that its group was forgotten, and begins anew. A program that only sends queued pushes, and
counts each as done, does not pull. So no message of its group may wait when the group is forgotten. The name of a
weekly group contains a week of the log's time, which is the time of the log's newest version and never falls. A sender
reads the log's time before it sends, and again after it sent. It counts a message as sent if the time was in the
group's week before, and no later than the next week after. The queue delivers the messages of a document in the order
in which they were sent. So once a push of the group two weeks later is committed, no message of the group waits,
whatever the clocks of the senders say.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["WEEKS_APART_MIN", "WEEK_MS", "WeeklyGroup", "read_weekly_group", "weekly_group"]

WEEK_MS = 7 * 86_400_000
WEEKS_APART_MIN = 2
"""A push of a group this many weeks later shows that no message of a weekly group waits."""

WEEK_DIGITS = 6
"""The digits of a week in a name. With a fixed width, the groups of one series sort in the order of their weeks."""

_WEEKLY = re.compile(rf"(.*)#([0-9]{{{WEEK_DIGITS}}})", re.DOTALL)


class WeeklyGroup(NamedTuple):
    """The parts of the name of a weekly group: the series, and the number of the week since 1970."""

    series: str
    week: int

    @property
    def name(self) -> str:
        """The name of the group."""
        return f"{self.series}#{self.week:0{WEEK_DIGITS}d}"


def weekly_group(series: str, time_ms: int) -> str:
    """Return the name of the group of a series for the week of ``time_ms``, a log's time in milliseconds since 1970."""
    return WeeklyGroup(series, time_ms // WEEK_MS).name


def read_weekly_group(group: str) -> WeeklyGroup | None:
    """Return the parts of a weekly group's name; None for another name."""
    match = _WEEKLY.fullmatch(group)
    return WeeklyGroup(match[1], int(match[2])) if match else None

"""Contention: how contended a log is, as one process sees it, and what that means for its next try.

A put that comes too late is billed like one that lands, and a read costs a fifth of it. So a writer whose head has
probably been left behind reads before it puts; one who is alone never does.
"""

from __future__ import annotations

import math

from stratalog.log.environment import LogSettings

__all__ = ["READ_SHARE", "Contention"]

READ_SHARE = 0.2
"""What a read of the head costs of a put, in DynamoDB's prices: reading first pays where more puts than that lose."""

RETAINED = 7 / 8  # of what was seen before, each time something is seen
FORGOTTEN = 1 / 16  # an entry counts for nothing once less than that is left of it
BACKOFF_GROWTH = 2.0
BACKOFF_DECAY = 0.8
_QUIET = -math.log(1 - READ_SHARE)


class Contention:
    """Told what was seen of others and what became of own puts; asked whether to read first and how long to wait.

    It says what is probable and decides nothing that has to be right. Its numbers are of the last dozen tries, however
    long these took: they suit a log that others write once an hour as well as one that they write 100 times a second.
    """

    __slots__ = ("_others", "_seconds", "backoff_seconds", "contended")

    def __init__(self) -> None:
        self.contended = False
        """Whether others wrote of late; while nobody did there is nothing to ask here."""

        self._others = 0.0
        self._seconds = 0.0
        self.backoff_seconds = 0.0
        """How long the next wait after a lost put may be; remembered from one append to the next."""

    def saw(self, others: int, seconds: float) -> None:
        """The log holds so many entries of others more than so many seconds before."""
        retained = self._others * RETAINED
        self._others = others + (retained if retained > FORGOTTEN else 0)
        self._seconds = max(0.0, seconds) + self._seconds * RETAINED
        self.contended = self._others > 0

    def is_behind(self, age_seconds: float) -> bool:
        """Whether a head seen so long ago is more likely left behind than reading it anew is dear.

        Others are taken to write at random at the rate at which they were seen to: 1 - e^(-rate · age).
        """
        return self._others * age_seconds > _QUIET * self._seconds

    def won(self) -> None:
        """A put landed."""
        self.backoff_seconds *= BACKOFF_DECAY

    def lost(self, settings: LogSettings) -> None:
        """A put came too late."""
        self.contended = True
        first, limit = settings.append_backoff_seconds_first, settings.append_backoff_seconds_max
        self.backoff_seconds = min(limit, max(first, self.backoff_seconds * BACKOFF_GROWTH))

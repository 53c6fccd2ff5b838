"""Contention: one process's estimate of the other writers of a log. The estimate decides how the next try begins.

A put that loses its race costs as much as a put that succeeds. A read costs a fifth of a put. So a writer reads the
head before the put if its head is outdated with a probability of more than a fifth. The estimate never makes a lone
writer read first.
"""

from __future__ import annotations

import math

from stratalog.log.environment import LogSettings

__all__ = ["READ_SHARE", "Contention"]

READ_SHARE = 0.2
"""The price of a read, as a share of the price of a put in DynamoDB. A larger share of lost puts justifies a read."""

RETAINED = 7 / 8  # the share of the earlier observations that remains at a new observation
FORGOTTEN = 1 / 16  # a remainder at or below this many entries is dropped
BACKOFF_GROWTH = 2.0
BACKOFF_DECAY = 0.8
_QUIET = -math.log(1 - READ_SHARE)


class Contention:
    """Estimates contention from the entries of other writers and the outcomes of this process's puts.

    The estimate decides whether to read first and how long to wait. A wrong estimate costs time or money, never
    correctness. The estimate uses about the last dozen tries, however long they took. So the estimate is useful for a
    log with one foreign entry an hour, and for a log with 100 foreign entries a second.
    """

    __slots__ = ("_others", "_seconds", "backoff_seconds", "contended")

    def __init__(self) -> None:
        self.contended = False
        """Whether other writers wrote recently. Without other writers no estimate is needed."""

        self._others = 0.0
        self._seconds = 0.0
        self.backoff_seconds = 0.0
        """The limit of the next wait after a lost put. The next append starts with the limit of the last append."""

    def saw(self, others: int, seconds: float) -> None:
        """Record that ``others`` entries of other writers appeared within ``seconds``."""
        retained = self._others * RETAINED
        self._others = others + (retained if retained > FORGOTTEN else 0)
        self._seconds = max(0.0, seconds) + self._seconds * RETAINED
        self.contended = self._others > 0

    def is_behind(self, age_seconds: float) -> bool:
        """Return whether a head of this age is so probably outdated that a read before the put is cheaper.

        The estimate assumes that other writers write at random times at their observed rate. The probability is then
        1 - e^(-rate · age).
        """
        # Compare products, not quotients: the observed time may be zero.
        return self._others * age_seconds > _QUIET * self._seconds

    def won(self) -> None:
        """Record that a put succeeded."""
        self.backoff_seconds *= BACKOFF_DECAY

    def lost(self, settings: LogSettings) -> None:
        """Record that a put lost its race."""
        self.contended = True
        first, limit = settings.append_backoff_seconds_first, settings.append_backoff_seconds_max
        self.backoff_seconds = min(limit, max(first, self.backoff_seconds * BACKOFF_GROWTH))

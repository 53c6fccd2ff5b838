"""The times of marks. A mark says when items were forgotten or deleted; the items are freed long after."""

from __future__ import annotations

from stratalog.clock import Clock
from stratalog.limits import GRACE_SECONDS, MARK_AHEAD_SECONDS_MIN, OBSERVATION_SECONDS_MAX

__all__ = ["free_time_reached", "is_mark_ahead"]

FREE_AFTER_MS = (OBSERVATION_SECONDS_MAX + GRACE_SECONDS) * 1000
AHEAD_MS_MIN = MARK_AHEAD_SECONDS_MIN * 1000


def free_time_reached(clock: Clock, marked_ms: int) -> bool:
    """Return whether items marked at ``marked_ms`` may be freed. The grace also allows for clocks that differ."""
    return clock.wall_ms() - marked_ms > FREE_AFTER_MS


def is_mark_ahead(clock: Clock, marked_ms: int) -> bool:
    """Return whether a mark is so far in the future that a clock was wrong when the mark was made.

    Such a mark proves nothing about its age: it may be a second old. So its items are marked again, and freed later.
    A mark that is ahead by less stays. Its items are freed once `free_time_reached` holds for the time of the mark.
    """
    return marked_ms - clock.wall_ms() > AHEAD_MS_MIN

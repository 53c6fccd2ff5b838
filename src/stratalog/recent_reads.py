"""Recent reads: what this process has read whole, and found intact, within the observation window."""

from __future__ import annotations

import threading
from collections import OrderedDict

from stratalog.clock import Observation
from stratalog.limits import OBSERVATION_SECONDS_MAX, READS_REMEMBERED_MAX
from stratalog.process_fork import close_in_child

__all__ = ["RecentReads"]


class RecentReads:
    """Keys and the generation of each that was read. Safe for threads; the oldest are forgotten first.

    A put of bytes that are stored reads them back, since presence says nothing of them. This spares reading one blob
    again within `OBSERVATION_SECONDS_MAX`: what a process read moments ago it would read from memory, not from a disk.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        close_in_child(self, "_lock")
        self._reads: OrderedDict[str, tuple[str, Observation]] = OrderedDict()

    def find(self, key: str, generation: str) -> Observation | None:
        """When this generation was read, where that was within the window."""
        known, seen = self._reads.get(key, ("", None))
        if seen is None or known != generation or seen.age_seconds() > OBSERVATION_SECONDS_MAX:
            return None
        return seen

    def note(self, key: str, generation: str, seen: Observation) -> None:
        """The generation's bytes were read whole, or written, after ``seen`` was taken, and are intact."""
        with self._lock:
            self._reads[key] = (generation, seen)
            self._reads.move_to_end(key)
            if len(self._reads) > READS_REMEMBERED_MAX:
                self._reads.popitem(last=False)

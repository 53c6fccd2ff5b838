"""Recent reads: the blobs that this process has found intact, or has written, within the observation window."""

from __future__ import annotations

import threading
from collections import OrderedDict

from stratalog.clock import Observation
from stratalog.limits import OBSERVATION_SECONDS_MAX, READS_REMEMBERED_MAX
from stratalog.process_fork import close_in_child

__all__ = ["RecentReads"]


class RecentReads:
    """The keys of recently read or written blobs, each with the blob's generation. Safe for threads.

    If there are more than `READS_REMEMBERED_MAX` keys, the oldest are forgotten first.

    A put of bytes that are already stored reads the stored bytes back, since presence does not prove integrity. After a
    recent read of the same generation the put skips this read. Within `OBSERVATION_SECONDS_MAX` the operating system
    would usually answer another read from a cache, not from the disk.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        close_in_child(self, "_lock")
        self._reads: OrderedDict[str, tuple[str, Observation]] = OrderedDict()

    def find(self, key: str, generation: str) -> Observation | None:
        """Return the observation of a read or write of this generation within the window; else None."""
        known, seen = self._reads.get(key, ("", None))
        if seen is None or known != generation or seen.age_seconds() > OBSERVATION_SECONDS_MAX:
            return None
        return seen

    def note(self, key: str, generation: str, seen: Observation) -> None:
        """Record that the bytes of the generation are intact: after ``seen`` they were written or completely read."""
        with self._lock:
            self._reads[key] = (generation, seen)
            self._reads.move_to_end(key)
            if len(self._reads) > READS_REMEMBERED_MAX:
                self._reads.popitem(last=False)

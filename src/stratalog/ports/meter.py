"""The meter: counts a workload's requests to hosted services, and the units that these services bill."""

from __future__ import annotations

import threading
from collections import defaultdict

from stratalog.process_fork import close_in_child

__all__ = ["Meter"]


class Meter:
    """Adds up amounts by operation and unit. Many threads, and several backends of a store, may share a meter.

    Operations have the service's own names (`PutItem`, `PutObject`). Units are English words. `requests` counts all
    attempts, also those that could not be sent. `write units` and `read units` count the billed units. `wasted write
    units` counts the units billed for failed conditions. For DynamoDB, `throttled`, `conflicts`, `lost` and `unsent`
    are the numbers of failed attempts by cause.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        close_in_child(self, "_lock")
        self._sums: defaultdict[tuple[str, str], float] = defaultdict(float)

    def add(self, operation: str, unit: str, amount: float = 1) -> None:
        """Add ``amount`` to the sum of the operation and unit."""
        with self._lock:
            self._sums[operation, unit] += amount

    def read(self) -> dict[tuple[str, str], float]:
        """Return the sum so far of each (operation, unit)."""
        with self._lock:
            return dict(self._sums)

    def total(self, unit: str) -> float:
        """Return the sum so far of one unit over all operations."""
        return sum(amount for (_, name), amount in self.read().items() if name == unit)

"""Meter: what a workload asks of hosted services, counted in the units they are billed by."""

from __future__ import annotations

import threading
from collections import defaultdict

__all__ = ["Meter", "read_units", "write_units"]

WRITE_UNIT_BYTES = 1024
READ_UNIT_BYTES = 4096


class Meter:
    """Sums by operation and unit, from many threads. The backends of one store may share one.

    Operations have the service's own names (`PutItem`, `PutObject`). Units are plain words: `requests` sent, whatever
    their outcome; `write units` and `read units`; `wasted write units`, the part of them that was billed for a
    condition that did not hold; and how often something stood in the way: `throttled`, `conflicts`, `lost`, `unsent`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: defaultdict[tuple[str, str], float] = defaultdict(float)

    def add(self, operation: str, unit: str, amount: float = 1) -> None:
        """Count ``amount`` more."""
        with self._lock:
            self._sums[operation, unit] += amount

    def read(self) -> dict[tuple[str, str], float]:
        """The sum so far of each (operation, unit)."""
        with self._lock:
            return dict(self._sums)

    def total(self, unit: str) -> float:
        """The sum so far of one unit over all operations."""
        return sum(amount for (_, name), amount in self.read().items() if name == unit)


def write_units(item_bytes: int, *, transaction: bool = False) -> int:
    """What DynamoDB bills for writing an item of this size: one unit for each KB begun, twice that in a transaction.

    An overwrite counts by the larger of both items, and a failed condition like a success.
    """
    units = max(1, -(-item_bytes // WRITE_UNIT_BYTES))
    return 2 * units if transaction else units


def read_units(read_bytes: int, *, consistent: bool) -> float:
    """What DynamoDB bills for one get, or for one page of a query: a unit for each 4 KB begun, half if not consistent.

    A page's items are added up first; reading nothing costs as much as reading a little.
    """
    units = max(1, -(-read_bytes // READ_UNIT_BYTES))
    return units if consistent else units / 2

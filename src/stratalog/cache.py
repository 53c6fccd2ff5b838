"""ByteCache: decoded values that threads may need again, bounded in bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from stratalog.process_fork import close_in_child

__all__ = ["ByteCache"]

T = TypeVar("T")


class ByteCache(Generic[T]):
    """Values of at most ``bytes_max`` bytes in total; with 0 the cache keeps no value.

    The cache drops the least recently used values first. Safe to call from many threads.
    """

    def __init__(self, bytes_max: int) -> None:
        self._lock = threading.Lock()
        close_in_child(self, "_lock")
        self._bytes_max = bytes_max
        self._held: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self.held_bytes: int = 0
        """The total size of the held values; at most ``bytes_max``."""

    def get(self, key: Hashable) -> T | None:
        """Return the value and make it the most recently used; None if the cache does not hold it."""
        with self._lock:
            held = self._held.get(key)
            if held is None:
                return None
            self._held.move_to_end(key)
        return held[0]

    def put(self, key: Hashable, value: T, size: int) -> None:
        """Hold a value of ``size`` bytes, unless it is larger than the whole cache."""
        with self._lock:
            self._drop(key)
            if size > self._bytes_max:
                return
            self._held[key] = (value, size)
            self.held_bytes += size
            while self.held_bytes > self._bytes_max:
                self._drop(next(iter(self._held)))

    def _drop(self, key: Hashable) -> None:
        held = self._held.pop(key, None)
        if held is not None:
            self.held_bytes -= held[1]

"""ByteCache: a cache of decoded values that threads share, with a limit in bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from stratalog.process_fork import close_in_child

__all__ = ["ByteCache"]

T = TypeVar("T")


class ByteCache(Generic[T]):
    """A cache of values whose sizes are at most ``bytes_max`` in total. With ``bytes_max`` 0 the cache keeps only
    values of size 0.

    The cache drops the least recently used values first. Many threads may call the cache at once.
    """

    def __init__(self, bytes_max: int) -> None:
        self._lock = threading.Lock()
        close_in_child(self, "_lock")
        self._bytes_max = bytes_max
        self._held: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self.held_bytes: int = 0
        """The total size of the cached values; at most ``bytes_max``."""

    def get(self, key: Hashable) -> T | None:
        """Return the value and make it the most recently used value. Return None if the value is not cached."""
        with self._lock:
            held = self._held.get(key)
            if held is None:
                return None
            self._held.move_to_end(key)
        return held[0]

    def put(self, key: Hashable, value: T, size: int) -> None:
        """Cache a value of ``size`` bytes, unless it is larger than ``bytes_max``. Drop the older value of ``key``."""
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

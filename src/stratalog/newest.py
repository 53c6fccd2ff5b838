"""Newest: a value that threads share, and that is only ever replaced by something newer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from stratalog.process_fork import close_in_child

__all__ = ["Newest"]

T = TypeVar("T")


class Newest(Generic[T]):
    """The newest value that any thread has offered, or None.

    ``rank`` orders values. ``join`` makes of a newer and an older value the one to hold; by default the newer one. It
    runs under a lock, so it must not wait. A value that was dropped still bars older ones: a slow thread cannot bring
    back what the handle has left behind.
    """

    __slots__ = ("__weakref__", "_bar", "_join", "_lock", "_rank", "value")

    def __init__(
        self, rank: Callable[[T], Any], value: T | None = None, *, join: Callable[[T, T], T] | None = None
    ) -> None:
        self._lock = threading.Lock()
        close_in_child(self, "_lock")
        self._rank = rank
        self._join = join
        self.value = value
        """What is held now, only ever changed here. A decision reads it once and passes it on: the next read may give
        something newer."""

        self._bar = None if value is None else rank(value)

    def require(self) -> T:
        """What is held now, where something always is."""
        value = self.value
        assert value is not None, "nothing was offered, or it was dropped"
        return value

    def offer(self, value: T) -> T:
        """Hold ``value`` unless something newer is held. Return what is held then, or ``value`` if nothing is."""
        rank = self._rank(value)
        with self._lock:
            held = self.value
            if self._bar is None or rank >= self._bar:
                self._bar = rank
                newest, older = value, held
            elif held is not None:
                newest, older = held, value
            else:
                return value
            if self._join is not None and older is not None:
                newest = self._join(newest, older)
            self.value = newest
            return newest

    def drop(self, value: T | None) -> None:
        """Forget ``value``. What has replaced it since stays."""
        with self._lock:
            if self.value is value:
                self.value = None

"""Newest: a value that threads share, and that no older value replaces."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from stratalog.process_fork import close_in_child

__all__ = ["Newest"]

T = TypeVar("T")


class Newest(Generic[T]):
    """The newest value that any thread has offered, or None.

    ``rank`` orders values. ``join`` combines a newer and an older value into the value to keep; by default the newer
    value is kept. ``join`` runs under a lock, so it must not block. After a value is dropped, older values are still
    refused, so that a slow thread cannot bring back an outdated value.
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
        """The current value. Only this class changes it.

        A caller must read `value` only once for each decision, since a second read may return a newer value.
        """

        self._bar = None if value is None else rank(value)

    def require(self) -> T:
        """Return the current value. The caller ensures that the current value is not None."""
        value = self.value
        assert value is not None, "no value was offered, or the value was dropped"
        return value

    def offer(self, value: T) -> T:
        """Make ``value`` the current value, unless a newer value was offered before. Return the resulting value.

        If there was a current value, ``join`` combines both values. If the newer value was dropped, there is no current
        value: return ``value``, and do not keep it.
        """
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
        """Forget ``value``. If another value has replaced ``value``, the other value stays."""
        with self._lock:
            if self.value is value:
                self.value = None

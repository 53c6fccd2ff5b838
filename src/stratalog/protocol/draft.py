"""Draft: what a mutator reads and writes. Its changes become the patch, or vanish when it is rejected."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping

from stratalog.codec import Value, decode, encode_checked
from stratalog.errors import LimitExceeded
from stratalog.limits import VALUE_BYTES_MAX
from stratalog.protocol.keys import check_key

__all__ = ["Draft"]

_NOTHING: Mapping[str, bytes | None] = {}


class Draft:
    """A state with changes on top. Values given out are copies: changing one changes nothing until it is put.

    ``load(key)`` gives the encoded value below the changes or None; ``keys(prefix)`` the keys below them, in order;
    ``holds(key)``, where it is given, says quicker than ``keys`` whether there is one. ``below`` are changes to look at
    before any of them, except ``keys``, which knows them.
    """

    def __init__(
        self,
        load: Callable[[str], bytes | None],
        keys: Callable[[str], Iterator[str]],
        holds: Callable[[str], bool] | None = None,
        below: Mapping[str, bytes | None] = _NOTHING,
    ) -> None:
        self._load = load
        self._keys = keys
        self._holds = holds
        self._below = below
        self.changes: dict[str, bytes | None] = {}
        """The encoded value of each changed key; None where it was deleted."""

    def get(self, key: str, default: Value = None) -> Value:
        """The value of ``key``, or ``default``."""
        stored = self.encoded(check_key(key))
        return default if stored is None else decode(stored)

    def put(self, key: str, value: Value) -> None:
        """Set ``key``. Raises Invalid or LimitExceeded for what may not be stored."""
        encoded = encode_checked(value)
        if len(encoded) > VALUE_BYTES_MAX:
            raise LimitExceeded("a value is too large", value=len(encoded), limit=VALUE_BYTES_MAX)
        self.changes[check_key(key)] = encoded

    def __contains__(self, key: str) -> bool:
        """Whether there is a value; it is not opened."""
        if key in self.changes:
            return self.changes[key] is not None
        if key in self._below:
            return self._below[key] is not None
        return self._holds(key) if self._holds else next(self._keys(key), None) == key

    def delete(self, key: str) -> bool:
        """Remove ``key``; whether there was one. The value is not opened."""
        if check_key(key) not in self:
            return False
        self.changes[key] = None
        return True

    def scan(self, prefix: str = "") -> Iterator[tuple[str, Value]]:
        """Keys that start with ``prefix`` and their values, in order, as they stand when the scan starts."""
        for key in list(self._present(prefix)):
            stored = self.encoded(key)
            if stored is not None:
                yield key, decode(stored)

    def keys(self, prefix: str = "") -> Iterator[str]:
        """Keys that start with ``prefix``, in order. Their values are not opened; change nothing meanwhile."""
        return self._present(prefix)

    def child(self) -> Draft:
        """A draft on top of this one: what it changes is not seen here until it is merged."""
        if self._below is not _NOTHING:
            return Draft(self.encoded, self._present, self.__contains__)
        return Draft(self._load, self._present, self._holds or self.__contains__, self.changes)

    def merge(self, child: Draft) -> None:
        """Take over what a child changed."""
        self.changes.update(child.changes)

    def encoded(self, key: str) -> bytes | None:
        """The encoded value of ``key``, or None."""
        if key in self.changes:
            return self.changes[key]
        return self._below[key] if key in self._below else self._load(key)

    def _present(self, prefix: str) -> Iterator[str]:
        changed = sorted(key for key, value in self.changes.items() if value is not None and key.startswith(prefix))
        below = (key for key in self._keys(prefix) if key not in self.changes)
        return heapq.merge(changed, below)

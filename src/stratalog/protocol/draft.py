"""Draft: the state that a mutator reads and changes. The changes become the patch. A rejection drops the changes."""

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
    """A state with changes on top. Returned values are copies: a change to a copy has no effect until the copy is put.

    ``load(key)`` returns the encoded value in the state, or None. ``keys(prefix)`` yields the state's keys, in order.
    ``holds(key)``, if given, tests for one key faster than ``keys``. ``below`` contains changes between the state and
    this draft's own changes. The changes in ``below`` override ``load`` and ``holds``. ``keys`` already includes these
    changes.
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
        """The encoded value of each changed key, or None if the key was deleted."""

    def get(self, key: str, default: Value = None) -> Value:
        """Return the value of ``key``, or ``default``."""
        stored = self.encoded(check_key(key))
        return default if stored is None else decode(stored)

    def put(self, key: str, value: Value) -> None:
        """Set ``key``. Raises Invalid or LimitExceeded for a value or key that may not be stored."""
        encoded = encode_checked(value)
        if len(encoded) > VALUE_BYTES_MAX:
            raise LimitExceeded("a value is too large", value=len(encoded), limit=VALUE_BYTES_MAX)
        self.changes[check_key(key)] = encoded

    def __contains__(self, key: str) -> bool:
        """Return whether the key has a value. The value is not decoded."""
        if key in self.changes:
            return self.changes[key] is not None
        if key in self._below:
            return self._below[key] is not None
        return self._holds(key) if self._holds else next(self._keys(key), None) == key

    def delete(self, key: str) -> bool:
        """Remove ``key`` and return whether it had a value. The value is not decoded."""
        if check_key(key) not in self:
            return False
        self.changes[key] = None
        return True

    def scan(self, prefix: str = "") -> Iterator[tuple[str, Value]]:
        """Yield the keys that start with ``prefix``, in order, with their values.

        The set of keys is fixed when the scan starts.
        """
        for key in list(self._present(prefix)):
            stored = self.encoded(key)
            if stored is not None:
                yield key, decode(stored)

    def keys(self, prefix: str = "") -> Iterator[str]:
        """Yield the keys that start with ``prefix``, in order.

        Decodes no value. Do not change the draft during the iteration.
        """
        return self._present(prefix)

    def child(self) -> Draft:
        """Return a draft on top of this draft. The child's changes are not visible here until the child is merged."""
        # A draft has only one mapping ``below``. If this draft already uses ``below``, its child reads through this
        # draft's methods instead.
        if self._below is not _NOTHING:
            return Draft(self.encoded, self._present, self.__contains__)
        return Draft(self._load, self._present, self._holds or self.__contains__, self.changes)

    def merge(self, child: Draft) -> None:
        """Apply the changes of a child."""
        self.changes.update(child.changes)

    def encoded(self, key: str) -> bytes | None:
        """Return the encoded value of ``key``, or None."""
        if key in self.changes:
            return self.changes[key]
        return self._below[key] if key in self._below else self._load(key)

    def _present(self, prefix: str) -> Iterator[str]:
        changed = sorted(key for key, value in self.changes.items() if value is not None and key.startswith(prefix))
        below = (key for key in self._keys(prefix) if key not in self.changes)
        return heapq.merge(changed, below)

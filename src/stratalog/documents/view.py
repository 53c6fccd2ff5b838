"""View: a document's state at one version, to be read like a mapping; bodies are opened when they are looked at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from stratalog.codec import decode
from stratalog.documents.snapshots import tree_roots
from stratalog.documents.state import State
from stratalog.documents.values import Values, value_size
from stratalog.protocol.keys import check_key

__all__ = ["ItemInfo", "View"]


class ItemInfo(msgspec.Struct, frozen=True):
    """An item as it looks from outside: the version that changed it last, its size, its metadata fields."""

    key: str
    version: int
    size: int
    metadata: dict[str, Any]


class View:
    """Content at `version`. Values given out are copies."""

    def __init__(self, state: State, values: Values) -> None:
        self._state = state
        self._values = values
        self.version = state.version

    def get(self, key: str, default: Any = None) -> Any:
        """The value of ``key``, or ``default``."""
        slot = self._state.slot(check_key(key))
        return default if slot is None else decode(self._values.load(slot.value))

    def __contains__(self, key: str) -> bool:
        return self._state.slot(check_key(key)) is not None

    def scan(self, prefix: str = "", *, after: str | None = None) -> Iterator[tuple[str, Any]]:
        """Keys that start with ``prefix`` and come after the key ``after``, and their values, in order."""
        for key, slot in self._state.scan(prefix, after):
            yield key, decode(self._values.load(slot.value))

    def list(self, prefix: str = "", *, after: str | None = None) -> Iterator[ItemInfo]:
        """The items under ``prefix``, those after the key ``after``, without opening a body."""
        for key, slot in self._state.scan(prefix, after):
            yield ItemInfo(key, slot.version, value_size(slot.value), self._values.metadata(slot.value))

    def fields(self) -> dict[str, Any]:
        """The document's fields: the keys without a collection."""
        slots = ((key, slot) for key, slot in self._state.scan() if "/" not in key)
        return {key: decode(self._values.load(slot.value)) for key, slot in slots}

    def to_dict(self) -> dict[str, Any]:
        """Every key and value."""
        return dict(self.scan())

    def collection_version(self, collection: str) -> int:
        """The newest version that changed the collection, deletions included; no item of it is opened."""
        return self._state.collection_version(collection)

    def content_digest(self) -> str:
        """What replicas compare: the hash of keys and values, whatever their history. Writes the chunks it needs."""
        return tree_roots(self._state).content.digest.hex()

"""View: a document's state at one version, read like a mapping. Bodies are read only when used."""

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
    """The metadata of an item: the version that changed it last, its size in bytes, its inline fields."""

    key: str
    version: int
    size: int
    metadata: dict[str, Any]


class View:
    """The content at `version`. Returned values are copies."""

    def __init__(self, state: State, values: Values) -> None:
        self._state = state
        self._values = values
        self.version = state.version

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of ``key``, or ``default``."""
        slot = self._state.slot(check_key(key))
        return default if slot is None else decode(self._values.load(slot.value))

    def __contains__(self, key: str) -> bool:
        return self._state.slot(check_key(key)) is not None

    def scan(self, prefix: str = "", *, after: str | None = None) -> Iterator[tuple[str, Any]]:
        """Yield keys that start with ``prefix`` and come after the key ``after``, with their values, in order."""
        for key, slot in self._state.scan(prefix, after):
            yield key, decode(self._values.load(slot.value))

    def list(self, prefix: str = "", *, after: str | None = None) -> Iterator[ItemInfo]:
        """Yield the items under ``prefix`` that come after the key ``after``, in order, without reading a body."""
        for key, slot in self._state.scan(prefix, after):
            yield ItemInfo(key, slot.version, value_size(slot.value), self._values.metadata(slot.value))

    def fields(self) -> dict[str, Any]:
        """Return the document's fields: the keys without a collection."""
        slots = ((key, slot) for key, slot in self._state.scan() if "/" not in key)
        return {key: decode(self._values.load(slot.value)) for key, slot in slots}

    def to_dict(self) -> dict[str, Any]:
        """Return every key and value."""
        return dict(self.scan())

    def collection_version(self, collection: str) -> int:
        """Return the newest version that changed the collection, deletions included. Reads no item."""
        return self._state.collection_version(collection)

    def content_digest(self) -> str:
        """Return the hash of keys and values, whatever their history, which replicas compare. Writes chunks."""
        return tree_roots(self._state).content.digest.hex()

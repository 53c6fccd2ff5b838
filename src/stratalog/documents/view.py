"""View: a document's state at one version, a mapping from keys to values. It reads a body when a value is used."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping
from typing import Any

import msgspec

from stratalog.codec import decode
from stratalog.documents.snapshots import unwritten_roots
from stratalog.documents.state import State
from stratalog.documents.values import Values, value_size
from stratalog.protocol.keys import check_key
from stratalog.tree.nodes import Slot

__all__ = ["ItemInfo", "View"]


class ItemInfo(msgspec.Struct, frozen=True):
    """The metadata of an item: the version that changed it last, its size in bytes, its inline fields."""

    key: str
    version: int
    size: int
    metadata: dict[str, Any]


class View(Mapping[str, Any]):
    """The content at `version`: a read-only mapping in order of the keys. Values are copies.

    ``view["cells/C2"]``, ``"cells/C2" in view``, ``len(view)`` and ``dict(view)`` work as for any mapping. `scan` and
    `items` read values in order of the keys, which is faster than many single look-ups.

    If the version is forgotten while the view is in use, a read may raise Unavailable: then read the document again.
    """

    def __init__(self, state: State, values: Values) -> None:
        self._state = state
        self._values = values
        self.version: int = state.version

    def __repr__(self) -> str:
        return f"<View version={self.version}>"

    def __getitem__(self, key: str) -> Any:
        slot = self._state.slot(check_key(key))
        if slot is None:
            raise KeyError(key)
        return self._value(slot)

    def __iter__(self) -> Iterator[str]:
        return (key for key, _ in self._state.scan())

    def __len__(self) -> int:
        return self._state.count()

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._state.slot(check_key(key)) is not None

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of ``key``, or ``default``."""
        slot = self._state.slot(check_key(key))
        return default if slot is None else self._value(slot)

    def items(self) -> ViewItems:
        """Return the keys and values, in order."""
        return ViewItems(self)

    def scan(self, prefix: str = "", *, after: str | None = None) -> Iterator[tuple[str, Any]]:
        """Yield keys that start with ``prefix`` and come after the key ``after``, with their values, in order."""
        for key, slot in self._state.scan(prefix, after):
            yield key, self._value(slot)

    def list(self, prefix: str = "", *, after: str | None = None) -> Iterator[ItemInfo]:
        """Yield the items under ``prefix`` that come after the key ``after``, in order, without reading a body."""
        for key, slot in self._state.scan(prefix, after):
            yield ItemInfo(key, slot.version, value_size(slot.value), self._values.metadata(slot.value))

    def fields(self) -> dict[str, Any]:
        """Return the document's fields: the keys without a collection."""
        slots = ((key, slot) for key, slot in self._state.scan() if "/" not in key)
        return {key: self._value(slot) for key, slot in slots}

    def to_dict(self) -> dict[str, Any]:
        """Return every key and value."""
        return dict(self.scan())

    def collection_version(self, collection: str) -> int:
        """Return the newest version that changed the collection, deletions included. Reads no item."""
        return self._state.collection_version(collection)

    def content_digest(self) -> str:
        """Return a hash of the keys and values but not of their history. Replicas compare this hash. Writes nothing."""
        return unwritten_roots(self._state).content.digest.hex()

    def _value(self, slot: Slot) -> Any:
        return decode(self._state.value(slot, self._values))


class ViewItems(ItemsView[str, Any]):
    """The items of a view. Iteration scans them, without a look-up for each key."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self._view = view

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return self._view.scan()

"""Damaged keys of items and blobs. A query of items names such an item, and a later query continues after it.

A database may have a key that is no text, or a text that is not UTF-8. No text is such a key, so a caller cannot
continue a query after it as after other damaged items.
"""

from __future__ import annotations

from stratalog.errors import Corrupt

__all__ = ["DamagedKey", "KeyPosition", "readable_key"]


class KeyPosition(str):
    """A bound of a query on the index that made it: the items after ``bound`` and ``skipped`` further damaged keys.

    In a reverse query the bound is the upper one. As a text it equals ``bound``, or the empty text.
    """

    bound: str | None
    skipped: int

    @classmethod
    def after_damage(cls, bound: str | None) -> KeyPosition:
        """Return the position after the next damaged key that follows ``bound``."""
        before = bound if isinstance(bound, KeyPosition) else None
        plain = before.bound if before is not None else bound
        position = cls("" if plain is None else str(plain))
        position.bound = None if plain is None else str(plain)
        position.skipped = 1 + (before.skipped if before is not None else 0)
        return position


class DamagedKey(Corrupt):
    """An item has a damaged sort key. A query after ``position`` yields the items that follow the item.

    ``sort`` in the details is the key as a readable text, which is the key of no item.
    """

    def __init__(self, partition: str, sort: object, position: KeyPosition) -> None:
        super().__init__("the sort key of an item is not text in UTF-8", partition=partition, sort=readable_key(sort))
        self.position = position


def readable_key(key: object) -> str:
    """Return a damaged key as a readable text, which is the key of no item and no blob."""
    text = key.decode(errors="backslashreplace") if isinstance(key, bytes) else repr(key)
    return text if isinstance(key, bytes) and text.encode() != key else f"{text} (not text)"

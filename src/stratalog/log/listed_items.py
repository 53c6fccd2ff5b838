"""A listing of a partition that continues after a damaged item.

The listing has the key of a damaged item even if the item's attributes are lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NoReturn, TypeVar

import msgspec

from stratalog.errors import Corrupt
from stratalog.ports.damaged_keys import DamagedKey, KeyPosition
from stratalog.ports.index import Index, Item

__all__ = ["Damaged", "ListedItem", "decoded", "get_listed", "ignore", "keys_of", "list_items", "raise_damage"]

T = TypeVar("T")

Damaged = Callable[[Corrupt], object]
"""Called with the error of a damaged item, which names the item."""


def ignore(error: Corrupt) -> None:
    """Do nothing about a damaged item."""


def raise_damage(error: Corrupt) -> NoReturn:
    """Raise the error of a damaged item, which ends the list."""
    raise error


class ListedItem(msgspec.Struct, frozen=True):
    """The sort key of an item, and the item. ``item`` is None if it cannot be decoded, and ``fault`` is the reason.

    The sort key of an item whose key is damaged is a readable text. ``position`` is then the bound that continues the
    listing.
    """

    sort: str
    item: Item | None
    fault: str = ""
    position: KeyPosition | None = None

    @property
    def bound(self) -> str:
        """The bound of a listing of the items that follow."""
        return self.sort if self.position is None else self.position


def list_items(
    index: Index,
    partition: str,
    *,
    after: str | None = None,
    before: str | None = None,
    reverse: bool = False,
    limit: int | None = None,
    consistent: bool = True,
) -> Iterator[ListedItem]:
    """Yield the items of a partition as `Index.query` does, also those that cannot be decoded.

    An item that cannot be decoded counts for ``limit``. Raises Corrupt if the damage is not in an item.
    """
    left = limit
    while left is None or left > 0:
        try:
            for item in index.query(
                partition, after=after, before=before, reverse=reverse, limit=left, consistent=consistent
            ):
                after, before = (after, item.sort) if reverse else (item.sort, before)
                left = None if left is None else left - 1
                yield ListedItem(item.sort, item)
            return
        except Corrupt as exc:
            sort = exc.details.get("sort")
            if not isinstance(sort, str):
                raise
            listed = ListedItem(sort, None, exc.message, exc.position if isinstance(exc, DamagedKey) else None)
            after, before = (after, listed.bound) if reverse else (listed.bound, before)
            left = None if left is None else left - 1
            yield listed


def get_listed(index: Index, partition: str, sort: str) -> ListedItem:
    """Return one item as listed. ``item`` is None for a missing item too; ``fault`` is then empty."""
    try:
        return ListedItem(sort, index.get(partition, sort))
    except Corrupt as exc:
        return ListedItem(sort, None, exc.message)


def decoded(
    items: Iterator[ListedItem], decode: Callable[[Item], T], damaged: Damaged, **details: object
) -> Iterator[T]:
    """Yield the result of ``decode`` for each item. Call ``damaged`` with the error of each damaged item, in order.

    ``decode`` raises Corrupt if the item lacks an attribute, for example. ``details`` name the list in the errors.
    """
    for listed in items:
        try:
            if listed.item is None:
                raise Corrupt(listed.fault, **details, sort=listed.sort)
            row = decode(listed.item)
        except Corrupt as exc:
            damaged(exc)
        else:
            yield row


def keys_of(items: Iterator[ListedItem], damaged: Damaged, **details: object) -> Iterator[str]:
    """Yield the sort key of each item. Call ``damaged`` with the error of each damaged key."""
    for listed in items:
        if listed.position is None:
            yield listed.sort
        else:
            damaged(Corrupt(listed.fault, **details, sort=listed.sort))

"""Rotation: a queue whose groups take turns."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from itertools import islice
from typing import Generic, TypeVar

__all__ = ["Rotation"]

T = TypeVar("T")


class Rotation(Generic[T]):
    """Waiting items in groups. The groups take turns. The items of one group keep their order."""

    def __init__(self) -> None:
        self._groups: OrderedDict[Hashable, deque[T]] = OrderedDict()

    def add(self, group: Hashable, item: T) -> None:
        """Add the item as the last of its group."""
        self._groups.setdefault(group, deque()).append(item)

    def take(self, may: Callable[[T], bool] = lambda item: True) -> T | None:
        """Remove and return the next item for which ``may`` is true, or None. The item is the first of its group."""
        for group, items in self._groups.items():
            if may(items[0]):
                return self._take(group, items)
        return None

    def take_cheapest(self, cost: Callable[[Hashable], float], among: int) -> T | None:
        """Remove and return the first item of the group with the least ``cost``, or None if nothing waits.

        Looks only at the last ``among`` groups of the order. A new group begins as the last group.
        """
        last = [*islice(reversed(self._groups), among)]
        if not last:
            return None
        group = min(last, key=cost)
        return self._take(group, self._groups[group])

    def _take(self, group: Hashable, items: deque[T]) -> T:
        item = items.popleft()
        # The group goes to the end of the order. Groups that `take` skipped keep their positions.
        if items:
            self._groups.move_to_end(group)
        else:
            del self._groups[group]
        return item

    def remove(self, group: Hashable, item: T) -> bool:
        """Remove the item. Return whether it was present."""
        items = self._groups.get(group)
        if items is None or item not in items:
            return False
        items.remove(item)
        if not items:
            del self._groups[group]
        return True

    def __bool__(self) -> bool:
        return bool(self._groups)

"""Rotation: what waits in groups, taken out group by group in turn."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["Rotation"]

T = TypeVar("T")


class Rotation(Generic[T]):
    """Items that wait. Those of one group keep their order."""

    def __init__(self) -> None:
        self._groups: OrderedDict[Hashable, deque[T]] = OrderedDict()

    def add(self, group: Hashable, item: T) -> None:
        """Put it behind the others of its group."""
        self._groups.setdefault(group, deque()).append(item)

    def take(self, may: Callable[[T], bool] = lambda item: True) -> T | None:
        """Take out the next item that ``may`` be taken; None where there is none."""
        for group, items in self._groups.items():
            if may(items[0]):
                item = items.popleft()
                if items:
                    self._groups.move_to_end(group)
                else:
                    del self._groups[group]
                return item
        return None

    def remove(self, group: Hashable, item: T) -> bool:
        """Take this one out. Whether it was there."""
        items = self._groups.get(group)
        if items is None or item not in items:
            return False
        items.remove(item)
        if not items:
            del self._groups[group]
        return True

    def __bool__(self) -> bool:
        return bool(self._groups)

"""Reads of items that continue after a damaged item: one that the index cannot decode, or that has a `shape_fault`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stratalog.errors import Corrupt
from stratalog.log.directory import list_lines
from stratalog.log.listed_items import ListedItem, get_listed, list_items
from stratalog.maintenance.shapes import shape_fault
from stratalog.ports.index import Index

__all__ = ["get_checked", "has_damaged_key", "list_checked", "listed_ids"]


def list_checked(
    index: Index, partition: str, *, after: str | None = None, before: str | None = None
) -> Iterator[ListedItem]:
    """Yield the items of a partition as `list_items` does. An item with a `shape_fault` is None too."""
    return map(_checked, list_items(index, partition, after=after, before=before))


def get_checked(index: Index, partition: str, sort: str) -> ListedItem:
    """Return one item as `get_listed` does. An item with a `shape_fault` is None too."""
    return _checked(get_listed(index, partition, sort))


def has_damaged_key(index: Index, partition: str) -> bool:
    """Return whether the partition has an item with a damaged sort key: then a missing item may be that item."""
    return any(listed.position is not None for listed in list_items(index, partition))


def listed_ids(
    index: Index, organisation: str, shelf: str, fail: Callable[[str, Corrupt], None], *, after: str = ""
) -> Iterator[str]:
    """Yield the ids of a shelf of the directory, also those of damaged lines. Call ``fail`` for each damaged line.

    A line whose sort key is damaged has no id.
    """
    for line in map(_checked, list_lines(index, organisation, shelf, after=after)):
        if line.fault:
            fail(f"{organisation}/{line.sort}", Corrupt(f"a line of the directory is damaged: {line.fault}"))
        if line.position is None:
            yield line.sort


def _checked(listed: ListedItem) -> ListedItem:
    fault = "" if listed.item is None else shape_fault(listed.item)
    return ListedItem(listed.sort, None, fault) if fault else listed

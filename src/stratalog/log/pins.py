"""Pins: the versions of a log that its forks need, in order of version.

A fork pins a version of its source, and the same commit changes the source's name record. The fork also pins a version
of every ancestor of the source: the version that the source already pins. So while a log's name record is unchanged,
the log's lowest pin can rise but never fall. `docs/decisions/0033` explains why.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from stratalog.codec import is_decimal
from stratalog.errors import Corrupt
from stratalog.keys import forks_partition, number, parse_number
from stratalog.log.listed_items import keys_of, list_items, raise_damage
from stratalog.ports.index import Delete, Index, Item, Put, required

__all__ = ["Pin", "list_pins", "listed_pins", "lowest_pin", "pin_delete", "pin_of", "pin_put"]

SEPARATOR = " "


class Pin(msgspec.Struct, frozen=True):
    """The fork with this ``prefix`` needs ``version``, which its ancestor must keep."""

    version: int
    prefix: str

    @property
    def sort(self) -> str:
        """The sort key of the pin among the pins of the ancestor."""
        return f"{number(self.version)}{SEPARATOR}{self.prefix}"


def lowest_pin(index: Index, ancestor: str) -> Pin | None:
    """Return the pin of the lowest version, or None.

    The first page has this pin. The function reads all pages, and raises Corrupt if the key of any pin is damaged:
    that pin may be of a lower version.
    """
    partition = forks_partition(ancestor)
    sorts = list(keys_of(list_items(index, partition), raise_damage, partition=partition))
    return _pin_at(partition, sorts[0]) if sorts else None


def list_pins(index: Index, ancestor: str, *, first: int = 0) -> Iterator[Pin]:
    """Yield the pins of versions from ``first`` on, in order, by pages."""
    for item in index.query(forks_partition(ancestor), after=number(first)):
        yield pin_of(item)


def pin_put(ancestor: str, pin: Pin) -> Put:
    """Return the write that adds a pin."""
    return Put(Item(forks_partition(ancestor), pin.sort, {}))


def pin_delete(ancestor: str, pin: Pin) -> Delete:
    """Return the write that removes a pin."""
    return Delete(forks_partition(ancestor), pin.sort)


def pin_of(item: Item) -> Pin:
    """Return the pin that an item stores. Raises Corrupt."""
    return _pin_at(item.partition, item.sort)


def _pin_at(partition: str, sort: str) -> Pin:
    version, _, prefix = sort.partition(SEPARATOR)
    if not is_decimal(version) or not prefix:
        raise Corrupt("the key of a pin has no version or no log", partition=partition, sort=sort)
    return Pin(parse_number(version), prefix)


def listed_pins(line: Item) -> list[tuple[str, Pin]]:
    """Return (the ancestor's prefix, the pin) for each pin of a deleted log. ``line`` lists the log for the sweep.

    Raises Corrupt if the line does not name the pins.
    """
    words = str(required(line, "l")).split()
    if len(words) % 2 or not all(map(is_decimal, words[1::2])):
        raise Corrupt("a deleted log names an ancestor without a version", partition=line.partition, sort=line.sort)
    return [(prefix, Pin(int(version), line.sort)) for prefix, version in zip(words[::2], words[1::2], strict=True)]

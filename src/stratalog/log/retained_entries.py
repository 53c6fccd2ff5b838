"""Reading of the entries that retention kept: from the floor on, also if the floor rises meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

from stratalog.errors import VersionForgotten
from stratalog.log.entries import Entry
from stratalog.log.log import Log

__all__ = ["read_retained"]


def read_retained(log: Log, upto: int | None = None) -> Iterator[Entry]:
    """Yield the entries above the floor up to ``upto`` (the head, if None), in order.

    If the floor rises before the first entry is read, the entries begin above the new floor. Raises VersionForgotten if
    it rises above a later entry, and the errors of `Log.read`.
    """
    floor = log.floor()
    while True:
        try:
            entries = log.read(floor, upto)
            first = next(entries, None)
            break
        except VersionForgotten:
            before, floor = floor, log.floor()
            if floor == before:
                raise
    if first is not None:
        yield first
        yield from entries

"""Reads the entries above the floor, also if the floor rises meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from stratalog.log.entries import Entry
from stratalog.log.log import Log

__all__ = ["read_retained"]


def read_retained(log: Log, upto: int | None = None) -> Iterator[Entry]:
    """Yield the entries above the floor up to ``upto`` (the head, if None), in order.

    If the floor rises before the first entry is read, the entries begin above the new floor. Raises VersionForgotten if
    the floor rises above a later entry before that entry is read. Also raises the errors of `Log.read`.
    """

    def begun(floor: int) -> Iterator[Entry]:
        entries = log.read(floor, upto)
        first = next(entries, None)
        return entries if first is None else chain((first,), entries)

    yield from log.above_floor(begun)

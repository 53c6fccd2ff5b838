"""Kept history: the entries that retention kept. A sheet's floor is at an app snapshot that replaces older entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from stratalog import Entry, Log
from stratalog.errors import VersionForgotten

__all__ = ["above_floor", "check_retained", "read_retained"]

T = TypeVar("T")


def above_floor(log: Log, read: Callable[[int], T]) -> T:
    """Return ``read(floor)``. If it raises VersionForgotten because the floor rose, read again above the new floor."""
    floor = log.floor()
    while True:
        try:
            return read(floor)
        except VersionForgotten:
            before, floor = floor, log.floor()
            if floor == before:
                raise


def read_retained(log: Log, after: int, upto: int | None = None) -> list[Entry]:
    """Return the entries of a range. If the log has forgotten some of them, return only the entries above the floor."""

    def read(floor: int) -> list[Entry]:
        first = max(after, floor)
        return list(log.read(first, upto)) if upto is None or first < upto else []

    return above_floor(log, read)


def check_retained(log: Log, version: int) -> int:
    """Return the version. Raises VersionForgotten if the version is below the floor."""
    if version < (floor := log.floor()):
        raise VersionForgotten("the version is no longer kept", log=log.record.name, version=version, floor=floor)
    return version

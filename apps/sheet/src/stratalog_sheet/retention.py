"""Kept history: the entries that retention kept. A sheet's floor is at an app snapshot that replaces older entries."""

from __future__ import annotations

from stratalog import Entry, Log
from stratalog.errors import VersionForgotten

__all__ = ["check_retained", "read_retained"]


def read_retained(log: Log, after: int, upto: int | None = None) -> list[Entry]:
    """Return the entries of a range. If the log has forgotten some of them, return only the entries above the floor."""

    def read(floor: int) -> list[Entry]:
        first = max(after, floor)
        return list(log.read(first, upto)) if upto is None or first < upto else []

    return log.above_floor(read)


def check_retained(log: Log, version: int) -> int:
    """Return the version. Raises VersionForgotten if the version is below the floor."""
    if version < (floor := log.floor()):
        raise VersionForgotten("the version is no longer kept", log=log.record.name, version=version, floor=floor)
    return version

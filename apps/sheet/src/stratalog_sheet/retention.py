"""Kept history: the entries that retention kept. A sheet's floor is at an app snapshot that replaces older entries."""

from __future__ import annotations

from stratalog import Entry, Log
from stratalog.errors import VersionForgotten

__all__ = ["check_retained", "read_retained"]


def read_retained(log: Log, after: int, upto: int | None = None) -> list[Entry]:
    """Return the entries of a range. If the log has forgotten some of them, return only the entries above the floor."""
    floor = None
    while upto is None or after < upto:
        try:
            return list(log.read(after, upto))
        except VersionForgotten:
            # The floor may rise again during the next read.
            before, floor = floor, log.floor()
            if floor == before:
                raise
            after = max(after, floor)
    return []


def check_retained(log: Log, version: int) -> int:
    """Return the version. Raises VersionForgotten if the version is below the floor."""
    if version < (floor := log.floor()):
        raise VersionForgotten("the version is no longer kept", log=log.record.name, version=version, floor=floor)
    return version

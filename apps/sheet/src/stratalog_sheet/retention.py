"""Kept history: the entries that retention left. A sheet's floor is at an app snapshot that replaces older entries."""

from __future__ import annotations

from stratalog import Entry, Log
from stratalog.errors import VersionForgotten

__all__ = ["check_retained", "read_retained", "retained_after"]


def retained_after(log: Log, after: int = 0) -> int:
    """Return the lowest version from ``after`` on after which every entry is kept.

    That is the floor, or in a fork a later version: each ancestor may have forgotten entries since the fork was made.
    """
    start, before = max(after, log.floor()), 0
    for parent in log.record.lineage:
        low = max(start, before)
        if low < parent.version and _is_forgotten(log, low + 1):
            start = _last_forgotten(log, low + 1, parent.version)
        before = parent.version
    return start


def read_retained(log: Log, after: int, upto: int | None = None) -> list[Entry]:
    """Return the entries of a range, or its last ones if the log has forgotten the entries before them."""
    try:
        return list(log.read(after, upto))
    except VersionForgotten:
        start = retained_after(log, after)
        return list(log.read(start, upto)) if upto is None or start < upto else []


def check_retained(log: Log, version: int) -> int:
    """Return the version. Raises VersionForgotten below the floor."""
    if version < (floor := log.floor()):
        raise VersionForgotten("the version is no longer kept", log=log.record.name, version=version, floor=floor)
    return version


def _last_forgotten(log: Log, low: int, high: int) -> int:
    """Return the last forgotten version up to ``high``, by a binary search; ``low`` is forgotten."""
    while low < high:
        middle = (low + high + 1) // 2
        if _is_forgotten(log, middle):
            low = middle
        else:
            high = middle - 1
    return low


def _is_forgotten(log: Log, version: int) -> bool:
    try:
        log.entry(version)
    except VersionForgotten:
        return True
    return False

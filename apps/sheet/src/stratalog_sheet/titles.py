"""Titles: what a sheet is called, at any version, for two reads however long its history is.

An entry says which version renamed the sheet last; where none did, the first entry of the log's own has the title. A
app snapshot has it too, for where that entry was forgotten.
"""

from __future__ import annotations

import msgspec

from stratalog import Log
from stratalog.errors import NotFound
from stratalog_sheet.events import Created, Forked, Imported, Renamed, fact_of, titled_at
from stratalog_sheet.state import title_in

__all__ = ["Titles"]


class _Known(msgspec.Struct, frozen=True):
    """What it is called as of a version, and which entry says so."""

    version: int = 0
    given: int = 0
    title: str = ""


class Titles:
    """The titles of one sheet. It remembers the one that was asked for last. Safe to share between threads."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known = _Known()

    def at(self, version: int) -> str:
        """What the sheet is called as of a version; empty where it was given no title."""
        known = self._known
        if known.version == version:
            return known.title
        given = titled_at(fact_of(self._log.entry(version)), version) or self._first(version)
        title = known.title if given == known.given else self._given(given, version)
        self._known = _Known(version, given, title)
        return title

    def _first(self, version: int) -> int:
        """The first entry of its own of the log that holds ``version``: this one or an ancestor."""
        below = (parent.version for parent in self._log.record.lineage if parent.version < version)
        return max(below, default=0) + 1

    def _given(self, given: int, version: int) -> str:
        try:
            fact = fact_of(self._log.entry(given))
        except NotFound:
            snapshot = self._log.app_snapshot(version)
            return title_in(next(self._log.read_snapshot(snapshot))) if snapshot else ""
        return fact.title if isinstance(fact, Created | Imported | Forked | Renamed) else ""

"""Titles: the title of a sheet at any version. The number of reads does not depend on the length of the history.

Each entry after the first one states the version of the last renaming. Without a renaming, the title is in the log's
own first entry, which in a fork follows the shared history. An app snapshot also has the title, because the log may
forget the entry with the title.
"""

from __future__ import annotations

import msgspec

from stratalog import AppSnapshot, Log
from stratalog.errors import NotFound, VersionForgotten
from stratalog_sheet.events import Created, Forked, Imported, Renamed, fact_of, titled_at
from stratalog_sheet.state import title_in

__all__ = ["Titles"]


class _Known(msgspec.Struct, frozen=True):
    """The title as of ``version``. ``given`` is the version of the entry that set this title."""

    version: int = 0
    given: int = 0
    title: str = ""


class Titles:
    """The titles of one sheet, with a cache of the last title returned. Safe to share between threads."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known = _Known()

    def at(self, version: int) -> str:
        """Return the title as of a version; empty if the version has no title. Raises VersionForgotten."""
        known = self._known  # read the field once, because another thread may replace its value at any time
        if known.version == version:
            return known.title
        try:
            entry = self._log.entry(version)
        except VersionForgotten:
            # The entry at the floor may be forgotten with its segment, but the floor has a snapshot.
            snapshot = self._log.app_snapshot(version)
            if snapshot is None or snapshot.version != version:
                raise
            return self._title_in(snapshot)
        given = titled_at(fact_of(entry), version) or self._first(version)
        title = known.title if given == known.given else self._given(given, version)
        self._known = _Known(version, given, title)
        return title

    def _first(self, version: int) -> int:
        """Find the log that committed ``version``, this log or an ancestor. Return the first version of that log."""
        below = (parent.version for parent in self._log.record.lineage if parent.version < version)
        return max(below, default=0) + 1

    def _given(self, given: int, version: int) -> str:
        try:
            fact = fact_of(self._log.entry(given))
        except NotFound:
            snapshot = self._log.app_snapshot(version)
            if snapshot is None:
                raise
            return self._title_in(snapshot)
        return fact.title if isinstance(fact, Created | Imported | Forked | Renamed) else ""

    def _title_in(self, snapshot: AppSnapshot) -> str:
        return title_in(next(self._log.read_snapshot(snapshot)))

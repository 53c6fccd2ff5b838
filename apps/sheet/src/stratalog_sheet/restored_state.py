"""The state that a restore commits together with its entry, since the log may forget the restored version afterwards.

The parts are stored once, before the first try of the commit. The first part has the sheet's title, so another title at
a later try needs another snapshot.
"""

from __future__ import annotations

from stratalog import Log, PreparedSnapshot
from stratalog_sheet.state import split_state
from stratalog_sheet.titles import Titles

__all__ = ["RestoredState"]


class RestoredState:
    """The engine's JSON of a state that is restored, and its prepared snapshot."""

    def __init__(self, log: Log, titles: Titles, data: bytes) -> None:
        """Store the parts. Raises the errors of `Log.prepare_snapshot`."""
        self._log = log
        self._titles = titles
        self._data = data
        self._prepared = self._prepare(titles.at(log.head().version))

    def snapshot_after(self, version: int) -> PreparedSnapshot:
        """Return the snapshot for a restore that is committed directly after ``version``."""
        title = self._titles.at(version)
        if title != self._prepared[0]:
            self._prepared = self._prepare(title)
        return self._prepared[1]

    def _prepare(self, title: str) -> tuple[str, PreparedSnapshot]:
        return title, self._log.prepare_snapshot(split_state(self._data, title))

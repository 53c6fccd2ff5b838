"""The window: facts about a sheet's newest entries. A sheet checks each new message against its window."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from stratalog import Entry, Log
from stratalog.errors import Invalid, LimitExceeded, VersionConflict, VersionForgotten
from stratalog_sheet.branches import Standing, check_standing
from stratalog_sheet.events import REDONE, Created, Imported, Restored, Revision, fact_of, target_of, titled_at

__all__ = ["Window", "fresh_window"]


class Window:
    """The present revision of a sheet, the version of its last renaming, and the revisions that an undo may refer to.

    The window covers at least the last ``reach`` entries, because an undo may not refer back farther. If fewer entries
    follow the last complete state (created, imported, restored) or the floor, the window covers only these entries.
    """

    def __init__(self, version: int, revision: str, reach: int) -> None:
        self.version = version
        self._reach = reach
        self.revision = revision
        self.titled = 0
        self._versions: dict[str, int] = {}
        self._undone: set[str] = set()
        self._edits: set[str] = set()

    def follow(self, entries: Iterable[Entry]) -> None:
        """Advance over the entries that follow ``version``, in order."""
        for entry in entries:
            fact = fact_of(entry)
            self.version = entry.version
            self.titled = titled_at(fact, entry.version)
            if isinstance(fact, Revision):
                self._follow_message(entry.version, fact.message)
            elif isinstance(fact, Created | Imported | Restored):
                self.revision = fact.revision
                self._versions, self._undone, self._edits = {}, set(), set()

    def check_revision(self, sheet: str, revision: str, reader: Standing, log: Log) -> None:
        """Check the ``revision`` that a message follows. Raise VersionConflict if it is not the present revision.

        Also raises VersionLost or VersionForgotten, as `check_standing` does for the reader.
        """
        if self.revision != revision:
            text = "the message does not follow the present revision"
            raise VersionConflict(text, sheet=sheet, version=self.version, revision=self.revision)
        check_standing(log, self.version, reader)

    def version_of(self, revision: str) -> int | None:
        """Return the version of a committed revision; None if the window does not have the revision."""
        return self._versions.get(revision)

    def check_target(self, message: dict[str, Any]) -> int:
        """Return the version that an undo or redo refers to; 0 for another message.

        Raises LimitExceeded for a target that the window does not have, or that is too far back. Raises Invalid for a
        target that is not an edit, for the undo of an undone edit, and for the redo of an edit that is not undone.
        """
        target = target_of(message)
        if not target:
            return 0
        version = self._versions.get(target)
        if version is None or version <= self.version - self._reach:
            text = "the revision is too old to undo or redo"
            raise LimitExceeded(text, revision=target, limit_entries=self._reach)
        if target not in self._edits or (target in self._undone) != (message["type"] == REDONE):
            raise Invalid("the revision is not an edit, or is already undone or redone", revision=target)
        return version

    def _follow_message(self, version: int, message: dict[str, Any]) -> None:
        self.revision = message["nextRevisionId"]
        self._versions[self.revision] = version
        target = target_of(message)
        if not target:
            self._edits.add(self.revision)
        elif message["type"] == REDONE:
            self._undone.discard(target)
        else:
            self._undone.add(target)
        if len(self._versions) > 2 * self._reach:
            self._forget()

    def _forget(self) -> None:
        """Drop the revisions that are too old to undo.

        The caller calls this method only when the window has more than twice ``reach`` revisions. So the cost is spread
        over many entries.
        """
        recent = {name: at for name, at in self._versions.items() if at > self.version - self._reach}
        self._versions = recent
        self._undone &= recent.keys()
        self._edits &= recent.keys()


def fresh_window(log: Log, reach: int, revision_at: Callable[[int], str]) -> Window:
    """Read the log and return the window at its head. If the log has forgotten entries, the window begins after them.

    ``revision_at`` returns the revision of a version. This function calls ``revision_at`` only if no message is between
    the newest app snapshot and that version.
    """
    head = log.head()
    lowest, back = 0, reach
    while True:
        start = max(head.version - back, lowest)
        window = Window(start, "", reach)
        try:
            window.follow(log.read(start, head.version, head=head))
        except VersionForgotten:
            retained = min(log.floor(), head.version)
            if retained <= lowest:
                raise
            lowest = retained
            continue
        if window.revision or not start:
            return window
        if start == lowest:
            window.revision = revision_at(head.version)
            if start == head.version:
                with suppress(VersionForgotten):  # the entry belongs to an ancestor, so this log has no renaming yet
                    window.titled = titled_at(fact_of(log.entry(start)), start)
            return window
        back *= 4

"""The window: what a sheet's newest entries say about which message may come next."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stratalog import Entry, Log
from stratalog.errors import Invalid, LimitExceeded, VersionConflict
from stratalog_sheet.branches import Standing, check_standing
from stratalog_sheet.events import REDONE, Created, Imported, Restored, Revision, fact_of, target_of, titled_at

__all__ = ["Window"]


class Window:
    """The present revision of a sheet, which entry renamed it last, and the revisions that an undo may still refer to.

    It knows at least the entries of the last ``reach`` versions, which is how far back an undo may refer, or all since
    the state was last given whole: made, imported, restored.
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
        """Go on with the entries that came after."""
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
        """Raise VersionConflict where a message stands on another revision, or its reader on a lost version."""
        if self.revision != revision:
            text = "the message does not stand on the present revision"
            raise VersionConflict(text, sheet=sheet, version=self.version, revision=self.revision)
        check_standing(log, self.version, reader)

    def version_of(self, revision: str) -> int | None:
        """The version that a revision was committed as; None where it was not, or long ago."""
        return self._versions.get(revision)

    def check_target(self, message: dict[str, Any]) -> int:
        """The version that an undo or redo refers to; 0 for another message.

        Raises LimitExceeded for one too far back, or from before a version was restored, and Invalid for one that
        cannot be undone, or is undone already.
        """
        target = target_of(message)
        if not target:
            return 0
        version = self._versions.get(target)
        if version is None or version <= self.version - self._reach:
            text = "the revision lies too far back to be undone or redone"
            raise LimitExceeded(text, revision=target, limit_entries=self._reach)
        if target not in self._edits or (target in self._undone) != (message["type"] == REDONE):
            raise Invalid("the revision is no edit, or is undone or redone already", revision=target)
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
        """Let go of what lies too far back; what is left is once more as long as it must be."""
        recent = {name: at for name, at in self._versions.items() if at > self.version - self._reach}
        self._versions = recent
        self._undone &= recent.keys()
        self._edits &= recent.keys()

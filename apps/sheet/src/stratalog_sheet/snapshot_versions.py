"""The versions of app snapshots. Retention may delete the entries below an app snapshot, so no undo may cross it.

An undo crosses version n if the undo follows n and refers to an edit at or before n. Without the edit's message, the
engine cannot execute the undo, and cannot open a later version. So a snapshot of n is due only when
`SheetSettings.undo_entries` entries follow n, because then no new undo may cross n. No undo ever crosses a restored
version.
"""

from __future__ import annotations

from collections.abc import Iterator

from stratalog import Log
from stratalog_sheet.events import Restored, Revision, fact_of
from stratalog_sheet.settings import SheetSettings

__all__ = ["snapshot_versions"]


def snapshot_versions(log: Log, settings: SheetSettings) -> Iterator[int]:
    """Yield the versions of due snapshots in ascending order. The caller saves the first version that can be opened.

    The versions are restored versions, and at most one other version. A restored version is due at once, if an older
    snapshot exists: the floor may rise to that snapshot, and the log then forgets the version whose state was restored.
    No other version is due until ``snapshot_entries`` + ``undo_entries`` entries follow the newest snapshot.
    """
    head = log.head().version
    newest = log.app_snapshot(head)
    last = newest.version if newest else 0
    version = last + settings.snapshot_entries
    if newest is None and head < version + settings.undo_entries:
        return
    is_due = False
    for entry in log.read(last, head):
        fact = fact_of(entry)
        if isinstance(fact, Restored):
            yield entry.version  # no undo crosses it
            version = max(version, entry.version)
        elif is_due:
            continue
        elif isinstance(fact, Revision) and 0 < fact.target <= version < entry.version:
            version = entry.version
        elif entry.version >= version + settings.undo_entries:
            is_due = True
            yield version

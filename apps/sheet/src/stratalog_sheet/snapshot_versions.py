"""The versions of app snapshots. Retention may delete the entries below an app snapshot, so no undo may cross it.

An undo crosses version n if the undo follows n and refers to an edit at or before n. Without the edit's message, the
engine cannot execute the undo, and cannot open a later version. So a snapshot of n is due only when
`SheetSettings.undo_entries` entries follow n, because then no new undo may cross n. No undo ever crosses a restored
version.

A restore commits its snapshot together with its entry. An earlier program saved the snapshot later, and may have
crashed before. Then the floor may rise above the version whose state was restored, and the log forgets this state. So
`snapshot_versions` looks for such restores among the entries after the newest snapshot. Retention forgets only sealed
segments, so the function skips a short log that is no fork.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stratalog import Log
from stratalog.errors import LimitExceeded
from stratalog_sheet.events import Restored, Revision, fact_of
from stratalog_sheet.settings import SheetSettings
from stratalog_sheet.state import split_state
from stratalog_sheet.titles import Titles

__all__ = ["save_due_snapshot", "snapshot_versions"]


def save_due_snapshot(
    log: Log, settings: SheetSettings, titles: Titles, state_at: Callable[[int], bytes]
) -> int | None:
    """Save the snapshot of the first due version that can be opened, and return this version; else return None.

    Raises LimitExceeded if versions are due and none can be opened.
    """
    failure: LimitExceeded | None = None
    for version in snapshot_versions(log, settings):
        try:
            log.save_snapshot(version, split_state(state_at(version), titles.at(version)))
            return version
        except LimitExceeded as exc:  # the next version may be a restore, which can be opened without this version
            failure = failure or exc
    if failure is not None:
        raise failure
    return None


def snapshot_versions(log: Log, settings: SheetSettings) -> Iterator[int]:
    """Yield the versions of due snapshots in ascending order. The caller saves the first version that can be opened.

    The versions are restored versions without a snapshot, and at most one other version. No version is due until
    ``snapshot_entries`` + ``undo_entries`` entries follow the newest snapshot. But a restored version is due at once if
    an older snapshot exists to which the floor may rise.
    """
    head = log.head()
    newest = log.app_snapshot(head.version)
    last = newest.version if newest else 0
    version = last + settings.snapshot_entries
    # Retention forgets only sealed segments, of the log or of an ancestor. Before a short log seals its first segment,
    # half a segment of entries follows, and within these entries a snapshot is due anyway.
    seals_later = head.segment == 1 and head.version <= log.environment.settings.segment_entries_target // 2
    if head.version < version + settings.undo_entries and (newest is None or seals_later):
        return
    is_due = False
    for entry in log.read(last, head.version, head=head):
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

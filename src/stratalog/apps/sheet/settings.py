"""What a store's sheets are kept by. `docs/concepts/sheet.md` has the measurements that the defaults come from."""

from __future__ import annotations

import msgspec

from stratalog.limits import SHEET_SNAPSHOT_ENTRIES, SHEET_UNDO_ENTRIES_MAX

__all__ = ["SheetSettings"]


class SheetSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The same for every process that serves a store: one with a longer reach of undo would break others' readers."""

    undo_entries: int = SHEET_UNDO_ENTRIES_MAX
    """How many entries an undo reaches back, and at least how many are loaded beside a state."""

    snapshot_entries: int = SHEET_SNAPSHOT_ENTRIES
    """A state is kept once so many entries came after the last one."""

"""Settings of a store's sheets, and limits of their engines.

`docs/concepts/sheet.md` has the measurements behind the defaults.
"""

from __future__ import annotations

import os

import msgspec

from stratalog_sheet.limits import (
    SHEET_CALL_CPU_SECONDS_MAX,
    SHEET_CALL_SECONDS_MAX,
    SHEET_ENGINE_BYTES_MAX,
    SHEET_ENGINE_PROCESS_BYTES_MAX,
    SHEET_ENGINE_START_SECONDS_MAX,
    SHEET_ENGINE_WAIT_SECONDS_MAX,
    SHEET_ENGINE_WAITING_MAX,
    SHEET_ENGINES_MAX,
    SHEET_ENGINES_MIN,
    SHEET_SNAPSHOT_ENTRIES,
    SHEET_UNDO_ENTRIES_MAX,
    SHEET_UNOPENABLE_SECONDS,
    SHEET_WORKBOOK_CPU_SECONDS_MAX,
    SHEET_WORKBOOK_SECONDS_MAX,
)

__all__ = ["EngineSettings", "SheetSettings"]


class SheetSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of sheets. All processes of a store need equal settings.

    Otherwise a process with a larger ``undo_entries`` may commit an undo of an edit before the base state that another
    process has loaded or saved.
    """

    undo_entries: int = SHEET_UNDO_ENTRIES_MAX
    """An undo may refer to an edit up to this many entries back.

    A load has at least these entries, or all entries after a newer complete state.
    """

    snapshot_entries: int = SHEET_SNAPSHOT_ENTRIES
    """The minimum number of entries between two snapshots, except for the snapshot of a restored version.

    A snapshot of a version is due once ``undo_entries`` entries follow the version.
    """


def _engines_by_cores() -> int:
    return min(SHEET_ENGINES_MAX, max(SHEET_ENGINES_MIN, os.cpu_count() or 1))


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the engines of one process. `limits.py` has the defaults."""

    engines_max: int = msgspec.field(default_factory=_engines_by_cores)
    """The maximum number of engine processes at once. Default: the number of cores, within bounds."""

    call_seconds_max: float = SHEET_CALL_SECONDS_MAX
    call_cpu_seconds_max: float = SHEET_CALL_CPU_SECONDS_MAX
    workbook_seconds_max: float = SHEET_WORKBOOK_SECONDS_MAX
    """The limit in seconds of a call that imports a workbook, exports a workbook, or looks for broken formulas.

    If the calls that open a sheet take longer, the caller gets Unavailable. The next caller continues the opening.
    """

    workbook_cpu_seconds_max: float = SHEET_WORKBOOK_CPU_SECONDS_MAX
    start_seconds_max: float = SHEET_ENGINE_START_SECONDS_MAX
    heap_bytes_max: int = SHEET_ENGINE_BYTES_MAX
    """V8's own limit on its heap."""

    process_bytes_max: int = SHEET_ENGINE_PROCESS_BYTES_MAX
    """The memory that a process may allocate after its start. Linux enforces this limit; other systems do not."""

    wait_seconds_max: float = SHEET_ENGINE_WAIT_SECONDS_MAX
    waiting_max: int = SHEET_ENGINE_WAITING_MAX
    unopenable_seconds: float = SHEET_UNOPENABLE_SECONDS
    """For this many seconds after a version failed to open too often, the process refuses the version without a try."""

"""What a store's sheets are kept by, and what their engines may take.

`docs/concepts/sheet.md` has the measurements that the defaults come from.
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
    """The same for every process that serves a store: one with a longer reach of undo would break others' readers."""

    undo_entries: int = SHEET_UNDO_ENTRIES_MAX
    """How many entries an undo reaches back, and at least how many are loaded beside a state."""

    snapshot_entries: int = SHEET_SNAPSHOT_ENTRIES
    """A state is kept once so many entries came after the last one."""


def _engines_by_cores() -> int:
    return min(SHEET_ENGINES_MAX, max(SHEET_ENGINES_MIN, os.cpu_count() or 1))


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the engines of one process may take; `limits.py` has what each bound starts from."""

    engines_max: int = msgspec.field(default_factory=_engines_by_cores)
    """How many processes with an engine run at once: as many as there are cores, within bounds."""

    call_seconds_max: float = SHEET_CALL_SECONDS_MAX
    call_cpu_seconds_max: float = SHEET_CALL_CPU_SECONDS_MAX
    workbook_seconds_max: float = SHEET_WORKBOOK_SECONDS_MAX
    """For a call that reads or writes .xlsx."""

    workbook_cpu_seconds_max: float = SHEET_WORKBOOK_CPU_SECONDS_MAX
    start_seconds_max: float = SHEET_ENGINE_START_SECONDS_MAX
    heap_bytes_max: int = SHEET_ENGINE_BYTES_MAX
    """V8's own limit."""

    process_bytes_max: int = SHEET_ENGINE_PROCESS_BYTES_MAX
    """What the operating system lets a process have beyond what it begins with."""

    wait_seconds_max: float = SHEET_ENGINE_WAIT_SECONDS_MAX
    waiting_max: int = SHEET_ENGINE_WAITING_MAX
    unopenable_seconds: float = SHEET_UNOPENABLE_SECONDS
    """How long a version that could not be opened is refused without another try."""

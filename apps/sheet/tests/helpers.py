"""Hand-written messages in the form that a browser's engine sends, and the settings of the tests' engines."""

from __future__ import annotations

from itertools import count
from typing import Any

from stratalog_sheet import EngineSettings, Sheet
from stratalog_sheet.events import Restored, event_of

ENGINES = EngineSettings(call_seconds_max=120, workbook_seconds_max=300)
"""Longer limits of elapsed time, for tests that do not test these limits. The limits of CPU time are unchanged.

Engines run at a low priority, so the other workers of a test run can delay a call by more than the usual limit.
"""

_numbers = count(1)


def present(sheet: Sheet) -> str:
    """Return the current revision, which the next message must have as its base."""
    loaded = sheet.load()
    revision = loaded.base_revision
    for entry in loaded.entries:
        revision = entry.message["nextRevisionId"] if entry.message else revision
    return revision


def revision(sheet: Sheet, *commands: dict[str, Any], on: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "type": "REMOTE_REVISION",
        "version": 1,
        "serverRevisionId": on or present(sheet),
        "nextRevisionId": f"revision-{next(_numbers)}",
        "clientId": "browser",
        "commands": list(commands),
        **more,
    }


def undo(sheet: Sheet, of: str, *, again: bool = False, **more: Any) -> dict[str, Any]:
    return {
        "type": "REVISION_REDONE" if again else "REVISION_UNDONE",
        "version": 1,
        "serverRevisionId": present(sheet),
        "nextRevisionId": f"revision-{next(_numbers)}",
        "redoneRevisionId" if again else "undoneRevisionId": of,
        **more,
    }


def restore_without_snapshot(sheet: Sheet, version: int) -> int:
    """Commit the entry of a restore without its snapshot, as an earlier program that was killed between two commits."""
    fact = Restored(version, present(sheet), f"revision-{next(_numbers)}")
    return sheet.log.append(event_of(fact), expected=sheet.version).version


def put(column: int, row: int, content: str, sheet_id: str = "sheet1") -> dict[str, Any]:
    return {"type": "UPDATE_CELL", "sheetId": sheet_id, "col": column, "row": row, "content": content}


def rows(base: int, quantity: int = 1, position: str = "before") -> dict[str, Any]:
    return {
        "type": "ADD_COLUMNS_ROWS",
        "sheetId": "sheet1",
        "sheetName": "Sheet1",
        "dimension": "ROW",
        "base": base,
        "quantity": quantity,
        "position": position,
    }

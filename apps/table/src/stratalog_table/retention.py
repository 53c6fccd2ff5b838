"""The retention of a table: for how many days its old versions stay readable."""

from __future__ import annotations

from stratalog import Document
from stratalog.errors import VersionForgotten
from stratalog_table.layout import TABLE

__all__ = ["DAY_MS", "oldest_needed"]

DAY_MS = 86_400_000


def oldest_needed(document: Document) -> int:
    """Return the oldest version that the table's retention covers, for `Rules.oldest_needed`.

    Return the newest version if the table has no retention, or if the document contains no table.
    """
    # The row is not decoded as `Meta`: the document may be another application's.
    row = document.get(TABLE)
    retention_days = row.get("retention_days") if isinstance(row, dict) else None
    if not isinstance(retention_days, int) or not retention_days:
        return document.version
    log = document.log
    try:
        return log.version_at(log.environment.clock.wall_ms() - retention_days * DAY_MS)
    except VersionForgotten:
        return log.floor()

"""The application of tables, ``stratalog_table.application:app``, for `stratalog serve` and `stratalog work`."""

from __future__ import annotations

from stratalog.server import Application
from stratalog_table.retention import oldest_needed
from stratalog_table.table import MUTATORS

__all__ = ["app"]

app = Application(mutators=MUTATORS, oldest_needed=oldest_needed)

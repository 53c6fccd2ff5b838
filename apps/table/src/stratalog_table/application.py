"""The application of tables: `stratalog serve` and `stratalog work` take ``stratalog_table.application:app``."""

from __future__ import annotations

from stratalog.server import Application
from stratalog_table.table import MUTATORS

__all__ = ["app"]

app = Application(mutators=MUTATORS)

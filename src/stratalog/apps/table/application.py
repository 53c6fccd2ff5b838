"""The application of tables: `stratalog serve` and `stratalog work` take ``stratalog.apps.table.application:app``."""

from __future__ import annotations

from stratalog.apps.table.table import MUTATORS
from stratalog.server import Application

__all__ = ["app"]

app = Application(mutators=MUTATORS)

"""The engine: o-spreadsheet, found where `stratalog sheet setup` put it."""

from __future__ import annotations

from stratalog.apps.sheet.place import engine_folder, install_engine

__all__ = ["engine_folder", "install_engine"]

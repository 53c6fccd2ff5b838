"""Answers: the results of `Sheet.load`, `Sheet.since` and `Sheet.get`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from stratalog_sheet.events import SheetChange

__all__ = ["Cell", "Loaded", "Since"]


class Loaded(msgspec.Struct, frozen=True):
    """A base state as the engine's JSON in ``data``, and the ``entries`` that lead from this state to ``version``."""

    version: int
    base_version: int
    base_revision: str
    data: bytes
    entries: Sequence[SheetChange]

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The engine's messages among the entries."""
        return [entry.message for entry in self.entries if entry.message is not None]


class Since(msgspec.Struct, frozen=True):
    """The entries after a reader's version, up to ``version``.

    If ``reload`` is true, the reader must load the sheet again. A reload is necessary if the entries are too many or
    too large, if the log has forgotten one of them, or if an entry has a complete state.
    """

    version: int
    entries: Sequence[SheetChange]
    reload: bool


class Cell(msgspec.Struct, frozen=True):
    """One cell: its typed content, its value, and the text that the page shows. ``sheet`` is the id of its sheet."""

    sheet: str
    content: str
    value: Any
    formatted: str
    message: str | None = None

"""Tabs: the sheets of a workbook, found by id or name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stratalog.errors import Invalid, NotFound, StratalogError

__all__ = ["engine_refusal", "tab_id", "tab_not_found"]

NO_TAB = "InvalidSheetId"
Tabs = Iterable[Mapping[str, Any]]


def tab_id(tabs: Tabs, wanted: str | None) -> str:
    """Return the id of the tab with the id or name ``wanted``; of the first tab for None. Raises NotFound."""
    tabs = list(tabs)
    for tab in tabs:
        if wanted in (None, tab["id"], tab["name"]):
            return str(tab["id"])
    raise tab_not_found(tabs, wanted)


def tab_not_found(tabs: Tabs, wanted: str | None) -> NotFound:
    """Return the error for a tab that does not exist, with the names of the tabs."""
    names = ", ".join(tab["name"] for tab in tabs)
    return NotFound("sheet not found in the workbook", sheet=wanted or "", known=names)


def engine_refusal(reasons: Sequence[str], tabs: Tabs, wanted: str | None) -> StratalogError:
    """Return the error for a command on the tab ``wanted`` that the engine refused with ``reasons``."""
    if NO_TAB in reasons:
        return tab_not_found(tabs, wanted)
    return Invalid("the engine refused the command", reasons=", ".join(reasons))

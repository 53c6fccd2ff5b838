"""Every error of Stratalog, and the reaction of the user's program."""

from __future__ import annotations

import stratalog

__all__ = ["reaction"]


def reaction(error: stratalog.StratalogError) -> str:
    """Return the caller's reaction to an error. The match tests subclasses before their base classes."""
    match error:
        case stratalog.KeyReused() | stratalog.ReservedName():
            return "choose another name"
        case stratalog.HistoryChanged():
            return "open it again"
        case stratalog.MergeConflict():
            return "show the replay"
        case stratalog.VersionConflict() | stratalog.ContentionError() | stratalog.Conflict():
            return "read again, then decide"
        case stratalog.VersionForgotten() | stratalog.Redacted() | stratalog.Collected() | stratalog.NotFound():
            return "tell the user that it is gone"
        case stratalog.RedactionRefused() | stratalog.Unsupported() | stratalog.Invalid():
            return "correct the call"
        case stratalog.LimitExceeded() | stratalog.QuotaExceeded():
            return "send less"
        case stratalog.QueueFull() | stratalog.StorageFull() | stratalog.Unavailable():
            return "try again later"
        case stratalog.OutcomeUnknown():
            return "read back"
        case stratalog.Forbidden() | stratalog.Corrupt() | stratalog.Closed():
            return "call the operator"
        case _:
            return f"report {error.code}: {error.message}"

"""The checker `no false alarm`: a store that was not damaged must verify."""

from __future__ import annotations

from stratalog.errors import NotFound
from stratalog.maintenance.inspection import inspect_history, inspect_store, inspected_histories
from stratalog.store import Store
from stratalog.testing.checkers import Violation
from stratalog.testing.scheduler import Counts

__all__ = ["check_healthy"]


def check_healthy(store: Store, what: str, counts: Counts) -> None:
    """Inspect a whole store and count its histories as ``what``. Raises Violation for damage, and the ports' errors."""
    for history in inspected_histories(store):
        try:
            report = inspect_history(store, history)
        except NotFound:
            continue  # another process has deleted the history meanwhile
        if report.damages:
            raise Violation("no false alarm", f"{what}: {report.damages[0]}", history=history)
        counts.bump(what)
    if damages := inspect_store(store):
        raise Violation("no false alarm", f"{what}: {damages[0]}")

"""The relatives of a table: the other tables of its store that have the same origin.

Forks and copies keep the origin of a table, and may track the same data files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from stratalog import Corrupt, Document, Log, NotFound, Rules, Store, StratalogError
from stratalog_table.folder_register import Registration, origin_of
from stratalog_table.queries import TableView

__all__ = ["Relatives", "is_alive"]


class Relatives:
    """The relatives of a table at their newest versions. The search reads the name record of each document."""

    def __init__(self, store: Store, log: Log) -> None:
        self._views: list[TableView] = []
        self._errors: list[StratalogError] = []
        for other in _documents(store, self._errors.append):
            if other.record.incarnation == log.record.incarnation or origin_of(other) != origin_of(log):
                continue
            try:
                self._views.append(TableView(Document(other, Rules()).at()))
            except NotFound:
                continue
            except StratalogError as exc:
                self._errors.append(exc)

    def may_hold(self, filename: str) -> bool:
        """Return whether a relative tracks the file. A relative that cannot be listed or read may track any file."""
        return bool(self._errors) or any(view.file(filename) is not None for view in self._views)


def is_alive(store: Store, registration: Registration) -> bool:
    """Return whether the registered table still exists in this store under its name."""
    try:
        record = store.log(registration.organisation, registration.table).record
    except NotFound:
        return False
    return record.incarnation == registration.incarnation


def _documents(store: Store, damaged: Callable[[Corrupt], object]) -> Iterator[Log]:
    for organisation in store.organisations(damaged=damaged):
        for listing in store.list(organisation, damaged=damaged):
            if listing.kind == "document":
                with suppress(NotFound):
                    yield store.log(organisation, listing.id)

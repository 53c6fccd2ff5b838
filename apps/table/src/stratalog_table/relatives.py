"""The relatives of a table: forks, copies and sources of it in the same store, which may hold the same data files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from stratalog import Document, Log, NotFound, Rules, Store, StratalogError
from stratalog_table.folder_register import Registration, origin_of
from stratalog_table.queries import TableView

__all__ = ["Relatives", "is_alive"]


class Relatives:
    """The relatives as they are now. Finding them reads the name of each document of the store."""

    def __init__(self, store: Store, log: Log) -> None:
        self._views: list[TableView] = []
        self._is_complete = True
        for other in _documents(store):
            if other.record.incarnation == log.record.incarnation or origin_of(other) != origin_of(log):
                continue
            try:
                self._views.append(TableView(Document(other, Rules()).at()))
            except NotFound:
                continue
            except StratalogError:
                # Nobody can say what one that cannot be read holds, so it may hold anything.
                self._is_complete = False

    def may_hold(self, filename: str) -> bool:
        """Whether one of them tracks a file, or cannot be asked."""
        return not self._is_complete or any(view.file(filename) is not None for view in self._views)


def is_alive(store: Store, registration: Registration) -> bool:
    """Whether a table of this store still lives under its name."""
    try:
        record = store.log(registration.organisation, registration.table).record
    except NotFound:
        return False
    return record.incarnation == registration.incarnation


def _documents(store: Store) -> Iterator[Log]:
    for organisation in store.organisations():
        for listing in store.list(organisation):
            if listing.kind == "document":
                with suppress(NotFound):
                    yield store.log(organisation, listing.id)
